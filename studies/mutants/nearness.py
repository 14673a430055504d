"""Which quick tests run which blocks of code: one run of them all, each block written down.

The tests nearest to a block are those that run it and little else, of every file in turn; of them
the quick ones are asked first. What runs in another process is not seen: last the files are asked
that speak most of the function.
"""

import ast
import builtins
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

from .drawing import ROOT, Mutant, blocks

_NOTE = "__note_block__"
_KEPT = 120  # tests of a block
_FILES = 6  # that speak most of a function


class Trace:
    """Writes down for each test which blocks of ours it ran, and for how long it computed.

    What the source's files say is changed as they are loaded: every block begins with a note.
    """

    anew = True  # nothing that is loaded notes anything

    def __init__(self, source: Path) -> None:
        self.source = f"{source}/"
        self.ran: dict[str, tuple[float, list[str]]] = {}
        self.failed: list[str] = []
        self.skipped: list[str] = []
        self._noted: set[str] = set()

    def begin(self, bytecode: Path) -> None:
        """From here on what is loaded notes what it runs; its bytecode stands apart."""
        usual = SourceFileLoader.source_to_code
        vars(builtins)[_NOTE] = self._noted.add

        def noting(loader: SourceFileLoader, data: bytes, path: str, **kinds: int) -> CodeType:
            if not path.startswith(self.source):
                return usual(loader, data, path, **kinds)
            tree = ast.parse(data)
            add_notes(tree, path[len(self.source) :])
            return compile(tree, path, "exec", dont_inherit=True)

        SourceFileLoader.source_to_code = noting  # type: ignore[method-assign, assignment]
        sys.pycache_prefix = str(bytecode)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._noted.clear()
        begun = time.process_time()
        try:
            return (yield)
        finally:
            self.ran[item.nodeid] = (time.process_time() - begun, sorted(self._noted))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note_end(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note_end(report)

    def _note_end(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        ends = {"failed": self.failed, "skipped": self.skipped}.get(report.outcome)
        if ends is not None and report.nodeid not in ends:
            ends.append(report.nodeid)

    def keep(self, path: Path) -> None:
        """All that was seen, for `add`."""
        ends = {"failed": self.failed, "skipped": self.skipped}
        path.write_text(json.dumps({"ran": self.ran} | ends))

    def add(self, path: Path) -> None:
        """What another run saw."""
        other = json.loads(path.read_text())
        for test, (seconds, names) in other["ran"].items():
            self.ran[test] = seconds, [sys.intern(name) for name in names]
        self.failed += other["failed"]
        self.skipped += other["skipped"]

    def write(self, path: Path) -> None:
        """Per block the tests that run it and least else, of those that pass unchanged."""
        found: dict[str, list[str]] = {}
        passed = {test: ran for test, ran in self.ran.items() if test not in self.failed}
        for test, (_, names) in sorted(passed.items(), key=lambda one: len(one[1][1])):
            for name in names:
                found.setdefault(name, []).append(test)
        found = {name: by_turns(tests)[:_KEPT] for name, tests in found.items()}
        seconds = {test: round(took, 3) for test, (took, _) in passed.items()}
        ends = {"failed": self.failed, "skipped": self.skipped}
        path.write_text(json.dumps({"blocks": found, "seconds": seconds} | ends))


def add_notes(tree: ast.Module, file: str) -> None:
    """Let every block of a file say first that it is run."""
    for name, body in list(blocks(tree)):
        first = body[0]
        says = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        note = ast.parse(f"{_NOTE}({f'{file}:{name}'!r})").body[0]
        for node in ast.walk(note):
            ast.copy_location(node, first)
        body.insert(int(says), note)  # a docstring stays the first


def by_turns(tests: list[str]) -> list[str]:
    """The first test of every file, then the second of every file, and so on."""
    seen: Counter[str] = Counter()
    turns = []
    for place, test in enumerate(tests):
        file = test.partition("::")[0]
        turns.append((seen[file], place, test))
        seen[file] += 1
    return [test for _, _, test in sorted(turns)]


@dataclass(frozen=True)
class Nearness:
    """Who runs which block."""

    blocks: dict[str, list[str]]  # file:function#number -> tests, the nearest first
    seconds: dict[str, float]  # that a test computes, with its setup
    failed: list[str]  # without a mutant: tests, and files that cannot even be read
    skipped: list[str] = field(default_factory=list)  # mostly for want of a package

    def __str__(self) -> str:
        """The tests and files that are left out, one on each line."""
        lines = []
        for end, names in (("fail as they are", self.failed), ("skip themselves", self.skipped)):
            lines += [f"{len(names)} {end}:", *(f"- {name}" for name in names)] if names else []
        return "\n".join(lines)

    @classmethod
    def read(cls, path: Path) -> "Nearness":
        return cls(**json.loads(path.read_text()))

    def tests(self, mutant: Mutant, limit: float) -> list[str]:
        """The tests nearest to a mutant, quick ones first, `limit` seconds together; then files."""
        lists = [self.blocks.get(f"{mutant.file}:{name}", []) for name in mutant.blocks]
        asked, left = [], limit
        for test in sorted(next(filter(None, lists), []), key=self.seconds.__getitem__):
            if (left := left - self.seconds[test]) > 0 or not asked:
                asked.append(test)
        return asked + [file for file in files_that_say(mutant) if file not in self.failed]


def files_that_say(mutant: Mutant) -> list[str]:
    """The files of tests that speak most of a mutant's module and functions."""
    *rooms, module = Path(mutant.file).with_suffix("").parts
    names = {block.partition("#")[0].rpartition(".")[2] for block in mutant.blocks}
    patterns = [rf"{re.escape('.'.join(rooms))}(\.| import ).*\b{module}\b", module]
    patterns += [name for name in names for _ in range(2)]  # a name alone is enough
    scores: dict[str, int] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        score = sum(bool(re.search(rf"\b{pattern}\b", text)) for pattern in patterns)
        if score > 1:
            scores[path.relative_to(ROOT).as_posix()] = score
    return sorted(scores, key=lambda path: -scores[path])[:_FILES]
