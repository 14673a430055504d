"""The page: one HTML file that needs nothing else, its colours and its style sheet."""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from ..errors import FedloreError
from ..words import LANGUAGE, say
from .plots import DrawnPlot, inline, save_drawing
from .tables import Cell, TextTable

__all__ = ["Section", "page", "save_page"]

# nothing may be loaded and nothing may run, whatever the rows contain
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

LARGE = 220  # characters: more than that in large type is a wall


@dataclass(frozen=True)
class Section:
    """A part of the page: what it comes to in a sentence, what to beware of, tables, plots."""

    title: str
    warnings: tuple[str, ...] = ()
    tables: tuple[TextTable, ...] = ()
    plots: tuple[DrawnPlot, ...] = ()
    headline: str = ""


def page(
    title: str,
    *,
    facts: Mapping[str, str],
    reading: Sequence[str],
    terms: Mapping[str, str],
    sections: Sequence[Section],
    headline: str = "",
    made: Mapping[str, str] | None = None,
) -> str:
    """The whole page as HTML; every text is escaped here.

    It begins with the `headline`, the answer in one sentence; how it was `made`, such as hashes and
    versions, stands at the end.
    """
    meaning = escape(say("What the names and numbers mean"))
    body = [f"<h1>{_text(title)}</h1>", show_headline(headline)]
    body.append(show_pairs(facts))
    body.append(f'<p class="soft"><a href="#reading">{meaning}</a></p>')
    body += [_section(section, i) for i, section in enumerate(sections)]
    body.append(f'<h2 id="reading">{meaning}</h2>')
    body += [f"<p>{_text(text)}</p>" for text in reading]
    body.append(show_pairs(terms))
    if made:
        body += [f"<h2>{escape(say('How this was made'))}</h2>", show_pairs(made)]
    tag = "zh-CN" if LANGUAGE.get() == "zh" else LANGUAGE.get()
    return (
        f'<!doctype html>\n<html lang="{tag}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="generator" content="fedlore">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    """A text as HTML, in the language of the moment where that has words for it."""
    return escape(say(text))


def show_headline(text: str) -> str:
    """The answer that a page begins with: its first sentences large, all others below."""
    end = max(text.rfind(". ", 0, LARGE), text.find(". ")) if len(text) > LARGE else -1
    large, rest = (text, "") if end < 0 else (text[: end + 1], text[end + 2 :])
    shown = f'<p class="headline">{escape(large)}</p>' if large else ""
    return shown + (f"<p>{escape(rest)}</p>" if rest else "")


def save_page(out: Path, files: Mapping[str, str], drawings: Iterable[DrawnPlot]) -> None:
    """Write a page and what stands beside it into a folder, its drawings into plots/."""
    try:
        (out / "plots").mkdir(parents=True, exist_ok=True)
        for drawing in drawings:
            save_drawing(drawing, out / "plots")
        for name, text in files.items():
            (out / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise FedloreError(f"cannot write to '{out}': {error.strerror}") from None


def show_pairs(pairs: Mapping[str, str]) -> str:
    """Names and what belongs to them, as a list."""
    if not pairs:
        return ""
    items = (f"<dt>{_text(k)}</dt><dd>{_text(v)}</dd>" for k, v in pairs.items())
    return f"<dl>{''.join(items)}</dl>"


def _section(section: Section, number: int) -> str:
    parts = [f"<section>\n<h2>{_text(section.title)}</h2>"]
    parts += [show_headline(section.headline)] if section.headline else []
    parts += [f'<p class="warn">{_text(text)}</p>' for text in section.warnings]
    tables, plots = section.tables, section.plots
    parts += [show_table(table) for table in tables[:1]]
    if plots:
        drawn = (_figure(plot, f"s{number}p{i}") for i, plot in enumerate(plots))
        parts.append(f'<div class="plots">\n{"".join(drawn)}</div>')
    parts += [show_table(table) for table in tables[1:]]
    return "\n".join([*parts, "</section>"])


def _figure(drawing: DrawnPlot, prefix: str) -> str:
    return (
        f"<figure>\n{inline(drawing, prefix)}\n"
        f"<figcaption>{escape(drawing.plot.caption)}</figcaption>\n</figure>\n"
    )


def show_table(table: TextTable) -> str:
    """A table in a box that scrolls where the window is narrow."""
    head = "".join(
        f'<th scope="col"{_kind(table, i)}>{_text(name)}</th>' for i, name in enumerate(table.head)
    )
    rows = "\n".join(
        f"<tr>{''.join(_cell(table, i, cell) for i, cell in enumerate(row))}</tr>"
        for row in table.body
    )
    title = _text(table.title)
    notes = "".join(f'<p class="soft">{_text(note)}</p>\n' for note in table.notes)
    return (
        f'<h3>{title}</h3>\n<div class="box" tabindex="0" role="region" aria-label="{title}">'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>\n{notes}"
    )


def _cell(table: TextTable, column: int, cell: Cell) -> str:
    if column == 0:
        return f'<th scope="row" class="word">{_text(cell.text)}</th>'
    if cell.mark:
        chip = f'<span class="chip {escape(cell.mark)}">{escape(cell.text)}</span>'
        return f'<td class="word">{chip}</td>'
    if cell.best:
        return f'<td class="best">{escape(cell.text)}</td>'
    return f"<td{_kind(table, column)}>{escape(cell.text)}</td>"


def _kind(table: TextTable, column: int) -> str:
    return ' class="word"' if column in table.words else ""


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
.headline { font-size: 1.45rem; line-height: 1.35; font-weight: 600; max-width: 62rem;
  margin: .8rem 0 1rem; padding-left: .9rem; border-left: 5px solid var(--mark); }
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
  h1 { font-size: 1.4rem; } .headline { font-size: 1.2rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .4rem; }
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
