"""What a run keeps of a site under an approach: its weights, and a bundle for `fedlore export`."""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..bundle import Bundle, Policies, bundle_of, read_bundle, write_bundle
from ..core.scaler import Scaler
from ..core.store import pack_payload, unpack_payload, write_whole
from ..core.tree import Params
from ..engine import Client, Fitted, NumberClient
from ..errors import FedloreError, unknown
from ..knowledge.signing import Signature
from ..models.classifier import Personal
from ..models.regressor import PersonalRegressor
from .approaches import Approach, trust_client

BUNDLE_SCORES = ("ta", "pov", "rmse", "mae", "r2", "coverage", "width")  # that a bundle names
ENDING = ".safetensors"  # of a file of weights


def weights_path(out: Path, approach: str, client: str) -> Path:
    """Where the personal weights of a site under an approach are kept."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", approach)
    return out / "weights" / safe / f"{client}{ENDING}"


def write_weights(fitted: Fitted[Any], client: str, path: Path) -> None:
    """A site's own weights and the common scaler as a file of tensors."""
    personal = fitted.model(client).inner
    payload = {"weights": dict(personal.model.state_dict())}
    if personal.scaler is not None:
        payload["scaler"] = personal.scaler.tensors()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, pack_payload(payload, {"client": client}))
    except OSError as error:
        raise FedloreError(f"cannot write to '{path}': {error.strerror}") from None


def read_weights(path: str | Path) -> tuple[Params, Scaler | None]:
    """The weights and the scaler that `write_weights` wrote."""
    try:
        payload = unpack_payload(Path(path).read_bytes())[1]
    except (OSError, ValueError, FedloreError) as error:
        raise FedloreError(f"'{path}' holds no weights: {error}") from None
    scaler = payload.get("scaler")
    return payload.get("weights", {}), None if scaler is None else Scaler.read(scaler, None)


def weights_there(out: Path, approach: Approach, clients: Sequence[Client | NumberClient]) -> bool:
    if approach.algorithm is None:
        return True
    return all(weights_path(out, approach.name, c.id).exists() for c in clients)


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
    return personal.with_knowledge(trust_client(client, approach.trust).knowledge)


def approaches_kept(out: Path) -> list[str]:
    """The approaches whose weights a run has kept."""
    home = out / "weights"
    return sorted(p.name for p in home.iterdir() if p.is_dir()) if home.is_dir() else []


def usual_approach(kinds: Sequence[str]) -> str:
    """The approach that is meant where none is named: lore, or what comes next to it."""
    return next((kind for kind in ("lore", "FLwKM") if kind in kinds), kinds[-1])


def _folder_of(out: Path, approach: str | None) -> Path:
    """Where a run has kept the weights of an approach, or of the usual one."""
    kinds = approaches_kept(out)
    if not kinds:
        raise FedloreError(f"'{out}' holds no weights of a fedlore run")
    wanted = approach or usual_approach(kinds)
    chosen = wanted.replace("+", "-").replace(" ", "-")
    if chosen not in kinds:
        raise FedloreError(unknown("approach", wanted, kinds))
    return out / "weights" / chosen


def sites_kept(out: Path, approach: str | None = None) -> list[str]:
    """The sites whose models a run has kept."""
    folder = _folder_of(out, approach)
    return sorted({path.stem for path in folder.iterdir() if path.suffix == ENDING})


def find_bundle(
    out: Path, client: str, approach: str | None = None, *, plugins: Collection[str] = ()
) -> Bundle:
    """The bundle of a site in a folder that `fedlore run` filled."""
    home, sites = _folder_of(out, approach), sites_kept(out, approach)
    if client not in sites:
        raise FedloreError(unknown("client", client, sites))
    path = home / f"{client}.lore"
    if path.exists():
        return read_bundle(path, plugins=plugins)
    note = path.with_suffix(".note")
    if note.exists():
        raise FedloreError(note.read_text(encoding="utf-8").strip())
    raise FedloreError(f"'{path}' is missing: delete '{home}' and run again")
