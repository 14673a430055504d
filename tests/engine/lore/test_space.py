"""Names of trials, and what they cost together."""

import pytest

from fedlore import ConfigError, FedloreError
from fedlore.engine.lore import (
    MAIN,
    NUMBERS,
    ORDERED,
    UNORDERED,
    Candidate,
    SearchSpace,
    Trial,
    cost,
    rungs,
)
from fedlore.engine.lore.space import RIVALS


@pytest.mark.parametrize("trial", [Trial(0, 0, 1), Trial(11, 2, 60), Trial(3, MAIN, 40)])
def test_a_trial_is_read_as_it_was_named(trial):
    assert Trial.read(str(trial)) == trial


@pytest.mark.parametrize("text", ["", "1/2", "a/0/3", "1/-1/3", "1/0/3/4", "main/main/main"])
def test_what_names_no_trial_is_refused(text):
    with pytest.raises(FedloreError, match="candidate/fold/rounds"):
        Trial.read(text)


@pytest.mark.parametrize("search_space", [UNORDERED, ORDERED, NUMBERS, ORDERED[:2], ORDERED[:3]])
@pytest.mark.parametrize("rounds", [1, 2, 5, 10, 40, 60, 100])
def test_at_most_five_trainings_come_before_the_main_one(search_space, rounds):
    assert cost(len(search_space), rounds, 3) <= 5.0
    for count, length in rungs(len(search_space), rounds):
        assert count >= 1 and 1 <= length <= rounds


def test_one_candidate_needs_no_rungs():
    assert rungs(1, 40) == []
    assert cost(1, 40, 3) == pytest.approx(2.0)


def test_every_candidate_of_the_usual_menus_is_tried():
    assert all(rungs(len(some), 20)[0][0] == len(some) for some in (ORDERED, UNORDERED, NUMBERS))
    assert all(rival in some for some in (ORDERED, UNORDERED, NUMBERS) for rival in RIVALS)


def test_bad_menus_are_named():
    with pytest.raises(ConfigError, match="slope belongs to head = shaped"):
        Candidate(slope=1.0)
    with pytest.raises(ConfigError, match="head = shaped has no reach"):
        Candidate(head="shaped", reach=0.1)
    with pytest.raises(ConfigError, match="slope must be positive and finite, got 0"):
        Candidate(head="shaped", slope=0.0).shaping(3)
    with pytest.raises(ConfigError, match="head must be classes, ordered or shaped, got 'hat'"):
        Candidate(head="hat")
    with pytest.raises(ConfigError, match="belong to head = ordered"):
        Candidate(private=True)
    with pytest.raises(ConfigError, match="at least one value"):
        SearchSpace(candidates=())
    with pytest.raises(ConfigError, match="folds must be at least 2, got 1"):
        SearchSpace(folds=1)
    with pytest.raises(ConfigError, match="one fixed candidate.*got 13 candidates"):
        SearchSpace().refuse_dp()
    SearchSpace().only(Candidate()).refuse_dp()
