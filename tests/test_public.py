"""The public names are what they are on purpose."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import fedlore

HOME = Path(__file__).parent.parent

PROMISED = """inject Knowledge Personal Examples Client Plan FedAvg Alone fit Fitted federate
Mask MaxPool Lookup mlp logistic lenet5 Privacy Dp Bins Line Measured NumberClient HEARD
PersonalRegressor Classification Regression load""".split()


def test_promised_names_are_there():
    assert set(PROMISED) <= set(fedlore.__all__)


def test_all_is_sorted_and_every_name_exists():
    assert list(fedlore.__all__) == sorted(fedlore.__all__)
    assert all(hasattr(fedlore, name) for name in fedlore.__all__)
    assert fedlore.fit is fedlore.engine.fit


def loaded(code: str) -> set[str]:
    """The modules that a new interpreter holds after some code."""
    code += "\nimport sys; print('modules:', *sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(found.stdout.rpartition("modules:")[2].split())


def rooms(modules: set[str]) -> set[str]:
    return {name.split(".")[1] for name in modules if name.startswith("fedlore.")}


def test_import_loads_nothing_but_the_version():
    modules = loaded("import fedlore; dir(fedlore); fedlore.__version__")
    assert rooms(modules) == {"version"}
    assert not modules & {"torch", "numpy", "typer", "rich"}


def test_a_name_is_loaded_with_what_it_needs_alone():
    assert rooms(loaded("from fedlore import FedloreError")) == {"version", "errors"}
    modules = loaded(
        "from fedlore import Client, Examples, Knowledge, fit, mlp, NumberClient, Bins"
    )
    assert not rooms(modules) & {"bundle", "report", "experiments", "federation", "cli"}
    others = {"typer", "rich", "scipy", "sklearn", "openpyxl", "matplotlib", "onnxruntime"}
    assert not modules & others


def test_a_bundle_needs_no_training():
    assert not rooms(loaded("from fedlore import load; load")) & {"engine", "algorithms", "privacy"}


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        fedlore.fitt  # noqa: B018
    assert set(fedlore.__all__) <= set(dir(fedlore))


def test_what_checkers_see_is_what_is_loaded():
    """The names stand twice in __init__: for editors and type checkers, and for the run."""
    tree = ast.parse((HOME / "src" / "fedlore" / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == fedlore._HOME


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


def test_the_citation_names_this_version():
    text = (Path(__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {fedlore.__version__}\n" in text
