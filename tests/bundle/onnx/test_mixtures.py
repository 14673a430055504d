"""A mixture as a graph: onnxruntime says what Personal says, with exact zeros, row by row."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from fedlore.bundle import bundle_of, read_bundle, write_bundle
from fedlore.bundle.certify import certify
from fedlore.bundle.onnx import to_onnx
from fedlore.core.one_shot import Link
from fedlore.core.ordinal import normal_cells
from fedlore.errors import FedloreError
from fedlore.knowledge import Formula, FormulaRange, GradedFormula, Knowledge, table_of
from fedlore.models.classifier import Personal
from fedlore.models.ensemble import Ensemble, OneShotMember
from fedlore.models.own.linear import log_masses
from fedlore.models.own.members import ClassMember, OrderMember

from ...laws.versions import agree_on_graph, ran
from ..mixed import class_members, linear, mixture, one_shot_model, ordinal, plain_net, trees, waves
from .worlds import SCHEMA, rows, thin, worlds

X = rows(np.random.default_rng(7))
EXPERT = table_of([{"ash": "> 7.7", "then": "II"}], SCHEMA, kind="predict")
RANGE = table_of(
    [{"ash": "> 3", "then": "I..III"}, {"heat": "> 1", "then": "II..IV"}], SCHEMA, kind="range"
)
CALM = torch.rand(300, 4, generator=torch.Generator().manual_seed(3)) * torch.tensor(
    [40.0, 5.0, 20.0, 3.0]
) - torch.tensor([0.0, 0.0, 10.0, 0.0])
CALM[:, 3] = CALM[:, 3].floor()


def known(prediction=EXPERT, range=RANGE, **settings):
    return Knowledge(prediction, range, 0.4, schema=SCHEMA, **settings)


#: An expert whose numbers are heard, silent and without limits where the logarithm is undefined.
NUMBERS = Knowledge(
    GradedFormula(Formula.parse("0.1*ash + log(5 + heat)", SCHEMA), (1.0, 2.0, 5.0)),
    FormulaRange(
        Formula.parse("0.1*ash - 2", SCHEMA),
        Formula.parse("0.1*ash + 2 + 0.5*log(8 + heat)", SCHEMA),
        (1.0, 2.0, 5.0),
    ),
    0.4,
    schema=replace(SCHEMA, ordered=True),
    measured="strength",
)


def compare(personal, x, tolerance=1e-5):
    agree_on_graph(personal, x, to_onnx(personal, SCHEMA), tolerance=tolerance)


@pytest.mark.slow
@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_the_graph_of_a_mixture_says_what_python_says(world):
    knowledge = world.personal.knowledge
    x = world.x[~thin(knowledge.prediction, world.x)]
    members = class_members(
        4, 4, (knowledge.prediction is not None) + (knowledge.range is not None), CALM
    )
    compare(mixture(knowledge, CALM, 4, members=members), x)


MEMBERS = {
    "ridge": OrderMember("ridge", linear(7, 1), True, True, 0.4, 4),
    "quadratic": OrderMember("q", linear(4, 1, quadratic=True), False, False, 2.0, 4),
    "narrow": OrderMember("n", linear(4, 1), False, True, 0.05, 4),
    "waves": OrderMember("w", waves(7, 1), True, True, 0.5, 4),
    "trees": OrderMember("t", trees(7, 1, count=40, depth=6, scale=0.1), True, True, 0.7, 4),
    "leaves": OrderMember("l", trees(4, 1, count=1, depth=1), False, False, 0.7, 4),
    "logistic": ClassMember("logistic", linear(12, 4), True, False, 1.3),
    "votes": ClassMember("votes", trees(12, 4, count=30, depth=5, votes=True), True, True, 0.8),
    "boosted": ClassMember("boosted", trees(12, 4, count=40, depth=4), True, False, 0.3),
}
for _terms, _start, _hears, _link in (
    ("quadratic", "none", True, None),
    ("squares", "middle", False, None),
    ("linear", "expert", True, None),
    ("squares", "none", True, Link("middle", 0.9)),
    ("linear", "expert", False, Link("expert", 0.6)),
):
    MEMBERS[f"exact-{_terms}-{_link and _link.around}"] = OneShotMember(
        *one_shot_model(CALM, 4, terms=_terms, start=_start, hears=_hears, link=_link)
    )
for _terms, _curves in (("quadratic", 3), ("quadratic", 1), ("squares", 2)):
    MEMBERS[f"curves-{_terms}-{_curves}"] = OneShotMember(
        *one_shot_model(CALM, 4, terms=_terms, curves=_curves)
    )


@pytest.mark.parametrize("member", MEMBERS.values(), ids=MEMBERS)
@pytest.mark.parametrize("net", ["plain", "ordinal", "measured"])
def test_each_kind_of_member_alone(member, net):
    made = ordinal(4, 4) if net == "ordinal" else plain_net(4, 4)
    said = NUMBERS if net == "measured" else known()
    compare(mixture(said, CALM, 4, members=(member,), net=made, expert=0.0), CALM)


@pytest.mark.parametrize(
    "name, said",
    [
        ("trees", known()),
        ("boosted", known()),
        ("exact-squares-middle", NUMBERS),
        ("curves-quadratic-3", known()),
    ],
    ids=["boosted", "boosted without order", "measured numbers", "curves"],
)
def test_members_are_stored_and_certified(name, said, tmp_path):
    personal = mixture(said, CALM, 4, members=(MEMBERS[name],))
    write_bundle(bundle_of(personal, "site", schema=said.schema), tmp_path / "a.lore")
    again = read_bundle(tmp_path / "a.lore")
    assert torch.equal(again.personal.predict_proba(CALM), personal.predict_proba(CALM))
    assert {claim["claim"] for claim in certify(again)["claims"]} >= {"inside-range"}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("start", "hears"),
    [
        ("expert", True),
        ("middle", False),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in itertools.product(("none", "middle", "expert"), (True, False))
        ),
    ],
)
def test_an_ordinal_head(start, hears):
    net = ordinal(4, 4, start=start, hears=hears)
    for knowledge in (known(), known(prediction=None), known(range=None), known(None, None)):
        compare(Personal(net, knowledge), CALM / 10)


def test_a_mixture_of_the_network_alone():
    compare(mixture(known(), CALM, 4, members=(), expert=0.25), CALM)


def test_a_network_without_a_weight_stays_in_the_graph():
    ridge = MEMBERS["ridge"]
    personal = Personal(ordinal(4, 4), known(), ensemble=Ensemble((ridge,), (0.7,), 0.0, 0.3))
    graph = to_onnx(personal, SCHEMA).graph
    names = {tensor.name.removeprefix("model.") for tensor in graph.initializer}
    assert set(personal.model.state_dict()) <= names
    compare(personal, CALM)


def test_a_row_alone_is_answered_as_among_others():
    graph = to_onnx(mixture(known(), CALM, 4), SCHEMA)
    whole = ran(graph, CALM[:20])[0]
    alone = np.concatenate([ran(graph, CALM[i : i + 1])[0] for i in range(20)])
    np.testing.assert_allclose(whole, alone, atol=1e-7, rtol=0)


def test_both_normals_are_one():
    place = torch.linspace(-30, 30, 61, dtype=torch.float64)
    for width in (0.05, 0.7, 9.0):
        one = normal_cells(place, torch.full_like(place, width), 5)
        torch.testing.assert_close(one, log_masses(place, width, 5), rtol=1e-9, atol=1e-9)


def test_a_member_of_ones_own_is_refused():
    class Mine:
        def log_probs(self, known):
            return torch.zeros(len(known), 4)

    with pytest.raises(FedloreError, match="Mine cannot be put into a graph"):
        to_onnx(mixture(known(), CALM, 4, members=(Mine(),)), SCHEMA)
