"""Mutants drawn at random: an operator, a constant or a refusal, anywhere in the rooms named."""

import ast
import io
import random
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = Path("src/fedlore")
ROOMS = ("core", "engine", "privacy", "knowledge", "bundle", "federation")
SEED = "fedlore 0.2.0"
_SWAPPED = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "+": "-",
    "-": "+",
    "and": "or",
    "or": "and",
    "True": "False",
    "False": "True",
}
Change = tuple[int, str, str]  # where, old, new


@dataclass(frozen=True)
class Mutant:
    """One change of one file, and the tests that are asked about it, stage by stage."""

    name: str
    file: str  # below src/fedlore
    start: int  # where in its text the change begins
    old: str
    new: str
    stages: tuple[tuple[str, ...], ...]  # tests; the next stage only where one passes

    @property
    def change(self) -> str:
        """The change on one line."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.file}: `{old}` to `{new}`"

    def apply(self, text: str) -> str:
        """The text of the file with the fault in it."""
        end = self.start + len(self.old)
        if text[self.start : end] != self.old:
            raise ValueError(f"{self.name}: {self.file} does not read {self.old!r} there")
        return text[: self.start] + self.new + text[end:]


def draw(count: int, *, root: Path = ROOT, seed: str = SEED) -> list[Mutant]:
    """So many mutants of the tree as it is: rooms alike, in a room every change alike."""
    dice = random.Random(seed)
    found: list[Mutant] = []
    while len(found) < count:
        room = ROOMS[len(found) % len(ROOMS)]
        places = [
            (path, change)
            for path in sorted((root / SOURCE / room).rglob("*.py"))
            for change in changes(path.read_text())
        ]
        path, (start, old, new) = dice.choice(places)
        line = path.read_text()[:start].count("\n") + 1
        file = path.relative_to(root / SOURCE).as_posix()
        mutant = Mutant(f"{file}:{line}", file, start, old, new, mirrors(path, root=root))
        if all(mutant.name != other.name for other in found):
            found.append(mutant)
    return found


def changes(text: str) -> Iterator[Change]:
    """Every change of one operator, number, truth or refusal in the functions of a file."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(text)
    inside = [
        range(node.body[0].lineno, (node.end_lineno or 0) + 1)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start
        if not any(row in lines for lines in inside):
            continue
        where = starts[row - 1] + column
        if token.string in _SWAPPED and token.type in (tokenize.OP, tokenize.NAME):
            yield where, token.string, _SWAPPED[token.string]
        elif token.type == tokenize.NUMBER:
            yield where, token.string, f"({token.string} + 1)"
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            lines = text.splitlines(keepends=True)[node.lineno - 1 : node.end_lineno]
            old = "".join(lines).strip()
            if lines[0].strip().startswith("raise"):
                yield starts[node.lineno - 1] + node.col_offset, old, "pass"


def mirrors(path: Path, *, root: Path = ROOT) -> tuple[tuple[str, ...], ...]:
    """The tests that name a module, then those of its part of the room, then of its room."""
    parts = path.relative_to(root / SOURCE).with_suffix("").parts
    package, module = ".".join(("fedlore", *parts[:-1])), parts[-1]
    names = (f"from {package}.{module} import", f"from {package} import {module}\n")
    naming = [
        test.relative_to(root).as_posix()
        for test in sorted((root / "tests").rglob("test_*.py"))
        if any(name in test.read_text() for name in names)
    ]
    inner, room = Path("tests", *parts[:-1]), Path("tests", parts[0])
    stages = [tuple(naming[:6])] if naming else []
    stages += [(p.as_posix(),) for p in dict.fromkeys((inner, room)) if (root / p).is_dir()]
    return tuple(stages)
