"""`make mutants`: every mutant alone in a copy of the tree, and which of them no test noticed."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .drawing import ROOT, SOURCE, Mutant, draw

#: Loaded before the fork: what takes seconds and holds nothing of fedlore.
_HEAVY = ("torch", "numpy", "scipy.optimize", "onnx", "onnxruntime", "pytest")
_FAILED, _BROKEN = 1, 2  # pytest's own: tests failed; a file could not even be read


@dataclass(frozen=True)
class Fate:
    """What became of a mutant."""

    mutant: Mutant
    how: str  # "killed", "killed by time", "survived" or "cannot be asked"
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
    since: float = 0.0

    @property
    def _file(self) -> Path:
        assert self.mutant is not None
        return self.tree / SOURCE / self.mutant.file

    @property
    def said(self) -> Path:
        return self.tree / "said.txt"

    def take(self, mutant: Mutant) -> None:
        self.mutant, self.stage, self.begun = mutant, 0, time.monotonic()
        self.text = self._file.read_text()
        self._file.write_text(mutant.apply(self.text))
        self.ask()

    def ask(self) -> None:
        assert self.mutant is not None
        self.since = time.monotonic()
        self.child = _fork(self.tree, self.mutant.stages[self.stage], self.said)

    def clear(self) -> None:
        self._file.write_text(self.text)
        self.mutant = None


def run(mutants: Sequence[Mutant], *, jobs: int, limit: float) -> Iterable[Fate]:
    """The fates as they fall; a stage that takes longer than `limit` seconds is stopped."""
    waiting = list(reversed(mutants))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        seats = [_Seat(copy_tree(Path(folder) / str(i))) for i in range(jobs)]
        try:
            while waiting or any(seat.mutant for seat in seats):
                for seat in seats:
                    if seat.mutant is None and waiting:
                        seat.take(waiting.pop())
                    elif seat.mutant is not None and (fate := _look(seat, limit)) is not None:
                        seat.clear()
                        yield fate
                time.sleep(0.05)
        finally:
            for seat in seats:
                if seat.mutant is not None:
                    _stop(seat.child)


def _look(seat: _Seat, limit: float) -> Fate | None:
    """The fate of the mutant in a seat, None while it is open."""
    mutant = seat.mutant
    assert mutant is not None
    done, status = os.waitpid(seat.child, os.WNOHANG)
    late = time.monotonic() - seat.since > limit
    if not done and not late:
        return None
    if not done:
        _stop(seat.child)
    code = os.waitstatus_to_exitcode(status) if done else None
    if code == 0 and seat.stage + 1 < len(mutant.stages):
        seat.stage += 1
        seat.ask()
        return None
    how = "survived" if code == 0 else "killed" if code in (_FAILED, _BROKEN) else "cannot be asked"
    if code is None or code < 0:
        how = "killed by time" if code is None else "killed"  # a crash of the interpreter
    return Fate(mutant, how, time.monotonic() - seat.begun, _first_failure(seat.said))


def _first_failure(said: Path) -> str:
    lines = said.read_text(errors="replace").strip().splitlines() or [""]
    return next((line for line in lines if line.startswith(("FAILED", "ERROR"))), lines[-1])


def _stop(child: int) -> None:
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _fork(tree: Path, tests: Sequence[str], said: Path) -> int:
    """A child in its own group that runs these tests of the copy; torch is loaded already."""
    said.write_text("")
    child = os.fork()
    if child:
        return child
    code = 3
    try:
        os.setsid()
        out = os.open(said, os.O_WRONLY | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.chdir(tree)
        source = str(tree / "src")
        os.environ["PYTHONPATH"] = source  # for the processes that tests start
        sys.path[:0] = [source, str(tree)]
        sys.dont_write_bytecode = True
        # whoever calls this from a test has the tree's own code loaded, not that of the copy
        ours = ("fedlore", "studies", "tests", "conftest")
        for name in [n for n in sys.modules if n.partition(".")[0] in ours]:
            del sys.modules[name]
        import pytest

        code = int(pytest.main(["-x", "-m", "not slow", "-p", "no:cacheprovider", *tests]))
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
        _, status = os.waitpid(_fork(tree, tests, tree / "said.txt"), 0)
        if status:
            raise SystemExit(f"without a mutant: {_first_failure(tree / 'said.txt')}")


def report(fates: Sequence[Fate]) -> str:
    """The kill rate and the survivors."""
    killed = [fate for fate in fates if fate.killed]
    late = sum(fate.how == "killed by time" for fate in killed)
    lines = [
        f"{len(killed)} of {len(fates)} mutants killed ({len(killed) / len(fates):.1%}), "
        f"{late} of them by time"
    ]
    for fate in fates:
        if not fate.killed:
            lines.append(f"- {fate.how}: {fate.mutant.name}; {fate.mutant.change} ({fate.told})")
    return "\n".join(lines)


def main(said: Sequence[str] | None = None) -> int:
    """Run the drawn mutants; 1 where fewer are killed than `--least` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drawn", type=int, default=50, help="how many are drawn at random")
    parser.add_argument("--only", default="", help="those whose name or file holds this")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first so many")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a run of tests")
    parser.add_argument("--least", type=float, default=0.95)
    parser.add_argument("--unchecked", action="store_true", help="do not run the tests unchanged")
    args = parser.parse_args(said)
    mutants = draw(args.drawn)[args.skip :]
    mutants = [m for m in mutants if args.only in m.name or args.only in m.file]
    for name in _HEAVY:
        __import__(name)
    if not args.unchecked:
        check_unchanged(mutants)
    fates = []
    for fate in run(mutants, jobs=args.jobs, limit=args.limit):
        fates.append(fate)
        print(f"{fate.how:14} {fate.seconds:5.1f} s  {fate.mutant.name}  {fate.told}", flush=True)
    print(report(fates))
    return int(sum(fate.killed for fate in fates) < args.least * len(fates))


if __name__ == "__main__":
    sys.exit(main())
