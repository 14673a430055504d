"""Clip, noise and spending at the site; sums at the server."""

import hashlib
import math
from dataclasses import replace

import pytest
import torch
from scipy.stats import chi2

from fedlore import federate
from fedlore.algorithms import FedAvg
from fedlore.config import build
from fedlore.core import tree
from fedlore.core.aggregate import Mean, Median
from fedlore.core.wire import Reply, Task
from fedlore.engine import Local
from fedlore.errors import ConfigError, FedloreError
from fedlore.privacy.dp.budget import (
    BudgetSpent,
    Dp,
    Ledger,
    bare_line,
    check_dp,
    clip_upload,
    planned_line,
    spent_line,
)
from fedlore.privacy.dp.filter import NoiseFilter
from fedlore.privacy.dp.noise import gaussian, uniform
from fedlore.privacy.filters import guard_transport
from fedlore.testing.clients import small_recipe as recipe_for

from ..engine.federation import federation

ALARM = 1e-6  # the chance that a right variance is called wrong


def seeded(name: str):
    """Bytes as from the operating system, but the same in every test run."""
    count = iter(range(10**9))
    return lambda size: hashlib.shake_256(f"{name} {next(count)}".encode()).digest(size)


def assert_variance(sample, std):
    """Two-sided chi-square bounds on a sample of normal numbers with mean 0."""
    ratio = float(sample.double().square().sum()) / std**2
    assert chi2.ppf(ALARM / 2, sample.numel()) < ratio < chi2.isf(ALARM / 2, sample.numel())


def noising(dp, **changes):
    ledgers = {}
    settings = {"noise": dp.multiplier(4), "least": 3, "ledger": lambda n: ledgers[n]} | changes
    filter = NoiseFilter(dp, **settings)
    return replace(filter, ledger=lambda n: ledgers.setdefault(n, Ledger())), ledgers


DP = Dp(epsilon=4, delta=1e-5)
SENT = {"model": {"w": torch.zeros(300, 100), "b": torch.zeros(100)}}


class Still:
    """A transport whose clients upload the same thing, rows and scores besides."""

    def __init__(self, value=0.0, names=("a", "b", "c")):
        self.value, self.names = value, names

    def clients(self):
        return list(self.names)

    def exchange(self, task, to):
        upload = {k: {n: t + self.value for n, t in b.items()} for k, b in task.sent.items()}
        metrics = {"ta": 0.7} if task.kind == "evaluate" else {}
        upload = upload if task.kind == "train" else {}
        for name in to:
            yield Reply(name, task.round, upload, 77, metrics)


def mean_of(transport, task, names):
    replies = list(transport.exchange(task, names))
    return tree.mean((r.upload, float(len(r.names))) for r in replies), replies


def flat(payload):
    return torch.cat([t.reshape(-1) for b in payload.values() for t in b.values()])


def test_uniform_numbers_are_uniform():
    u = uniform(40_000, seeded("u"))
    assert 0 <= u.min() and u.max() < 1
    assert float(((torch.histc(u, 50, 0, 1) - 800) ** 2 / 800).sum()) < chi2.isf(ALARM, 49)
    assert uniform(0).shape == gaussian(0).shape == (0,)


def test_gaussian_numbers_are_normal():
    z = gaussian(60_000, seeded("z"))
    assert_variance(z, 1.0)
    assert abs(float(z.mean())) < 5 / math.sqrt(len(z))
    cells = torch.special.ndtr(z)  # uniform if normal
    counts = torch.histc(cells, 50, 0, 1)
    assert float(((counts - 1200) ** 2 / 1200).sum()) < chi2.isf(ALARM, 49)


def test_clipping_is_of_the_whole_upload():
    upload = {"model": {"w": torch.full((4,), 3.0)}, "control": {"w": torch.full((4,), 4.0)}}
    short = clip_upload(upload, 1.0)  # norms 6 and 8: together 10
    assert tree.norm(short["model"]) == pytest.approx(0.6, rel=1e-5)
    assert math.hypot(*(tree.norm(b) for b in short.values())) <= 1.0
    assert clip_upload(upload, 10.0) is upload
    with pytest.raises(FedloreError, match="not finite"):
        clip_upload({"model": {"w": torch.tensor([math.nan])}}, 1.0)


@pytest.mark.parametrize("where", ["distributed", "central"])
def test_the_sum_carries_noise_of_sigma_times_clip(where):
    dp = replace(DP, where=where, clip=0.5)
    filter, _ = noising(dp, entropy=seeded(where))
    transport = guard_transport(Still(), [filter])
    mean, replies = mean_of(transport, Task("train", 1, SENT), ["a", "b", "c"])
    assert_variance(3 * flat(mean), filter.noise * 0.5)
    assert all(r.rows != 77 for r in replies)


def test_noise_is_calibrated_to_the_smallest_cohort():
    filter, _ = noising(DP, least=2, entropy=seeded("least"))
    transport = guard_transport(Still(), [filter])
    two, _ = mean_of(transport, Task("train", 1, SENT), ["a", "b"])
    assert_variance(2 * flat(two), filter.noise)
    three, _ = mean_of(transport, Task("train", 2, SENT), ["a", "b", "c"])
    assert_variance(3 * flat(three), filter.noise * math.sqrt(3 / 2))  # more than promised


@pytest.mark.parametrize("where", ["distributed", "central"])
def test_a_cohort_below_the_smallest_is_void(where):
    filter, _ = noising(replace(DP, where=where))
    transport = guard_transport(Still(), [filter])
    assert list(transport.exchange(Task("train", 1, SENT), ["a", "b"])) == []


def test_central_noise_goes_on_sums_of_checked_uploads():
    dp = replace(DP, where="central")

    class Wild(Still):
        """Sites whose own half is broken: one upload too long, one misshapen, one NaN."""

        def exchange(self, task, to):
            bad = {
                "a": torch.full((100,), 3.0),
                "b": torch.zeros(7),
                "c": torch.full((100,), torch.nan),
            }
            for name in to:
                b = bad.get(name, torch.zeros(100))
                yield Reply(name, task.round, {"model": SENT["model"] | {"b": b}})

    filter, _ = noising(dp, least=2)
    names = ["a", "b", "c", "d", "e"]
    (reply,) = filter.over(Wild(names=names)).exchange(Task("train", 1, SENT), names)
    assert reply.members == ("d", "e") and reply.names == ("d", "e")


def test_the_same_question_gets_the_same_noise_and_is_paid_once():
    filter, ledgers = noising(DP)
    transport = guard_transport(Still(0.001), [filter])
    one, two = (flat(mean_of(transport, Task("train", 1, SENT), list("abc"))[0]) for _ in range(2))
    assert torch.equal(one, two)
    assert [len(ledger.entries()) for ledger in ledgers.values()] == [1, 1, 1]
    other, _ = mean_of(transport, Task("train", 2, SENT), list("abc"))
    assert not torch.equal(one, flat(other))
    assert [len(ledger.entries()) for ledger in ledgers.values()] == [2, 2, 2]


def test_sums_of_features_are_refused_and_scores_can_be():
    filter, _ = noising(DP)
    with pytest.raises(FedloreError, match="scale by the schema's declared bounds"):
        filter.site("a").outbound(Task("moments", 0), Reply("a", 0, {"moments": {}}))
    for scores in (True, False):
        filter, _ = noising(replace(DP, scores=scores))
        replies = guard_transport(Still(), [filter]).exchange(Task("evaluate", 1), ["a"])
        assert [bool(r.metrics) for r in replies] == [scores]


def test_record_level_writes_down_what_dp_sgd_did_and_lets_none_of_it_out():
    filter, _ = noising(replace(DP, level="record", noise=1.0))
    ledger = Ledger()
    half = replace(filter, ledger=lambda name: ledger).site("a")
    done = {"dp_noise": 1.1, "dp_steps": 30, "dp_sample": 0.1, "steps": 30}
    reply = half.outbound(Task("train", 1, SENT), Reply("a", 1, SENT, 77, done))
    assert reply.metrics == {"steps": 30} and reply.rows == 1
    assert flat(reply.upload).abs().max() == 0  # the noise is in the gradients already
    assert [(e.noise, e.steps, e.sample) for e in ledger.entries()] == [(1.1, 30, 0.1)]
    with pytest.raises(FedloreError, match="needs DP-SGD at the site"):
        half.outbound(Task("train", 2, SENT), Reply("a", 2, SENT))


def test_an_algorithm_that_uploads_nothing_pays_nothing():
    filter, ledgers = noising(DP)
    half = filter.site("a")
    assert half.outbound(Task("train", 1), Reply("a", 1, {}, 77)).rows == 1
    assert ledgers["a"].entries() == []
    with pytest.raises(FedloreError, match="unknown task 'decrypt'"):
        half.answer(Task("decrypt", 1))


@pytest.mark.parametrize("where", ["distributed", "central"])
def test_a_federation_with_noise_trains_and_reports_what_it_spent(where):
    recipe = recipe_for(FedAvg())
    dp = Dp(epsilon=8, delta=1e-5, where=where)
    filter, ledgers = noising(dp, noise=dp.multiplier(3))
    run = federate(guard_transport(Local(federation(), recipe), [filter]), recipe, 3)
    assert [row["merged"] for row in run.rows] == [3, 3, 3]
    line = spent_line(dp, list(ledgers.values()))
    assert line == "ε = 8 at δ = 1e-05, site level, 3 rounds, sampling 1.0"
    with pytest.raises(BudgetSpent):
        federate(guard_transport(Local(federation(), recipe), [filter]), recipe, 1)


def test_lines_for_rounds_to_come_and_for_open_uploads():
    noise = DP.multiplier(10)
    assert planned_line(DP, noise, 10, sample=0.5) == (
        "at most ε = 4 at δ = 1e-05, site level, 10 rounds, sampling 0.5"
    )
    record = replace(DP, level="record", epsilon=2.5)
    assert planned_line(record, 0.0, 10).startswith("at most ε = 2.5 at δ = 1e-05, record level")
    assert "its own share of the noise gives ε = 1" in bare_line(DP, noise, 9, 10)
    assert "trusted to add it" in bare_line(replace(DP, where="central"), noise, 9, 10)
    assert bare_line(record, 0.0, 9, 10) == ""


def test_other_noise_in_every_run_of_the_same_seed():
    found = []
    for _ in range(2):
        recipe = recipe_for(FedAvg())
        filter, _ = noising(DP)
        run = federate(guard_transport(Local(federation(), recipe), [filter]), recipe, 1)
        found.append(flat(run.state))
    assert (found[0] != found[1]).all()


def test_settings_are_read_from_a_table():
    dp = build(Dp, {"epsilon": 4, "delta": 1e-5, "level": "site"})
    assert dp == Dp(4.0, 1e-5) and dp.noise is None
    assert replace(dp, noise=2.0).multiplier(10) == 2.0


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"epsilon": 0}, "epsilon must be positive, got 0"),
        ({"epsilon": math.nan}, "epsilon must be positive, got nan"),
        ({"delta": 1.0}, r"delta must lie in \(0, 1\), got 1.0"),
        ({"level": "row"}, "level must be site or record, got 'row'"),
        ({"where": "both"}, "where must be distributed or central, got 'both'"),
        ({"clip": 0.0}, "clip must be positive and finite, got 0.0"),
        ({"noise": -1.0}, "noise must not be negative, got -1.0"),
        ({"noise": 0.0}, "noise 0 keeps no finite epsilon, got 4"),
    ],
)
def test_settings_without_a_guarantee_are_refused(changes, rule):
    with pytest.raises(ConfigError, match=rule):
        Dp(**({"epsilon": 4, "delta": 1e-5} | changes))


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"exact": True}, "Scaffold keeps sums over sites that clipped and noised uploads"),
        ({"weights": "size"}, "weights must be equal, got 'size'"),
        ({"aggregate": Median()}, "aggregate must be mean, got 'median'"),
    ],
)
def test_federations_without_a_guarantee_are_refused(changes, rule):
    plain = {"algorithm": "Scaffold", "exact": False, "weights": "equal", "aggregate": Mean()}
    check_dp(DP, **plain)
    if "weights" not in changes:
        check_dp(replace(DP, level="record"), **(plain | changes))
    with pytest.raises(ConfigError, match=rule):
        check_dp(DP, **(plain | changes))
    with pytest.raises(ConfigError, match="cohort must be at least 1, got 0"):
        NoiseFilter(DP, 1.0, 0, lambda name: Ledger())


def test_a_cohort_of_one_is_allowed():
    assert NoiseFilter(DP, 1.0, 1, lambda name: Ledger()).least == 1
