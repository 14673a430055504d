"""A coordinator that lies: nothing leaves a site that its owner did not agree to."""

import multiprocessing
import time
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from fedlore.cli.app import app
from fedlore.core.wire import Task
from fedlore.engine.lore import SearchSpace
from fedlore.engine.lore.space import Candidate
from fedlore.errors import FedloreError
from fedlore.federation.processes import limit_memory
from fedlore.federation.remote import Refusal
from fedlore.federation.settings import read_deployed
from fedlore.federation.site import worker as worker_module
from fedlore.federation.site.audit import DAY, REPEATS, AuditLog, Questions
from fedlore.federation.site.consent import accept_terms, describe_changes
from fedlore.federation.site.doctor import examine
from fedlore.federation.site.folder import read_kit
from fedlore.federation.site.policy import Policy
from fedlore.federation.site.session import join_federation
from fedlore.federation.site.worker import Worker
from fedlore.federation.terms import terms_of
from fedlore.privacy import Dp, Privacy
from fedlore.privacy.ckks.cipher import write_key
from fedlore.privacy.dp.budget import Ledger
from fedlore.privacy.filters import OpenedSums
from fedlore.privacy.secagg.filter import SecureAggregation
from fedlore_coke.starter import make_trial

from .inside import audit_lines, first_task, small
from .test_masked import masked


@pytest.fixture
def folder(tmp_path):
    return small(tmp_path / "fed")


@pytest.fixture
def home(folder):
    return folder / "sites" / "plant-1"


def terms_in(folder, **changes):
    return replace(terms_of(read_deployed(folder), run="run-1", participants=3), **changes)


def agreed(home, terms, **policy):
    """A worker whose owner has agreed to the terms, with its own policy where one is given."""
    accept_terms(read_kit(home), terms)
    kit = read_kit(home)
    return Worker(replace(kit, file=replace(kit.file, policy=replace(kit.file.policy, **policy))))


def test_terms_that_were_not_agreed_to_get_nothing_until_the_owner_accepts_them(folder, home):
    other = terms_in(folder, rounds=4)
    worker = Worker(read_kit(home))
    for kind in ("train", "evaluate", "finish"):
        with pytest.raises(Refusal, match="are not those that this site agreed to"):
            worker(first_task(other, kind), other.text())
    assert {line["event"] for line in audit_lines(home)} == {"refused"}
    checks = {check.name: check for check in examine(home)}
    assert not checks["terms"].fine and "fedlore accept" in checks["terms"].detail

    shown = CliRunner().invoke(app, ["accept", str(home)], input="n\n")
    assert shown.exit_code == 1 and "rounds: 3 -> 4" in shown.output
    with pytest.raises(Refusal, match="agreed to"):
        worker(first_task(other), other.text())
    said = CliRunner().invoke(app, ["accept", str(home), "--yes"])
    assert said.exit_code == 0 and other.fingerprint()[:12] in said.output
    assert worker(first_task(other), other.text()).upload  # the same process: no restart is needed
    checks = {check.name: check for check in examine(home)}
    assert checks["terms"].fine and other.fingerprint()[:12] in checks["terms"].detail
    with pytest.raises(Refusal, match="agreed to"):  # and what was agreed to before no longer is
        worker(first_task(terms_in(folder)), terms_in(folder).text())


@pytest.mark.parametrize("privacy", [Privacy(), Privacy(encryption="ckks")], ids=["bare", "ckks"])
def test_terms_that_the_policy_refuses_can_be_looked_at_and_accepted(folder, home, privacy):
    """An owner who is told that his policy refuses them has a way out of it."""
    other = terms_in(folder, privacy=Privacy(secure_aggregation=True))
    accept_terms(read_kit(home), other, policy=True)
    bare, worker = terms_in(folder, privacy=privacy), Worker(read_kit(home))
    write_key(home / "ckks.key")
    with pytest.raises(Refusal, match="policy: secure aggregation is demanded"):
        worker(first_task(bare), bare.text())
    said = CliRunner().invoke(app, ["accept", str(home), "--yes", "--policy"])
    assert said.exit_code == 0 and bare.fingerprint()[:12] in said.output
    assert Worker(read_kit(home))(first_task(bare), bare.text()).upload


def test_what_changes_from_run_to_run_needs_no_new_consent(folder):
    terms = terms_in(folder)
    for same in (
        {"run": "x"},
        {"participants": 9, "least": 5},
        {"shift": (1.0,), "spread": (2.0,)},
    ):
        assert replace(terms, **same).fingerprint() == terms.fingerprint()
    privacy = Privacy(secure_aggregation=True)
    for other in ({"largest": 1e9}, {"sample": 0.5}, {"privacy": privacy}, {"seed": 1}):
        assert replace(terms, **other).fingerprint() != terms.fingerprint()
        assert len(describe_changes(terms, replace(terms, **other))) == 1


def test_terms_are_shown_without_what_they_would_do_to_a_screen(folder):
    terms = terms_in(folder)
    odd = replace(terms.model, kind="theirs", settings={"\x1b[2J\nrounds: 3 -> 3": "\x1b[0m"})
    for before in (terms, None):
        lines = describe_changes(before, replace(terms, model=odd))
        assert any("u001b" in line for line in lines) and all(line.isprintable() for line in lines)


def test_a_kit_that_has_agreed_to_nothing_does_not_join(home):
    text = (home / "site.toml").read_text()
    (home / "site.toml").write_text("\n".join(x for x in text.split("\n") if "agreed" not in x))
    with pytest.raises(FedloreError, match="has not accepted any terms yet"):
        join_federation(home, stop=None, say=print)
    assert "schema" in CliRunner().invoke(app, ["accept", str(home), "--yes"]).output
    assert read_kit(home).file.agreed is not None
    assert (home / "site.toml").read_text().count("agreed") == 1


def test_a_kit_demands_what_init_promised(tmp_path):
    """Sums alone, this model, this algorithm: also an owner who accepts anything is asked again."""
    folder = tmp_path / "fed"
    make_trial(folder, sites=3, address="127.0.0.1:9", rounds=2, test_rows=20)
    home = folder / "sites" / "plant-1"
    policy = read_kit(home).file.policy
    assert policy.secure_aggregation and policy.models == ("mlp",)
    assert policy.algorithms == ("fedper",)
    promised = terms_in(folder)
    assert read_kit(home).file.agreed == promised.fingerprint()
    bare = replace(promised, privacy=Privacy())
    accept_terms(read_kit(home), bare)
    with pytest.raises(Refusal, match="secure aggregation is demanded"):
        Worker(read_kit(home))(first_task(bare), bare.text())
    plain = replace(bare, algorithm=replace(bare.algorithm, name="fedavg", settings={}))
    accept_terms(read_kit(home), plain, policy=True)  # and now he has said so in so many words
    assert Worker(read_kit(home))(first_task(plain), plain.text()).upload


def test_two_hundred_questions_of_one_round_are_not_answered(folder, home):
    terms = terms_in(folder)
    answered, worker = 0, Worker(read_kit(home))
    for number in range(200):
        if number % 50 == 0:  # restarts do not help
            worker = Worker(read_kit(home))
        try:
            worker(first_task(terms, shift=number * 1e-3), terms.text())
            answered += 1
        except Refusal as refusal:
            assert "answered for 3 other models already" in str(refusal)
    assert answered == REPEATS
    assert worker(first_task(terms, shift=0.0), terms.text()).upload  # the very same one again


def test_another_scaling_makes_another_question(folder, home):
    """It is no part of what was agreed to: else it could be turned as often as one likes."""
    plain, worker, answered = terms_in(folder), Worker(read_kit(home)), 0
    features = len(plain.schema.features)
    for number in range(8):
        spread = (1.0 + number,) * features
        terms = replace(plain, shift=(0.0,) * features, spread=spread)
        for shift in (0.0, 1.0):  # in turns, so that no stored answer is given again
            try:
                worker(first_task(plain, shift=shift), terms.text())
                answered += 1
            except Refusal as refusal:
                assert "answered for 3 other models already" in str(refusal)
    assert answered == REPEATS


def test_who_asks_in_vain_is_answered_slowly(folder, home, monkeypatch):
    slept, terms = [], terms_in(folder)
    monkeypatch.setattr(worker_module, "_VAIN", 3)
    monkeypatch.setattr(worker_module.time, "sleep", slept.append)
    worker = Worker(read_kit(home))
    for _ in range(5):
        with pytest.raises(Refusal):
            worker(Task("moments", 1), terms.text())
    assert slept == [1.0, 1.0]
    assert worker(first_task(terms), terms.text()).upload
    with pytest.raises(Refusal):
        worker(Task("moments", 1), terms.text())
    assert slept == [1.0, 1.0]


def test_rounds_that_the_terms_do_not_have_are_not_answered(folder, home):
    terms, worker = terms_in(folder), Worker(read_kit(home))
    for kind, round in (("train", 4), ("train", 0), ("evaluate", 5), ("evaluate", -1)):
        with pytest.raises(Refusal, match="the terms have 3"):
            worker(first_task(terms, kind, round), terms.text())
    with pytest.raises(Refusal, match="once, before the first round"):
        worker(Task("moments", 1), terms.text())


def test_questions_are_counted_whatever_the_runs_are_called(tmp_path):
    now = [0.0]

    def questions(run):
        return Questions(AuditLog(tmp_path / "asked"), run, lambda: now[0])

    for run in range(5):
        questions(f"run {run}").allow(Task("train", 1), "terms", most=5)
    sixth = questions("another")
    with pytest.raises(Refusal, match="at most 5 questions a day"):
        sixth.allow(Task("train", 1), "terms", most=5)
    now[0] = DAY + 1.0
    sixth.allow(Task("train", 1), "terms", most=5)
    with open(tmp_path / "asked", "a") as file:
        file.write('{"at": 1.0, "ru')  # a crash in the middle of a line
    questions("after").allow(Task("train", 1), "terms", most=5)
    with pytest.raises(Refusal, match="at most 2 questions"):  # none was lost with that line
        questions("last").allow(Task("train", 1), "terms", most=2)


DP = Dp(1.0, 1e-5)
LOUD = Dp(8.0, 1e-5, level="record", noise=0.001)
#: What a coordinator may write into its terms, and what a site says that has agreed to them.
BEYOND = [
    ({"participants": 10**8}, "at most 1000 participants, this federation says 100000000"),
    ({"least": 10**8, "privacy": Privacy(dp=DP)}, "count on 100000000 answers in a round"),
    ({"least": 3, "sample": 0.5, "privacy": Privacy(dp=DP)}, "count on 3 answers"),
    ({"privacy": Privacy(dp=replace(DP, delta=0.99))}, "delta of at most 0.001"),
    ({"privacy": Privacy(dp=replace(DP, where="central"))}, "leaves it to the coordinator"),
    ({"privacy": Privacy(dp=LOUD)}, "budget is spent"),  # and is counted at once
    ({"search_space": SearchSpace(folds=10**9)}, "at most 50 folds"),
    ({"search_space": SearchSpace(finishes=(10**9,))}, "at most 100000 local steps"),
    (
        {"search_space": SearchSpace((Candidate(hidden=(60_000, 60_000)),))},
        "at most 10000000 parameters",
    ),
    ({"rounds": 10**6}, "at most 1000 rounds"),
    ({"model": ("hidden", (60_000, 60_000))}, "at most 10000000 parameters, the model has 3"),
    ({"plan": ("epochs", 10**9)}, "at most 100000 local steps"),
    ({"plan": ("finish", 10**9)}, "at most 100000 local steps"),
]


def changed(terms, changes):
    """Terms with a field set, or with a field of one of their tables."""
    inner = {k: replace(getattr(terms, k), **{v[0]: v[1]}) for k, v in changes.items()
             if isinstance(v, tuple)}  # fmt: skip
    return replace(terms, **{**changes, **inner})


@pytest.mark.parametrize(("changes", "reason"), BEYOND)
def test_terms_beyond_the_policy_are_refused_even_when_agreed_to(folder, home, changes, reason):
    """Before any of the work is begun: most of it would never end, or take all memory."""
    terms = changed(terms_in(folder), changes)
    with pytest.raises(Refusal, match=reason):
        agreed(home, terms)(first_task(terms_in(folder)), terms.text())
    assert audit_lines(home)[-1]["event"] == "refused"


def test_a_task_that_takes_too_long_is_cut_off_and_the_site_goes_on(folder, home, monkeypatch):
    terms = terms_in(folder)
    worker, usual = agreed(home, terms, max_seconds=0.3), worker_module.answer

    def endless(*_):
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(worker_module, "answer", endless)
    with pytest.raises(FedloreError, match="took longer than 0.3 s"):
        worker(first_task(terms), terms.text())
    monkeypatch.setattr(worker_module, "answer", usual)
    assert agreed(home, terms)(first_task(terms), terms.text()).upload


@pytest.mark.slow
def test_memory_has_an_end():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_greedy) == "refused"


def _greedy():
    limit_memory(200)
    try:
        torch.ones(500_000_000)
    except (RuntimeError, MemoryError):
        return "refused"
    return "given"


def test_a_bare_upload_carries_all_of_the_noise_that_the_ledger_books(folder, home):
    """No share of it: a site cannot see whether the others added theirs."""
    dp = Dp(1.0, 1e-5, clip=1e-6)  # so that next to nothing but noise is left
    terms = terms_in(folder, privacy=Privacy(dp=dp), least=3)
    upload = agreed(home, terms)(first_task(terms), terms.text()).upload["model"]
    (entry,) = Ledger(home / "ledger.json").entries()
    spread = float(torch.cat([t.flatten() for t in upload.values()]).double().std())
    assert spread == pytest.approx(entry.noise * dp.clip, rel=0.15)


class Lying:
    """A way to the workers on which some answers to `train` get lost on purpose."""

    def __init__(self, workers, text, lost=(), silent=()):
        self.workers, self.text, self.lost, self.silent = workers, text, lost, silent
        self.refusals = []

    def clients(self):
        return sorted(self.workers)

    def exchange(self, task, to):
        for name in to:
            if task.kind in self.silent or (task.kind == "train" and name in self.lost):
                continue
            try:
                yield self.workers[name](task, self.text)
            except Refusal as refusal:
                self.refusals.append(str(refusal))


def test_of_the_same_weights_no_second_sum_is_opened(tmp_path):
    """The sum of four and that of three of them would tell the fourth's upload exactly."""
    folder = masked(tmp_path / "fed", sites=4)
    terms = terms_of(read_deployed(folder), run="x", participants=4)
    homes = sorted((folder / "sites").iterdir())
    names = [home.name for home in homes]

    def summed(shift=0.0, **lies):
        task = first_task(terms, shift=shift)
        way = Lying({h.name: Worker(read_kit(h)) for h in homes}, terms.text(), **lies)
        return [
            r.names for r in SecureAggregation(asked=4, run="x").over(way).exchange(task, names)
        ], way.refusals

    # void before anybody gave a share: it may be repeated, with whoever is left
    assert summed(silent=("unmask",)) == ([], [])
    assert summed(silent=("unmask",), lost=names[:1]) == ([], [])
    assert summed() == ([tuple(names)], [])
    found, refusals = summed(lost=names[3:])  # also after a restart of every site
    assert found == [] and len(refusals) == 3
    assert all("it would tell single uploads" in reason for reason in refusals)
    assert summed() == ([tuple(names)], [])  # the same sum again tells nothing new
    # weights that are next to the same give next to the same uploads
    found, refusals = summed(1e-6, lost=names[3:])
    assert found == [] and len(refusals) == 3


class Mute(Lying):
    """The same where one site is killed before it answers `unmask`."""

    def exchange(self, task, to):
        yield from super().exchange(task, [n for n in to if task.kind != "unmask" or n not in MUTE])


MUTE = ("plant-3",)


def test_a_sum_that_was_opened_by_half_is_opened_over_the_same_sites(tmp_path):
    """A coordinator that was killed, or lost a site, asks for no other: nobody could open it."""
    folder = masked(tmp_path / "fed", sites=4)
    terms = terms_of(read_deployed(folder), run="x", participants=4)
    workers = {home.name: Worker(read_kit(home)) for home in sorted((folder / "sites").iterdir())}
    names = sorted(workers)

    def summed(way):
        opened = OpenedSums(tmp_path / "opened.json", "x")  # as after a start anew
        masks = SecureAggregation(asked=4, run="x", opened=opened)
        return [r.names for r in masks.over(way).exchange(first_task(terms), names)]

    assert summed(Mute(workers, terms.text(), lost=names[3:])) == []
    assert summed(Lying(workers, terms.text(), lost=names[:1])) == []  # one of them is away
    way = Lying(workers, terms.text())
    assert summed(way) == [tuple(names[:3])] and way.refusals == []
    assert OpenedSums(tmp_path / "opened.json", "y").before(first_task(terms), ()) == ()
    bare = SecureAggregation(asked=4, run="x").over(way)
    assert list(bare.exchange(first_task(terms), names)) == [] and len(way.refusals) == 3


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"seed": 7}, "seed 7 was asked for, the terms have 0"),
        ({"rate": 1e6}, "came with 1e\\+06 times the learning rate, the plan has 1"),
        ({"rate": float("nan")}, "came with nan times"),
        ({"rate": -1.0}, "came with -1 times"),
        ({"round": 2}, "came with 1 times the learning rate, the plan has 0.75"),
    ],
)
def test_a_training_by_another_plan_is_not_answered(folder, home, changes, reason):
    """A rate of a million blows an upload up, and a seed of one's choice draws other batches."""
    terms = terms_in(folder)
    with pytest.raises(Refusal, match=reason):
        Worker(read_kit(home))(replace(first_task(terms), **changes), terms.text())


def test_policies_have_bounds_by_themselves():
    policy = Policy()
    assert policy.max_parameters and policy.max_steps and policy.max_seconds
    assert not policy.central_noise
