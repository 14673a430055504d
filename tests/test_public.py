"""The public names are what they are on purpose."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import fedlore

HOME = Path(__file__).parent.parent

PROMISED = """inject Knowledge Personal Examples Client Plan FedAvg Alone fit Fitted federate
Mask MaxPool Lookup""".split()


def test_promised_names_are_there():
    assert set(PROMISED) <= set(fedlore.__all__)


def test_all_is_sorted_and_every_name_exists():
    assert list(fedlore.__all__) == sorted(fedlore.__all__)
    assert all(hasattr(fedlore, name) for name in fedlore.__all__)


def test_import_needs_torch_and_numpy_alone():
    code = (
        "import sys; import fedlore; "
        "print({'typer', 'rich', 'scipy', 'sklearn', 'openpyxl', 'matplotlib', 'onnxruntime'}"
        " & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def test_the_version_is_said_in_one_place():
    """A source tree knows its version, whatever was installed from it before."""
    project = tomllib.loads((HOME / "pyproject.toml").read_text())
    assert "version" not in project["project"] and project["project"]["dynamic"] == ["version"]
    named = project["tool"]["setuptools"]["dynamic"]["version"]["attr"]
    module, _, name = named.rpartition(".")
    source = (HOME / "src" / f"{module.replace('.', '/')}.py").read_text()
    # a literal: setuptools reads it without importing torch
    assert re.search(rf'^{name} = "{re.escape(fedlore.__version__)}"$', source, re.MULTILINE)
    for path in (HOME / "src").rglob("*.py"):
        assert not re.search(r"""version\(["']fedlore["']\)""", path.read_text()), path


def test_the_changelog_begins_with_this_version():
    first = re.search(r"^## (\S+)", (HOME / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None and first[1] == fedlore.__version__
