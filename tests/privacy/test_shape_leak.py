"""What an upload says about a shape: by hand, and on two federations that differ in it alone."""

import torch

from fedlore import Client, Examples, FedAvg, Knowledge, Plan
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.core.rng import stream
from fedlore.core.wire import Task
from fedlore.engine import Recipe, Stacked
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore_lab.leak.uploads import Seen
from studies.shape_leak import shape_signs

SCHEMA = Schema(
    tuple(Feature(n, low=-4, high=4) for n in "abc"), tuple(f"g{i}" for i in range(6)), "grade"
)


def test_signs_are_those_of_the_column_beside_the_others():
    before = {"line.weight": torch.tensor([[0.5, 0.0]]), "trunk.1.weight": torch.ones(1, 2)}
    moved = {
        "line.weight": torch.tensor([[0.1, 10.0]]),
        "trunk.0.weight": torch.tensor([[3.0, 0.0], [0.0, 4.0]]),
    }
    size, line, wide, pull, start = shape_signs(Seen(before, moved), 0).tolist()
    assert abs(size + 1.0) < 1e-6  # a hundredth of the other, the mean lies half way
    assert abs(line - 0.01) < 1e-4 and abs(start - 0.5) < 1e-6
    assert abs(pull - 0.6) < 1e-6  # of (3, 4)
    assert abs(wide - torch.tensor([3.0, 4.0]).log10().diff().item() * -0.5) < 1e-6


def first_upload(shaped: bool) -> Seen:
    draw = stream("shape leak test")
    x = torch.randn(60, 3, generator=draw)
    y = (2.5 + x[:, 0] + x[:, 1]).round().clamp(0, 5).long()
    said = SiteShapes((FeatureShape("a", "raises"),), SCHEMA) if shaped else None
    client = Client("s", Examples(x, y), Knowledge(schema=SCHEMA, shapes=said))
    model = lipschitz_mlp(6, Shaping(3), hidden=(8,))
    start = {n: p.detach().clone() for n, p in model.named_parameters()}
    engine = Stacked([client], Recipe(model, FedAvg(), Plan(lr=0.01, batch=16, epochs=1)))
    (reply,) = engine.exchange(Task("train", 1, {"model": start}), ["s"])
    return Seen(start, reply.upload["model"])


def test_a_declared_shape_holds_its_coefficient_back_and_no_other():
    free, held = (first_upload(shaped) for shaped in (False, True))
    column = {name: [shape_signs(seen, c)[1].item() for c in (0, 1)] for name, seen in
              (("free", free), ("held", held))}  # fmt: skip
    assert abs(column["held"][0]) < 0.5 * abs(column["free"][0])
    assert abs(column["held"][1]) > 0.9 * abs(column["free"][1])
