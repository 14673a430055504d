"""`make mutants`: every drawn mutant alone in a copy of the tree, and whether a test notices.

Quick tests alone are asked, those that speak most of the place first, and for so many seconds of
computing: what they do not notice in that time has survived.
"""

import argparse
import math
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from fedlore.core.statistics import wilson

from .drawing import ROOT, SEED, SOURCE, Mutant, draw

#: Loaded before the fork: what takes seconds and holds nothing of fedlore.
_HEAVY = ("torch", "numpy", "scipy.optimize", "onnx", "onnxruntime")
_FAILED, _BROKEN, _NONE = 1, 2, 5  # pytest's own: failed, could not even be read, no quick test
_EACH = 30.0  # seconds of computing for one test: what takes longer goes on for ever


@dataclass(frozen=True)
class Fate:
    """What became of a mutant."""

    mutant: Mutant
    how: str  # "killed", "survived", "survived in time" or "cannot be asked"
    seconds: float
    told: str  # the first failure, or the last line

    @property
    def killed(self) -> bool:
        return self.how.startswith("killed")


@dataclass
class _Seat:
    """A copy of the tree with one mutant at a time in it."""

    tree: Path
    mutant: Mutant | None = None
    text: str = ""
    stage: int = 0
    child: int = 0
    begun: float = 0.0
    left: float = 0.0  # seconds of computing

    @property
    def _file(self) -> Path:
        assert self.mutant is not None
        return self.tree / SOURCE / self.mutant.file

    @property
    def said(self) -> Path:
        return self.tree / "said.txt"

    def take(self, mutant: Mutant, limit: float) -> None:
        self.mutant, self.stage, self.begun, self.left = mutant, 0, time.monotonic(), limit
        self.text = self._file.read_text()
        self._file.write_text(mutant.apply(self.text))
        self.ask()

    def ask(self) -> None:
        assert self.mutant is not None
        self.child = _fork(self.tree, self.mutant.stages[self.stage], self.said, self.left)

    def clear(self) -> None:
        self._file.write_text(self.text)
        self.mutant = None


def run(mutants: Sequence[Mutant], *, jobs: int, limit: float) -> Iterable[Fate]:
    """The fates as they fall; the tests of a mutant compute for `limit` seconds at most."""
    waiting = list(reversed(mutants))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        seats = [_Seat(copy_tree(Path(folder) / str(i))) for i in range(jobs)]
        try:
            while waiting or any(seat.mutant for seat in seats):
                for seat in seats:
                    if seat.mutant is None and waiting:
                        seat.take(waiting.pop(), limit)
                    elif seat.mutant is not None and (fate := _look(seat)) is not None:
                        seat.clear()
                        yield fate
                time.sleep(0.05)
        finally:
            for seat in seats:
                if seat.mutant is not None:
                    os.killpg(seat.child, signal.SIGKILL)
                    os.waitpid(seat.child, 0)


def _look(seat: _Seat) -> Fate | None:
    """The fate of the mutant in a seat, None while it is open."""
    mutant = seat.mutant
    assert mutant is not None
    done, status, used = os.wait4(seat.child, os.WNOHANG)
    if not done:
        return None
    code = os.waitstatus_to_exitcode(status)
    seat.left -= used.ru_utime + used.ru_stime
    late = code == -signal.SIGXCPU or seat.left < 1
    if code in (0, _NONE) and seat.stage + 1 < len(mutant.stages) and not late:
        seat.stage += 1
        seat.ask()
        return None
    how = "killed" if code in (_FAILED, _BROKEN) or code < 0 else "cannot be asked"
    if code in (0, _NONE) or code == -signal.SIGXCPU:
        how = "survived in time" if late else "survived"
    return Fate(mutant, how, time.monotonic() - seat.begun, _first_failure(seat.said))


def _first_failure(said: Path) -> str:
    lines = said.read_text(errors="replace").strip().splitlines() or [""]
    return next((line for line in lines if line.startswith(("FAILED", "ERROR"))), lines[-1])


class _Clock:
    """Ends all with a failure where a test computes for too long: it would go on for ever."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        def late(*_: object) -> None:
            print(f"FAILED {item.nodeid}: computed for {_EACH:g} seconds", flush=True)
            os._exit(_FAILED)

        signal.signal(signal.SIGPROF, late)
        signal.setitimer(signal.ITIMER_PROF, _EACH)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)


def _fork(tree: Path, tests: Sequence[str], said: Path, limit: float) -> int:
    """A child in its own group that runs these tests of the copy; torch is loaded already."""
    said.write_text("")
    child = os.fork()
    if child:
        return child
    code = 3
    try:
        os.setsid()
        most = math.ceil(time.process_time() + limit)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
        out = os.open(said, os.O_WRONLY | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(tree)
        source = str(tree / "src")
        os.environ["PYTHONPATH"] = source  # for the processes that tests start
        sys.path[:0] = [source, str(tree)]
        sys.dont_write_bytecode = True
        # whoever calls this from a test has the tree's own code loaded, not that of the copy
        ours = ("fedlore", "fedlore_coke", "fedlore_lab", "studies", "tests", "conftest")
        for name in [n for n in sys.modules if n.partition(".")[0] in ours]:
            del sys.modules[name]
        options = ["-x", "-m", "not slow", "-p", "no:cacheprovider"]
        code = int(pytest.main([*options, *tests], plugins=[_Clock()]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def copy_tree(to: Path) -> Path:
    """The tree as git sees it, what is not committed yet included."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    return to


def check_unchanged(mutants: Sequence[Mutant]) -> None:
    """Stop unless the tests pass without a mutant: else every one would be killed."""
    tests = sorted({test for mutant in mutants for test in mutant.stages[0]})
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copy_tree(Path(folder) / "tree")
        _, status = os.waitpid(_fork(tree, tests, tree / "said.txt", 3600), 0)
        if status:
            raise SystemExit(f"without a mutant: {_first_failure(tree / 'said.txt')}")


def report(fates: Sequence[Fate]) -> str:
    """The kill rate with its 95 % interval, and the survivors."""
    asked = [fate for fate in fates if fate.how != "cannot be asked"]
    killed = sum(fate.killed for fate in asked)
    low, high = wilson(killed / max(len(asked), 1), max(len(asked), 1))
    lines = [
        f"{killed} of {len(asked)} mutants killed: {killed / max(len(asked), 1):.1%} "
        f"(95 % interval {low:.1%} to {high:.1%})"
    ]
    for fate in fates:
        if not fate.killed:
            lines.append(f"- {fate.how}: {fate.mutant.name}; {fate.mutant.change} ({fate.told})")
    return "\n".join(lines)


def main(said: Sequence[str] | None = None) -> int:
    """Run the drawn mutants; 1 where fewer are killed than `--least` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drawn", type=int, default=300, help="how many are drawn at random")
    parser.add_argument("--seed", default=SEED, help="by default one that every release has")
    parser.add_argument("--only", default="", help="those whose file holds this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of computing for each")
    parser.add_argument("--least", type=float, default=0.85)
    parser.add_argument("--unchecked", action="store_true", help="do not run the tests unchanged")
    args = parser.parse_args(said)
    mutants = [m for m in draw(args.drawn, seed=args.seed) if args.only in m.file]
    for name in _HEAVY:
        __import__(name)
    if not args.unchecked:
        check_unchanged(mutants)
    fates = []
    for fate in run(mutants, jobs=args.jobs, limit=args.limit):
        fates.append(fate)
        print(f"{fate.how:16} {fate.seconds:5.1f} s  {fate.mutant.name}  {fate.told}", flush=True)
    print(report(fates))
    return int(sum(fate.killed for fate in fates) < args.least * len(fates))


if __name__ == "__main__":
    sys.exit(main())
