"""A bundle or a graph against its certificate, line by line."""

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import KnowledgeError
from ..kernel.answers import Said, said_of
from ..kernel.holes import seen_rows
from ..kernel.knowledge import Known, read_knowledge, scope_of
from ..kernel.numbersets import NumberKnown, is_about_number, read_number_knowledge
from ..kernel.prove import agrees, inside, never_empty, sample_rows
from ..kernel.soft import is_soft
from ..kernel.trusting import lean
from .bundles import digest, faults, knowledge_texts, manifest, read_members, read_weights
from .forward import probabilities
from .graphs import Graph, differences, other_forms, other_names, structure
from .headers import certificate_faults, header_faults, read_json
from .lines import Line, compare_claim
from .members import mixture_faults
from .numberverdict import number_bundle, number_claims, number_graph
from .shapes import monotone
from .signatures import signature_faults

FORMAT = "fedlore range certificate"
VERSION = 1
UNREADABLE = (  # what values of another kind than expected raise, and broken zips
    *(KnowledgeError, OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError),
    *(ImportError, zlib.error),
)
_AGREES = "prediction-agrees"


def check(certificate: Path, subject: Path, key: str | None = None) -> list[Line]:
    """Everything that was checked; `outcome_of` says what it comes to.

    With `key`, the knowledge must be signed by it.
    """
    lines: list[Line] = []
    try:
        for line in _check(certificate, subject, key):
            lines.append(line)
    except UNREADABLE as error:
        lines.append(Line("readable", False, f"{error}"))
    return lines


def seal(values: Mapping[str, Any]) -> str:
    """The hash of a certificate: of everything in it but the hash."""
    said = {key: value for key, value in values.items() if key != "sha256"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _check(certificate: Path, subject: Path, key: str | None) -> Iterator[Line]:
    said = read_json(certificate.read_bytes(), "the certificate")
    if said.get("format") != FORMAT or said.get("version") != VERSION:
        raise KnowledgeError(f"no {FORMAT} of version {VERSION}")
    same = seal(said) == said.get("sha256")
    yield Line("certificate's own hash", same, "" if same else "its text was changed")
    wrong = certificate_faults(said)
    yield Line("certificate's own words", not wrong, wrong[0] if wrong else "")
    if subject.is_file() and subject.suffix == ".onnx":
        graph = Graph(subject.read_bytes())
        texts = graph.knowledge()
        yield from _hashes(texts, said)
        yield from _signature(texts, said, key)
        yield _weights(graph.weights, said)
        if is_about_number(texts):
            number = read_number_knowledge(texts)
            yield from number_claims(number, said)
            yield _same_graph(graph, said)
            yield from number_graph(graph, number)
            return
        known = _hear(read_knowledge(texts), said)
        yield from _claims(known, said)
        yield from _graph(graph, known, said)
    else:
        members = read_members(subject)
        yield Line("bundle's manifest", True, f"{len(members)} members")
        texts = knowledge_texts(members)
        yield from _hashes(texts, said)
        whole = {name: digest(data) for name, data in members.items()} == said["files"]
        whole = whole and digest(manifest(members)) == said["bundle"]
        yield Line("files as certified", whole, "" if whole else "other files than certified")
        yield from _signature(texts, said, key, members)
        weights = read_weights(members["weights.safetensors"])
        yield _weights(weights, said)
        header = read_json(members["bundle.json"], "bundle.json")
        tensors = None
        if header.get("beside") is not None:
            tensors = read_weights(members["beside.safetensors"])
            wrong = mixture_faults(header["beside"], tensors)
            count = sum(values.size for values in tensors.values())
            found = wrong[0] if wrong else f"{len(header['beside']['members'])}, {count} numbers"
            yield Line("members finite, weights sum to 1", not wrong, found)
        if is_about_number(texts):
            number = read_number_knowledge(texts)
            yield from number_claims(number, said)
            if number.directions:
                yield _shapes(number, header, tensors, said)
            yield from number_bundle(header, weights, number, tensors)
            return
        heard = header.get("confusion") == said.get("confusion")
        yield Line("expert's confusion", heard, "" if heard else "it is not the one certified")
        known = _hear(read_knowledge(texts), said)
        yield from _claims(known, said)
        if known.directions:
            yield _shapes(known, header, tensors, said)
        wrong = header_faults(header, known)
        yield Line("names, policy and layers", not wrong, wrong[0] if wrong else "")
        yield _definition(header, weights, known, tensors)


def _hear(known: Known, said: Mapping[str, Any]) -> Known:
    """The knowledge, its expert behind the confusion that the certificate tells of."""
    rows = said.get("confusion")
    return known if rows is None else replace(known, confusion=np.array(rows, dtype=np.float64))


def _hashes(texts: Mapping[str, str], said: Mapping[str, Any]) -> Iterator[Line]:
    found = {name: digest(text.encode()) for name, text in texts.items()}
    wrong = sorted(
        n for n in {*found, *said["knowledge"]} if found.get(n) != said["knowledge"].get(n)
    )
    yield Line(
        "knowledge as certified",
        not wrong,
        f"{wrong[0]} is not the one certified" if wrong else f"{len(found)} files",
    )


def _signature(
    texts: Mapping[str, str],
    said: Mapping[str, Any],
    key: str | None,
    members: Mapping[str, bytes] | None = None,
) -> Iterator[Line]:
    """The signature that the certificate names, under this very knowledge."""
    what, told = "knowledge signed", said.get("signature")
    if members is not None and ("signature.json" in members or told is not None):
        own = members.get("signature.json")
        if own is None or read_json(own, "signature.json") != told:
            yield Line(what, False, "the bundle's signature is not the one certified")
            return
    if told is None:
        if key is not None:
            yield Line(what, False, "nobody signed it")
        return
    wrong = signature_faults(told, {name: text.encode() for name, text in texts.items()}, key)
    words = wrong[0] if wrong else f"by {told['signer']}, {told['date']}, key {told['key']}"
    yield Line(what, not wrong, "".join(c if c.isprintable() else " " for c in words))


def _weights(weights: Mapping[str, Any], said: Mapping[str, Any]) -> Line:
    wrong = faults(weights, said["weights"])
    count = sum(values.size for values in weights.values())
    return Line(
        "weights finite and as certified", not wrong, wrong[0] if wrong else f"{count} numbers"
    )


def _claims(known: Known, said: Mapping[str, Any]) -> Iterator[Line]:
    """The scope with its names, and every claim over it, established anew."""
    scope = scope_of(known.columns)
    names = [column.name for column in known.columns]
    told = [(entry["feature"], entry["low"], entry["high"]) for entry in said["scope"]]
    same = told == list(zip(names, scope.low.tolist(), scope.high.tolist(), strict=True))
    same = same and (said["classes"], said["conflict"]) == ([*known.classes], known.conflict)
    yield Line("scope", same, "" if same else "it is not the one of the knowledge")
    statuses = {claim["claim"]: claim["status"] for claim in said["claims"]}
    yield compare_claim("the range is never empty", never_empty(known), statuses.get("never-empty"))
    if any(getattr(source, "policy", "") == "unique" for source in known.predict.sources):
        yield compare_claim("the prediction never disagrees", agrees(known), statuses.get(_AGREES))
    if known.predict.sources and known.range.sources:
        found = inside(known)
        told_status = statuses.get("prediction-inside")
        if known.conflict == "error":
            yield compare_claim("the prediction stays in the range", found, told_status)
        else:  # its policy takes care of it; the claim must not say more than is so
            fine = told_status != "proved" or not (found.status == "refuted" or is_soft(known))
            words = f"{found.status}; policy {known.conflict} removes what is outside"
            yield Line("the prediction stays in the range", fine, words)


def _shapes(
    known: Known | NumberKnown,
    header: Mapping[str, Any],
    tensors: Mapping[str, Any] | None,
    said: Mapping[str, Any],
) -> Line:
    """The claim about shapes: it must not say more than is proved here."""
    what = "more of a feature with a shape never moves the answer the other way"
    found = monotone(known, header, tensors)
    told = next((c["status"] for c in said["claims"] if c["claim"] == "monotone"), "unknown")
    words: str = found.status if found.example is None else f"refuted by {list(found.example)}"
    return Line(what, told != "proved" or found.status == "proved", words)


def _definition(
    header: Mapping[str, Any],
    weights: Mapping[str, Any],
    known: Known,
    tensors: Mapping[str, Any] | None,
) -> Line:
    """The personal model by its definition, on rows of the scope, with these very weights."""
    what = "zeros outside the range on rows of the scope"
    x = sample_rows(known, 1_000, seed=1).astype(np.float32)
    said = said_of(known, x)
    keep = ~said.refused
    said = Said(None if said.prior is None else said.prior[keep], said.allowed[keep], said.refused)
    try:
        trust = float(header["rely"]) if known.directions else known.trust
        leaning = lean(known.leaning, seen_rows(known, x[keep]))
        about = (tensors, known.directions, leaning)
        p = probabilities(header, weights, x[keep], said, trust, *about)
    except KnowledgeError as error:
        return Line(what, True, f"{error} is beyond this checker", rows=0)
    good = bool((p[~said.allowed] == 0).all() and np.isfinite(p).all())
    good = good and bool((np.abs(p.sum(1) - 1) < 1e-4).all())
    return Line(what, good, rows=len(p))


def _same_graph(graph: Graph, said: Mapping[str, Any]) -> Line:
    told, found = said.get("graph"), graph.digests()
    if told is None:
        words = "the certificate was issued without the graph"
        return Line("graph as certified", False, words)
    other = sorted(name for name in {*told, *found} if told.get(name) != found.get(name))
    words = f"'{other[0]}' is computed in another way" if other else f"{len(graph.nodes)} nodes"
    return Line("graph as certified", not other, words)


def _graph(graph: Graph, known: Known, said: Mapping[str, Any]) -> Iterator[Line]:
    yield _same_graph(graph, said)
    wrong = structure(graph)
    yield Line("graph keeps the range by its structure", not wrong, "; ".join(wrong))
    wrong = other_names(graph, known)
    yield Line("names of features and classes", not wrong, wrong[0] if wrong else "")
    wrong, count = other_forms(graph, known)
    yield Line(
        "graph computes what the knowledge says",
        not wrong,
        wrong[0] if wrong else f"read off {count} nodes",
    )
    # that operators do what they are said to do
    rows = sample_rows(known, 500, seed=2)
    wrong = differences(graph, known, rows)
    words = wrong[0] if wrong else f"{len(rows)} rows alike"
    yield Line("graph run beside the knowledge", not wrong, words)
