"""Mutants drawn at random: operators alike, and of an operator every place in the source alike."""

import ast
import io
import random
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, count
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
    """One change of one file, and the blocks that it stands in."""

    name: str
    file: str  # below src
    start: int  # where in its text the change begins
    old: str
    new: str
    blocks: tuple[str, ...] = ()  # function#number, the innermost first

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


def draw(number: int, *, root: Path = ROOT, seed: str = SEED, only: str = "") -> list[Mutant]:
    """So many mutants of the tree as it is, of the files whose path holds `only`."""
    dice = random.Random(seed)
    paths = [path for path in sorted((root / SOURCE).rglob("*.py")) if only in path.as_posix()]
    texts = {path: path.read_text() for path in paths}
    places: dict[str, list[tuple[Path, Change]]] = {}
    for path, text in texts.items():
        for change in changes(text):
            places.setdefault(change.operator, []).append((path, change))
    found: dict[str, Mutant] = {}
    while len(found) < number:
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
    """The blocks that a place stands in, the innermost first."""
    row = text[:start].count("\n") + 1
    found = [
        name
        for name, body in blocks(ast.parse(text))
        if body[0].lineno <= row <= (body[-1].end_lineno or 0)
    ]
    return tuple(reversed(found))


def blocks(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Every block of every function by its name, `function#number`, the outer ones first."""

    def inside(node: ast.AST, function: str, prefix: str) -> Iterator[tuple[str, list[ast.stmt]]]:
        if isinstance(node, ast.FunctionDef):
            function = f"{prefix}{node.name}"
            prefix, numbers[function] = f"{function}.<locals>.", count()
        elif isinstance(node, ast.ClassDef):
            function, prefix = "", f"{prefix}{node.name}."
        for _, part in ast.iter_fields(node):
            children = part if isinstance(part, list) else [part]
            if function and children and isinstance(children[0], ast.stmt):
                yield f"{function}#{next(numbers[function])}", children
            for child in children:
                if isinstance(child, ast.AST):
                    yield from inside(child, function, prefix)

    numbers: dict[str, Iterator[int]] = {}
    yield from inside(tree, "", "")
