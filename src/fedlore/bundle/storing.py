"""A personal model to the members of a bundle and back, each value checked on the way in."""

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core.tree import Params
from ..errors import FedloreError, KnowledgeError
from ..knowledge import Knowledge
from ..knowledge.numbers.numbers import Numbers
from ..knowledge.schema import Schema
from ..personal.classifier import Personal
from ..personal.regressor import PersonalRegressor
from .archive import Members, Refused, fingerprint_of, read_members, write_members
from .cards import card_of
from .contents import Bundle, Policies
from .header import (
    FORMAT,
    check_agreement,
    finite_scores,
    heard_through,
    read_header,
    row_shape,
    scaler_of,
    scaling_values,
    try_row,
    versions,
)
from .known import Held, knowledge_members, restore, schema_values, store, unwrapped
from .networks import built, described

OWN = ("bundle.json", "weights.safetensors", "card.md")


def read_bundle(path: str | Path) -> Bundle:
    """The bundle of a folder or a `.lore` file, once everything about it has been checked."""
    members = read_members(path)
    try:
        return opened(members)
    except FedloreError as error:
        raise type(error)(f"'{path}': {error}") from None


def write_bundle(bundle: Bundle, path: str | Path) -> None:
    """Write a bundle, to a zip where the name ends in .lore and to a folder otherwise."""
    write_members(bundle.members, path)


def load(path: str | Path) -> Personal | PersonalRegressor:
    """The personal model of a bundle, ready to predict on rows in raw units."""
    return read_bundle(path).personal


def bundle_of(
    personal: Personal | PersonalRegressor,
    client: str,
    *,
    schema: Schema | None = None,
    metrics: Mapping[str, float] | None = None,
    policies: Policies | None = None,
) -> Bundle:
    """A bundle of a model in memory. Without `schema` it is the one of the model's knowledge."""
    known, confusion = unwrapped(personal.knowledge)
    own = known.schema if isinstance(known, Knowledge) else None
    names = schema or own
    if names is None:
        raise FedloreError("a bundle names its columns: give schema=, or knowledge that has one")
    if own is not None and (own.names, own.classes) != (names.names, names.classes):
        raise KnowledgeError("schema= and the knowledge name other features or classes")
    bins = None if isinstance(personal, Personal) else personal.bins
    files, held = store(known, names, bins)
    return bundled(
        personal, client, files, held, confusion=confusion, metrics=metrics, policies=policies
    )


def bundled(
    personal: Personal | PersonalRegressor,
    client: str,
    files: Members,
    held: Held,
    *,
    confusion: Sequence[Sequence[float]] | None = None,
    metrics: Mapping[str, float] | None = None,
    policies: Policies | None = None,
) -> Bundle:
    """A bundle of a model's network, seen through the knowledge in `files`, read as `held`."""
    inner = personal if isinstance(personal, Personal) else personal.personal
    if (held.bins is None) != isinstance(personal, Personal):
        raise KnowledgeError("a network for classes and knowledge about a number do not fit")
    network = described(inner.model)
    known = held.knowledge
    header = {
        "format": FORMAT,
        "client": client,
        "task": "classification" if held.bins is None else "regression",
        "model": network,
        "hears": _hears(personal),
        "shape": list(row_shape(network, held.schema)),
        "schema": schema_values(held.schema),
        "scaling": scaling_values(inner.scaler),
        "bins": None if held.bins is None else list(held.bins.edges),
        "trust": known.trust,
        "rely": known.reliance,
        "conflict": known.conflict,
        "outside": known.outside,
        "confusion": None if confusion is None else [list(row) for row in confusion],
        "policies": asdict(policies or Policies()),
        "metrics": finite_scores(metrics or {}),
        "versions": versions(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    weights = {
        n: t.detach().cpu().contiguous().clone() for n, t in inner.model.state_dict().items()
    }
    members = {
        **knowledge_members(files),
        "bundle.json": _json(header),
        "weights.safetensors": _safetensors().save(weights),
    }
    members["card.md"] = card_of(header, held, members).encode()
    return opened(members, held)


def opened(members: Members, held: Held | None = None) -> Bundle:
    """A bundle from its members: nothing in them is believed before it is checked.

    `held` is their knowledge where it was read already.
    """
    for name in ("bundle.json", "weights.safetensors", "card.md"):
        if name not in members:
            raise Refused(f"the bundle has no {name}")
    extra = set(members) - {*knowledge_members(members), *OWN}
    if extra:
        raise Refused(f"a bundle has no member '{min(extra)}'")
    header = read_header(members["bundle.json"])
    held = restore(members) if held is None else held
    check_agreement(header, held)
    model = built(header.model, _weights(members["weights.safetensors"]))
    if model.hears != header.hears and held.bins is None:
        raise Refused("bundle.json and its network differ in whether it hears the expert")
    scaler = scaler_of(header)
    personal: Personal | PersonalRegressor
    if isinstance(held.knowledge, Numbers):
        assert held.bins is not None  # a number has bins
        personal = PersonalRegressor(
            model, held.bins, held.knowledge, scaler=scaler, hears=header.hears
        )
    else:
        personal = Personal(model, heard_through(held.knowledge, header), scaler=scaler)
    try_row(personal, header)
    return Bundle(
        personal.eval(),
        held.schema,
        header.client,
        header.task,
        header.metrics,
        members["card.md"].decode("utf-8", "replace"),
        header.versions,
        header.created,
        fingerprint_of(members),
        header.policies,
        header.shape,
        dict(members),
    )


def _weights(data: bytes) -> Params:
    package = _safetensors()
    try:
        return dict(package.load(data))
    except Exception as error:  # the package has one class of its own for every fault
        raise Refused(f"weights.safetensors cannot be read: {error}") from None


def _safetensors() -> Any:
    try:
        return importlib.import_module("safetensors.torch")
    except ImportError:
        raise FedloreError("safetensors is missing: pip install 'fedlore[bundle]'") from None


def _hears(personal: Personal | PersonalRegressor) -> bool:
    if isinstance(personal, PersonalRegressor):
        return personal.hears
    return bool(personal.model.hears)


def with_policies(bundle: Bundle, policies: Policies) -> Bundle:
    """The same bundle with other policies about missing values and other columns."""
    header = json.loads(bundle.members["bundle.json"])
    header["policies"] = asdict(policies)
    members = {**bundle.members, "bundle.json": _json(header)}
    held = restore(members)
    members["card.md"] = card_of(header, held, members).encode()
    return opened(members, held)


def _json(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=1, allow_nan=False) + "\n").encode()
