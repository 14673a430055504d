"""Filters of other packages in one process."""

import sys

import pytest

from fedlore import ConfigError, FedloreError, Plan
from fedlore.config import build
from fedlore.core.nets import mlp
from fedlore.engine import fit
from fedlore.privacy import Dp, Privacy
from fedlore.privacy.filters import FilterContext, Placement
from fedlore.privacy.settings import ADDED, FILTERS, filters_of, privacy_lines, share_secret

from ..engine.federation import CLASSES, FEATURES, federation
from .plugged import install


@pytest.fixture
def veil(tmp_path, monkeypatch):
    install(
        tmp_path,
        monkeypatch,
        veil="veiled:Veil",
        broken="veiled:nothing",
        other="veiled:Server",
        faceless="fedlore.algorithms:FedAvg",
    )


def fitted(**settings):
    plan = Plan(epochs=1, momentum=0.0)
    return fit(federation(), mlp(FEATURES, CLASSES), rounds=3, plan=plan, **settings)


def test_a_filter_of_another_package_works_in_fit(veil):
    plain = fitted()
    hidden = fitted(privacy=build(Privacy, {"filters": {"veil": {"size": 4}}}))
    for name, t in plain.run.state["model"].items():
        assert ((hidden.run.state["model"][name] - t).norm() / t.norm()) < 1e-5
    assert hidden.privacy == ("veils of size 4 over 3 rounds",)


def test_nothing_is_loaded_before_a_filter_is_made(veil):
    asked = build(Privacy, {"filters": {"veil": {"size": "wrong"}}})
    assert (
        asked.plugged == ("veil",) and asked.epsilon is None and asked.scores and not asked.spends
    )
    assert "veiled" not in sys.modules
    with pytest.raises(ConfigError, match="veil.size must be a number, got 'wrong'"):
        filters_of(asked, FilterContext(4))
    assert "veiled" in sys.modules


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("vail", "unknown filter 'vail'; did you mean 'veil'"),
        ("broken", "'broken'.* cannot be loaded"),
        ("other", "filter 'other' must be a dataclass"),
        ("faceless", "filter 'faceless' lacks .*hides, kinds, make"),
    ],
)
def test_what_is_no_filter_is_named(veil, name, says):
    with pytest.raises(ConfigError, match=says):
        filters_of(Privacy(filters={name: {}}), FilterContext(4))


def test_it_is_made_with_fedlores_own_in_the_order_of_a_site(veil):
    both = Privacy(dp=Dp(4.0, 1e-5), filters={"veil": {}})
    noising, veiling = filters_of(both, FilterContext(10, rounds=5))
    assert (noising.name, veiling.name) == ("dp", "veil")
    assert noising.least == 3 == both.needs(10)  # as many as the veil needs
    said = privacy_lines([noising, veiling], rounds=5)
    assert len(said) == 2 and "single uploads" not in " ".join(said)
    with pytest.raises(ConfigError, match="secure aggregation and a veil both hide"):
        filters_of(Privacy(secure_aggregation=True, filters={"veil": {}}), FilterContext(10))
    central = Privacy(dp=Dp(4.0, 1e-5, where="central"), filters={"veil": {}})
    with pytest.raises(ConfigError, match="which a veil hides: use where = 'distributed'"):
        filters_of(central, FilterContext(10))


@pytest.mark.parametrize("name", FILTERS)
def test_what_has_words_of_its_own_is_asked_for_by_them(name):
    with pytest.raises(ConfigError, match=rf"\[filters.{name}\] is asked for by .* in \[privacy\]"):
        Privacy(filters={name: {}})


def test_each_filter_of_fedlores_own_tells_the_tasks_it_adds():
    assert set(ADDED) == {"keys", "unmask", "decrypt"}
    assert all(kind.hides or not kind.kinds for kind in FILTERS.values())


def test_a_secret_that_sites_share_is_made_where_there_is_one(veil, tmp_path):
    place = Placement("site", tmp_path, "a", {"veil": "other.key"})
    path, name = share_secret("veil", place)
    assert path == tmp_path / "other.key" and path.exists() and name == "a seed"
    with pytest.raises(FedloreError, match="filter 'secagg' has no secret that sites share"):
        share_secret("secagg", place)
