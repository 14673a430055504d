"""Mutants drawn at random: operators alike, and of an operator every place in the source alike."""

import ast
import io
import random
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from fedlore.version import __version__

ROOT = Path(__file__).parents[2]
SOURCE = Path("src")
SEED = f"fedlore {__version__}"  # another sample with every release
_SWAPPED = {
    "order": {"<": "<=", "<=": "<", ">": ">=", ">=": ">"},
    "equality": {"==": "!=", "!=": "=="},
    "sum": {"+": "-", "-": "+"},
    "product": {"*": "/", "/": "*"},
    "logic": {"and": "or", "or": "and", "any": "all", "all": "any"},
    "truth": {"True": "False", "False": "True"},
    "end": {"min": "max", "max": "min"},
}
_WORDS = {old: (kind, new) for kind, pairs in _SWAPPED.items() for old, new in pairs.items()}


class Change(NamedTuple):
    """One change of a text."""

    operator: str
    start: int
    old: str
    new: str


@dataclass(frozen=True)
class Mutant:
    """One change of one file, and the functions that it stands in."""

    name: str
    file: str  # below src
    start: int  # where in its text the change begins
    old: str
    new: str
    functions: tuple[str, ...] = ()  # by their qualified names, the innermost first

    @property
    def change(self) -> str:
        """The change on one line."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"`{old}` to `{new}`"

    def apply(self, text: str) -> str:
        """The text of the file with the fault in it."""
        end = self.start + len(self.old)
        if text[self.start : end] != self.old:
            raise ValueError(f"{self.name}: {self.file} does not read {self.old!r} there")
        return text[: self.start] + self.new + text[end:]


def draw(count: int, *, root: Path = ROOT, seed: str = SEED) -> list[Mutant]:
    """So many mutants of the tree as it is."""
    dice = random.Random(seed)
    texts = {path: path.read_text() for path in sorted((root / SOURCE).rglob("*.py"))}
    places: dict[str, list[tuple[Path, Change]]] = {}
    for path, text in texts.items():
        for change in changes(text):
            places.setdefault(change.operator, []).append((path, change))
    found: dict[str, Mutant] = {}
    while len(found) < count:
        path, change = dice.choice(places[dice.choice(sorted(places))])
        text = texts[path]
        file = path.relative_to(root / SOURCE).as_posix()
        name = f"{file}:{text[: change.start].count(chr(10)) + 1}"
        if name not in found:
            mutant = Mutant(name, file, *change[1:], around(text, change.start))
            if parses(mutant.apply(text)):
                found[name] = mutant
    return list(found.values())


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def changes(text: str) -> Iterator[Change]:
    """Every change of one operator, number, condition, call or refusal in a file's functions."""
    lines, tree = text.splitlines(keepends=True), ast.parse(text)
    starts = [0, *accumulate(map(len, lines))]

    def place(row: int, column: int) -> int:  # ast counts bytes
        return starts[row - 1] + len(lines[row - 1].encode()[:column].decode())

    def between(node: ast.expr | ast.stmt) -> tuple[int, str]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = place(node.lineno, node.col_offset)
        return start, text[start : place(node.end_lineno, node.end_col_offset)]

    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {row for b in bodies for row in range(b[0].lineno, (b[-1].end_lineno or 0) + 1)}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        row, column = token.start
        if row not in inside or token.type not in (tokenize.OP, tokenize.NAME, tokenize.NUMBER):
            continue
        where = starts[row - 1] + column
        if token.type == tokenize.NUMBER:
            yield Change("number", where, token.string, f"({token.string} + 1)")
        elif token.string in _WORDS:
            kind, new = _WORDS[token.string]
            yield Change(kind, where, token.string, new)
        elif token.string == "not" and not lines[row - 1][:column].endswith(("is ", "in ")):
            if not re.match(r"not\s+in\b", lines[row - 1][column:]):
                yield Change("denial", where, "not", "bool")
    for body in bodies:
        for node in (inner for part in body for inner in ast.walk(part)):
            if isinstance(node, ast.Raise) and node.exc is not None:
                yield Change("refusal", *between(node), "pass")
            elif isinstance(node, ast.If | ast.IfExp):
                yield Change("condition", *between(node.test), "False")
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                yield Change("call", *between(node), "pass")


def around(text: str, start: int) -> tuple[str, ...]:
    """The functions that a place stands in, by their qualified names, the innermost first."""
    row = text[:start].count("\n") + 1

    def inside(node: ast.AST, prefix: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                if child.lineno <= row <= (child.end_lineno or 0):
                    name, plain = f"{prefix}{child.name}", isinstance(child, ast.ClassDef)
                    yield from inside(child, f"{name}." if plain else f"{name}.<locals>.")
                    yield from () if plain else (name,)
            else:
                yield from inside(child, prefix)

    return tuple(inside(ast.parse(text), ""))
