"""The expert's weight in a mixture, row by row: learned from unseen rows, and told of in words."""

from dataclasses import replace

import pytest
import torch

from fedlore import Client, Examples, Knowledge
from fedlore.answers import Bins, Measured
from fedlore.core.rng import stream
from fedlore.core.scaler import Inputs
from fedlore.engine.lore.report import StackMember
from fedlore.engine.lore.temperature import BY_ROW, EXPERT, NETWORK, trust_classes, trust_numbers
from fedlore.engine.tuning.oof import Cached
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.formulas import Formula, GradedFormula
from fedlore.knowledge.rowtrust import RowTrust, TrustRegion
from fedlore.knowledge.scope import inputs_of
from fedlore.models.own import baseline

from ..federation import FEATURES, federation
from ..tuning.test_rowwise import SCHEMA, site
from .test_lore import FEW, RISING, run

SHARE = {NETWORK: 0.9, EXPERT: 0.1}


def voices(cached: Cached):
    held = cached.logits.double().log_softmax(1)
    return [(StackMember(NETWORK, held, shared=True), held.exp())]


@pytest.mark.parametrize("ordered", [False, True])
def test_a_mixture_learns_where_its_expert_is_good(ordered):
    seen = site(160, 1, own=0.95, other=0.15)
    known = Knowledge(schema=SCHEMA, row_trust=RowTrust(SCHEMA, features=("ash", "mine")))
    found = trust_classes(
        known, seen.known, voices(seen), SHARE, ordered=ordered, scaler=None, seed=0
    )
    trust = found.knowledge(known).row_trust(seen.known.x)
    own = seen.known.x[:, 1] == 0
    assert trust[own].min() > trust[~own].max()
    # what stands in the table was said of rows by what the others taught
    assert found.rows is not None and not found.rows.isnan().any()
    assert (found.rows - trust).abs().max() > 1e-6


def test_nothing_to_learn_leaves_everything_as_it_was():
    seen = site(160, 2, own=0.6, other=0.6)
    for rows in (None, RowTrust(SCHEMA, features=("ash",))):
        known = Knowledge(schema=SCHEMA, row_trust=rows)
        found = trust_classes(
            known, seen.known, voices(seen), SHARE, ordered=False, scaler=None, seed=0
        )
        assert found.rows is None and found.knowledge(known) == known


def test_the_owners_word_counts_on_the_sites_own_rows_too():
    seen = site(60, 3, own=0.95, other=0.15)
    rows = RowTrust(SCHEMA, (TrustRegion("mine == 'own'", 0.9),))
    heard = replace(seen.known, trust=rows(seen.known.x))
    known = Knowledge(schema=SCHEMA, row_trust=rows)
    found = trust_classes(known, heard, voices(seen), SHARE, ordered=False, scaler=None, seed=0)
    own = seen.known.x[:, 1] == 0
    assert (found.rows[own] == 0.9).all() and found.rows[~own].isnan().all()


def test_of_a_number_the_mixture_moves_to_the_expert_where_he_is_good():
    draw = stream("lean number")
    x = torch.stack([torch.randn(120, generator=draw), torch.zeros(120)], 1)
    y = 5 + torch.randn(120, generator=draw).double()
    rest = y + 0.7 * torch.randn(120, generator=draw)
    said = y + torch.where(x[:, 0] > 0, 0.1, 3.0) * torch.randn(120, generator=draw)
    told = Measured(x, y, said.clamp(0, 10), None, Bins(0.0, 10.0, 5))
    known = Knowledge(schema=SCHEMA, row_trust=RowTrust(SCHEMA, features=("ash",)))
    both = [StackMember(NETWORK, rest, shared=True)]
    found, together = trust_numbers(known, told, both, SHARE, rest, scaler=None, seed=0)
    assert found.choice.formula
    assert (together - y).square().mean() < 0.8 * (rest - y).square().mean()


def test_encoded_rows_are_read_as_they_were():
    schema = Schema(
        (
            Feature("a", low=0, high=1, missing="mean"),
            Feature("b", levels=("u", "v", "w"), missing="level", other=True),
            Feature("c", levels=("p", "q")),
        ),
        ("x", "y"),
    )
    inputs = inputs_of(schema)
    assert isinstance(inputs, Inputs)
    nan = torch.nan
    x = torch.tensor([[0.5, 0, 1], [nan, 3, 0], [0.25, nan, 1], [1, 2, 0]])
    assert torch.equal(inputs.decode(inputs.encode(x)).nan_to_num(-1), x.nan_to_num(-1))
    assert inputs.decode(x) is x


@pytest.mark.parametrize("search_space", [FEW, RISING])
def test_a_federation_with_the_recipe_keeps_the_owners_word(search_space, monkeypatch):
    monkeypatch.setattr(baseline, "has_trees", lambda: False)
    names = tuple(Feature(f"f{i}") for i in range(FEATURES))
    clients = []
    for client in federation():
        k = client.data.prior.shape[1]
        schema = Schema(names, tuple(map(str, range(k))), ordered=search_space is RISING)
        rows = RowTrust(schema, (TrustRegion("f0 > 0", 0.9),), features=("f1",))
        said = GradedFormula(
            Formula.parse("f0 + f1", schema), tuple(i - k / 2 for i in range(1, k))
        )
        known = Knowledge(said, schema=schema, row_trust=rows)
        parts = [
            None if part is None else Examples(part.x, part.y)
            for part in (client.data, client.test)
        ]
        clients.append(Client(client.id, parts[0], known, test=parts[1]))
    fitted = run(search_space, clients=clients)
    for client in clients:
        personal = fitted.model(client.id)
        assert personal.knowledge.row_trust.regions == client.knowledge.row_trust.regions
        told = personal.annotate(client.test.x)
        said = personal.log_probs(told).exp()
        spoken = told.prior.sum(1) > 0
        inside = (client.test.x[:, 0] > 0) & spoken
        least = (said * (told.prior > 0)).sum(1)
        assert inside.any() and (least[inside] >= 0.9 - 1e-5).all()
        lines = [line.name for line in fitted.benefit(client.id).lines]
        assert lines[-1] == BY_ROW
