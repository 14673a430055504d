"""A personal model to the members of a bundle and back, each value checked on the way; its card."""

import hashlib
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
from ..kernel.schema import Feature, Schema
from ..knowledge.models import Knowledge
from ..knowledge.protocols import Card, kind_of
from ..knowledge.shapes.shape import promised_shapes
from ..knowledge.signing import Signature
from ..knowledge.soft import has_soft
from ..knowledge.sources.catalog import plugins_in
from ..models.client import PersonalModel
from .archive import Members, Refused, fingerprint_of, read_members, write_members
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
    signer_words,
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

    def scores(self, client: str) -> dict[str, float]:
        """Its last scores."""


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


def card_of(header: Mapping[str, Any], held: Knowledge, members: Members) -> str:
    """A page about one site's model."""
    known, schema, owner = held, held.require_schema(), held.card
    limits = known.range
    expert = known.prediction
    kinds = {
        "certain": "certain: an expert's rules, the answer never leaves it",
        "statistical": "statistical: it misses the truth now and then, as its level says",
    }
    lines = [
        f"# {header['client']}",
        "",
        f"- task: {header['task']}, answer: `{schema.label}`",
        f"- made: {header['created']} with fedlore {header['versions']['fedlore']}",
        f"- network: {_size(members)}, hears the expert: {'yes' if header['hears'] else 'no'}",
        f"- range: {kinds[kind_of(limits)] if limits is not None else 'none'}",
        f"- expert's prediction: {_trust(header) if expert is not None else 'none'}",
        *([] if known.row_trust is None else [f"- trust row by row: {known.row_trust}"]),
        *_soft(expert),
        *_ensemble(header),
        *_columns(schema),
        *(f"- shape, kept for any weights: {words}" for words in promised_shapes(known)),
        f"- other columns: {header['policies']['extra']}",
        *_owner(owner),
        *_signer(members),
        *_dates(known),
        "",
        "| feature | unit | scope |",
        "|---|---|---|",
        *(f"| {f.name} | {f.unit} | {_scope(f)} |" for f in schema.features),
        "",
    ]
    if header["bins"] is None:
        lines += ["Classes in order: " + ", ".join(schema.classes) + ".", ""]
    else:
        edges = header["bins"]
        lines += [f"A number from {edges[0]:g} to {edges[-1]:g}, in {len(edges) - 1} bins.", ""]
    if header["metrics"]:
        lines += ["| score | value |", "|---|---|"]
        lines += [f"| {name} | {value:.6g} |" for name, value in header["metrics"].items()]
        lines += [""]
    return "\n".join(lines)


def _size(members: Members) -> str:
    digest = hashlib.sha256(members["weights.safetensors"]).hexdigest()[:12]
    return f"{len(members['weights.safetensors']):,} bytes of weights ({digest})"


def _trust(header: Mapping[str, Any]) -> str:
    through = ", through the expert's confusion matrix" if header["confusion"] else ""
    ensemble = header.get("ensemble")
    weight = header["rely"] if ensemble is None else ensemble["expert"]
    return f"λ = {weight:g}{through}"


def _soft(expert: object) -> list[str]:
    """That some of it holds in most cases only."""
    if not has_soft(expert):
        return []
    return ["- soft rules: they hold in most cases only, weigh in the prediction, exclude nothing"]


def _columns(schema: Schema) -> list[str]:
    """What the site does without, and what it measures in another way."""
    without = [f"- not measured: {', '.join(schema.absent)}; a row may leave them out"]
    measures = [(one.name, one.own) for one in schema.features if one.own is not None]
    return (without if schema.absent else []) + [
        f"- another measure: {name} from {own.name}, {own.by}, within {own.within:g}"
        for name, own in measures
    ]


def _ensemble(header: Mapping[str, Any]) -> list[str]:
    """Who speaks with which weight, where the network is not alone."""
    ensemble = header.get("ensemble")
    if ensemble is None:
        return []
    named = [("network", ensemble["network"])]
    named += [(one["name"], one["weight"]) for one in ensemble["members"]]
    named += [("expert", ensemble["expert"])] if ensemble["expert"] > 0 else []
    return ["- ensemble: " + ", ".join(f"{name} {100 * w:.3g} %" for name, w in named)]


def _owner(card: Card | None) -> list[str]:
    said = {} if card is None else vars(card)
    return [f"- knowledge, {name}: {text}" for name, text in said.items() if text]


def _signer(members: Members) -> list[str]:
    signed = read_signature(members)
    return [] if signed is None else [f"- knowledge, signed by: {signer_words(signed)}"]


def _dates(known: Knowledge) -> list[str]:
    """That its rules have dates, and when they run out."""
    if known.timeline is None:
        return []
    days = ", ".join(day.isoformat() for day in known.timeline.days)
    said = [f"- knowledge, valid by dates: it changes on {days}, an answer is as of a day"]
    return said + [f"- knowledge, runs out: {words}" for words in known.timeline.ends]


def _scope(feature: Feature) -> str:
    if feature.levels:
        return ", ".join(feature.levels)
    if feature.low == float("-inf") and feature.high == float("inf"):
        return "any number"
    return f"{feature.low:g} to {feature.high:g}"
