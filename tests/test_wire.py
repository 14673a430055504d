"""Only tensors with the model's names and shapes leave a client."""

import torch

from fedlore import FedAvg, Plan, federate
from fedlore.engine import Local, Recipe
from fedlore.engine.loop import scale_together
from fedlore.nets import mlp
from fedlore.wire import KINDS

from .engine.federation import CLASSES, FEATURES, federation
from .engine.test_loop import Spy


def test_nothing_but_model_differences_leaves_a_client():
    model = mlp(FEATURES, CLASSES, hears=True)
    recipe = Recipe(model, FedAvg(), Plan(epochs=1, finish=2))
    spy = Spy(Local(federation(), recipe))
    scale_together(spy)
    federate(spy, recipe, 2, evaluate=1)
    shapes = {name: p.shape for name, p in model.named_parameters()}
    kinds = {task.kind for task, _ in spy.tasks}
    assert kinds == set(KINDS)
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
