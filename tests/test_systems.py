"""Windows and macOS, as far as it can be tested without them: imports, locks, line ends, forks."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedlore import FedAvg, Knowledge, Plan, mlp
from fedlore.core import store as locking
from fedlore.core.store import lock_file
from fedlore.engine import Recipe, Stacked
from fedlore.engine.stacked import transport
from fedlore.errors import FedloreError
from fedlore.federation import processes

from .cli.tasks import write_knowledge
from .engine.federation import CLASSES, FEATURES, federation

SOURCE = Path(__file__).parent.parent / "src" / "fedlore"
UNIX = {"fcntl", "resource", "pwd", "grp", "termios", "pty", "msvcrt", "winreg"}


@pytest.fixture(scope="module")
def trees():
    return {path: ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}


def test_nothing_of_one_system_is_imported_on_all(trees):
    for path, tree in trees.items():
        for node in tree.body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not set(names) & UNIX, path


def test_text_files_name_their_encoding(trees):
    """Windows reads and writes text in a code page of its own where nothing is said."""
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                if name in ("write_text", "read_text"):
                    said = {k.arg for k in node.keywords} & {"encoding", "errors"}
                    assert said or "/proc/" in ast.unparse(node), (path, node.lineno)


def test_a_file_is_held_by_one_process_at_a_time(tmp_path):
    path = tmp_path / "lock"
    code = (
        "import fcntl, sys; file = open(sys.argv[1], 'r+')\n"
        "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB); print('held', flush=True); input()"
    )
    other = [sys.executable, "-I", "-S", "-c", code, str(path)]  # any other program, in no time
    with open(path, "w") as file:
        lock_file(file.fileno(), wait=False)
        held = subprocess.run(other, capture_output=True, input=b"\n", check=False)
    assert held.returncode != 0 and b"BlockingIOError" in held.stderr
    with subprocess.Popen(other, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with open(path, "w") as file, pytest.raises(BlockingIOError):
            lock_file(file.fileno(), wait=False)
        holder.communicate(b"\n")
    assert holder.returncode == 0
    with open(path, "w") as file:
        lock_file(file.fileno(), wait=False)


def windows(monkeypatch, refusals: int) -> list[tuple[int, int]]:
    """A system with msvcrt alone, whose byte is held for so many looks."""
    seen: list[tuple[int, int]] = []

    def lock(handle: int, mode: int, count: int) -> None:
        seen.append((mode, count))
        if len(seen) <= refusals:
            raise OSError(36, "Resource deadlock avoided")

    module = SimpleNamespace(locking=lock, LK_NBLCK=2)
    monkeypatch.setattr(locking, "_WINDOWS", True)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", module)
    return seen


def test_on_windows_the_first_byte_is_the_lock(monkeypatch, tmp_path):
    handle = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    seen = windows(monkeypatch, refusals=2)
    monkeypatch.setattr(locking, "_PATIENCE", 0.0)
    with pytest.raises(OSError):
        lock_file(handle, wait=False)
    lock_file(handle, wait=True)
    assert seen == [(2, 1)] * 3
    os.close(handle)


def test_where_nothing_can_be_forked_workers_are_refused_in_a_sentence(monkeypatch):
    monkeypatch.setattr(transport, "can_fork", lambda: False)
    recipe = Recipe(mlp(FEATURES, CLASSES), FedAvg(), Plan())
    with pytest.raises(FedloreError, match="workers = 2 needs Linux"):
        Stacked(federation(), recipe, workers=2)
    with Stacked(federation(), recipe) as engine:
        assert len(engine.clients()) == len(federation())


def test_a_federation_over_machines_says_that_it_needs_another_system(monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "_WINDOWS", True)
    with pytest.raises(FedloreError, match="on Windows use WSL"):
        processes.Child(["true"], log=Path(tmp_path / "log"))


def test_line_ends_of_windows_make_no_other_knowledge(tmp_path):
    ours = write_knowledge(tmp_path / "unix", "classes")
    theirs = write_knowledge(tmp_path / "windows", "classes")
    for path in theirs.parent.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    a, b = Knowledge.read(ours), Knowledge.read(theirs)
    assert a.schema == b.schema and a.fingerprint == b.fingerprint


BARE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import fedlore.engine
from fedlore.cli.app import load_command
for name in "calibrate demo draft export lint new predict run tune update".split():
    load_command(name)
"""


def test_what_an_install_without_extras_has_needs_none_of_them():
    """Of a wheel alone, `fedlore demo` asked for cryptography."""
    said = tomllib.loads((SOURCE.parent.parent / "pyproject.toml").read_text())["project"]
    extras = {re.match(r"[\w-]+", one)[0] for some in said["optional-dependencies"].values()
              for one in some}  # fmt: skip
    modules = {"scikit-learn": "sklearn", "prometheus-client": "prometheus_client"}
    modules |= {"mlflow-skinny": "mlflow"}
    absent = {modules.get(name, name.replace("-", "_")) for name in extras} - {"fedlore"}
    done = subprocess.run(
        [sys.executable, "-c", BARE, *absent], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
