"""Names of other packages: found without loading, loaded on demand, errors in sentences."""

import sys

import pytest
import torch

from fedlore import ConfigError
from fedlore.algorithms import installed_algorithms, make
from fedlore.algorithms.catalog import Method
from fedlore.core.models import MODELS, make_kind, make_network
from fedlore.core.plugins import find_plugins

from ..installed import WIDE, install

ENTRY = "wide = widenets:WideKind"


def test_names_are_found_without_loading_anything(tmp_path, monkeypatch):
    assert "wide" not in find_plugins("fedlore.models")
    install(monkeypatch, tmp_path / "a", models=ENTRY)
    loaders = find_plugins("fedlore.models", MODELS)
    assert "wide" in loaders and "widenets" not in sys.modules
    assert loaders["wide"]().__name__ == "WideKind" and "widenets" in sys.modules


def test_fedlores_own_names_win_and_a_clash_is_an_error(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "a", models="MLP = widenets:WideKind")
    with pytest.raises(ConfigError, match="'mlp' of package 'widenets' .* fedlore's own"):
        find_plugins("fedlore.models", MODELS)
    assert make_kind("mlp", {}) == MODELS["mlp"]()  # and what is ours goes on working
    with pytest.raises(ConfigError, match="a name of fedlore's own"):
        make_kind("other", {})


def test_a_name_of_two_packages_is_an_error(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "a", models=ENTRY)
    install(monkeypatch, tmp_path / "b", package="also-wide", models="wide = also_wide:WideKind")
    with pytest.raises(ConfigError, match="offered by two packages, 'also-wide' and 'widenets'"):
        find_plugins("fedlore.models")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nothing_like_it", "'widenets' .*cannot be loaded: ModuleNotFoundError"),
        ("1 / 0", "cannot be loaded: ZeroDivisionError"),
        ("", "cannot be loaded: AttributeError"),
        ("WideKind = 7", "model kind 'wide' must be a dataclass .* got 7"),
        ("class WideKind: ...", "model kind 'wide' must be a dataclass"),
        (
            "import dataclasses\n@dataclasses.dataclass\nclass WideKind: ...",
            "model kind 'wide' has no make",
        ),
    ],
)
def test_what_cannot_be_used_is_said_in_a_sentence(tmp_path, monkeypatch, code, message):
    install(monkeypatch, tmp_path / "a", code=code, models=ENTRY)
    with pytest.raises(ConfigError, match=message):
        make_kind("wide", {})


def test_settings_are_built_into_the_packages_own_dataclass(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "a", models=ENTRY)
    assert make_kind("wide", {"width": 3}).width == 3
    with pytest.raises(ConfigError, match="unknown key 'witdh'; did you mean 'width'"):
        make_kind("wide", {"witdh": 3})
    with pytest.raises(ConfigError, match="width must be a whole number, got 'three'"):
        make_kind("wide", {"width": "three"})


def test_weights_of_a_packages_model_follow_from_the_seed_alone(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "a", models=ENTRY)
    kind = make_kind("wide", {})

    def weights(seed):
        made = make_network("wide", kind, 4, 3, hears=False, seed=seed)
        return torch.cat([p.detach().flatten() for p in made.parameters()])

    torch.manual_seed(1)
    first = weights(0)
    torch.manual_seed(2)
    drawn = torch.random.get_rng_state()
    assert torch.equal(weights(0), first) and not torch.equal(weights(1), first)
    assert torch.equal(torch.random.get_rng_state(), drawn)


def test_a_packages_model_must_be_a_server_model(tmp_path, monkeypatch):
    code = WIDE.replace("return Wide(", "return nn.BatchNorm1d(3) if hears else 7 or (")
    install(monkeypatch, tmp_path / "a", code=code, models=ENTRY)
    kind = make_kind("wide", {})
    with pytest.raises(ValueError, match="must make a torch module, got 7"):
        make_network("wide", kind, 4, 3, hears=False, seed=0)
    with pytest.raises(ValueError, match="no buffers"):
        make_network("wide", kind, 4, 3, hears=True, seed=0)


def test_one_that_cannot_hear_says_so(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "a", models=ENTRY)
    with pytest.raises(ConfigError, match="'wide' cannot hear the expert: hears must be false"):
        make_network("wide", make_kind("wide", {}), 4, 3, hears=True, seed=0)


def test_an_algorithm_of_a_package_is_named_like_any_other(tmp_path, monkeypatch):
    install(monkeypatch, tmp_path / "a", algorithms="half = widenets:Half")
    method = Method("Half", {"way": 0.25})
    assert "widenets" not in sys.modules  # named, not loaded
    assert method.make() == make("half", way=0.25)
    assert method.make().way == 0.25
    assert installed_algorithms()["half"] is type(make("half"))
    with pytest.raises(ConfigError, match="unknown algorithm 'hafl'; did you mean 'half'"):
        Method("hafl").make()
