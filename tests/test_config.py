"""TOML tables become dataclasses, or say what is wrong with them."""

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
        ({"name": 3}, "name must be str, got 3"),
        ({"name": "a", "plan": {"epoch": 3}}, r"\[plan\] unknown key 'epoch'; did you mean"),
        ({"name": "a", "plan": {"lr": -1}}, r"\[plan\] lr must lie in"),
        ({"name": "a", "plan": {"lr": True}}, "plan.lr must be float, got True"),
        ({"name": "a", "sizes": [1, "x"]}, r"sizes\[1\] must be int, got 'x'"),
        ({"name": "a", "plan": {"schedule": "x"}}, "one of constant, cosine, got 'x'"),
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
