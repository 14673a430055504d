"""A deployed federation that chooses its recipe: the same models as in one process."""

import json
import stat
from dataclasses import replace

import pytest
import torch

from fedlore import ConfigError, FedloreError
from fedlore.algorithms.catalog import Method
from fedlore.core.scaler import from_moments
from fedlore.core.wire import Reply, Task
from fedlore.engine.lore import ORDERED, Candidate, SearchSpace, SiteModel, Trial, train_lore
from fedlore.engine.training import Training
from fedlore.federation.coordinator.status import read_status
from fedlore.federation.household import local_sites
from fedlore.federation.journal import Journal, read_state
from fedlore.federation.remote import Refusal
from fedlore.federation.settings import Federation, read_deployed
from fedlore.federation.site.consent import accept_terms, agreed_trials, find_breach
from fedlore.federation.site.export import bundle_of_kit
from fedlore.federation.site.folder import Store, read_kit
from fedlore.federation.site.lore import personal_of, write_model
from fedlore.federation.site.worker import Worker
from fedlore.federation.terms import read_terms, terms_of
from fedlore.models.ensemble import Ensemble
from fedlore.models.own.linear import Linear
from fedlore.models.own.members import OrderMember, see_order
from fedlore.privacy import Dp, Privacy
from fedlore.privacy.dp.budget import Ledger

from .inside import Crash, Inside, around, audit_lines, edited, small

MENU = """
[search_space]
folds = 2
own = false
finishes = [0, 5]
one_shot = {basis = {terms = "linear", curves = 1}}
links = [{around = "middle", share = 0.9}, {around = "expert", share = 0.6}]
candidates = [
  {hears = true, head = "ordered", private = true, hidden = [4], lr = 0.01},
  {hears = true, plain = 0.5, reread = true},
]

[model]"""

BENT = {"one_shot": {"mean": torch.zeros(16), "link": torch.tensor(1)}}
BEGUN = {"starts": {"shares": torch.tensor([[0.2, 0.3, 0.5]])}}

#: Only the candidate of which a part stays at each site, in the trials too.
PRIVATE = MENU.replace(MENU[MENU.index("  {hears = true, plain") : MENU.index("]\n\n[model]")], "")


def chosen(folder, *, sites=4, search_space=MENU, secure=False):
    """A small federation that chooses."""
    small(folder, sites=sites, rounds=3)
    edited(
        folder / "federation.toml",
        ('recipe = "none"', 'recipe = "lore"'),
        ("\n[model]", search_space),
    )
    if secure:
        edited(
            folder / "federation.toml",
            ("secure_aggregation = false", "secure_aggregation = true"),
            ("deadline = 1.0", "deadline = 20.0"),
        )
    return folder


@pytest.fixture(scope="module")
def inprocess(tmp_path_factory):
    """The same federation by one call in this process."""
    return at_once(chosen(tmp_path_factory.mktemp("one") / "fed"))


def at_once(folder, privacy=None):
    f = read_deployed(folder)
    clients = [read_kit(home).client(f.schema) for home in local_sites(folder)]
    training = Training(
        rounds=f.rounds,
        plan=f.plan,
        seed=f.seed,
        algorithm=Method("fedavg").make(),
        scale=True,
        engine="local",
        evaluate=f.rounds,
        privacy=privacy,
    )
    return train_lore(clients, training, search_space=f.offered(), hidden=f.model.hidden)


def own_models(folder):
    found = {}
    for home in local_sites(folder):
        kit = read_kit(home)
        about, payload = read_state(home / "personal.weights")
        found[home.name] = personal_of(kit, about, payload, read_terms(about["terms"]))
    return found


def probabilities(model, folder, name):
    kit = read_kit(folder / "sites" / name)
    return model.predict_proba(kit.client(read_deployed(folder).schema).test.x)


def check_same(folder, fitted, *, within=0.0):
    for name, model in own_models(folder).items():
        other = fitted.model(name)
        for key, weights in model.model.state_dict().items():
            assert float((weights - other.model.state_dict()[key]).abs().max()) <= within
        mine, theirs = (probabilities(m, folder, name) for m in (model, other))
        assert float((mine - theirs).abs().max()) <= 100 * within
        assert model.ensemble is not None and len(model.ensemble.members) >= 1


def scores(rows):
    return {r["client"]: {k: r[k] for k in ("ta", "nll", "pov")} for r in rows if "client" in r}


def test_each_site_has_the_bits_of_the_run_in_one_process(tmp_path, monkeypatch, inprocess):
    folder = chosen(tmp_path / "fed")
    inside, lines = Inside(folder, monkeypatch), []
    run = inside.train(line=lines.append)
    check_same(folder, inprocess)
    for name, model in own_models(folder).items():
        mine, other = model.ensemble, inprocess.model(name).ensemble
        assert (mine.network, mine.weights) == (other.network, other.weights)
        assert bundle_of_kit(folder / "sites" / name).personal.ensemble.weights == mine.weights
    assert scores(run.rows) == scores(inprocess.run.rows)
    losses = {r["trial"]: r["loss"] for r in run.rows if "trial" in r}
    assert losses == {r["trial"]: r["loss"] for r in inprocess.run.rows if "trial" in r}
    assert any("trial 0/0/3" in line for line in lines)
    assert lines[-1] == "every site has its own model"


@pytest.mark.slow
def test_what_a_site_kept_of_its_folds_is_there_when_it_settles(tmp_path, monkeypatch):
    folder = chosen(tmp_path / "fed", search_space=PRIVATE)
    inside = Inside(folder, monkeypatch)
    with pytest.raises(Crash):
        inside.train(line=crash_at("main/3"))
    inside.restart()
    inside.train(resume=True)
    fitted = at_once(folder)
    check_same(folder, fitted)
    for name, model in own_models(folder).items():
        assert model.ensemble.inverse_temperature == fitted.model(name).ensemble.inverse_temperature
        assert model.ensemble.network == fitted.model(name).ensemble.network
        assert float(model.model.own.shift.detach()) != 0.0


def crash_at(words):
    def line(text):
        if words in text:
            raise Crash

    return line


def test_a_reread_expert_is_kept_with_the_site(tmp_path, monkeypatch):
    only = MENU.replace(MENU[MENU.index("  {") : MENU.index("  {hears = true, plain")], "")
    folder = chosen(tmp_path / "fed", sites=3, search_space=only)
    told = scores(Inside(folder, monkeypatch).train().rows)
    for name, model in own_models(folder).items():
        about, payload = read_state(folder / "sites" / name / "personal.weights")
        assert "confusion" in payload and about["trial"] == "0/main/3"
        assert torch.equal(model.knowledge.prediction.confusion, payload["confusion"]["rows"])
        y = read_kit(folder / "sites" / name).client(read_deployed(folder).schema).test.y
        said = probabilities(model, folder, name)  # what a user of this model gets
        likely = said.gather(1, y[:, None]).log().clamp(min=-20).mean()
        assert told[name]["nll"] == pytest.approx(-float(likely), rel=1e-4)
        assert told[name]["ta"] == float((said.argmax(1) == y).double().mean())


PLACES = ("a round", "the one-shot model", "trial 0/0/3", "main/3")


@pytest.mark.slow
@pytest.mark.parametrize("after", PLACES)
def test_resuming_in_the_middle_changes_nothing(tmp_path, monkeypatch, inprocess, after):
    folder = chosen(tmp_path / "fed")
    inside, trains, lines = Inside(folder, monkeypatch), [], []

    def notice(found):
        trains.append(found.kind == "train")
        if after == "a round" and sum(trains) == 4 * 5 + 1:  # the second trial's third
            raise Crash

    with pytest.raises(Crash):
        inside.train(line=crash_at(after), notice=notice)
    before = {step.name for step in Journal(folder / "journal").steps()[0].values()}
    inside.restart()
    asked = []
    inside.wrap = dict.fromkeys(inside.workers, around(asked.append))
    inside.train(resume=True, line=lines.append)
    assert "resuming run" in lines[0]
    again = [t for t in asked if t.kind in ("train", "vote") and "starts" not in t.sent]
    assert not before & {task.trial for task in again}  # after the main one starts are voted on
    if after == "a round":
        rounds = [t.round for t in asked if (t.kind, t.trial) == ("train", "1/0/3")]
        assert set(rounds) == {3}
    check_same(folder, inprocess)


@pytest.mark.slow
def test_a_damaged_step_is_done_again(tmp_path, monkeypatch, inprocess):
    folder = chosen(tmp_path / "fed")
    inside, lines = Inside(folder, monkeypatch), []

    with pytest.raises(Crash):
        inside.train(line=crash_at("trial 1/0/3"))
    path = sorted((folder / "journal").glob("step-*"))[1]
    path.write_bytes(path.read_bytes()[:-9])
    inside.train(resume=True, line=lines.append)
    assert "that step is done again" in lines[0]
    check_same(folder, inprocess)


@pytest.mark.slow
def test_a_site_that_was_away_at_the_end_settles_when_asked_again(tmp_path, monkeypatch, inprocess):
    folder = chosen(tmp_path / "fed")
    inside, lines = Inside(folder, monkeypatch), []

    def away(task):
        if task.kind == "ensemble":
            raise RuntimeError("away")

    inside.wrap["plant-2"] = around(away)
    inside.train(line=lines.append)
    assert "plant-2 did not settle" in lines[-1]
    assert not (folder / "sites" / "plant-2" / "personal.weights").exists()
    first = (folder / "sites" / "plant-1" / "personal.weights").stat().st_mtime_ns
    inside.wrap.clear()
    inside.train(resume=True)
    check_same(folder, inprocess)
    assert (folder / "sites" / "plant-1" / "personal.weights").stat().st_mtime_ns == first


def test_what_is_private_stays_readable_by_its_owner_alone(tmp_path, monkeypatch):
    folder = chosen(tmp_path / "fed", sites=3)
    inside = Inside(folder, monkeypatch)
    inside.train()
    for home in local_sites(folder):
        for name in ("personal.weights", "benefit.json"):
            assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
        told = json.loads((home / "benefit.json").read_text())
        assert "Taking part" in told["sentence"] and told["sentence"].encode() not in b"".join(
            inside.wire
        )
        left = sorted(p.name.partition("-")[0] for p in (home / "state").glob("*-*"))
        # what the folds left and the versions of the main training, nothing of other trials
        assert left.count("final") <= 4 and left.count("reply") == 1 and left.count("memory") == 3


@pytest.fixture(scope="module")
def terms(tmp_path_factory):
    folder = chosen(tmp_path_factory.mktemp("terms") / "fed", sites=3)
    return terms_of(read_deployed(folder), run="r", participants=3)


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (Task("train", 1, trial="2/0/3"), "trial '2/0/3' is not one of those agreed to"),
        (Task("train", 1, trial="0/2/3"), "not one of those agreed"),
        (Task("train", 1, trial="0/0/2"), "not one of those agreed"),
        (Task("train", 1, trial="00/0/3"), "not one of those agreed"),
        (Task("train", 1, trial="../0/3"), "candidate/fold/rounds"),
        (Task("train", 1), "candidate/fold/rounds"),
        (Task("train", 4, trial="0/0/3"), "does not belong to round 4"),
        (Task("vote", 2, trial="0/0/3"), "does not belong to round 2"),
        (Task("vote", 3, trial="0/main/3"), "does not belong"),
        (Task("vote", 4, trial="0/main/3"), "does not belong"),
        (Task("vote", 3, BEGUN, trial="0/main/3"), "does not belong"),
        (Task("vote", 3, BEGUN, trial="0/0/3"), "does not belong"),
        (Task("ensemble", 4, trial="0/0/3"), "does not belong"),
        (Task("evaluate", 3, trial="0/0/3"), "does not belong"),
        (Task("finish", 4, trial="0/main/3"), "chosen in private"),
        (Task("gram", 0, trial="0/0/3"), "no one-shot model"),
        (Task("gram", 4, BENT), "sums of rows for step 4 were asked for, 4 are agreed"),
        (Task("gram", -1, BENT), "sums of rows for step -1"),
        (Task("gram", 0, BENT), "sums of rows for step 0"),
        (Task("gram", 2), "sums of rows for step 2"),
        (Task("moments", 0, trial="0/0/3"), "belongs to no trial"),
    ],
    ids=lambda value: f"{value.kind} {value.trial}" if isinstance(value, Task) else "",
)
def test_a_lying_coordinator_is_refused(terms, task, reason):
    assert reason in find_breach(terms, task)


def test_what_the_server_asks_is_agreed_to(terms):
    trials = {"0/0/3", "1/0/3", "0/1/3", "1/1/3", "0/main/3", "1/main/3"}
    assert {str(trial) for trial in agreed_trials(terms)} == trials
    assert find_breach(terms, Task("gram", 0)) is None
    assert find_breach(terms, Task("gram", 3, BENT)) is find_breach(terms, Task("vote", 0)) is None
    assert find_breach(terms, Task("ensemble", 4, trial="1/main/3")) is None
    assert find_breach(terms, Task("vote", 4, BEGUN, trial="1/main/3")) is None
    plain = replace(terms, search_space=None)
    assert "have no candidates" in find_breach(plain, Task("vote", 3, trial="0/0/3"))
    assert "have no candidates" in find_breach(plain, Task("train", 1, trial="0/0/3"))
    assert find_breach(plain, Task("train", 1)) is None
    bare = replace(terms, search_space=replace(terms.search_space, one_shot=None))
    assert "no one-shot model" in find_breach(bare, Task("gram", 0))


def test_a_trial_outside_the_list_is_refused_by_the_worker_and_audited(tmp_path, terms):
    home = local_sites(chosen(tmp_path / "fed", sites=3))[0]
    accept_terms(read_kit(home), terms, policy=True)
    with pytest.raises(Refusal, match="trial '5/0/3' is not one of those agreed to"):
        Worker(read_kit(home))(Task("train", 1, trial="5/0/3"), terms.text())
    last = audit_lines(home)[-1]
    assert (last["event"], last["trial"]) == ("refused", "5/0/3")


def test_policies_cover_the_candidates(terms, tmp_path):
    kit = read_kit(local_sites(chosen(tmp_path / "fed", sites=3))[0])
    policy = kit.file.policy
    with pytest.raises(Refusal, match="algorithm 'fedper' is not allowed"):
        replace(policy, algorithms=("fedavg",)).refuse(terms, Task("gram", 0))
    with pytest.raises(Refusal, match="sums of rows are not given away"):
        replace(policy, moments=False).refuse(terms, Task("gram", 0))


def test_a_vote_that_no_rows_can_give_is_rejected(tmp_path, monkeypatch):
    folder = chosen(tmp_path / "fed")

    def boasting(task, reply):
        if task.kind != "vote":
            return reply
        vote = reply.upload["vote"]
        return replace(reply, upload={"vote": vote | {"loss": vote["loss"] - 1e6}})

    inside = Inside(folder, monkeypatch)
    inside.wrap["plant-2"] = around(after=boasting)
    inside.train()
    site = read_status(folder)["sites"]["plant-2"]
    assert site["counts"]["rejected"] == 5 and "a loss of -9.99" in site["note"]


def test_memory_of_another_trial_is_forgotten_and_what_it_left_is_not(tmp_path):
    one, two = (Store(tmp_path, "run", trial) for trial in ("0/0/3", "1/0/3"))
    task = Task("train", 1, trial="0/0/3")
    memory = {"head": {"w": torch.ones(2)}}
    one.commit(task, 0, memory, Reply("a", 1, rows=3))
    one.keep(memory)
    assert torch.equal(one.settle(1)["head"]["w"], torch.ones(2))
    two.commit(replace(task, trial="1/0/3"), 0, {}, Reply("a", 1, rows=3))
    with pytest.raises(Refusal, match="memory of round 1 is lost"):
        one.settle(1)
    assert torch.equal(one.kept()["head"]["w"], torch.ones(2)) and two.kept() is None
    Store(tmp_path, "another").commit(task, 0, {}, Reply("a", 1, rows=3))
    assert one.kept() is None


def test_a_menu_that_names_no_candidates_keeps_those_that_suit_the_classes(tmp_path):
    search_space = '[search_space]\none_shot = {basis = {terms = "squares"}}\n\n[model]'
    found = read_deployed(chosen(tmp_path / "fed", search_space=f"\n{search_space}")).offered()
    assert found.candidates == ORDERED and found.one_shot.basis.terms == "squares"
    bare = read_deployed(
        chosen(tmp_path / "two", search_space="\n[search_space]\nfolds = 2\n\n[model]")
    ).offered()
    assert bare.candidates == ORDERED and bare.one_shot is None and bare.folds == 2


def test_with_a_budget_one_candidate_is_needed(terms):
    budget = Privacy(dp=Dp(epsilon=4.0, delta=1e-5, level="site"))
    with pytest.raises(
        ConfigError, match=r"one fixed candidate.*\[search_space\] candidates.*got none"
    ):
        Federation(recipe="lore", privacy=budget)
    with pytest.raises(ConfigError, match="got 13"):
        Federation(recipe="lore", privacy=budget, search_space=SearchSpace())
    fixed = Federation(
        recipe="lore", privacy=budget, search_space=SearchSpace().only(Candidate(True, 0.5))
    )
    assert len(fixed.search_space.candidates) == 1
    with_dp = replace(terms, privacy=budget)
    assert {trial.fold for trial in agreed_trials(with_dp)} == {-1}
    assert find_breach(with_dp, Task("gram", 0)) is None  # noised, and in the ledger
    assert "1 are agreed" in find_breach(with_dp, Task("gram", 1, BENT))
    assert "these terms have none" in find_breach(with_dp, Task("vote", 0))
    assert "does not belong" in find_breach(with_dp, Task("vote", 4, BEGUN, trial="0/main/3"))
    assert "no one-shot model" in find_breach(with_dp, Task("gram", 0, trial="0/main/3"))
    with pytest.raises(FedloreError, match="candidate/fold/rounds"):
        Trial.read("0/0")


def test_under_a_budget_the_one_candidate_is_trained_without_trials(tmp_path, monkeypatch):
    folder = chosen(tmp_path / "fed", sites=3, search_space=PRIVATE)
    asked = "secure_aggregation = false"
    dp = "dp = {epsilon = 8, delta = 1e-5, level = 'site', clip = 1.0}"
    edited(folder / "federation.toml", (asked, f"{asked}\n{dp}"))
    inside, tasks = Inside(folder, monkeypatch), []
    inside.wrap = dict.fromkeys(inside.workers, around(tasks.append))
    run = inside.train()
    assert {task.kind for task in tasks} == {"gram", "train", "ensemble", "evaluate"}
    trained = {task.trial for task in tasks if task.kind != "gram"}
    assert trained == {"0/main/3"} and run.round == 3
    for home in local_sites(folder):
        ledger = Ledger(home / "ledger.json")
        assert [entry.round for entry in ledger.entries()] == [0, 1, 2, 3]  # sums, then rounds
        assert 7.9 < ledger.spent("site", 1e-5) <= 8.0
    assert any("4 rounds" in line for line in read_status(folder)["privacy"])
    assert set(own_models(folder)) == {"plant-1", "plant-2", "plant-3"}


def test_own_members_come_back_as_they_were(tmp_path, terms):
    kit = read_kit(local_sites(chosen(tmp_path / "fed", sites=3))[0])
    client = kit.client(terms.schema)
    scaled = terms.scaled(from_moments(client.sums()))
    places, y = see_order(client.data, 20), client.data.y.double()
    inputs = places.inputs(hears=True)
    line = Linear(*moments_of(inputs), torch.full((inputs.shape[1], 1), 0.1).double(), y[:1])
    member = OrderMember("ridge", line, True, False, 1.5, 20)
    private = SiteModel(Ensemble((member,), (0.4,), 0.5, 0.1, 2.0), client.knowledge)
    network = {n: p.detach() for n, p in scaled.recipe("0/main/3").model.named_parameters()}
    about = {"run": "r", "round": 3, "terms": scaled.text(), "trial": "0/main/3", "key": "k"}
    write_model(kit, about, private, network)
    model = personal_of(kit, *read_state(kit.path("personal.weights")), scaled)
    x = client.test.x
    assert torch.equal(
        model.ensemble.members[0].log_probs(client.test), member.log_probs(client.test)
    )
    known = model.annotate(x)
    spoken = private.ensemble.speak(model.logits(known), known)
    wanted = private.ensemble.log_probs(spoken, known).exp()
    assert torch.equal(model.predict_proba(x), wanted)


def moments_of(inputs):
    return inputs.double().mean(0), inputs.double().std(0).clamp(min=1.0)


@pytest.mark.parametrize("kind", ["curve", "scores", "hold", "evidence"])
def test_a_site_refuses_questions_of_older_versions(tmp_path, kind):
    folder = chosen(tmp_path / "fed")
    site = Worker(read_kit(local_sites(folder)[0]))
    text = terms_of(read_deployed(folder), run="r", participants=4).text()
    with pytest.raises(Refusal, match=f"unknown task '{kind}'"):
        site(Task(kind, 0), text)


def test_rows_that_change_between_training_and_the_last_fit_are_noticed(tmp_path):
    folder = chosen(tmp_path / "fed", sites=3)
    home, text = local_sites(folder)[0], terms_of(read_deployed(folder), run="r", participants=3)
    Worker(read_kit(home))(Task("gram", 0), text.text())
    asked = Task("ensemble", 4, trial="0/main/3")
    rows = (home / "train.csv").read_text().splitlines()
    (home / "train.csv").write_text("\n".join(rows[:-1]) + "\n")
    for _ in range(2):
        with pytest.raises(Refusal, match="rows have changed since this training began"):
            Worker(read_kit(home))(asked, text.text())
    assert "noticed" in {line["event"] for line in audit_lines(home)}
    other = replace(text, run="another")
    with pytest.raises(Exception, match="^(?!.*rows have changed)"):  # it began with these
        Worker(read_kit(home))(asked, other.text())


def test_candidates_for_which_there_are_too_few_rounds_are_named(tmp_path, monkeypatch):
    many = MENU.replace("candidates = [", "candidates = [\n  {lr = 0.001},")
    folder = chosen(tmp_path / "fed", sites=3, search_space=many)
    lines = []
    with pytest.raises(Crash):
        Inside(folder, monkeypatch).train(
            line=lambda text: lines.append(text) or crash_at("never tried")(text)
        )
    assert lines[-1].startswith("3 rounds are too few for all candidates: never tried are ")
    assert lines[-1].count("; ") == 0  # of three, two are tried
