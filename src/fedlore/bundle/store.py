"""A personal model to the members of a bundle and back, each value checked on the way in."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Protocol

from ..checker.forms import FORMAT, Policies
from ..core.conformal import CoveragePromise
from ..core.store import Unreadable, pack_tensors, unpack_tensors
from ..core.tree import Params
from ..errors import FedloreError, KnowledgeError
from ..kernel.dates import day_of
from ..kernel.schema import Schema
from ..knowledge.models import Knowledge
from ..knowledge.signing import Signature
from ..knowledge.sources.catalog import plugins_in
from ..models.client import PersonalModel
from .archive import Members, Refused, fingerprint_of, read_members, write_members
from .card import card_of
from .ensemble import describe_ensemble, restore_ensemble
from .header import (
    HOLDINGS,
    Bundle,
    check_agreement,
    finite_scores,
    header_inputs,
    header_scaler,
    heard_through,
    input_values,
    pack_holdings,
    read_header,
    read_holdings,
    row_shape,
    scaling_values,
    task_about,
    try_row,
    versions,
)
from .knowledge import (
    SIGNATURE,
    check_signature,
    knowledge_members,
    pack_signature,
    read_signature,
    restore,
    store,
    unwrap_confusion,
)
from .networks import build_network, describe_network

ENSEMBLE = "ensemble.safetensors"  # of an ensemble
OWN = ("bundle.json", "weights.safetensors", "card.md", ENSEMBLE, HOLDINGS, SIGNATURE)


def read_bundle(
    path: str | Path, *, plugins: Collection[str] = (), as_of: date | str | None = None
) -> Bundle:
    """The bundle of a folder or a `.lore` file, once everything about it has been checked.

    Where its rules have dates it answers as of a day: today, or the one that is named.
    A kind of source of another package is loaded where `plugins` names it, else refused.
    """
    members = read_members(path)
    try:
        return open_members(members, plugins=plugins, as_of=as_of)
    except FedloreError as error:
        raise type(error)(f"'{path}': {error}") from None


def bundle_on(bundle: Bundle, day: date | str | None = None) -> Bundle:
    """The same bundle as of another day, or of today; itself where nothing differs between them."""
    timeline, asked = bundle.timeline, day_of(day)
    if timeline is None or asked == timeline.day:
        return bundle
    return open_members(bundle.members, plugins=plugins_in(bundle.members), as_of=asked)


def write_bundle(bundle: Bundle, path: str | Path) -> None:
    """Write a bundle, to a zip where the name ends in .lore and to a folder otherwise."""
    write_members(bundle.members, path)


def load(path: str | Path, *, plugins: Collection[str] = ()) -> PersonalModel:
    """The personal model of a bundle, ready to predict on rows in raw units."""
    return read_bundle(path, plugins=plugins).personal


def bundle_of(
    personal: PersonalModel,
    client: str,
    *,
    schema: Schema | None = None,
    metrics: Mapping[str, float] | None = None,
    policies: Policies | None = None,
    holdings: Sequence[CoveragePromise] = (),
    signature: Signature | None = None,
) -> Bundle:
    """A bundle of a model in memory. Without `schema` it is the one of the model's knowledge.

    It holds `signature` where its knowledge is what was signed.
    """
    known, confusion = unwrap_confusion(personal.knowledge)
    own = known.schema
    names = schema or own
    if names is None:
        raise FedloreError("a bundle names its columns: give schema=, or knowledge that has one")
    if own is not None and (own.names, own.classes) != (names.names, names.classes):
        raise KnowledgeError("schema= and the knowledge name other features or classes")
    files, held = store(known, names, personal.bins)
    found = bundle_members(
        personal,
        client,
        files,
        held,
        confusion=confusion,
        metrics=metrics,
        policies=policies,
        signature=None if signature is None else pack_signature(signature, files),
    )
    return with_holdings(found, holdings, held) if holdings else found


class Trained(Protocol):
    """What a training leaves behind, as far as a bundle wants to know."""

    def model(self, client: str) -> Any:
        """The client's own model."""
        ...

    def scores(self, client: str) -> dict[str, float]:
        """Its last scores."""
        ...


def save_bundle(
    trained: Trained,
    client: str,
    path: str | Path,
    *,
    schema: Schema | None = None,
    metrics: Mapping[str, float] | None = None,
    holdings: Sequence[CoveragePromise] = (),
) -> None:
    """Write one client's bundle; without `metrics` it holds the client's last scores."""
    scores = trained.scores(client) if metrics is None else metrics
    model = trained.model(client)
    write_bundle(bundle_of(model, client, schema=schema, metrics=scores, holdings=holdings), path)


def bundle_members(
    personal: PersonalModel,
    client: str,
    files: Members,
    held: Knowledge,
    *,
    confusion: Sequence[Sequence[float]] | None = None,
    metrics: Mapping[str, float] | None = None,
    policies: Policies | None = None,
    signature: bytes | None = None,
) -> Bundle:
    """A bundle of a model's network, seen through the knowledge in `files`, read as `held`."""
    inner, ensemble, schema = personal.inner, personal.ensemble, held.require_schema()
    if task_about(held).name != personal.task:
        raise KnowledgeError(f"the knowledge is not for {personal.task}, the network is")
    network = describe_network(inner.model)
    about, tensors = (
        (None, {}) if ensemble is None else describe_ensemble(ensemble, personal.knowledge)
    )
    inputs = None if inner.scaler is None else input_values(inner.scaler.inputs)
    header = {
        "format": FORMAT,
        "client": client,
        "task": personal.task,
        "model": network,
        "hears": personal.hears,
        "shape": list(row_shape(network, schema)),
        "schema": schema.values(),
        "scaling": scaling_values(inner.scaler),
        "bins": None if held.bins is None else list(held.bins.edges),
        "trust": held.trust,
        "rely": held.trust_at_prediction,
        "conflict": held.conflict,
        "outside": held.outside,
        "confusion": None if confusion is None else [list(row) for row in confusion],
        "policies": asdict(policies or Policies()),
        "metrics": finite_scores(metrics or {}),
        "versions": versions(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        **({} if about is None else {"ensemble": about}),
        **({} if inputs is None else {"inputs": inputs}),
    }
    weights = {
        n: t.detach().cpu().contiguous().clone() for n, t in inner.model.state_dict().items()
    }
    members = {
        **knowledge_members(files),
        "bundle.json": _json(header),
        "weights.safetensors": pack_tensors(weights),
        **({} if about is None else {ENSEMBLE: pack_tensors(tensors)}),
        **({} if signature is None else {SIGNATURE: signature}),
    }
    members["card.md"] = card_of(header, held, members).encode()
    return open_members(members, held)


def open_members(
    members: Members,
    held: Knowledge | None = None,
    *,
    plugins: Collection[str] = (),
    as_of: date | str | None = None,
) -> Bundle:
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
    read_signature(members)
    held = restore(members, plugins=plugins, as_of=as_of) if held is None else held
    check_agreement(header, held)
    if (header.ensemble is None) != (ENSEMBLE not in members):
        raise Refused(f"{ENSEMBLE} and the members in bundle.json belong together: one is missing")
    model = build_network(header.model, _tensors(members, "weights.safetensors"))
    task = task_about(held, hears=header.hears)
    known, schema = heard_through(held, header), held.require_schema()
    ensemble = None
    inputs = header_inputs(header, schema)
    shape = header.shape if inputs is None else (inputs.width,)
    if header.ensemble is not None:
        tensors, k = _tensors(members, ENSEMBLE), len(schema.classes)
        ensemble = restore_ensemble(header.ensemble, tensors, held, shape=shape, classes=k)
    scaler = header_scaler(header, task.heard_inputs, inputs)
    personal = task.build(model, known, scaler=scaler, ensemble=ensemble)
    if personal.hears != header.hears:
        raise Refused("bundle.json and its network differ in whether the expert is an input")
    try_row(personal, header, task.heard_inputs, inputs)
    return Bundle(
        personal.eval(),
        schema,
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
        read_holdings(members[HOLDINGS]) if HOLDINGS in members else (),
    )


def with_holdings(
    bundle: Bundle, holdings: Sequence[CoveragePromise], held: Knowledge | None = None
) -> Bundle:
    """The same bundle with what its sets and intervals promise."""
    members = {**bundle.members, HOLDINGS: pack_holdings(holdings)}
    return open_members(members, held, plugins=plugins_in(members), as_of=_day(bundle))


def refuse_draft(bundle: Bundle, keys: Sequence[str] = (), *, needed: bool = False) -> None:
    """Refuse a bundle whose knowledge nobody signed, where it or its user wants a signature."""
    if not (needed or keys or bundle.policies.signed):
        return
    signed = check_signature(bundle.members)
    if signed is None:
        raise KnowledgeError(
            f"the knowledge of '{bundle.client}' is a draft: its bundle holds no signature of "
            "these rules, and signed knowledge is wanted here"
        )
    if keys and signed["key"] not in keys:
        raise KnowledgeError(
            f"the knowledge of '{bundle.client}' was signed by {signed['signer']} with a key that "
            "is not named here"
        )


def _tensors(members: Members, name: str) -> Params:
    try:
        return unpack_tensors(members[name])[0]
    except Unreadable as error:
        raise Refused(f"{name} cannot be read: {error}") from None


def with_policies(bundle: Bundle, policies: Policies) -> Bundle:
    """The same bundle with other policies about missing values and other columns."""
    header = json.loads(bundle.members["bundle.json"])
    header["policies"] = asdict(policies)
    members = {**bundle.members, "bundle.json": _json(header)}
    # the plugins are those of a bundle that was opened
    held = restore(members, plugins=plugins_in(members), as_of=_day(bundle))
    members["card.md"] = card_of(header, held, members).encode()
    return open_members(members, held)


def _day(bundle: Bundle) -> date | None:
    return None if bundle.timeline is None else bundle.timeline.day


def _json(values: Mapping[str, Any]) -> bytes:
    return (json.dumps(values, indent=1, allow_nan=False) + "\n").encode()
