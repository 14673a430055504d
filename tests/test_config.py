"""TOML tables become dataclasses, or say what is wrong with them."""

import re
from dataclasses import dataclass, field

import pytest

from fedlore import ConfigError, Plan
from fedlore.config import build, read_toml


@dataclass(frozen=True)
class Outer:
    name: str
    plan: Plan = field(default_factory=Plan)
    sizes: tuple[int, ...] = ()
    extra: dict[str, float] = field(default_factory=dict)
    on: bool = False


def test_nested_tables_and_lists_are_built():
    found = build(
        Outer, {"name": "a", "plan": {"lr": 1}, "sizes": [1, 2], "extra": {"b": 2}, "on": True}
    )
    assert found == Outer("a", Plan(lr=1.0), (1, 2), {"b": 2.0}, True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nam": "a"}, "unknown key 'nam'; did you mean 'name'"),
        ({"name": 3}, "name must be text, got 3"),
        ({"name": "a", "plan": {"epoch": 3}}, r"\[plan\] unknown key 'epoch'; did you mean"),
        ({"name": "a", "plan": {"lr": -1}}, r"\[plan\] lr must lie in"),
        ({"name": "a", "plan": {"lr": "0.1"}}, "plan.lr must be .*, without quotation marks: 0.1"),
        ({"name": "a", "plan": {"lr": True}}, "plan.lr must be a number, got True"),
        ({"name": "a", "sizes": [1, "x"]}, r"sizes\[1\] must be a whole number, got 'x'"),
        ({"name": "a", "plan": {"schedule": "x"}}, "one of constant, cosine, got 'x'"),
        ({"name": "a", "sizes": "3"}, r"sizes must be a list in square brackets, got '3'"),
        ({"Name": "a"}, "unknown key 'Name'; did you mean 'name'"),
        ({"name": "a", "plan": 3}, "plan must be Plan, got 3"),
        ({}, "missing key 'name'"),
        ({"plan": {"lr": 1, "name": "a"}}, r"'name' stands below the line \[plan\] and is read as"),
    ],
)
def test_what_is_wrong_is_named(values, message):
    with pytest.raises(ConfigError, match=message):
        build(Outer, values)


def test_unreadable_files_are_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        read_toml(tmp_path / "absent.toml")
    bad = tmp_path / "bad.toml"
    bad.write_text("a = ")
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_toml(bad)
    bad.write_text("rounds = 3\ntrust = 0,3  # a comma\n")
    with pytest.raises(ConfigError, match=r"line 2: a number has a point .*: trust = 0\.3"):
        read_toml(bad)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("ordered = yes", "line 2: it is true or false, in small letters: ordered = true"),
        ("label = grade", 'line 2: text stands in quotation marks: label = "grade"'),
        ("table = range.csv", 'line 2: text stands in quotation marks: table = "range.csv"'),
        ("classes = [no, yes]", "line 2: texts in a list stand in quotation marks"),
        ("trust = 30%", "line 2: a share is a number between 0 and 1: trust = 0.3"),
        ("name = \u201cash\u201d", "line 2: these are not plain quotation marks"),
        ('table = "C:\\users\\range.csv"', "line 2: a backslash needs another before it"),
        ('classes = ["a" "b"]', "line 2: a comma is missing between two texts"),
        (
            "[b]\n[b]",
            "line 3: b is set further up: keep one of the two, or, a table that may be repeated",
        ),
        ("trust = 1\ntrust = 2", "line 3: 'trust' is set twice: keep one of the two lines"),
        ("trust = .3", "line 2: a number has digits on both sides of its point: trust = 0.3"),
        ("trust: 3", "line 2: a key and its value have = between them: trust = 3"),
        ("trust =", "line 2: trust has no value"),
        ("trust = = 3", "line 2"),
    ],
)
def test_a_slip_in_toml_is_named_with_its_line_and_the_way_to_write_it(tmp_path, line, said):
    path = tmp_path / "x.toml"
    path.write_text(f"a = 1\n{line}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(said)):
        read_toml(path)
