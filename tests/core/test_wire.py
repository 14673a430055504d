"""Only tensors with the model's names and shapes leave a client."""

from dataclasses import dataclass, fields, replace

import pytest
import torch

from fedlore import FedAvg, FedloreError, Plan, federate
from fedlore.core.nets import mlp
from fedlore.core.one_shot import Basis, OneShot, sum_shapes
from fedlore.core.wire import TASK_KINDS, Task, digest
from fedlore.engine import Local, Recipe
from fedlore.engine.loop import scale_together
from fedlore.engine.one_shot import solve_sums
from fedlore.privacy.filters import SiteFilters
from fedlore.privacy.secagg.filter import PHASES, SecureAggregation

from ..engine.federation import CLASSES, FEATURES, federation
from ..engine.test_loop import Spy

CHOSEN = {"vote", "ensemble"}  # of a recipe that is chosen: tests/engine/lore says what they hold
EXACT = OneShot(Basis("quadratic"))
GROUPS = EXACT.basis.groups(EXACT.columns(FEATURES))


def test_nothing_but_model_differences_leaves_a_client():
    model = mlp(FEATURES, CLASSES, hears=True)
    recipe = Recipe(model, FedAvg(), Plan(epochs=1, finish=2), one_shot=EXACT)
    spy = Spy(Local(federation(), recipe))
    scale_together(spy)
    solve_sums(spy, GROUPS)
    federate(spy, recipe, 2, evaluate=1)
    shapes = {name: p.shape for name, p in model.named_parameters()}
    kinds = {task.kind for task, _ in spy.tasks}
    assert kinds == set(TASK_KINDS) - CHOSEN
    asked = [(task.kind, name) for task, to in spy.tasks for name in to]
    for (kind, _), reply in zip(asked, spy.replies, strict=True):
        uploaded = {k: {n: t.shape for n, t in b.items()} for k, b in reply.upload.items()}
        if kind == "train":
            assert uploaded == {"model": shapes}
        elif kind == "moments":
            features = torch.Size([FEATURES])
            assert uploaded == {"moments": {"rows": (), "sum": features, "squares": features}}
        elif kind == "gram":
            assert uploaded == {"gram": sum_shapes(len(GROUPS))}
        else:
            assert uploaded == {}
        assert set(reply.metrics) <= {"ta", "pov", "nll"}
        assert bool(reply.metrics) == (kind == "evaluate")


def test_the_server_sends_the_model_and_nothing_else():
    recipe = Recipe(mlp(FEATURES, CLASSES), FedAvg(), Plan(epochs=1))
    spy = Spy(Local(federation(), recipe))
    federate(spy, recipe, 1)
    assert set(spy.tasks[0][0].sent) == {"model"}


def test_under_secure_aggregation_only_bytes_and_masked_words_leave_a_client():
    model = mlp(FEATURES, CLASSES)
    recipe = Recipe(model, FedAvg(), Plan(epochs=1, finish=2), one_shot=EXACT)
    masked = SecureAggregation()
    halves = SiteFilters(local := Local(federation(), recipe), sites_of(masked, local), hides=True)
    spy = Spy(halves)
    transport = masked.over(spy)
    scale_together(transport)
    solve_sums(transport, GROUPS)
    federate(transport, recipe, 2, evaluate=1)
    assert {task.kind for task, _ in spy.tasks} == {*TASK_KINDS, *PHASES} - CHOSEN
    asked = [(task.kind, name) for task, to in spy.tasks for name in to]
    words = {"train": 1 + sum(p.numel() for p in model.parameters()), "moments": 3 + 4 * FEATURES}
    words["gram"] = 1 + 2 * (2 + len(GROUPS) + len(GROUPS) * (len(GROUPS) + 1) // 2)
    for (kind, _), reply in zip(asked, spy.replies, strict=True):
        found = {k: {n: t.dtype for n, t in b.items()} for k, b in reply.upload.items()}
        if kind in words:
            sealed = {"boxes": torch.uint8, "promises": torch.uint8}
            masked = {"words": torch.int64, "layout": torch.uint8}
            assert found.pop("next") == {"public": torch.uint8}
            assert found == {"masked": masked, "sealed": sealed}
            assert reply.upload["masked"]["words"].shape == (words[kind],)
        else:
            assert all(t == torch.uint8 for b in found.values() for t in b.values())
        assert reply.rows == 0
        assert bool(reply.upload) == (kind not in ("evaluate", "finish"))


def sites_of(filter, transport):
    return {name: [filter.site(name)] for name in transport.clients()}


W = torch.arange(6.0).view(2, 3)
TASK = Task("train", 3, {"model": {"w": W}}, 7, 0.5, {"a": 2}, sums=True)
#: Another value for each field; whoever adds a field adds one here.
OTHERS = {
    "kind": "finish",
    "round": 4,
    "sent": {"model": {"w": W + 1}},
    "seed": 8,
    "rate": 0.25,
    "accepted": {"a": 1},
    "sums": False,
    "trial": "9/0/7",
    "receipt": "so many lines",
}


def test_a_digest_is_of_every_field():
    assert set(OTHERS) == {f.name for f in fields(Task)}
    found = {name: digest(replace(TASK, **{name: value})) for name, value in OTHERS.items()}
    assert len({digest(TASK), *found.values()}) == 1 + len(OTHERS)
    assert digest(replace(TASK, sent={"model": {"w": W.clone()}})) == digest(TASK)


def test_where_a_name_ends_is_in_the_digest():
    assert digest({"a": [[]]}) != digest({"a1 values": []})


def test_what_filters_and_books_add_to_a_task_is_no_part_of_the_question():
    sent = TASK.sent | {"aside.keys": {"a": W}}
    told = replace(TASK, sent=sent, receipt="so many lines")
    assert digest(told) != digest(TASK) == digest(told.question())
    assert TASK.question() is TASK


def test_what_one_client_alone_is_told_no_other_hears():
    told = replace(TASK, sent={"all": {"w": W}, "only.a": {"w": W}, "only.b": {"w": W}})
    assert set(told.for_client("a").sent) == {"all", "only.a"}
    assert set(told.for_client("c").sent) == {"all"}


def test_a_field_that_is_added_is_in_the_digest_without_anybody_thinking_of_it():
    @dataclass(frozen=True)
    class Later(Task):
        more: tuple[str, ...] = ()

    assert digest(Later("train", 1)) != digest(Later("train", 1, more=("x",)))


@pytest.mark.parametrize(
    "other",
    [
        {"model": {"v": W}},
        {"other": {"w": W}},
        {"model": {"w": W.view(3, 2)}},
        {"model": {"w": W.view(torch.int32)}},
        {"model": {"w": W}, "more": {}},
        {"model": {"w": W[:1], "w2": W[1:]}},
        {},
    ],
)
def test_a_digest_is_of_names_kinds_and_shapes_too(other):
    assert digest(other) != digest({"model": {"w": W}})


def test_what_cannot_be_hashed_is_refused():
    with pytest.raises(FedloreError, match="a task cannot hold object"):
        digest({"model": {"w": object()}})


def test_a_client_hears_nothing_of_the_rounds_of_others():
    task = replace(TASK, accepted={"a": 2, "b": 5})
    assert task.for_client("a").accepted == {"a": 2}
    assert task.for_client("c").accepted == {}
