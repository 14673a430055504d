"""Only tensors with the model's names and shapes leave a client."""

import torch

from fedlore import FedAvg, Plan, federate
from fedlore.core.nets import mlp
from fedlore.core.wire import KINDS
from fedlore.engine import Local, Recipe
from fedlore.engine.loop import scale_together
from fedlore.privacy.ckks.filter import KINDS as DECRYPT
from fedlore.privacy.filters import Filtered
from fedlore.privacy.secagg.filter import PHASES, SecureAggregation

from ..engine.federation import CLASSES, FEATURES, federation
from ..engine.test_loop import Spy


def test_nothing_but_model_differences_leaves_a_client():
    model = mlp(FEATURES, CLASSES, hears=True)
    recipe = Recipe(model, FedAvg(), Plan(epochs=1, finish=2))
    spy = Spy(Local(federation(), recipe))
    scale_together(spy)
    federate(spy, recipe, 2, evaluate=1)
    shapes = {name: p.shape for name, p in model.named_parameters()}
    kinds = {task.kind for task, _ in spy.tasks}
    assert kinds == set(KINDS) - PHASES - DECRYPT
    asked = [(task.kind, name) for task, to in spy.tasks for name in to]
    for (kind, _), reply in zip(asked, spy.replies, strict=True):
        uploaded = {k: {n: t.shape for n, t in b.items()} for k, b in reply.upload.items()}
        if kind == "train":
            assert uploaded == {"model": shapes}
        elif kind == "moments":
            features = torch.Size([FEATURES])
            assert uploaded == {"moments": {"rows": (), "sum": features, "squares": features}}
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
    recipe = Recipe(model, FedAvg(), Plan(epochs=1, finish=2))
    masked = SecureAggregation()
    halves = Filtered(local := Local(federation(), recipe), sites_of(masked, local), hides=True)
    spy = Spy(halves)
    transport = masked.over(spy)
    scale_together(transport)
    federate(transport, recipe, 2, evaluate=1)
    assert {task.kind for task, _ in spy.tasks} == set(KINDS) - DECRYPT
    asked = [(task.kind, name) for task, to in spy.tasks for name in to]
    words = {"train": 1 + sum(p.numel() for p in model.parameters()), "moments": 3 + 4 * FEATURES}
    for (kind, _), reply in zip(asked, spy.replies, strict=True):
        found = {k: {n: t.dtype for n, t in b.items()} for k, b in reply.upload.items()}
        if kind in words:
            assert found == {"masked": {"words": torch.int64, "layout": torch.uint8}}
            assert reply.upload["masked"]["words"].shape == (words[kind],)
        else:
            assert all(t == torch.uint8 for b in found.values() for t in b.values())
        assert reply.rows == 0
        assert bool(reply.upload) == (kind not in ("evaluate", "finish", "boxes"))


def sites_of(filter, transport):
    return {name: [filter.site(name)] for name in transport.clients()}
