"""The card of a bundle: what a person should know before using it, as Markdown."""

import hashlib
from collections.abc import Mapping
from typing import Any

from ..kernel.schema import Feature, Schema
from ..knowledge import Knowledge
from ..knowledge.protocols import Card, kind_of
from ..knowledge.shapes.shape import promised_shapes
from ..knowledge.soft import has_soft
from .archive import Members
from .knowledge import read_signature, signer_words


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
