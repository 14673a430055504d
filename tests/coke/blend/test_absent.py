"""A column that a site does not measure is empty in every blend, and the planner says so."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedlore import Knowledge, Personal
from fedlore.core.nets import mlp
from fedlore.core.scaler import Scaler
from fedlore.errors import FedloreError
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.scope import inputs_of
from fedlore_coke.blend import check, order_for, plan
from fedlore_coke.blend.mixing import UNMEASURED
from fedlore_coke.blend.sides import feature_limit
from fedlore_coke.blend.words import as_json, plan_summary

from .world import GRADES, three

B = Feature("b", "%", 0.0, 100.0, missing=30.0)
WHOLE = Schema((*GRADES.features, B), GRADES.classes, "grade")
LACKING = Schema((*GRADES.features, replace(B, have=False)), GRADES.classes, "grade")
TARGET = "grade>=fair"


def network():
    """A wavy network over ash, rank, b and the flag of b."""
    net = mlp(4, 4, hidden=(16,), seed=2)
    with torch.no_grad():
        for values in net.parameters():
            values.mul_(2.5)
    shift = torch.tensor([12.0, 1.1, 30.0, 0.0], dtype=torch.float64)
    spread = torch.tensor([3.0, 0.2, 20.0, 1.0], dtype=torch.float64)
    known = Knowledge(schema=WHOLE)
    return Personal(net, known, scaler=Scaler(shift, spread, inputs_of(WHOLE)))


def test_a_plan_without_a_column_is_the_plan_with_it_empty():
    model, coals = network(), three()
    lacking = order_for(model, LACKING, coals, TARGET, confidence=0.4)
    empty = order_for(model, WHOLE, coals, TARGET, confidence=0.4, rules={"b": UNMEASURED})
    found, wanted = plan(lacking, compare=False), plan(empty, compare=False)
    for name in ("shares", "cost", "chance", "features", "risk"):
        assert getattr(found.blend, name) == getattr(wanted.blend, name)
    shares = coals.shares(found.blend.shares)
    assert check(lacking, shares) == ()
    row = torch.from_numpy(lacking.recipe.features(shares[None]).astype(np.float32))
    assert row[0, 2].isnan()
    said = model.predict_proba(row)[0, 1:].sum()
    assert found.blend.chance == pytest.approx(float(said), abs=1e-6)


def test_the_planner_says_what_the_site_does_without():
    found = plan(order_for(network(), LACKING, three(), TARGET, confidence=0.4), compare=False)
    assert "Not measured at this site, and empty in every blend: b" in plan_summary(found)
    values = as_json(found)
    assert values["not_measured"] == ["b"] and list(values["blend"]["features"]) == ["ash", "rank"]
    assert values["mixing"]["b"] == "not measured at this site"


def test_coals_that_bring_the_column_are_blended_by_it():
    coals = three()
    rich = replace(coals, properties={**coals.properties, "b": np.array([10.0, 20.0, 40.0])})
    assert order_for(network(), LACKING, rich, TARGET).recipe.without == ()


def test_a_column_that_the_site_has_must_be_blended_and_one_that_it_lacks_limits_nothing():
    with pytest.raises(FedloreError, match="feature 'b' of the model cannot be blended"):
        order_for(network(), WHOLE, three(), TARGET)
    recipe = order_for(network(), LACKING, three(), TARGET).recipe
    with pytest.raises(FedloreError, match="this site does not measure 'b', so no blend can be"):
        feature_limit(recipe, "b<=40")
