"""Rows become what a network takes: levels one by one, signs for what is missing."""

import math
from dataclasses import replace

import pytest
import torch

from fedlore import Client, Examples, Knowledge
from fedlore.core.scaler import HISTOGRAM_BINS, Input, Inputs, Scaler, from_moments
from fedlore.engine.training import scaler_of
from fedlore.errors import ConfigError, KnowledgeError
from fedlore.knowledge import Feature, Schema
from fedlore.knowledge.scope import count_inputs, inputs_of, scaler_of_scope

NAN = math.nan
SCHEMA = Schema(
    (
        Feature("ash", low=0, high=40, missing="mean"),
        Feature("mine", levels=("north", "south"), missing="level", other=True),
        Feature("heat", low=0, high=10),
        Feature("sulphur", low=0, high=4, missing="median"),
        Feature("rank", missing=1.5),
        Feature("shift", levels=("day", "night"), missing="night"),
    ),
    ("I", "II"),
)
X = torch.tensor(
    [
        [10.0, 0.0, 5.0, 1.0, 1.0, 0.0],
        [20.0, 1.0, 6.0, 1.0, 2.0, 1.0],
        [NAN, 2.0, 7.0, 3.0, NAN, NAN],
        [30.0, NAN, 8.0, NAN, 3.0, 0.0],
    ]
)


def test_each_feature_becomes_its_columns():
    inputs = inputs_of(SCHEMA)
    assert inputs.width == count_inputs(SCHEMA) == 2 + 4 + 1 + 2 + 2 + 3
    third = inputs.encode(X)[2].tolist()
    #        ash (middle), sign | north south other, sign | heat | sulphur | rank | day night, sign
    assert third == [20, 1, 0, 0, 1, 0, 7, 3, 0, 1.5, 1, 0, 1, 1]
    assert inputs.encode(X)[3].tolist() == [30, 0, 0, 0, 0, 1, 8, 2, 1, 3, 0, 1, 0, 0]
    assert inputs_of(Schema((Feature("a"), Feature("b")), ("I", "II"))) is None


def test_means_and_medians_come_from_sums_of_all_sites():
    inputs = inputs_of(SCHEMA)
    parts = [inputs.moments(X[:1]), inputs.moments(X[1:])]
    total = {name: sum(part[name] for part in parts) for name in parts[0]}
    found = from_moments(total, inputs)
    fills = found.inputs.fills.tolist()
    assert fills[0] == 17.5  # of 10 at one site, 20 and 30 at the other: each site counts once
    assert abs(fills[3] - 1.0) <= 4 / HISTOGRAM_BINS  # the median of 1, 1, 3
    assert found.shift[0] == 17.5 and found.spread.isfinite().all() and (found.spread > 0).all()
    # a missing mean is the middle of all that the network sees
    assert found(X)[2, 0] == 0.0
    assert torch.equal(found(found.encode(X)), found(X))  # rows that are encoded stay


def test_medians_are_common_where_the_scopes_of_sites_differ():
    """The median of 1, 3, 2, 9 and 30, of which no site's scope holds all, and one has no hole."""
    sites = [((0, 4), [1.0, 3.0, NAN]), ((0, 40), [30.0]), ((2, 10), [2.0, 9.0, NAN])]
    clients = []
    for i, ((low, high), values) in enumerate(sites):
        schema = Schema((Feature("a", low=low, high=high, missing="median"),), ("I", "II"))
        rows = Examples(torch.tensor(values)[:, None], torch.zeros(len(values), dtype=torch.long))
        clients.append(Client(f"s{i}", rows, knowledge=Knowledge(schema=schema)))
    assert abs(float(scaler_of(clients).inputs.fills[0]) - 3.0) <= 40 / HISTOGRAM_BINS
    other = replace(clients[0].knowledge.schema.features[0], missing=2.0)
    odd = replace(clients[0], knowledge=Knowledge(schema=Schema((other,), ("I", "II"))))
    with pytest.raises(ConfigError, match="what replaces a missing value"):
        scaler_of([*clients, odd])


def test_without_sums_the_middle_of_the_scope_stands_for_them():
    schema = Schema(SCHEMA.features[:4], SCHEMA.classes)
    assert scaler_of_scope(schema).inputs.fills[[0, 3]].tolist() == [20.0, 2.0]
    nothing = torch.full((2, 4), NAN)
    nothing[:, 2] = 5.0
    inputs = inputs_of(schema)
    assert from_moments(inputs.moments(nothing), inputs).inputs.fills[[0, 3]].tolist() == [20, 2]


def test_what_was_learned_is_read_back():
    inputs = inputs_of(SCHEMA)
    found = from_moments(inputs.moments(X), inputs)
    assert torch.equal(Scaler.read(found.tensors(), inputs)(X), found(X))


@pytest.mark.parametrize(
    ("feature", "said"),
    [
        ({"missing": "mode"}, "mean, median or a number, got 'mode'"),
        ({"missing": "median"}, "needs a scope"),
        ({"missing": math.inf}, "got inf"),
        ({"missing": "mean", "levels": ("a", "b")}, "level or one of its levels, got 'mean'"),
        ({"missing": 1.0, "levels": ("a", "b")}, "got 1.0"),
        ({"other": True}, "levels"),
    ],
)
def test_what_cannot_stand_for_a_missing_value_is_refused(feature, said):
    with pytest.raises(KnowledgeError, match=said):
        Feature("ash", **feature)


def test_a_single_level_stays_a_number():
    assert Inputs((Input(),)).width == 1
    assert inputs_of(Schema((Feature("a", levels=("x",)),), ("I", "II"))) is None


def test_sums_are_means_of_the_values_that_are_there():
    """Whatever stands for a missing value, and however many there are, it is counted nowhere."""
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(40, 2, generator=draw) * 5 + 3
    x[torch.rand(40, 2, generator=draw) < 0.3] = NAN
    for fill in (-7.0, 90.0):
        inputs = Inputs((Input(missing=True, stand="mean", fill=fill), Input(missing=True)))
        found = inputs.moments(x)
        for column, place in ((0, 0), (1, 2)):  # behind each stands its sign
            there = x[~x[:, column].isnan(), column].double()
            told = [found[name][place] for name in ("rows", "sum", "squares")]
            assert torch.allclose(
                torch.stack(told),
                torch.stack([told[0] * 0 + 1, there.mean(), there.square().mean()]),
            )
            flag = [float(found[name][place + 1]) for name in ("rows", "sum", "squares")]
            assert flag == [1.0, 0.0, 1.0]


def test_levels_that_may_be_missing_are_shares_of_the_rows_that_have_them():
    schema = Schema((Feature("mine", levels=("a", "b"), missing="level"),), ("I", "II"))
    inputs = inputs_of(schema)
    found = inputs.moments(torch.tensor([[0.0], [0.0], [1.0], [NAN], [0.0]]))
    assert found["sum"].tolist() == [0.75, 0.25, 0.0] and found["rows"].tolist() == [1.0] * 3
    nothing = inputs.moments(torch.full((4, 1), NAN))
    assert nothing["sum"].tolist() == [0.0] * 3 and nothing["rows"].tolist() == [0.0, 0.0, 1.0]
