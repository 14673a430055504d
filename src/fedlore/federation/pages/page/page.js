"use strict";
// What comes from the server is HTML that it has escaped; a parsed document runs no scripts.
const at = (id) => document.getElementById(id);
let token = "", paused = false, shown = "", since = null;

function put(text) {
  if (text === shown) return;
  shown = text;
  const main = at("main"), fresh = new DOMParser().parseFromString(text, "text/html");
  const boxes = [...main.querySelectorAll(".box")];
  const left = boxes.map((box) => box.scrollLeft);
  const focus = boxes.indexOf(document.activeElement);
  main.replaceChildren(...fresh.body.childNodes);
  [...main.querySelectorAll(".box")].forEach((box, i) => {
    box.scrollLeft = left[i] ?? 0;
    if (i === focus) box.focus({ preventScroll: true });
  });
}

async function look() {
  if (paused) return;
  try {
    const headers = token ? { Authorization: "Bearer " + token } : {};
    const answer = await fetch("part", { headers, signal: AbortSignal.timeout(5000) });
    at("door").hidden = answer.status !== 401;
    if (answer.ok) put(await answer.text());
    else if (answer.status !== 401) throw new Error("status " + answer.status);
    since = null;
    at("away").hidden = true;
  } catch (error) {
    since = since ?? new Date();
    at("away").textContent = "No answer since " + since.toLocaleTimeString() +
      ": what is shown below is old.";
    at("away").hidden = false;
  }
}

at("pause").addEventListener("click", () => {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  at("pause").textContent = paused ? "Resume" : "Pause";
  look();
});
at("door").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value.trim();
  look();
});
look();
setInterval(look, 2000);
