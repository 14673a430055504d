"""The sentence of an error as the source says it, with "…" for what only the moment knows.

Two errors with the same sentence are one error; renaming a variable or moving a line changes none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

GAP = "…"
_DEEPEST = 4  # names and functions followed to find a text


@dataclass(frozen=True)
class SourceText:
    """One file of the package, to be asked for the sentences in it."""

    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def functions(self) -> dict[str, ast.FunctionDef]:
        """By name, methods as well; of two with one name the last."""
        return {n.name: n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef)}

    @cached_property
    def _homes(self) -> dict[ast.AST, ast.FunctionDef]:
        """The innermost function around each node."""
        found: dict[ast.AST, ast.FunctionDef] = {}
        for function in ast.walk(self.tree):  # outer ones first
            if isinstance(function, ast.FunctionDef):
                found |= dict.fromkeys(ast.walk(function), function)
        return found

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Every call that may make an error, and the name that is called."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                yield node, node.func.id if isinstance(node.func, ast.Name) else node.func.attr

    def sentence(self, call: ast.Call) -> str:
        """What the error made by a call says."""
        if not call.args:
            return GAP
        home = self._homes.get(call)
        text = self._text(call.args[0], home, _DEEPEST)
        said = re.sub(rf"({GAP}\s?)+{GAP}", GAP, " ".join(text.split()))
        if has_words(said) or home is None:
            return said
        # it passes on what another said: what the function is for stands in for words of its own
        told = " ".join((ast.get_docstring(home) or home.name).split("\n\n")[0].split())
        return f"{said} ({told.rstrip('.')})"

    def sentence_at(self, line: int, names: Collection[str]) -> str | None:
        """The same for the call on a line of one of these classes, or of what stands for one."""
        there = [(call, name) for call, name in self.calls() if call.lineno == line]
        called = [call for call, name in there if name in names] or [
            call for call, name in there if name not in self.functions
        ]
        return self.sentence(called[0]) if called else None

    def _text(self, node: ast.expr, home: ast.FunctionDef | None, depth: int) -> str:
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else GAP
        if isinstance(node, ast.JoinedStr):
            return "".join(self._text(part, home, depth) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self._text(node.value, home, depth) if _is_text(node.value) else GAP
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._text(node.left, home, depth) + self._text(node.right, home, depth)
        if depth and isinstance(node, ast.Name) and home is not None:
            return self._named(node.id, home, depth - 1)
        if depth and isinstance(node, ast.Call):
            return self._called(node, depth - 1)
        return GAP

    def _named(self, name: str, home: ast.FunctionDef, depth: int) -> str:
        """A variable that was given one text in this function."""
        given = [
            node.value
            for node in ast.walk(home)
            if isinstance(node, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
        ]
        return self._text(given[0], home, depth) if len(given) == 1 else GAP

    def _called(self, node: ast.Call, depth: int) -> str:
        """A function of this file that gives one text; `unknown` says the same everywhere."""
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "unknown" and node.args:
            return f"unknown {self._text(node.args[0], None, 0)} '{GAP}'{GAP}"
        function = self.functions.get(name)
        given = (
            [n.value for n in ast.walk(function) if isinstance(n, ast.Return)] if function else []
        )
        if len(given) == 1 and given[0] is not None:
            return self._text(given[0], function, depth)
        return GAP


def _is_text(node: ast.expr) -> bool:
    """Whether what stands in braces is itself a text of ours, as in f"{unknown(...)}"."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "unknown"
    return isinstance(node, ast.Constant | ast.JoinedStr)


def has_words(sentence: str) -> bool:
    """Whether a sentence says something itself, and does not only pass another one on."""
    return re.search(r"[A-Za-z]{2,}", sentence) is not None
