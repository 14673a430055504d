"""Which quick tests run which functions: one run of them all, each call written down.

The tests nearest to a function are those that run it and little else, of every file in turn; of
them the quick ones are asked first. What
runs in another process is not seen: last the files are asked that speak most of the function.
"""

import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import pytest

from .drawing import ROOT, Mutant

_KEPT = 120  # tests of a function
_FILES = 6  # that speak most of a function


class Trace:
    """Writes down for each test which functions of ours it ran, and for how long it computed."""

    def __init__(self, source: Path) -> None:
        self.source = f"{source}/"
        self.ran: dict[str, tuple[float, list[str]]] = {}
        self.failed: list[str] = []
        self._codes: set[CodeType] = set()

    def _call(self, frame: FrameType, event: str, arg: object) -> None:
        self._codes.add(frame.f_code)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._codes, begun = set(), time.process_time()
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            ours = [code for code in self._codes if code.co_filename.startswith(self.source)]
            names = [f"{c.co_filename[len(self.source) :]}:{c.co_qualname}" for c in ours]
            self.ran[item.nodeid] = (time.process_time() - begun, names)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def keep(self, path: Path) -> None:
        """All that was seen, for `add`."""
        path.write_text(json.dumps({"ran": self.ran, "failed": self.failed}))

    def add(self, path: Path) -> None:
        """What another run saw."""
        other = json.loads(path.read_text())
        self.ran |= other["ran"]
        self.failed += other["failed"]

    def write(self, path: Path) -> None:
        """Per function the tests that run it and least else, of those that pass unchanged."""
        found: dict[str, list[str]] = {}
        passed = {test: ran for test, ran in self.ran.items() if test not in self.failed}
        for test, (_, names) in sorted(passed.items(), key=lambda one: len(one[1][1])):
            for name in names:
                found.setdefault(name, []).append(test)
        found = {name: by_turns(tests)[:_KEPT] for name, tests in found.items()}
        seconds = {test: round(passed[test][0], 3) for tests in found.values() for test in tests}
        path.write_text(json.dumps({"functions": found, "seconds": seconds, "failed": self.failed}))


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
    """Who runs which function."""

    functions: dict[str, list[str]]  # file:name -> tests, the nearest first
    seconds: dict[str, float]  # that a test computes, with its setup
    failed: list[str]  # without a mutant

    @classmethod
    def read(cls, path: Path) -> "Nearness":
        return cls(**json.loads(path.read_text()))

    def tests(self, mutant: Mutant, limit: float) -> list[str]:
        """The tests nearest to a mutant, quick ones first, `limit` seconds together; then files."""
        names = [f"{mutant.file}:{name}" for name in mutant.functions]
        ran = [test for name in names for test in self.functions.get(name, [])]
        asked, left = [], limit
        for test in sorted(dict.fromkeys(ran), key=self.seconds.__getitem__):
            if (left := left - self.seconds[test]) > 0 or not asked:
                asked.append(test)
        return asked + [file for file in files_that_say(mutant) if file not in self.failed]


def files_that_say(mutant: Mutant) -> list[str]:
    """The files of tests that speak most of a mutant's module and functions."""
    *rooms, module = Path(mutant.file).with_suffix("").parts
    names = [name.rpartition(".")[2] for name in mutant.functions]
    patterns = [rf"{re.escape('.'.join(rooms))}(\.| import ).*\b{module}\b", *names, module]
    scores: dict[str, int] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        score = sum(bool(re.search(rf"\b{pattern}\b", text)) for pattern in patterns)
        if score > 1:
            scores[path.relative_to(ROOT).as_posix()] = score
    return sorted(scores, key=lambda path: -scores[path])[:_FILES]
