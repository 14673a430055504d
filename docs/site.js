// What the theme leaves out for those who use a keyboard or hear the page: blocks that scroll can be
// reached, and each block's buttons have a name of their own.
function mend() {
  for (const part of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    part.tabIndex = 0;
  }
  document.querySelectorAll("nav.md-code__nav").forEach((part, place) => {
    const name = `Block ${place + 1}`;
    if (part.ariaLabel !== name) part.ariaLabel = name;
  });
}
mend();
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true });
