"""Errors have a code for the kind of fault, and a page says what to do about each."""

import pickle
import re

import pytest

from fedlore import ConfigError, FedloreError, Knowledge, KnowledgeError, Plan
from fedlore.config import build
from fedlore.privacy.dp.budget import BudgetSpent

from .cli.test_demo import fedlore
from .test_docs import ROOT

CODES = re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "docs/reference/errors.md").read_text(), re.M)
ROOM = re.compile(r'^_FAULT = "([a-z-]+)"', re.M)
CLASS = re.compile(
    r'^class \w+\(\w*Error\):\n    """.*"""\n\n    (?:kind|general).* = "([a-z-]+)"', re.M
)
GIVEN = re.compile(r'Error\([^()]*\bcode="([a-z-]+)"')


def test_the_page_has_every_code_of_the_source_once_and_no_other():
    used = set()
    for path in (ROOT / "src").rglob("*.py"):
        used.update(*(way.findall(path.read_text()) for way in (ROOM, CLASS, GIVEN)))
    assert used == set(CODES) and len(CODES) == len(set(CODES)) < 80


def test_a_code_comes_from_the_call_the_class_the_room_or_the_general_class():
    with pytest.raises(KnowledgeError) as found:
        Knowledge(trust=1.3)
    assert found.value.code == "knowledge"
    assert BudgetSpent("no").code == "budget"
    assert FedloreError("no").code == "value" and ConfigError("no").code == "setting"
    assert FedloreError("no", code="schema").code == "schema"
    assert pickle.loads(pickle.dumps(found.value)).code == "knowledge"
    assert pickle.loads(pickle.dumps(FedloreError("no", code="schema"))).code == "schema"


def test_an_error_that_quotes_another_has_its_code():
    with pytest.raises(ConfigError, match=r"\[plan\] lr must") as found:
        build(Plan, {"lr": -1.0}, "plan")
    assert found.value.code == "algorithm"
    with pytest.raises(FedloreError) as other:
        try:
            Knowledge(trust=2.0)
        except KnowledgeError as error:
            raise FedloreError("something else altogether") from error
    assert other.value.code == "value"


def test_a_row_is_counted_as_its_file_does_where_there_is_one():
    error = KnowledgeError("a.csv: data row 1: row 1 and row 3 disagree", row=1)
    assert error.in_file == "a.csv: data row 3: row 1 and row 3 disagree"
    assert KnowledgeError("row 1 of a table").in_file == "row 1 of a table"


def test_the_command_line_ends_with_the_code(tmp_path):
    (tmp_path / "knowledge.toml").write_text("trusted = 3\n")
    done = fedlore("lint", "knowledge.toml", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.rstrip().endswith("[setting]")
