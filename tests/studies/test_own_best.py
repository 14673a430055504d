"""`own best` is what a stand-alone scikit-learn script finds."""

import numpy as np
import pytest
import torch

from fedlore.answers import Bins, Sets
from fedlore.core.examples import Examples
from fedlore.knowledge.numbers import Told
from fedlore.personal.own import own_classes, own_numbers, own_order
from fedlore.personal.own.crossfit import fold_seed
from fedlore.personal.own.sight import see_classes, see_numbers, see_order
from fedlore_coke.plants import coking_plants

SEED, SITE, GRADES = 100, "plant-2", 20
best = pytest.importorskip("studies.own_best", reason="needs scikit-learn")
random_state = fold_seed(SEED, SITE)


@pytest.fixture(scope="module")
def plant():
    return coking_plants(SEED, rows=(40, 45, 40, 40), test_rows=60)[1]


@pytest.fixture(scope="module")
def annotated(plant):
    return plant.knowledge.annotate(plant.train), plant.knowledge.annotate(Examples(plant.test.x))


def rows_of(sight, y):
    return best.Rows(sight.x.numpy(), sight.heard.numpy(), sight.start.numpy(), y.numpy())


def told(plant, examples, y):
    """The same plant with its CSR as the number: the expert's equation, give or take 6 points."""
    said = plant.knowledge.prediction.model.expert(
        examples.x[:, list(plant.knowledge.prediction.columns)]
    )
    return Told(examples.x, y, said, Sets.of(said - 6.0, said + 6.0), Bins(20.0, 80.0, 30))


@pytest.mark.slow
def test_numbers(plant):
    train = told(plant, plant.train, plant.train_coke.csr)
    test = told(plant, plant.test, plant.test_coke.csr)
    ours = own_numbers(train, seed=SEED, site=SITE).best
    ends = [t.numpy()[:, 0] for s in (train.sets, test.sets) for t in (s.lower, s.upper)]
    theirs = best.best_number(
        rows_of(see_numbers(train), train.y),
        rows_of(see_numbers(test), test.y),
        tuple(ends),
        seed=random_state,
    )
    assert ours.member.name == theirs.name
    assert ours.error == pytest.approx(theirs.error, rel=1e-6)
    assert np.abs(ours.member.number(test).numpy() - theirs.test).max() < 1e-5


@pytest.mark.slow
def test_ordered_classes(annotated, plant):
    train, test = annotated
    ours = own_order(train, GRADES, seed=SEED, site=SITE).best
    theirs = best.best_order(
        rows_of(see_order(train, GRADES), train.y),
        rows_of(see_order(test, GRADES), plant.test.y),
        train.allowed.numpy(),
        test.allowed.numpy(),
        classes=GRADES,
        seed=random_state,
    )
    assert ours.member.name == theirs.name
    assert ours.error == pytest.approx(theirs.error, rel=1e-4)
    assert (ours.member.log_probs(test).argmax(1).numpy() == theirs.test.argmax(1)).all()


@pytest.mark.slow
def test_classes_without_order(annotated, plant):
    train, test = annotated
    ours = own_classes(train, GRADES, seed=SEED, site=SITE).best
    theirs = best.best_classes(
        rows_of(see_classes(train), train.y),
        rows_of(see_classes(test), plant.test.y),
        train.allowed.numpy(),
        test.allowed.numpy(),
        classes=GRADES,
        seed=random_state,
    )
    assert ours.member.name == theirs.name
    same = ours.member.log_probs(test).argmax(1) == torch.from_numpy(theirs.test.argmax(1))
    assert same.double().mean() >= 0.98  # their solver holds constants of absent classes elsewhere
