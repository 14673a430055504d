"""`make mutants`: every drawn mutant alone in a copy of the tree, and whether a test notices.

The quick tests are run once unchanged, which tells who runs which function (`nearness.py`). Then
each mutant is shown to the tests that run its function, the nearest first, until one fails or they
have computed for so many seconds: what they do not notice in that time has survived.
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
from .nearness import Nearness, Trace

#: Loaded before the fork: what takes seconds and holds nothing of fedlore.
_HEAVY = ("torch", "scipy.optimize", "onnx", "onnxruntime", "sklearn.ensemble", "pandas")
_FAILED, _BROKEN, _NONE = 1, 2, 5  # pytest's own: failed, could not even be read, no quick test
_EACH = 30.0  # seconds of computing for one test: what takes longer goes on for ever


@dataclass(frozen=True)
class Fate:
    """What became of a mutant."""

    mutant: Mutant
    how: str  # "killed", "survived", "survived in time", "no test" or "cannot be asked"
    seconds: float  # of computing
    told: str  # the first failure, or the last line

    @property
    def killed(self) -> bool:
        return self.how == "killed"


def run(mutants: Sequence[Mutant], near: Nearness, *, limit: float) -> Iterable[Fate]:
    """The fates as they fall; the tests of a mutant compute for `limit` seconds at most."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copy_tree(Path(folder))
        for mutant in mutants:
            file = tree / SOURCE / mutant.file
            text = file.read_text()
            file.write_text(mutant.apply(text))
            yield _fate(mutant, tree, near.tests(mutant, limit / 2), limit)
            file.write_text(text)


def _fate(mutant: Mutant, tree: Path, tests: Sequence[str], limit: float) -> Fate:
    if not tests:
        return Fate(mutant, "no test", 0.0, "no quick test runs it")
    said = tree / "said.txt"
    code, seconds = _ask(tree, tests, said, limit)
    how = "killed" if code in (_FAILED, _BROKEN) or code < 0 else "cannot be asked"
    if code in (0, _NONE):
        how = "survived"
    elif code == -signal.SIGXCPU:
        how = "survived in time"
    return Fate(mutant, how, seconds, _first_failure(said))


def _ask(tree: Path, tests: Sequence[str], said: Path, limit: float) -> tuple[int, float]:
    """How these tests of the copy end, and for how long they computed."""
    child = _fork(tree, tests, said, limit, _Clock())
    try:
        _, status, used = os.wait4(child, 0)
    except BaseException:
        os.killpg(child, signal.SIGKILL)
        raise
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime


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


def _fork(tree: Path, tests: Sequence[str], said: Path, limit: float, plugin: object) -> int:
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
        options = ["-m", "not slow", "-p", "no:cacheprovider", *(["-x"] if tests else [])]
        code = int(pytest.main([*options, *tests], plugins=[plugin]))
        if isinstance(plugin, Trace):
            plugin.write(tree / "nearness.json")
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


def trace(path: Path) -> Nearness:
    """Who runs which function, read from a file or found by one run of all quick tests."""
    if not path.exists():
        with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
            tree = copy_tree(Path(folder))
            os.waitpid(_fork(tree, (), tree / "said.txt", 7200, Trace(tree / SOURCE)), 0)
            shutil.copy(tree / "nearness.json", path)
    return Nearness.read(path)


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
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of computing for each")
    parser.add_argument("--least", type=float, default=0.85)
    parser.add_argument(
        "--near", type=Path, help="a file for who runs which function, for a next run"
    )
    args = parser.parse_args(said)
    mutants = [m for m in draw(args.drawn, seed=args.seed) if args.only in m.file]
    for name in _HEAVY:
        __import__(name)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        near = trace(args.near or Path(folder) / "nearness.json")
    if near.failed:
        print(f"{len(near.failed)} tests fail without a mutant and are left out:", *near.failed)
    fates = []
    for fate in run(mutants, near, limit=args.limit):
        fates.append(fate)
        print(f"{fate.how:16} {fate.seconds:5.1f} s  {fate.mutant.name}  {fate.told}", flush=True)
    print(report(fates))
    return int(sum(fate.killed for fate in fates) < args.least * len(fates))


if __name__ == "__main__":
    sys.exit(main())
