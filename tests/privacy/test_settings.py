"""[privacy] as a table: what it may say, and what cannot go together."""

import pytest

from fedlore import ConfigError, Plan
from fedlore.config import build
from fedlore.core.aggregate import Median, Trimmed
from fedlore.core.nets import mlp
from fedlore.engine import fit
from fedlore.privacy import Dp, Privacy
from fedlore.privacy.filters import FilterContext
from fedlore.privacy.settings import filters_of

from ..engine.federation import CLASSES, FEATURES, federation


def test_a_table_becomes_settings():
    found = build(Privacy, {"secure_aggregation": True, "threshold": 1})
    assert found == Privacy(secure_aggregation=True, threshold=1.0)
    found = build(Privacy, {"dp": {"epsilon": 4, "delta": 1e-5, "level": "site"}})
    assert found.epsilon == 4.0 and found.dp == Dp(4.0, 1e-5)
    assert Privacy().epsilon is None
    assert filters_of(Privacy(), FilterContext(2)) == []


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"secure_agregation": True}, "did you mean 'secure_aggregation'"),
        ({"secure_aggregation": "yes"}, "must be true or false"),
        ({"threshold": 0.7}, "belongs to secure_aggregation"),
        ({"secure_aggregation": True, "threshold": 0.3}, r"lie in \[2/3, 1\], got 0.3"),
        ({"encryption": "rot13"}, "must be one of ckks"),
        ({"encryption": "ckks", "secure_aggregation": True}, "choose one"),
        (
            {"secure_aggregation": True, "dp": {"epsilon": 4, "delta": 1e-5, "where": "central"}},
            "secure aggregation hides: use where = 'distributed'",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(table, says):
    with pytest.raises(ConfigError, match=says):
        build(Privacy, table)


@pytest.mark.parametrize(
    ("around", "says"),
    [
        (FilterContext(2), "at least 3 sites in a round, got 2 of 2"),
        (FilterContext(10, sample=0.2), "got 2 of 10"),
        (
            FilterContext(5, aggregate=Median()),
            "'median' compares single replies, which secure aggr",
        ),
        (FilterContext(5, aggregate=Trimmed()), "'trimmed' compares single replies"),
    ],
)
def test_a_federation_that_cannot_have_it_is_refused(around, says):
    with pytest.raises(ConfigError, match=says):
        filters_of(Privacy(secure_aggregation=True), around)


def test_noise_comes_before_masks():
    both = Privacy(secure_aggregation=True, dp=Dp(4.0, 1e-5))
    noising, masks = filters_of(both, FilterContext(10, rounds=5))
    assert (noising.name, masks.name) == ("dp", "secure aggregation")
    assert noising.least == 7  # as many as the masks demand
    assert filters_of(both, FilterContext(10, rounds=5, least=9))[0].least == 9
    with pytest.raises(ConfigError, match="exact|sums over sites"):
        filters_of(both, FilterContext(10, algorithm="Scaffold", exact=True))


def fitted(clients=None, **settings):
    plan = Plan(epochs=1, momentum=0.0)
    return fit(clients or federation(), mlp(FEATURES, CLASSES), rounds=3, plan=plan, **settings)


@pytest.mark.parametrize("weights", ["equal", "size"])
@pytest.mark.parametrize("engine", ["local", "stacked"])
@pytest.mark.parametrize(
    ("privacy", "within"),
    [(Privacy(secure_aggregation=True), 1e-6), (Privacy(encryption="ckks"), 1e-5)],
    ids=["masks", "ckks"],
)
def test_one_word_hides_single_uploads_and_changes_nothing_else(privacy, within, engine, weights):
    settings = {"engine": engine, "weights": weights, "workers": 1, "evaluate": 3}
    plain, hidden = fitted(**settings), fitted(privacy=privacy, **settings)
    for name, t in plain.run.state["model"].items():
        assert ((hidden.run.state["model"][name] - t).norm() / t.norm()) < within
    assert (hidden.recipe.scaler.shift - plain.recipe.scaler.shift).abs().max() < 1e-9
    assert plain.privacy == () and len(hidden.privacy) == (privacy.encryption is not None)
    keys = [row.keys() for row in plain.history]
    assert [row.keys() for row in hidden.history][: len(keys)] == keys
