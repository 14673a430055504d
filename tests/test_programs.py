"""A bare machine passes `make test`: Python, make, git, and nothing that a person installed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from .programs import WATCH, find, is_foreign

TESTS = Path(__file__).parent
HELPERS = {"browser", "accessible"}


def test_a_missing_program_fails_a_test_unless_the_machine_is_to_do_without(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("FEDLORE_WITHOUT", raising=False)
    with pytest.raises(pytest.fail.Exception, match="FEDLORE_WITHOUT=chromium"):
        find("chromium")
    monkeypatch.setenv("FEDLORE_WITHOUT", "soffice,chromium")
    with pytest.raises(pytest.skip.Exception, match="no chromium"):
        find("chromium")


@pytest.mark.parametrize("name", ["chromium", "soffice", "wrk", "unshare"])
def test_a_foreign_program_is_not_started_by_a_default_test(name, tmp_path, monkeypatch):
    (tmp_path / name).write_text("#!/bin/sh\n")
    (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(pytest.fail.Exception, match="mark it"):
        subprocess.run([name])
    WATCH.started.clear()


@pytest.mark.parametrize("name", ["true", "git", sys.executable, "no-such-program"])
def test_python_posix_and_git_may_be_started(name):
    assert not is_foreign(name)


def test_only_marked_tests_open_a_browser():
    for path in TESTS.rglob("test_*.py"):
        tree = ast.parse(path.read_text())
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.level]
        if {node.module for node in imports} & HELPERS:
            marks = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign)]
            assert "pytestmark = pytest.mark.program('chromium')" in marks, path
