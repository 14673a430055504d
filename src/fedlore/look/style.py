"""The colours of every page, and the style sheet of a report: screen and print, light and dark."""

import zlib

#: The colours by name, light and dark: reports, the pages of `serve` and of the studio share them.
THEME = """
:root { color-scheme: light dark; --ink: #1b1e23; --soft: #5a626e; --page: #ffffff;
  --box: #f4f5f7; --line: #d5d9df; --best: #dcefe6; --warn: #fff3d6; --edge: #b97900;
  --mark: #0072b2; --onmark: #ffffff; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --soft: #a3abb6; --page: #14171b;
  --box: #1e2228; --line: #3a414b; --best: #1f4536; --warn: #3a2e12; --edge: #e0a530;
  --mark: #56b4e9; --onmark: #10161c; --bad: #ff8a80; } }
"""

CSS = (
    THEME
    + """
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 76rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 .75rem; padding-top: .75rem;
  border-top: 2px solid var(--line); }
h3 { font-size: 1rem; margin: 1.75rem 0 .4rem; }
p { margin: .4rem 0; max-width: 46rem; }
a { color: inherit; }
.soft { color: var(--soft); font-size: .9rem; }
.warn { background: var(--warn); border-left: 4px solid var(--edge); padding: .6rem .9rem;
  margin: .75rem 0; max-width: none; }
dl { display: grid; grid-template-columns: minmax(7rem, max-content) 1fr; gap: .15rem 1rem;
  margin: .75rem 0; padding: .75rem .9rem; background: var(--box); font-size: .92rem; }
dt { color: var(--soft); }
dd { margin: 0; }
.box { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); overflow-wrap: normal; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
thead th { white-space: normal; max-width: 14rem; overflow-wrap: break-word; }
thead th:not(.word) { min-width: 6rem; }
.word { text-align: left; }
tbody th { color: var(--ink); position: sticky; left: 0; background: var(--page); }
.best { background: var(--best); font-weight: 700; }
.plots { columns: 28rem 2; column-gap: 2rem; margin-top: 1.5rem; }
figure { margin: 0 0 2rem; max-width: 36rem; break-inside: avoid; }
figure svg { display: block; width: 100%; height: auto; }
figure svg text { font-family: inherit !important; }
figcaption { max-width: 36rem; color: var(--soft); font-size: .88rem; }
@media (max-width: 34rem) { body { padding: 1rem .75rem 2rem; font-size: 15px; }
  h1 { font-size: 1.4rem; } dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; }
  th, td { padding: .3rem .45rem; } }
@media print { :root { color-scheme: light; --ink: #000; --soft: #444; --page: #fff; --box: #fff;
    --line: #bbb; --best: #e8e8e8; --warn: #fff; --edge: #000; }
  body { max-width: none; padding: 0; font-size: 10pt; } .box { overflow: visible; }
  table { font-size: 8.5pt; width: 100%; } tbody th { position: static; }
  th, td { padding: .15rem .35rem; white-space: normal; overflow-wrap: anywhere; }
  thead th:not(.word) { min-width: 0; }
  tr, figure, .warn { break-inside: avoid; } h2, h3 { break-after: avoid; }
  .plots { columns: 2; } }
"""
)


# after Okabe and Ito's palette, with grey for black so that dark pages show it
COLOURS = {
    "local best": "#F0E442",
    "ML": "#8c8c8c",
    "P-KM": "#CC79A7",
    "MLwKM": "#E69F00",
    "FL": "#56B4E9",
    "FLwKM": "#0072B2",
    "FL+mask": "#009E73",
    "lore": "#D55E00",
}
MARKERS = {
    "local best": "h",
    "ML": "o",
    "P-KM": "P",
    "MLwKM": "s",
    "FL": "^",
    "FLwKM": "D",
    "FL+mask": "v",
    "lore": "*",
}
_OTHERS = ("#882255", "#999933", "#6699CC", "#AA4466", "#44AA99")


def colour(approach: str) -> str:
    """The colour of an approach; an unknown one keeps its colour from plot to plot."""
    return COLOURS.get(approach) or _OTHERS[zlib.crc32(approach.encode()) % len(_OTHERS)]


def marker(approach: str) -> str:
    """The marker of an approach in line plots."""
    return MARKERS.get(approach, "X")


def shades(approaches: list[str]) -> list[float]:
    """Opacity of each line: lines of the same approach go from faint to full."""
    total = {name: approaches.count(name) for name in approaches}
    seen: dict[str, int] = {}
    made = []
    for name in approaches:
        seen[name] = seen.get(name, 0) + 1
        made.append(1.0 if total[name] == 1 else 0.3 + 0.7 * seen[name] / total[name])
    return made
