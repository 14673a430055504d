"""A bundle beside the weights of every site and approach, for `fedlore export`."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ..bundle import Bundle, Policies, bundle_of, read_bundle, write_bundle
from ..engine import Client, Fitted, NumberClient
from ..errors import FedloreError, unknown
from ..knowledge.signing import Signature
from ..personal.classifier import Personal
from ..personal.regressor import PersonalRegressor
from .approaches import Approach, trust_client

BUNDLE_SCORES = ("ta", "pov", "rmse", "mae", "r2", "coverage", "width")  # that a bundle tells
KEPT = (".safetensors", ".npz")  # how weights are named, now and by 0.1.0


def keep_bundle(
    weights: Path,
    approach: Approach,
    fitted: Fitted[Any],
    client: Client | NumberClient,
    scores: Mapping[str, Any],
    *,
    signature: Signature | None = None,
    signed: bool = False,
) -> None:
    """Write a site's bundle; what keeps it from being one is written down in its place."""
    path, note = weights.with_suffix(".lore"), weights.with_suffix(".note")
    try:
        found = bundle_of(
            _personal_of(approach, fitted, client),
            client.id,
            schema=client.knowledge.schema,
            metrics={k: v for k, v in scores.items() if k in BUNDLE_SCORES},
            policies=Policies(signed=signed),
            holdings=fitted.holdings.get(client.id, ()) if approach.chosen else (),
            signature=signature,
        )
        write_bundle(found, path)
        note.unlink(missing_ok=True)
    except FedloreError as error:  # a run is not lost because its knowledge is code
        note.write_text(f"{error}\n", encoding="utf-8")
        path.unlink(missing_ok=True)


def _personal_of(
    approach: Approach, fitted: Fitted[Any], client: Client | NumberClient
) -> Personal | PersonalRegressor:
    """The model that an approach predicts with at a site."""
    personal: Personal | PersonalRegressor = fitted.model(client.id)
    if approach.chosen and personal.knowledge.schema is not None:
        return personal
    if not approach.guarded:
        return personal.with_knowledge(None)
    if isinstance(personal, Personal):
        assert isinstance(client, Client)
        return personal.with_knowledge(trust_client(client, approach.trust).knowledge)
    assert isinstance(client, NumberClient)
    return personal.with_knowledge(trust_client(client, approach.trust).knowledge)


def find_bundle(
    out: Path, client: str, approach: str | None = None, *, plugins: Collection[str] = ()
) -> Bundle:
    """The bundle of a site in a folder that `fedlore run` filled."""
    home = out / "weights"
    kinds = sorted(p.name for p in home.iterdir() if p.is_dir()) if home.is_dir() else []
    if not kinds:
        raise FedloreError(f"'{out}' holds no weights of a fedlore run")
    wanted = approach or next((k for k in ("lore", "FLwKM") if k in kinds), kinds[-1])
    chosen = wanted.replace("+", "-").replace(" ", "-")
    if chosen not in kinds:
        raise FedloreError(unknown("approach", wanted, kinds))
    sites = sorted({p.stem for p in (home / chosen).iterdir() if p.suffix in KEPT})
    if client not in sites:
        raise FedloreError(unknown("client", client, sites))
    path = home / chosen / f"{client}.lore"
    if path.exists():
        return read_bundle(path, plugins=plugins)
    note = path.with_suffix(".note")
    if note.exists():
        raise FedloreError(note.read_text(encoding="utf-8").strip())
    raise FedloreError(
        f"'{out}' was filled by a fedlore without bundles: delete '{home / chosen}' and run again"
    )
