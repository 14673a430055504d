"""The applications stand on the library as anybody's would: on its public names only."""

import ast
import importlib
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

import pytest

from fedlore.cli.commands import OWN, Command, all_commands
from handbook.names import BUILDING, MODULES

SOURCE = Path(__file__).parent.parent / "src"
APPLICATIONS = ("fedlore_coke", "fedlore_lab")
PUBLIC = {*MODULES, *BUILDING}


def imported(path: Path) -> set[tuple[str, str]]:
    """What a file imports of the library: module and name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {(node.module or "", alias.name) for alias in node.names}
    return {(module, name) for module, name in found if module.split(".")[0] == "fedlore"}


def is_public(module: str, name: str) -> bool:
    if f"{module}.{name}" in PUBLIC:  # a public module as a whole
        return True
    return module in PUBLIC and name in importlib.import_module(module).__all__


@pytest.mark.parametrize("application", APPLICATIONS)
def test_applications_import_public_names_only(application):
    files = sorted((SOURCE / application).rglob("*.py"))
    wrong = {
        f"{path.relative_to(SOURCE)}: {module}.{name}"
        for path in files
        for module, name in imported(path)
        if not is_public(module, name)
    }
    assert files and wrong == set()


def test_the_library_knows_no_application():
    for path in (SOURCE / "fedlore").rglob("*.py"):
        assert not any(name in path.read_text() for name in APPLICATIONS), path


def test_public_modules_say_what_they_promise():
    for module in sorted(PUBLIC - {"fedlore.sklearn"}):
        found = importlib.import_module(module)
        assert isinstance(found, ModuleType) and found.__doc__
        assert all(hasattr(found, name) for name in found.__all__), module


def test_their_commands_arrive_as_anybodys_do():
    benefit = {one.name: one.load() for one in entry_points(group="fedlore.commands")}
    assert set(benefit) >= {"demo", "new", "up", "blend", "paper", "leak"}
    assert all(isinstance(one, Command) for one in benefit.values())
    assert set(all_commands()) == {*OWN, *benefit}


def test_help_waits_for_no_command():
    code = "import sys; from fedlore.cli.commands import all_commands; all_commands()"
    code += "; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy"} & set(found.stdout.split())
