"""A limit on time: what does not fit is left out, and why is said."""

import pytest

from fedlore.core.history import listen_to_rounds, tell_step
from fedlore.errors import ConfigError
from fedlore.experiments.approaches import FL, FLWKM, LOCAL_BEST, LORE
from fedlore.experiments.runs import LeftOut, TimeBudget, plan_run, run_federation
from fedlore.experiments.sites import gather
from fedlore.federation.settings import RunTable, read_duration

from .folders import KNOWN, write_federation


def small(folder):
    def row(draw):
        return f"{draw.uniform(0, 4):.2f},{draw.uniform(0, 4):.2f},g{draw.randint(1, 3)}"

    known = [KNOWN.format(trust="", more="")] * 2
    names = ("local best", "P-KM", "ML", "FL", "lore")
    return gather(
        write_federation(folder, known, "a,b,label", row, rows=24, approaches=names, model="")
    )


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def spend(budget, clock, approach, seconds):
    with budget.spend(approach):
        clock.now += seconds


def test_what_would_not_end_is_not_begun():
    clock = Clock()
    budget = TimeBudget(100.0, clock)
    spend(budget, clock, FL, 9.0)  # one training; lore takes ten
    budget.check(LORE)
    spend(budget, clock, FLWKM, 9.0)
    with pytest.raises(LeftOut, match="takes about 90 s, time_limit leaves 82 s"):
        budget.check(LORE)
    budget.check(LOCAL_BEST)


def test_work_ends_at_the_first_step_after_the_time():
    clock = Clock()
    budget = TimeBudget(10.0, clock)
    with pytest.raises(LeftOut, match="not finished"), budget.spend(LORE):
        tell_step("own models")
        clock.now = 11.0
        tell_step("own models")
    with pytest.raises(LeftOut, match="is up"):
        budget.check(FL)


def test_another_seed_is_begun_only_if_the_last_would_fit_again():
    clock = Clock()
    budget = TimeBudget(25.0, clock)
    spend(budget, clock, LOCAL_BEST, 10.0)
    budget.check_seed()
    spend(budget, clock, FL, 3.0)
    with pytest.raises(LeftOut, match="another seed takes about 13 s, time_limit leaves 12 s"):
        budget.check_seed()


def test_listeners_outside_are_told_too():
    seen = []
    with listen_to_rounds(lambda one: seen.append("outer")):
        with listen_to_rounds(lambda one: seen.append("inner")):
            tell_step("x")
        tell_step("x")
    assert seen == ["outer", "inner", "outer"]


@pytest.mark.parametrize("text", ["10", "m", "-3s", "0s", "ten minutes"])
def test_a_limit_that_is_no_time_is_refused(text):
    with pytest.raises(ConfigError, match="90s, 10m or 2h"):
        RunTable(time_limit=text)


def test_seeds_must_be_some():
    with pytest.raises(ConfigError, match="at least 1"):
        RunTable(seeds=0)
    assert read_duration("2 h") == 7200.0


def test_two_seeds_are_two_drawings_and_one_set_of_weights(tmp_path):
    gathering = small(tmp_path).with_run(approaches=("FL",), seeds=2)
    found = run_federation(gathering, tmp_path / "out")
    assert sorted({row["seed"] for row in found.rows}) == [0, 1]
    assert len(found.rows) == 2 * len(gathering.clients)
    again = []
    run_federation(gathering, tmp_path / "out", on_approach=lambda name, new: again.append(new))
    assert again == [False, False]


def test_under_a_limit_what_matters_comes_first(tmp_path):
    gathering = small(tmp_path).with_run(time_limit="10m")
    assert [one.name for one in plan_run(gathering)][:4] == ["local best", "P-KM", "FL", "lore"]
