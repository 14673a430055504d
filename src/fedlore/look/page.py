"""The page: one HTML file that needs nothing else."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from ..errors import FedloreError
from .plots import Drawing, inline, save_drawing
from .style import CSS
from .tables import Cell, TextTable

__all__ = ["Section", "page", "save_page"]

# nothing may be loaded and nothing may run, whatever the rows contain
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True)
class Section:
    """A part of the page: what to beware of, tables, plots."""

    title: str
    warnings: tuple[str, ...] = ()
    tables: tuple[TextTable, ...] = ()
    plots: tuple[Drawing, ...] = ()


def page(
    title: str,
    *,
    facts: Mapping[str, str],
    reading: Sequence[str],
    terms: Mapping[str, str],
    sections: Sequence[Section],
) -> str:
    """The whole page as HTML; every text is escaped here."""
    body = [f"<h1>{escape(title)}</h1>"]
    body.append(show_pairs(facts))
    body.append('<p class="soft"><a href="#reading">What the names and numbers mean</a></p>')
    body += [_section(section, i) for i, section in enumerate(sections)]
    body.append('<h2 id="reading">What the names and numbers mean</h2>')
    body += [f"<p>{escape(text)}</p>" for text in reading]
    body.append(show_pairs(terms))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="generator" content="fedlore">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{CSS}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def save_page(out: Path, files: Mapping[str, str], drawings: Iterable[Drawing]) -> None:
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
    items = (f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in pairs.items())
    return f"<dl>{''.join(items)}</dl>"


def _section(section: Section, number: int) -> str:
    parts = [f"<section>\n<h2>{escape(section.title)}</h2>"]
    parts += [f'<p class="warn">{escape(text)}</p>' for text in section.warnings]
    tables, plots = section.tables, section.plots
    parts += [show_table(table) for table in tables[:1]]
    if plots:
        drawn = (_figure(plot, f"s{number}p{i}") for i, plot in enumerate(plots))
        parts.append(f'<div class="plots">\n{"".join(drawn)}</div>')
    parts += [show_table(table) for table in tables[1:]]
    return "\n".join([*parts, "</section>"])


def _figure(drawing: Drawing, prefix: str) -> str:
    return (
        f"<figure>\n{inline(drawing, prefix)}\n"
        f"<figcaption>{escape(drawing.plot.caption)}</figcaption>\n</figure>\n"
    )


def show_table(table: TextTable) -> str:
    """A table in a box that scrolls where the window is narrow."""
    head = "".join(
        f'<th scope="col"{_kind(table, i)}>{escape(name)}</th>' for i, name in enumerate(table.head)
    )
    rows = "\n".join(
        f"<tr>{''.join(_cell(table, i, cell) for i, cell in enumerate(row))}</tr>"
        for row in table.body
    )
    title = escape(table.title)
    notes = "".join(f'<p class="soft">{escape(note)}</p>\n' for note in table.notes)
    return (
        f'<h3>{title}</h3>\n<div class="box" tabindex="0" role="region" aria-label="{title}">'
        f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>\n{notes}"
    )


def _cell(table: TextTable, column: int, cell: Cell) -> str:
    if column == 0:
        return f'<th scope="row" class="word">{escape(cell.text)}</th>'
    if cell.mark:
        chip = f'<span class="chip {escape(cell.mark)}">{escape(cell.text)}</span>'
        return f'<td class="word">{chip}</td>'
    if cell.best:
        return f'<td class="best">{escape(cell.text)}</td>'
    return f"<td{_kind(table, column)}>{escape(cell.text)}</td>"


def _kind(table: TextTable, column: int) -> str:
    return ' class="word"' if column in table.words else ""
