"""Every demand of a site's policy, and every task outside its terms: refused, nothing else."""

import math
from dataclasses import replace

import pytest
import torch

from fedlore import ConfigError
from fedlore.algorithms import Plan
from fedlore.algorithms.catalog import Method
from fedlore.core.wire import Task
from fedlore.engine.lore import Candidate, default_space
from fedlore.federation.remote import Refusal
from fedlore.federation.settings import Model
from fedlore.federation.site.consent import describe_changes, find_breach, refuse_breach
from fedlore.federation.site.policy import Policy
from fedlore.federation.terms import Terms, fedlore_version, read_terms, version_of_terms
from fedlore.kernel.schema import Feature, Schema
from fedlore.privacy import Dp, Privacy

SCHEMA = Schema((Feature("x"), Feature("y")), ("a", "b"))
PLAIN = Terms(
    "run-1",
    "coke",
    fedlore_version(),
    participants=3,
    rounds=3,
    seed=7,
    weights="equal",
    schema=SCHEMA,
    model=Model(hidden=(3,)),
    algorithm=Method("scaffold"),
    plan=Plan(schedule="cosine", momentum=0.0),
    least=2,
)
SPACE = replace(default_space(2, ordered=True), candidates=(Candidate(), Candidate(True)), folds=2)
DP = Privacy(dp=Dp(2.0, 1e-4))
CENTRAL = Privacy(dp=Dp(2.0, 1e-4, level="site", where="central"))
MASKED = Privacy(secure_aggregation=True)


def space(**changes):
    return {"search_space": replace(SPACE, **changes)}


TRAIN, WIDE = Task("train", 1), (Candidate(hidden=(9,)),)


@pytest.mark.parametrize(
    ("changes", "policy", "met", "task", "reason"),
    [  # under these terms a policy refuses, and one that asks a little less does not
        ({}, {"min_participants": 4}, {"min_participants": 3}, TRAIN, "at least 4 .* has 3"),
        ({}, {"max_participants": 2}, {"max_participants": 3}, TRAIN, "at most 2 .* says 3"),
        ({}, {"max_rounds": 2}, {"max_rounds": 3}, TRAIN, "at most 2 rounds, asked for 3"),
        ({}, {"max_rounds": 3}, {"max_rounds": 4}, Task("train", 5), "at most 3 rounds"),
        ({}, {"moments": False}, {}, Task("moments", 0), "sums of features are not given away"),
        ({}, {"moments": False}, {}, Task("gram", 0), "sums of rows are not given away"),
        ({}, {"secure_aggregation": True}, {}, TRAIN, "secure aggregation is demanded"),
        ({}, {"max_epsilon": 1.0}, {}, TRAIN, "budget of at most 1.0, this run has None"),
        ({"privacy": DP}, {"max_epsilon": 1.9}, {"max_epsilon": 2.0}, TRAIN, "1.9, this .* 2.0"),
        ({"privacy": DP}, {"max_delta": 1e-5}, {"max_delta": 1e-4}, TRAIN, "1e-05 .* has 0.0001"),
        ({"privacy": CENTRAL}, {}, {"central_noise": True}, TRAIN, "noise is added here"),
        ({}, {"models": ("logistic",)}, {"models": ("mlp",)}, TRAIN, "model 'mlp' is not allowed$"),
        ({}, {"algorithms": ("fedavg",)}, {}, TRAIN, "algorithm 'scaffold' is not allowed$"),
        ({"model": Model("own")}, {}, {"models": ("own",)}, TRAIN, "not named in models"),
        ({"privacy": Privacy(filters={"v": {}})}, {}, {"filters": ("v",)}, TRAIN, "filter 'v' of"),
        ({}, {"max_parameters": 40}, {"max_parameters": 41}, TRAIN, "40 par.*, the model has 41"),
        (space(), {"max_steps": 79}, {"max_steps": 80}, TRAIN, "at most 79 .*, asked for 80"),
        (space(candidates=WIDE), {"max_parameters": 94}, {"max_parameters": 196}, TRAIN, "has 95"),
        (space(), {"max_parameters": 195}, {"max_parameters": 196}, TRAIN, "have up to 196"),
    ],
)
def test_a_policy_refuses_with_its_reason_and_not_before(changes, policy, met, task, reason):
    terms = replace(PLAIN, **changes)
    with pytest.raises(Refusal, match=reason):
        Policy(**policy).refuse(terms, task)
    Policy(**met).refuse(terms, task)


@pytest.mark.parametrize(
    ("changes", "taken", "reason"),
    [
        ({"version": "9.9"}, {}, "this site runs fedlore .*, the coordinator 9.9"),
        ({"least": 4}, {"least": 3}, "count on 4 answers in a round, and ask 3 sites"),
        ({"sample": 0.5, "least": 3}, {"sample": 0.5, "least": 2}, "count on 3 .* ask 2 sites"),
        ({"participants": 1, "least": 1}, {"participants": 2}, "at least 2 participants"),
        (space(folds=51), space(folds=50), "at most 50 folds, asked for 51"),
        (space(candidates=(Candidate(),) * 501), space(candidates=(Candidate(),) * 500), "got 501"),
    ],
)
def test_some_terms_no_policy_agrees_to(changes, taken, reason):
    with pytest.raises(Refusal, match=reason):
        Policy().refuse(replace(PLAIN, **changes), TRAIN)
    Policy().refuse(replace(PLAIN, **taken), TRAIN)


def test_work_is_refused_beyond_what_a_site_bears():
    plan = Plan(steps=5, finish=7)
    Policy(max_steps=7, max_parameters=9).refuse_work(plan, 10, 9)
    for policy, reason in [({"max_steps": 6}, "steps"), ({"max_parameters": 8}, "parameters")]:
        with pytest.raises(Refusal, match=f"policy: at most . .*{reason}, the .* has more"):
            Policy(**policy).refuse_work(plan, 10, 9)


def task(kind, round=0, trial="", *, rate=1.0, seed=7, **sent):
    return Task(kind, round, sent, trial=trial, seed=seed, rate=rate)


LAST = 0.25  # the cosine in the last of three rounds


@pytest.mark.parametrize(
    ("changes", "asked", "reason"),
    [  # of the trainings themselves tests/federation/test_chosen.py
        ({}, task("moments"), None),
        ({}, task("moments", 1), "asked for once, before the first round"),
        ({}, task("moments", shift=1.0), "asked for once, before the first round"),
        ({}, task("moments", trial="0/0/3"), "'moments' belongs to no trial, '0/0/3' was named"),
        ({}, task("hello"), None),  # filters answer for their own
        ({}, task("hello", trial="0/0/3"), "'hello' belongs to no trial"),
        ({}, task("train", 1), None),
        ({}, task("train", 3, rate=LAST), None),
        ({}, task("train", 0), "'train' of round 0 was asked for, the terms have 3"),
        ({}, task("train", 4), "'train' of round 4 was asked for, the terms have 3"),
        ({}, task("evaluate", 4), None),
        ({}, task("evaluate", 5), "'evaluate' of round 5 was asked for"),
        ({}, task("finish", 4, rate=LAST), None),
        ({}, task("train", 1, seed=8), "seed 8 was asked for, the terms have 7"),
        ({}, task("train", 1, rate=0.5), "came with 0.5 times the learning rate, the plan has 1"),
        ({}, task("train", 1, rate=1 + 1e-8), "times the learning rate"),
        ({}, task("train", 1, rate=1 + 1e-10), None),
        ({}, task("train", 1, rate=math.nan), "came with nan times"),
        ({}, task("gram"), "and these terms have no candidates"),
        ({}, task("train", 1, "0/0/3"), "and these terms have no candidates"),
        (space(), task("train", 1, "0/0/3"), None),
        (space(), task("train", 0, "0/0/3"), "'train' does not belong to round 0 of 0/0/3"),
        (space(), task("evaluate", 1, "0/main/3"), None),
        (space(), task("evaluate", 4, "0/main/3"), None),
        (space(), task("evaluate", 0, "0/main/3"), "does not belong"),
        (space(), task("evaluate", 5, "0/main/3"), "does not belong"),
        (space(), task("ensemble", 4, "0/main/3"), None),
        (space(), task("ensemble", 3, "0/main/3"), "does not belong"),
        (space(), task("vote", 3, "0/1/3"), None),
        (space(), task("vote"), None),
        (space(links=()), task("vote"), "a vote on links was asked for, and these terms have none"),
        (space(one_shot=None), task("vote"), "these terms have no one-shot model"),
        (space(), task("train", 1, "x" * 50), f"fold/rounds, got '{'x' * 40}'"),
    ],
)
def test_a_task_outside_the_terms_is_refused_with_its_reason(changes, asked, reason):
    found = find_breach(replace(PLAIN, **changes), asked)
    assert found is reason is None or reason in found


def test_values_that_are_not_finite_are_refused_whatever_the_task():
    refuse_breach(PLAIN, task("train", 1))
    with pytest.raises(Refusal, match="'train' of round 1 came with values that are not finite"):
        refuse_breach(PLAIN, task("train", 1, net={"w": torch.tensor(math.nan)}))


def test_what_is_new_in_terms_is_shown_value_by_value():
    assert describe_changes(PLAIN, replace(PLAIN, run="2", participants=9, version="9")) == []
    after = replace(PLAIN, rounds=4, model=Model("own", settings={"a\n": {"b": 1}}))
    changed = describe_changes(PLAIN, after)
    assert "rounds: 3 -> 4" in changed and 'model.kind: "mlp" -> "own"' in changed
    assert 'model.settings.a\\n.b: "nothing" -> 1' in changed
    assert "rounds = 3" in describe_changes(None, PLAIN)


def test_terms_name_the_version_that_wrote_them_and_say_what_cannot_be_read():
    assert version_of_terms(PLAIN.text()) == fedlore_version()
    for text in ("[]", "{}", "no", '{"version": 1}', '{"version": "a b"}', '{"version": ""}'):
        assert version_of_terms(text) is None
    assert version_of_terms('{"version": "' + "1" * 40 + '"}') == "1" * 40
    assert version_of_terms('{"version": "' + "1" * 41 + '"}') is None
    for text in ("no", "[]"):
        with pytest.raises(ConfigError):
            read_terms(text)
    assert read_terms(PLAIN.text()) == PLAIN
