"""A bundle or a graph against its certificate, line by line."""

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import KnowledgeError
from ..kernel.answers import said_of, sets_of
from ..kernel.graph.evaluate import Numpy
from ..kernel.graph.knowledge import (
    Part,
    add_expert,
    compile_knowledge,
    inside_range,
    mask_range,
    mix_parts,
)
from ..kernel.graph.numbers import bound_rows, compile_number_knowledge, number_outputs
from ..kernel.graph.ops import SINGLE
from ..kernel.knowledge import Known, read_knowledge, scope_of
from ..kernel.prove import never_disagrees, never_empty, sample_rows, stays_inside
from ..kernel.search import Verdict
from ..kernel.sources import is_soft
from .bundles import (
    certificate_faults,
    digest,
    faults,
    header_faults,
    knowledge_texts,
    manifest,
    mixture_faults,
    read_json,
    read_members,
    read_weights,
    signature_faults,
)
from .forms import differences, other_forms, structure
from .graphs import Graph, other_names
from .shapes import monotone


@dataclass(frozen=True)
class Line:
    """One thing that was looked at, whether it holds, and what was found.

    `rows` says on how many rows it was tested where it was not proved; 0: not even that.
    """

    what: str
    holds: bool
    found: str = ""
    rows: int | None = None

    def __str__(self) -> str:
        word = "FAIL" if not self.holds else "ok" if self.rows is None else "tested"
        found = self.found if self.rows is None or not self.holds else f"on {self.rows} rows"
        more = self.found if self.found and self.rows is not None and self.holds else ""
        return f"{word:6} {self.what}" + "".join(f": {part}" for part in (found, more) if part)


class Outcome(NamedTuple):
    """All lines in one sentence, and the exit code: 0 as far as it was looked at, 1 not so."""

    words: str
    code: int


def outcome_of(lines: Sequence[Line]) -> Outcome:
    """What the lines come to."""
    if not lines or not all(line.holds for line in lines):
        return Outcome("THE CERTIFICATE DOES NOT HOLD", 1)
    tested = [line.rows for line in lines if line.rows is not None]
    if tested:
        words = f"the certificate holds as far as it was tested, on {min(tested)} rows"
        return Outcome(words, 0)
    return Outcome("the certificate holds", 0)


def compare_claim(what: str, found: Verdict, told: str | None) -> Line:
    """A claim holds where it was proved here too; what is unknown is reported, and does not."""
    words: str = found.status
    if found.boxes:
        words += f" over {found.boxes} boxes"
    if found.example is not None:
        words += f" by {list(found.example)}"
    if told != found.status:
        words += f"; the certificate says {told}"
    return Line(what, found.status == "proved" and told == "proved", words)


FORMAT = "fedlore range certificate"
VERSION = 1
UNREADABLE = (  # what values of another kind than expected raise, and broken zips
    *(KnowledgeError, OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError),
    *(ImportError, zlib.error),
)


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
        yield from _check_graph(Graph(subject.read_bytes()), said, key)
    else:
        yield from _check_bundle(read_members(subject), said, key)


def _check_graph(graph: Graph, said: Mapping[str, Any], key: str | None) -> Iterator[Line]:
    texts = graph.knowledge()
    yield from _hashes(texts, said)
    yield from _signature(texts, said, key)
    yield _weights(graph.weights, said)
    known = _read(texts, said)
    number = known.line is not None
    yield from _claims(known, said)
    yield _same_graph(graph, said)
    wrong = structure(graph, number=number)
    what = f"graph keeps the {'set' if number else 'range'} by its structure"
    yield Line(what, not wrong, "; ".join(wrong))
    wrong = other_names(graph, known)
    what = f"names of features and {'target' if number else 'classes'}"
    yield Line(what, not wrong, wrong[0] if wrong else "")
    wrong, count = other_forms(graph, known)
    words = wrong[0] if wrong else f"read off {count} nodes"
    yield Line("graph computes what the knowledge says", not wrong, words)
    # that operators do what they are said to do
    rows = sample_rows(known, 500, seed=2)
    wrong = differences(graph, known, rows)
    words = wrong[0] if wrong else f"{len(rows)} rows alike"
    yield Line("graph run beside the knowledge", not wrong, words)


def _check_bundle(
    members: Mapping[str, bytes], said: Mapping[str, Any], key: str | None
) -> Iterator[Line]:
    yield Line("bundle's manifest", True, f"{len(members)} members")
    texts = knowledge_texts(members)
    yield from _hashes(texts, said)
    whole = {name: digest(data) for name, data in members.items()} == said["files"]
    whole = whole and digest(manifest(members)) == said["bundle"]
    yield Line("files as certified", whole, "" if whole else "other files than certified")
    yield from _signature(texts, said, key, members)
    yield _weights(read_weights(members["weights.safetensors"]), said)
    header = read_json(members["bundle.json"], "bundle.json")
    tensors = None
    if header.get("ensemble") is not None:
        tensors = read_weights(members["ensemble.safetensors"])
        wrong = mixture_faults(header["ensemble"], tensors)
        count = sum(values.size for values in tensors.values())
        found = wrong[0] if wrong else f"{len(header['ensemble']['members'])}, {count} numbers"
        yield Line("members finite, weights sum to 1", not wrong, found)
    heard = header.get("confusion") == said.get("confusion")
    yield Line("expert's confusion", heard, "" if heard else "it is not the one certified")
    known = _read(texts, said)
    yield from _claims(known, said)
    if known.directions:
        yield _shapes(known, header, tensors, said)
    wrong = header_faults(header, known)
    yield Line("names, policy and layers", not wrong, wrong[0] if wrong else "")
    yield _definition(known)


def _read(texts: Mapping[str, str], said: Mapping[str, Any]) -> Known:
    """The knowledge, its expert behind the confusion that the certificate tells of."""
    known, rows = read_knowledge(texts), said.get("confusion")
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
    if known.line is not None:
        what, own = "set", {"lower": known.number.lower, "upper": known.number.upper}
        same = same and said.get("target") == own
    else:
        what, own = "range", {}
        same = same and said["classes"] == [*known.classes]
    same = same and said["conflict"] == known.conflict
    yield Line("scope", same, "" if same else "it is not the one of the knowledge")
    statuses = {claim["claim"]: claim["status"] for claim in said["claims"]}
    yield compare_claim(
        f"the {what} is never empty", never_empty(known), statuses.get("never-empty")
    )
    if any(getattr(source, "policy", "") == "unique" for source in known.predict.sources):
        claimed = statuses.get("prediction-agrees")
        yield compare_claim("the prediction never disagrees", never_disagrees(known), claimed)
    if known.predict.sources and (own or known.range.sources):
        found, claimed = stays_inside(known), statuses.get("prediction-inside")
        words = f"the prediction stays in the {what}"
        if known.conflict == "error":
            yield compare_claim(words, found, claimed)
        else:  # its policy takes care of it; the claim must not say more than is so
            soft = is_soft(known)
            fine = claimed != "proved" or not (found.status == "refuted" or soft)
            policy = f"{found.status}; policy {known.conflict} takes care of what is outside"
            yield Line(words, fine, policy)


def _shapes(
    known: Known,
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


def _definition(known: Known) -> Line:
    """The definition of a personal model on rows of the scope, with scores of every size.

    Whatever a network and its members say, of a finite score in each class the definition makes
    probabilities in the range, and of any number one in the set.
    """
    x = sample_rows(known, 1_000, seed=1).astype(SINGLE)
    draw, o = np.random.default_rng(1), Numpy(x)
    with np.errstate(all="ignore"):
        if known.line is not None:
            what = "numbers inside the set on rows of the scope"
            found = compile_number_knowledge(o, known)
            sets = found.sets or bound_rows(o, (known.number.lower, known.number.upper))
            values = [_scores(draw, len(x), 1).astype(np.float64) for _ in range(3)]
            number, _, refused = number_outputs(o, sets, found.refused, values)
            good = sets_of(known, x).holds(number)[~refused].all()
            return Line(what, bool(good), rows=int((~refused).sum()))
        what = "zeros outside the range on rows of the scope"
        nodes = compile_knowledge(o, known)
        allowed = mask_range(o, nodes, known.k)
        shares = [Part(o.guard(_scores(draw, len(x), known.k), SINGLE), 0.5) for _ in range(2)]
        mixed = mix_parts(o, shares, allowed, SINGLE)
        if nodes.prior is not None:
            trust = np.float32(known.trust) if nodes.trust is None else nodes.trust
            mixed = add_expert(o, mixed, nodes.prior, trust, SINGLE)
        p = inside_range(o, mixed, allowed, SINGLE)[~nodes.refused[:, 0]]
    inside_ = said_of(known, x).allowed[~nodes.refused[:, 0]]
    good = (p[~inside_] == 0).all() and np.isfinite(p).all()
    good = good and (np.abs(p.sum(1) - 1) < 1e-4).all()
    return Line(what, bool(good), rows=len(p))


def _scores(draw: Any, n: int, k: int) -> Any:
    """Scores of every size, some of which are no numbers."""
    found = draw.normal(size=(n, k)) * 10.0 ** draw.integers(-3, 39, (n, 1))
    return np.where(draw.random((n, k)) < 0.02, np.nan, found).astype(SINGLE)


def _same_graph(graph: Graph, said: Mapping[str, Any]) -> Line:
    told, found = said.get("graph"), graph.digests()
    if told is None:
        words = "the certificate was issued without the graph"
        return Line("graph as certified", False, words)
    other = sorted(name for name in {*told, *found} if told.get(name) != found.get(name))
    words = f"'{other[0]}' is computed in another way" if other else f"{len(graph.nodes)} nodes"
    return Line("graph as certified", not other, words)
