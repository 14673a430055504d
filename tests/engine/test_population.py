"""Very many clients: made when they are asked, remembered on disk."""

import pytest
import torch

from fedlore import Client, FedAvg, Knowledge, Plan
from fedlore.algorithms import Ditto, Scaffold
from fedlore.core.nets import mlp
from fedlore.core.rng import draw_numbers
from fedlore.engine import Local, Population, Recipe, Stacked, federate

from .federation import CLASSES, FEATURES, rows


class Village:
    """Clients with rows of their own, made from their number."""

    def __init__(self, count: int) -> None:
        self.ids = [f"house-{i:05d}" for i in range(count)]
        self.made = 0

    def client(self, id: str) -> Client:
        self.made += 1
        size = 5 + int(id[-5:]) % 4
        test = rows(6, id, "test")
        return Client(id, rows(size, id), Knowledge(trust=0.3), test=test)


@pytest.mark.parametrize("algorithm", [FedAvg(), Scaffold(), Ditto()], ids=repr)
def test_a_population_gives_what_its_clients_give(algorithm):
    village = Village(12)
    assert isinstance(village, Population)
    recipe = Recipe(
        mlp(FEATURES, CLASSES, hidden=(5,)).double(), algorithm, Plan(epochs=2, batch=4, lr=0.05)
    )
    everyone = [village.client(name) for name in village.ids]
    wanted = federate(Local(everyone, recipe), recipe, 4, sample=0.5, evaluate=4)
    found = federate(Stacked(village, recipe), recipe, 4, sample=0.5, evaluate=4)
    for key, bundle in wanted.state.items():
        for name, t in bundle.items():
            torch.testing.assert_close(t, found.state[key][name], rtol=0, atol=1e-9)
    for a, b in zip(wanted.rows, found.rows, strict=True):
        assert a == pytest.approx(b, abs=1e-6)


def test_only_those_who_are_asked_are_made():
    village = Village(20_000)
    recipe = Recipe(mlp(FEATURES, CLASSES, hidden=(5,)), Scaffold(), Plan(epochs=1, lr=0.05))
    engine = Stacked(village, recipe)
    before = village.made
    run = federate(engine, recipe, 3, sample=10 / 20_000)
    assert village.made - before == 30
    assert len(run.accepted) == len(set(run.accepted)) <= 30


def test_few_of_many_are_drawn_fairly_and_without_repeats():
    counts = torch.zeros(40)
    for i in range(3000):
        drawn = draw_numbers(4, 40, "fair", i)
        assert drawn == sorted(set(drawn)) and len(drawn) == 4
        counts[drawn] += 1
    chi2 = ((counts - 300) ** 2 / 300).sum()
    assert chi2 < 72.1  # 99.9 % point with 39 degrees of freedom
    assert draw_numbers(40, 40, "all") == list(range(40))
