"""Whole answers of the doors that people look through, and what they say to slips in a file.

`python -m tests.golden.doors` writes them anew; do so only for a change that is meant.
"""

import csv
import io
import json
import math
import re
import sys
import tempfile
import tomllib
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from fedlore.answers import Measured
from fedlore.bundle import read_bundle
from fedlore.bundle.change import change_reason, nearest_changes
from fedlore.bundle.explain import answer_with_reasons, moved_by
from fedlore.bundle.predict import answer_rows
from fedlore.bundle.serve.answer import in_words, write_answers
from fedlore.checker.bundles import knowledge_texts
from fedlore.core.examples import Examples
from fedlore.errors import KnowledgeError
from fedlore.kernel.document import FeatureShape
from fedlore.kernel.knowledge import read_knowledge
from fedlore.knowledge.files import describe, pack_knowledge
from fedlore.studio.book import write_book
from fedlore.studio.checks import judge, show_findings
from fedlore.studio.compare import compare_answers
from fedlore.studio.data import draw_effect, find_wrong, report_data
from fedlore.studio.examples import example_rows, propose_rows
from fedlore.studio.grids import read_grids
from fedlore.studio.maps import draw_curve, draw_map, find_nearest
from fedlore.studio.verdict import judge_row

from . import surface
from .cases import HERE, Files, read_cases
from .frozen import write_files
from .rows import matrix_of, rows_of

DOORS_FROZEN, SLIPS_FROZEN = HERE / "doors.json", HERE / "slips.json"
OPENED = (
    "whole-first-intersect", "whole-unique", "whole-trees", "whole-formula", "whole-soft-rules",
    "whole-average", "whole-row-trust", "holes-ordered", "holes-any", "number-formulas",
    "number-edges", "number-row-trust", "number-shape",
)  # fmt: skip
SLIPPED = (
    "whole-unique", "whole-formula", "whole-soft-rules", "whole-row-trust",
    "whole-shape", "whole-conformal", "holes-ordered", "number-edges", "number-spread-2",
)  # fmt: skip
LONGEST = 150  # characters of a line that are kept; what follows is a checksum
ROWS = 60


def plain(value: Any) -> Any:
    """JSON without the last digits of its numbers."""
    if isinstance(value, float):
        return float(f"{value:.5g}") if value == value else None
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


class Door:
    """A case's files as they are checked, with rows and labels drawn for it."""

    def __init__(self, name: str, files: Files) -> None:
        self.files = {place: text.encode() for place, text in files.items()}
        self.checkup = judge(self.files)
        self.known = self.checkup.knowledge
        assert self.known is not None and self.known.schema is not None
        self.schema = self.known.schema
        matrix = matrix_of(files, rows_of(name, files, ROWS))
        self.x = torch.from_numpy(matrix).float()
        draw = torch.Generator().manual_seed(1)
        self.number = self.known.bins is not None
        if self.number:
            self.y = torch.rand(ROWS, generator=draw) * 12 - 1
        else:
            self.y = torch.randint(len(self.schema.classes), (ROWS,), generator=draw)
        most = torch.tensor([len(f.levels) or math.inf for f in self.schema.features])
        whole = self.x.isfinite().all(1) & (self.x < most).all(1)
        make = Measured if self.number else Examples
        self.rows = make(self.x[whole], self.y[whole])

    def other(self) -> dict[str, bytes]:
        """The files after somebody moved a threshold and left the last rule of a table out."""
        made = dict(self.files)
        for place, text in self.files.items():
            if place.endswith(".csv"):
                lines = text.decode().splitlines()
                lines = lines[:-1] if len(lines) > 2 else lines
                made[place] = ("\n".join(lines) + "\n").replace("7.7", "9.5").encode()
        toml = made["knowledge.toml"].decode().replace("7.7", "9.5")
        made["knowledge.toml"] = re.sub(r"(?m)^trust = .*", "trust = 0.25", toml).encode()
        return made


def tried(door: Door) -> Any:
    grids = read_grids(door.files)
    return [judge_row(door.checkup, door.x[i : i + 1], grids) for i in range(12)]


def drawn(door: Door) -> Any:
    row, names = door.x[2:3], [f.name for f in door.schema.features][:2]
    found = {"curve": draw_curve(door.checkup, row, names[0])}
    several = [draw_map(door.checkup, row, names), draw_map(door.checkup, row, [*names[1::-1]])]
    return found | {"maps": [{k: (v if k in ("across", "up", "at") else str(v)[:400])
                              for k, v in one.items()} for one in several]}  # fmt: skip


def nearest(door: Door) -> Any:
    if door.number:
        return []
    return [find_nearest(door.checkup, door.x[2:3], name) for name in door.schema.classes]


def compared(door: Door) -> Any:
    return compare_answers(door.files, door.other(), door.x)


def counted(door: Door) -> Any:
    rules = 0 if door.number else sum(len(one.table.rules) for one in door.checkup.tables)
    wrong = [find_wrong(door.checkup, door.rows, i) for i in range(rules)]
    effects = [
        draw_effect(door.checkup, door.rows, FeatureShape(name, effect, where))
        for name, effect, where in (("ash", "raises", ""), ("ash", "lowers", "sulfur > 1"))
        if name in door.schema.names
    ]
    audit = "" if door.number else str(door.known.audit(door.rows))
    report = report_data(door.checkup, door.rows, "rows.csv")
    return {"report": report, "wrong": wrong, "effects": effects, "audit": audit}


def shown(door: Door) -> Any:
    found = show_findings(door.checkup.findings, read_grids(door.files), door.schema)
    text = re.sub(r"(?s)<style>.*?</style>|<svg.*?</svg>|<head>.*?</head>", "",
                  write_book(door.files, "site", Path("knowledge.toml"), None))  # fmt: skip
    text = re.sub(r"\d{4}-\d\d-\d\d.\d\d:\d\d(:\d\d)?", "", text)
    return {"findings": found, "book": text.splitlines(), "asked": propose_rows(door.checkup),
            "examples": example_rows(door.checkup, door.rows.x[:3])}  # fmt: skip


@torch.no_grad()
def served(door: Door) -> Any:
    """Answers with their reasons, from a network of zeros: what is said comes from knowledge."""
    with tempfile.TemporaryDirectory() as folder:
        write_files({place: text.decode() for place, text in door.files.items()}, Path(folder))
        bundle = read_bundle(surface.bundle(Path(folder), seed=None))
    told = []
    for i in range(16):
        row = door.x[i : i + 1]
        try:
            (said,) = map(in_words, write_answers(bundle, *answer_with_reasons(bundle, row)))
            told.append(said)
            told.append([one.text for one in moved_by(bundle, row, answer_rows(bundle, row))[0]])
            changes = nearest_changes(bundle, row[0]) if i < 4 else []
            told.append(change_reason(bundle, row[0], changes).text)
        except KnowledgeError as error:
            told.append(str(error))
    return told


DOORS: dict[str, Callable[[Door], Any]] = {
    "tried": tried, "drawn": drawn, "nearest": nearest, "compared": compared, "counted": counted,
    "shown": shown, "served": served,
}  # fmt: skip


def look(door: Door, name: str) -> list[str]:
    """What is seen there, a line for each value at the second level."""
    whole = plain(DOORS[name](door))
    parts = whole.items() if isinstance(whole, dict) else enumerate(whole)
    lines = []
    for key, value in parts:
        inner = value if isinstance(value, list) else [value]
        lines += [_short(f"{key}: {json.dumps(one, ensure_ascii=False)}") for one in inner]
    return lines


def _short(text: str) -> str:
    """A long line as its beginning, and a checksum of the rest."""
    rest = text[LONGEST:].encode()
    return f"{text[:LONGEST]} {zlib.crc32(rest):08x}" if rest else text


def slips(files: Files) -> Iterator[tuple[str, Files]]:
    """Files with one slip: a line left out, a key misspelt, a value of another kind."""
    for place, text in files.items():
        lines = text.splitlines()
        seen = Counter[str]()
        for i, line in enumerate(lines):
            seen[line.partition(" = ")[0]] += 1
            often = place.endswith(".toml") and seen[line.partition(" = ")[0]] > 2
            if not line.strip() or often or (place.endswith(".csv") and 2 < i < len(lines) - 1):
                continue

            def made(*new: str, i: int = i, lines: list[str] = lines, place: str = place) -> Files:
                return {**files, place: "\n".join([*lines[:i], *new, *lines[i + 1 :]]) + "\n"}

            where = f"{place}:{i + 1}"
            yield f"{where} left out", made()
            if place.endswith(".toml"):
                key, equals, rest = line.partition(" = ")
                if equals:
                    yield f"{where} {key}x", made(f"{key}x = {rest}")
                    for other in ("-1", "1e400", "nan", '""', "true", "[]", '["a"]'):
                        yield f"{where} {key} = {other}", made(f"{key} = {other}")
                    continue
            else:
                cells = next(csv.reader([line]))
                for j in range(len(cells)):
                    for other in ("", "x", "-1", "> 1e39", "in 3, 5"):
                        row = io.StringIO()
                        csv.writer(row, lineterminator="").writerow(
                            [*cells[:j], other, *cells[j + 1 :]]
                        )
                        yield f"{where} cell {j + 1} {other!r}", made(row.getvalue())
                yield f"{where} a cell more", made(line + ",x")


def answer_slip(files: Files) -> str:
    """What the library says of files, and where it takes them what the checker does."""
    try:
        tomllib.loads(files["knowledge.toml"])
    except tomllib.TOMLDecodeError:
        return "no TOML"
    checkup = judge({place: text.encode() for place, text in files.items()})
    first = [f"{f.place}: {f.message}" for f in checkup.findings if f.severity == "error"][:1]
    kinds = sorted({f.kind for f in checkup.findings if f.severity != "error"})
    said = first[0] if first else ""
    if checkup.knowledge is None:
        return said
    try:
        texts = knowledge_texts(pack_knowledge(describe(checkup.knowledge)))
        read_knowledge(texts)
    except KnowledgeError as error:
        said += f" // {error}"
    return f"{said} {' '.join(kinds)}".strip()


def slip_report(files: Files) -> dict[str, str]:
    return {where: _short(answer_slip(made)) for where, made in slips(files)}


def freeze(only: list[str]) -> None:
    cases = read_cases()
    known = [json.loads(p.read_text()) if only else {} for p in (DOORS_FROZEN, SLIPS_FROZEN)]
    for name in only or OPENED:
        door = Door(name, cases[name])
        known[0][name] = {one: look(door, one) for one in DOORS}
    for name in only or SLIPPED:
        known[1][name] = slip_report(cases[name])
    for place, values in zip((DOORS_FROZEN, SLIPS_FROZEN), known, strict=True):
        place.write_text(json.dumps(values, indent=0, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    freeze(sys.argv[1:])
