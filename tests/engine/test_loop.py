"""The round loop: same bits in any order, only what is agreed is merged."""

from dataclasses import replace

import pytest
import torch

from fedlore import Client, ConfigError, Examples, FedAvg, FedloreError, Plan, federate, fit
from fedlore.core.nets import mlp
from fedlore.core.wire import Reply, Task
from fedlore.engine import Local, Recipe

from .federation import CLASSES, FEATURES, federation, rows

PLAN = Plan(epochs=2, batch=8)


def recipe(**changes) -> Recipe:
    model = mlp(FEATURES, CLASSES, hidden=(8,))
    return replace(Recipe(model, FedAvg(), PLAN, seed=3), **changes)


def trained(clients=None, rounds=3, **changes):
    r = recipe(**changes)
    return federate(Local(clients or federation(), r), r, rounds).state["model"]


def same(a, b) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


class Backwards:
    """A transport whose replies arrive in the reverse order."""

    def __init__(self, inner):
        self.inner = inner

    def clients(self):
        return self.inner.clients()

    def exchange(self, task, to):
        return list(self.inner.exchange(task, to))[::-1]


def test_sums_have_the_same_bits_in_any_order_of_arrival():
    clients, r = federation((9, 11, 13, 15, 17)), recipe()
    assert same(
        federate(Local(clients, r), r, 2).state["model"],
        federate(Backwards(Local(clients, r)), r, 2).state["model"],
    )


@pytest.mark.parametrize("weights", ["equal", "size"])
def test_the_server_takes_the_mean_of_the_clients_models(weights):
    r, clients = recipe(weights=weights), federation()
    apart = [federate(Local([c], r), r, 1).state["model"] for c in clients]
    shares = [len(c.data) / 100 if weights == "size" else 1 / len(clients) for c in clients]
    for name, value in trained(clients, rounds=1, weights=weights).items():
        wanted = sum(share * p[name] for share, p in zip(shares, apart, strict=True))
        torch.testing.assert_close(value, wanted)


class Spy:
    """A transport that writes down what passes, and may lose or spoil replies."""

    def __init__(self, inner, spoil=lambda reply: reply):
        self.inner, self.spoil = inner, spoil
        self.tasks: list[tuple[Task, list[str]]] = []
        self.replies: list[Reply] = []

    def clients(self):
        return self.inner.clients()

    def exchange(self, task, to):
        self.tasks.append((task, list(to)))
        for reply in self.inner.exchange(task, to):
            spoiled = self.spoil(reply)
            if spoiled is not None:
                self.replies.append(spoiled)
                yield spoiled


def test_sampling_takes_the_ceiling_of_the_share():
    r = recipe()
    spy = Spy(Local(federation((10, 10, 10, 10, 10)), r))
    run = federate(spy, r, 4, sample=0.5)
    assert [len(to) for _, to in spy.tasks] == [3, 3, 3, 3]
    assert len({tuple(to) for _, to in spy.tasks}) > 1
    assert set(run.accepted) <= set(spy.clients())


def test_rounding_does_not_ask_one_client_more():
    r = recipe(plan=Plan(epochs=1, batch=8))
    spy = Spy(Local(federation((4,) * 25), r))
    federate(spy, r, 1, sample=0.28)  # 0.28 * 25 is 7.000000000000001 in floating point
    assert len(spy.tasks[0][1]) == 7


def test_a_poisoned_reply_is_not_merged():
    def spoil(reply):
        if reply.client != "site-1":
            return reply
        bad = {n: t * torch.nan for n, t in reply.upload["model"].items()}
        return replace(reply, upload={"model": bad})

    r = recipe()
    run = federate(Spy(Local(federation(), r), spoil), r, 2)
    assert all(t.isfinite().all() for t in run.state["model"].values())
    assert [row["merged"] for row in run.rows] == [2, 2]
    assert "site-1" not in run.accepted


def test_a_late_reply_of_another_round_is_not_merged():
    def delay(reply):
        return replace(reply, round=reply.round - 1) if reply.client == "site-1" else reply

    r = recipe()
    run = federate(Spy(Local(federation(), r), delay), r, 2)
    assert [row["merged"] for row in run.rows] == [2, 2]
    assert set(run.accepted) == {"site-0", "site-2"}


def test_a_reply_with_other_shapes_is_not_merged():
    def spoil(reply):
        if reply.client != "site-1":
            return reply
        return replace(reply, upload={"model": {"x": torch.zeros(1)}})

    r = recipe()
    assert [x["merged"] for x in federate(Spy(Local(federation(), r), spoil), r, 1).rows] == [2]


def test_a_round_without_replies_is_recorded_and_changes_nothing():
    r = recipe()
    run = federate(Spy(Local(federation(), r), lambda reply: None), r, 1)
    assert same(run.state["model"], dict(r.model.named_parameters()))
    assert run.rows == [{"round": 1, "asked": 3, "merged": 0}]


def test_a_run_can_go_on_from_where_it_stood():
    r = recipe(plan=replace(PLAN, schedule="cosine"))
    whole = federate(Local(federation(), r), r, 4)
    stops = []
    federate(Local(federation(), r), r, 4, on_round=stops.append)
    resumed = federate(Local(federation(), r), r, 4, start=stops[1])
    assert same(whole.state["model"], resumed.state["model"])
    assert whole.rows == resumed.rows


def test_finishing_steps_stay_at_home():
    r = recipe(plan=replace(PLAN, finish=5))
    spy = Spy(Local(federation(), r))
    run = federate(spy, r, 1)
    assert [task.kind for task, _ in spy.tasks] == ["train", "finish"]
    assert all(not reply.upload for reply in spy.replies[3:])
    assert same(run.state["model"], trained(rounds=1))
    fitted = fit(federation(), r.model, plan=r.plan, rounds=1, seed=3, scale=False)
    plain = fit(federation(), r.model, plan=PLAN, rounds=1, seed=3, scale=False)
    x = rows(50, "new").x
    assert not torch.equal(fitted.model("site-0")(x), plain.model("site-0")(x))


def test_the_given_model_is_not_changed():
    model = mlp(FEATURES, CLASSES)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    fit(federation(), model, plan=PLAN, rounds=1)
    assert same(before, model.state_dict())


def test_history_has_a_row_per_round_and_per_evaluated_client():
    fitted = fit(federation(), mlp(FEATURES, CLASSES), plan=PLAN, rounds=3, evaluate=2)
    with pytest.raises(FedloreError, match=r'only fit\(..., recipe="lore"\)'):
        fitted.leaderboard()
    scored = [row for row in fitted.history if "ta" in row]
    assert [(row["round"], row["client"]) for row in scored] == [
        (r, f"site-{i}") for r in (2, 3) for i in range(3)
    ]
    assert all(row["pov"] == 0.0 for row in scored)


def test_scores_in_the_history_are_those_of_the_personal_models():
    clients = federation()
    fitted = fit(clients, mlp(FEATURES, CLASSES, hears=True), plan=PLAN, rounds=2, evaluate=2)
    row = fitted.history[-1]
    test = clients[2].test
    told = zip(test.prior, test.allowed, strict=True)
    lookup = dict(zip(map(tuple, test.x.tolist()), told, strict=True))
    knowing = replace(
        clients[2].knowledge,
        prediction=lambda x: torch.stack([lookup[tuple(v)][0] for v in x.tolist()]),
        range=lambda x: torch.stack([lookup[tuple(v)][1] for v in x.tolist()]),
    )
    personal = fitted.model("site-2").with_knowledge(knowing)
    assert row["ta"] == (personal.predict(test.x) == test.y).double().mean()


def test_knowledge_helps_scarce_data_and_keeps_the_range():
    few = federation((6, 7, 8))
    bare = fit([c.bare() for c in few], mlp(FEATURES, CLASSES), rounds=5, evaluate=5)
    told = fit(few, mlp(FEATURES, CLASSES), rounds=5, evaluate=5)

    def mean(fitted, name):
        return sum(row[name] for row in fitted.history[-3:]) / 3

    assert mean(told, "pov") == 0.0 < mean(bare, "pov")
    assert mean(told, "ta") > mean(bare, "ta")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample": 0.0}, r"sample must lie in \(0, 1\], got 0.0"),
        ({"sample": 1.5}, "got 1.5"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"weights": "rows"}, "weights must be equal or size, got 'rows'"),
    ],
)
def test_bad_settings_are_named(arguments, message):
    with pytest.raises(ConfigError, match=message):
        fit(federation(), mlp(FEATURES, CLASSES), plan=PLAN, **arguments)


def test_bad_clients_are_named():
    model = mlp(FEATURES, CLASSES)
    with pytest.raises(ConfigError, match="at least one client"):
        fit([], model)
    with pytest.raises(FedloreError, match="'site-0' appears twice"):
        fit([federation()[0]] * 2, model)
    with pytest.raises(FedloreError, match="client 'a': there are no rows"):
        Client("a", Examples(torch.zeros(0, 2), torch.zeros(0).long()))
    with pytest.raises(FedloreError, match="client 'a': features must be finite"):
        Client("a", Examples(torch.full((1, 2), torch.nan), torch.zeros(1).long()))
    with pytest.raises(FedloreError, match="client 'a': labels must lie in 0 to 3: row 0 has 9"):
        fit([Client("a", Examples(torch.zeros(1, FEATURES), torch.tensor([9])))], model)
    with pytest.raises(FedloreError, match="client 'a': training needs labels"):
        fit([Client("a", Examples(torch.zeros(1, FEATURES)))], model)
    with pytest.raises(FedloreError, match="the P-KM knows 4 classes, the server model 5"):
        fit(federation(), mlp(FEATURES, 5))
    with pytest.raises(FedloreError, match="trust must be below 1 in training"):
        fit(federation(trust=1.0), model)
    with pytest.raises(FedloreError, match="unknown client 'site-9'; did you mean 'site-"):
        fit(federation(), model, plan=PLAN, rounds=1).model("site-9")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1, got 0"),
        ({"batch": 0}, "batch must be"),
        ({"lr": -0.1}, r"lr must lie in \[0, inf\), got -0.1"),
        ({"lr": float("nan")}, "lr must lie in"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\), got 1.0"),
        ({"plain": 1.1}, r"plain must lie in \[0, 1\], got 1.1"),
        ({"clip": 0.0}, "clip must be positive"),
        ({"schedule": "step"}, "schedule must be constant or cosine, got 'step'"),
    ],
)
def test_bad_plans_are_named(change, message):
    with pytest.raises(ConfigError, match=message):
        Plan(**change)


def test_the_cosine_schedule_falls_from_one_towards_zero():
    plan = Plan(schedule="cosine")
    assert [round(plan.rate(r, 4), 3) for r in (1, 2, 3, 4)] == [1.0, 0.854, 0.5, 0.146]
