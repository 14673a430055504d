"""`make mutants`: every drawn mutant alone in a copy of the tree, and whether a test notices.

The quick tests are run once unchanged, which tells who runs which block (`nearness.py`). Then
each mutant is shown to the tests that run its block, the quickest of the nearest first, until one
fails or they have computed for so many seconds: what they do not notice in that time has survived.
"""

import argparse
import contextlib
import gc
import importlib
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
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType
from typing import TypeVar

import pytest
from hypothesis import Phase, settings

from fedlore.core.statistics import wilson

from .drawing import ROOT, SEED, SOURCE, Mutant, draw
from .nearness import Nearness, Trace, files_that_say

#: Loaded before the fork: what takes seconds and holds nothing of fedlore.
_HEAVY = ("torch", "scipy.optimize", "onnx", "onnxruntime", "sklearn.ensemble", "pandas")
_FAILED, _BROKEN, _NONE = 1, 2, 5  # pytest's own: failed, could not even be read, no quick test
_PARTS = 6  # of the tests for each worker, as they are traced
_EACH = 30.0  # seconds of computing for one test: what takes longer goes on for ever
_WAITED = 100  # seconds by the clock for one test: so does what waits longer
SAID, TRACED = "said.txt", "traced.json"  # beside a copy's own files
NOTHING = "tests/__init__.py"  # a file without a test
QUICK, SLOW = "not slow", "slow and not nightly and not program"

Job = TypeVar("Job")


@dataclass(frozen=True)
class Fate:
    """What became of a mutant."""

    mutant: Mutant
    how: str  # killed, survived, survived in time, no test, in doubt or cannot be asked
    seconds: float  # of computing
    told: str  # the first failure, or the last line

    def __str__(self) -> str:
        return f"{self.how:16} {self.seconds:5.1f} s  {self.mutant.name}  {self.told}"

    @property
    def killed(self) -> bool:
        return self.how == "killed"

    @property
    def survived(self) -> bool:
        return self.how in ("survived", "survived in time", "no test")

    @property
    def killer(self) -> str:
        """The test that failed first; empty where it is not known."""
        return _test_of(self.told)


def run(
    mutants: Sequence[Mutant],
    near: Nearness,
    copies: Sequence[Path],
    *,
    limit: float,
    within: float = math.inf,
    marks: str = QUICK,
) -> Iterator[Fate]:
    """The fates as they fall; the tests of a mutant compute for `limit` seconds at most.

    After `within` seconds no other is begun: those asked are then the first that were drawn.
    """

    def start(mutant: Mutant, tree: Path) -> int:
        put(tree / SOURCE / mutant.file, mutant)
        tests = near.tests(mutant, limit / 2) if marks == QUICK else files_that_say(mutant)
        load([mutant.file, *(test.partition("::")[0] for test in tests)])
        clock = _Clock(mutant)
        return _fork(tree, tests or [NOTHING], clock, limit, near.failed, marks=marks)

    for mutant, tree, code, seconds in side_by_side(mutants, copies, start, within):
        put(tree / SOURCE / mutant.file)
        how = {0: "survived", _NONE: "no test", -signal.SIGXCPU: "survived in time"}
        killed = code in (_FAILED, _BROKEN) or code < 0
        usual = "killed" if killed else "cannot be asked"
        yield Fate(mutant, how.get(code, usual), seconds, _first_failure(tree / SAID))


def load(files: Iterable[str]) -> None:
    """Modules of ours and of the tests, before the fork: so each is read once for all mutants."""
    for file in files:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # whoever runs it says why
            importlib.import_module(module_of(file))


def module_of(file: str) -> str:
    """The name of a module below the root, or below src."""
    return ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")


def swap(mutant: Mutant) -> None:
    """The fault into the functions that are loaded, each of which keeps its place."""
    path = ROOT / SOURCE / mutant.file
    importlib.import_module(module_of(mutant.file))
    whole = compile(mutant.apply(path.read_text()), str(path), "exec", dont_inherit=True)
    name = mutant.blocks[-1].partition("#")[0]  # the outermost; what stands in it is part of it
    (code,) = (one for one in codes_in(whole) if one.co_qualname == name)
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename == str(path):
            if one.__code__.co_qualname == name:
                one.__code__ = code


def codes_in(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from codes_in(one)


def put(file: Path, mutant: Mutant | None = None) -> None:
    """A mutant into its file, or the file as it was: bytecode of the unchanged one stays true."""
    kept = file.with_suffix(".unchanged")
    if mutant is None:
        os.replace(kept, file)
    else:
        shutil.copy2(file, kept)
        file.write_text(mutant.apply(kept.read_text()))


def side_by_side(
    jobs: Iterable[Job],
    copies: Sequence[Path],
    start: Callable[[Job, Path], int],
    within: float = math.inf,
) -> Iterator[tuple[Job, Path, int, float]]:
    """Each job in a copy of its own: how its process ended, and for how long it computed."""
    free, running, left = list(copies), dict[int, tuple[Job, Path]](), iter(jobs)
    until = time.monotonic() + within
    try:
        while True:
            while free and time.monotonic() < until:
                try:
                    job = next(left)
                except StopIteration:
                    break
                tree = free.pop()
                running[start(job, tree)] = job, tree
            if not running:
                return
            for child in list(running):
                ended, status, used = os.wait4(child, os.WNOHANG)
                if ended:
                    job, tree = running.pop(child)
                    end_group(child)  # what a test has left behind
                    code, seconds = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
                    yield job, tree, code, seconds
                    free.append(tree)
            time.sleep(0.02)
    finally:
        for child in running:
            end_group(child)


def end_group(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def doubtful(fates: Sequence[Fate], near: Nearness, copies: Sequence[Path]) -> set[str]:
    """Of the tests that killed a mutant those that fail, asked once more, without any."""
    killers = list({fate.killer: None for fate in fates if fate.killed and fate.killer})
    parts = [part for i in range(len(copies)) if (part := killers[i :: len(copies)])]
    failed: set[str] = set()

    def start(part: list[str], tree: Path) -> int:
        return _fork(tree, part, _Clock(), 3600, near.failed, stop=False, marks="")

    for part, tree, code, _ in side_by_side(parts, copies, start):
        if code:
            lines = (tree / SAID).read_text(errors="replace").splitlines()
            told = [_test_of(line) for line in lines if line.startswith(("FAILED", "ERROR"))]
            failed |= set(told) & set(part)
    return failed


def _first_failure(said: Path) -> str:
    lines = said.read_text(errors="replace").strip().splitlines() or [""]
    return next((line for line in lines if line.startswith(("FAILED", "ERROR"))), lines[-1])


def _test_of(line: str) -> str:
    """The test that a line of pytest's summary is about; empty where it is about none."""
    test = line.partition(" ")[2].partition(" - ")[0]
    return test if "::" in test and ": computed for " not in test else ""


class _Clock:
    """Puts in the fault, and ends all where a test computes for too long: it would not end."""

    def __init__(self, mutant: Mutant | None = None) -> None:
        self.mutant = mutant
        self.anew = mutant is None  # without a fault, everything as its files say

    def begin(self, bytecode: Path) -> None:
        if self.mutant is not None:
            swap(self.mutant)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        def late(*_: object) -> None:
            self._end(f"{item.nodeid}: computed for {_EACH:g} seconds")

        signal.signal(signal.SIGPROF, late)
        signal.setitimer(signal.ITIMER_PROF, _EACH)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_collection_finish(self) -> None:
        """One example that fails is enough: hypothesis looks for no shorter one."""
        if self.mutant is not None:
            settings.register_profile(
                "mutants", settings(), phases=(Phase.explicit, Phase.generate)
            )
            settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Killed: at once, before the seconds are over that a summary takes."""
        if self.mutant is not None and report.failed:
            self._end(report.nodeid)

    def _end(self, told: str) -> None:
        print(f"\nFAILED {told}", flush=True)
        os._exit(_FAILED)


def _fork(
    tree: Path,
    tests: Sequence[str],
    plugin: "Trace | _Clock",
    limit: float,
    without: Sequence[str] = (),
    *,
    stop: bool = True,
    marks: str = QUICK,
) -> int:
    """A child in its own group that runs these tests of the copy; torch is loaded already."""
    child = os.fork()
    if child:
        return child
    code = 3
    try:
        os.setsid()
        most = math.ceil(time.process_time() + limit)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
        out = os.open(tree / SAID, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout = sys.stderr = os.fdopen(out, "w")
        source = str(tree / "src")
        before = os.environ.get("PYTHONPATH")  # for the processes that tests start
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, before]))
        os.chdir(tree if plugin.anew else ROOT)
        if plugin.anew:
            sys.path[:0] = [source, str(tree)]
            ours = ("fedlore", "fedlore_coke", "fedlore_lab", "studies", "tests", "conftest")
            for name in [n for n in sys.modules if n.partition(".")[0] in ours]:
                del sys.modules[name]
        plugin.begin(tree / "traced")
        options = ["-m", marks, "-p", "no:cacheprovider", f"--basetemp={tree / 'made'}"]
        options += ["--assert=plain"]  # modules are loaded already
        options += [f"--deselect={test}" for test in without]
        options += ["-x" if stop else "--continue-on-collection-errors"]  # one file, not its part
        if find_spec("pytest_timeout"):
            options += ["-o", f"timeout={_WAITED}"]
        code = int(pytest.main([*options, *tests], plugins=[plugin]))
        if isinstance(plugin, Trace):
            plugin.keep(tree / TRACED)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


@contextlib.contextmanager
def trees(count: int) -> Iterator[list[Path]]:
    """So many copies of the tree."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        first = copy_tree(Path(folder) / "0")
        others = [Path(folder) / f"{i}" for i in range(1, count)]
        yield [first, *(shutil.copytree(first, other) for other in others)]


def copy_tree(to: Path) -> Path:
    """The tree as git sees it, what is not committed yet included; all of it where git does not."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        others = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache")
        return Path(shutil.copytree(ROOT, to, ignore=others))
    for name in filter(None, done.stdout.split("\0")):
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)
    return to


def trace(path: Path, copies: Sequence[Path]) -> Nearness:
    """Who runs which block, read from a file or found by one run of all quick tests."""
    if not path.exists():
        files = files_of_tests(ROOT)
        number = _PARTS * len(copies)
        parts = [part for i in range(number) if (part := files[i::number])]
        trace_of(parts, copies).write(path)
    return Nearness.read(path)


def trace_of(parts: Sequence[Sequence[str]], copies: Sequence[Path]) -> Trace:
    """What the quick tests of these files run, unchanged; each part has a process of its own."""
    together = Trace(ROOT / SOURCE)

    def start(files: Sequence[str], tree: Path) -> int:
        return _fork(tree, files, Trace(tree / SOURCE), 7200, stop=False)

    for files, tree, code, _ in side_by_side(parts, copies, start):
        if code in (0, _FAILED, _NONE):
            together.add(tree / TRACED)
        else:
            together.failed += files
    return together


def files_of_tests(root: Path) -> list[str]:
    """Every file that holds a test, the longest first."""
    found = [path for path in (root / "tests").rglob("test_*.py")]
    docs = [*(root / SOURCE).rglob("*.py"), root / "README.md"]
    found += [path for path in docs if ">>> " in path.read_text()]
    found.sort(key=lambda path: -path.stat().st_size)
    return [path.relative_to(root).as_posix() for path in found]


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
    parser.add_argument("--only", default="", help="of the files whose path holds this")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of computing for each")
    parser.add_argument("--workers", type=int, default=1, help="processes side by side")
    parser.add_argument("--within", type=float, default=math.inf, help="seconds; begin none later")
    parser.add_argument("--slow", type=float, help="ask slow tests too, beginning none later")
    parser.add_argument("--least", type=float, default=0.85)
    parser.add_argument("--near", type=Path, help="a file for who runs which block, for a next run")
    args = parser.parse_args(said)
    mutants = draw(args.drawn, seed=args.seed, only=args.only)
    for name in _HEAVY:
        with contextlib.suppress(ImportError):
            __import__(name)
    begun, fates = time.monotonic(), []
    with trees(args.workers) as copies:
        near = trace(args.near or copies[0] / "nearness.json", copies)
        print(near, flush=True)
        left = args.within - (time.monotonic() - begun)
        for fate in run(mutants, near, copies, limit=args.limit, within=left):
            fates.append(fate)
            print(fate, flush=True)
        if args.slow is not None:
            print(f"{report(fates)}\nthen slow tests:", flush=True)
            names = {fate.mutant.name for fate in fates if fate.survived}
            left = args.slow - (time.monotonic() - begun)
            again = [mutant for mutant in mutants if mutant.name in names]
            for fate in run(again, near, copies, limit=args.limit, within=left, marks=SLOW):
                print(fate, flush=True)
                if fate.killed:
                    fates = [fate if fate.mutant == old.mutant else old for old in fates]
        unsure = doubtful(fates, near, copies)
    fates = [replace(f, how="in doubt") if f.killer in unsure else f for f in fates]
    print(report(fates))
    return int(sum(fate.killed for fate in fates) < args.least * len(fates))


if __name__ == "__main__":
    sys.exit(main())
