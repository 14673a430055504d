"""A bundle or a graph against its certificate, line by line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..config import build
from ..errors import KnowledgeError
from ..kernel.answers import said_of, sets_of
from ..kernel.cells import parse_day
from ..kernel.dates import as_of as day_texts
from ..kernel.dates import named_days
from ..kernel.graph.knowledge import (
    Part,
    add_expert,
    compile_knowledge,
    inside_range,
    mask_range,
    mix_parts,
)
from ..kernel.graph.numbers import bound_rows, compile_number_knowledge, number_outputs
from ..kernel.graph.ops import SINGLE, Numpy
from ..kernel.knowledge import Known, read_knowledge
from ..kernel.prove import sample_rows
from ..kernel.search import Verdict
from .bundles import (
    confusion_faults,
    ensemble_faults,
    hash_faults,
    header_faults,
    knowledge_texts,
    read_json,
    read_members,
    read_target,
    read_weights,
    signature_faults,
    weight_faults,
)
from .certificate import FORMAT, TESTED, VERSION, Facts, digest, manifest, seal
from .forms import Header
from .graphs import Graph, graph_faults
from .shapes import curvature, curvature_rows, monotone, monotone_rows


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
        tested = f"on {self.rows} rows" if self.holds and self.rows is not None else ""
        words = ": ".join(part for part in (self.what, tested, self.found) if part)
        return "".join(c if c.isprintable() else " " for c in f"{word:6} {words}")


class Outcome(NamedTuple):
    """All lines in one sentence, and the exit code: 0 where every line holds, else 1."""

    words: str
    code: int


def outcome_of(lines: Sequence[Line]) -> Outcome:
    """The outcome of all lines."""
    if not lines or not all(line.holds for line in lines):
        return Outcome("THE CERTIFICATE DOES NOT HOLD", 1)
    tested = [line.rows for line in lines if line.rows is not None]
    if tested:
        words = f"the certificate holds as far as it was tested, on {min(tested)} rows"
        return Outcome(words, 0)
    return Outcome("the certificate holds", 0)


def check(certificate: Path, subject: Path, key: str | None = None) -> list[Line]:
    """Everything that was checked; `outcome_of` says what it comes to.

    With `key`, the knowledge must be signed by it.
    """
    lines: list[Line] = []
    try:
        for line in _check(certificate, subject, key):
            lines.append(line)
    except Exception as error:  # values of another kind and broken zips raise what they like
        lines.append(Line("readable", False, f"{error}"))
    return lines


def _check(certificate: Path, subject: Path, key: str | None) -> Iterator[Line]:
    content = read_json(certificate.read_bytes(), "the certificate")
    if content.get("format") != FORMAT or content.get("version") != VERSION:
        raise KnowledgeError(f"not a {FORMAT} of version {VERSION}")
    same = seal(content) == content["sha256"]
    yield Line("certificate's own hash", same, "" if same else "its text was changed")
    yield _line("certificate's hashes", hash_faults(content["graph"], content["files"]))
    if subject.is_file() and subject.suffix == ".onnx":
        graph = Graph(subject.read_bytes())
        facts, untested = graph_facts(graph, content)
        yield _line("graph is the compiler's own", graph_faults(graph, facts.known, facts.expert),
                    f"{len(graph.layers)} nodes")  # fmt: skip
        yield _line("names in the graph", name_faults(graph, facts))
    else:
        members = read_members(subject)
        facts = bundle_facts(members, content["graph"], as_of=content.get("as_of"))
        header = read_json(members["bundle.json"], "bundle.json")
        yield _line(
            "names, policy and layers",
            header_faults(header, facts.known, facts.texts, facts.weights),
        )
        untested = {"inside-range": try_definition(facts.known)}
    yield from _sources(facts, key)
    yield from _compare(content, facts, untested)


def _line(what: str, wrong: Sequence[str], found: str = "") -> Line:
    return Line(what, not wrong, "; ".join(wrong) or found)


def _sources(facts: Facts, key: str | None) -> Iterator[Line]:
    """Weights, the expert's confusion, and whose rules they are."""
    yield _line("weights finite", weight_faults(facts.weights), f"{facts.count} numbers")
    if facts.expert is not None:
        words = f"{facts.expert:g} in the answer, the knowledge says {facts.known.trust:g}"
        yield _line("expert's weight", trust_faults(facts), words)
    if facts.confusion is not None:
        wrong = confusion_faults(facts.confusion, facts.known, facts.signature)
        yield _line("expert's confusion", wrong)
    if facts.signature is not None:
        by = facts.signature
        wrong = signature_faults(by, facts.texts, key)
        words = "" if wrong else f"by {by['signer']}, {by['date']}, key {by['key']}"
        yield _line("knowledge signed", wrong, words)
    elif key is not None:
        yield Line("knowledge signed", False, "it is not signed")


def trust_faults(facts: Facts) -> list[str]:
    """Where the expert's weight is not in [0, 1], or less than the owner of the file demands.

    An expert who is withheld because of a shape weighs 0.
    """
    expert, least = facts.expert, facts.known.least_trust
    if expert is not None and (type(expert) not in (int, float) or not 0.0 <= expert <= 1.0):
        return [f"the expert weighs {expert}, which does not lie in [0, 1]"]
    shaped = facts.known.directions or facts.known.bends
    if expert is None or expert >= least or (shaped and expert == 0.0):
        return []
    return [f"the expert weighs {expert:g} in the answer, the knowledge demands {least:g} at least"]


def _compare(
    certificate: Mapping[str, Any], facts: Facts, tested: Mapping[str, Any]
) -> Iterator[Line]:
    """The certificate against the one that is derived here, field by field, claim by claim."""
    own = facts.derive()
    odd = sorted({*certificate} ^ {*own})
    odd += [
        k for k in own if k not in ("claims", "sha256") and not _same(certificate.get(k), own[k])
    ]
    words = f"'{odd[0]}' differs from what the checker finds" if odd else f"{len(own)} fields"
    yield Line("certificate's fields", not odd, words)
    claimed = {claim["claim"]: claim for claim in certificate["claims"]}
    if [claim["claim"] for claim in certificate["claims"]] != [
        claim["claim"] for claim in own["claims"]
    ]:
        yield Line("certificate's claims", False, f"it claims {', '.join(map(str, claimed))}")
    for claim in own["claims"]:
        name, status = claim["claim"], claim["status"]
        rows = tested.get(name) if status == "proved" else None
        words = f"{status}, {claim['how'].partition(':')[0]}" if rows is None else TESTED[name]
        agreed = _same(claim, claimed.get(name))
        words += "" if agreed else "; the certificate claims something else"
        fine = agreed and (status == "proved" or not claim["needed"])
        yield Line(name, fine and rows != -1, words, rows)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: to Python 1 is True, and 0.0 is False."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def bundle_facts(members: Mapping[str, bytes], graph: Any = None, *, as_of: Any = None) -> Facts:
    """All that a bundle's certificate is derived from.

    `graph` and `as_of`, the day that rules with dates are read for, are not in the bundle.
    """
    texts = knowledge_texts(members)
    header = read_json(members["bundle.json"], "bundle.json")
    ensemble, tensors = header.get("ensemble"), None
    known = read_confused(texts, header["confusion"], as_of)
    if (ensemble is None) != ("ensemble.safetensors" not in members):
        raise KnowledgeError("the ensemble or its tensors are missing")
    if ensemble is not None:
        tensors = read_weights(members["ensemble.safetensors"])
        wrong = ensemble_faults(build(Header, header), tensors, known)
        if wrong:
            raise KnowledgeError(wrong[0])
    signed = members.get("signature.json")
    expert = header["rely"] if ensemble is None else ensemble["expert"]
    return Facts(
        known,
        header["client"],
        {name: digest(data) for name, data in sorted(members.items())},
        texts,
        read_weights(members["weights.safetensors"]),
        read_target(texts),
        _heard(known, float(expert)),
        header["confusion"],
        None if signed is None else read_json(signed, "signature.json"),
        monotone(known, header, tensors) if known.directions else None,
        curvature(known, header, tensors) if known.bends else None,
        graph,
        as_of,
    )


def graph_facts(graph: Graph, certificate: Mapping[str, Any]) -> tuple[Facts, dict[str, int]]:
    """The same of a graph, and on how many rows each claim of its shapes was tested; -1: one broke.

    What a graph does not say itself is taken from the certificate, to be held against its nodes.
    """
    texts = graph.knowledge()
    as_of = certificate.get("as_of")
    known = read_confused(texts, certificate["confusion"], as_of)
    expert = _heard(known, certificate["expert"])
    found: dict[str, tuple[Verdict, int]] = {}
    if known.directions:
        found["monotone"] = monotone_rows(known, graph.run, expert)
    if known.bends:
        found["curvature"] = curvature_rows(known, graph.run)
    claimed = {claim["claim"]: claim["status"] for claim in certificate["claims"]}
    moves, bends = (
        # less than what was found
        Verdict("unknown")
        if name in found and (found[name][0].status, claimed.get(name)) == ("proved", "unknown")
        else found.get(name, (None,))[0]
        for name in ("monotone", "curvature")
    )
    facts = Facts(
        known,
        graph.metadata.get("fedlore.client", ""),
        certificate["files"],
        texts,
        graph.weights,
        read_target(texts),
        expert,
        certificate["confusion"],
        certificate["signature"],
        moves,
        bends,
        graph.digests(),
        as_of,
    )
    return facts, {name: rows for name, (_, rows) in found.items()}


def _heard(known: Known, expert: Any) -> Any:
    """The expert's weight in the answer; None where nobody predicts a class."""
    return expert if known.line is None and (known.predict.sources or known.soft) else None


def read_confused(texts: Mapping[str, str], rows: Any, as_of: Any = None) -> Known:
    """The knowledge as of the day that is named, its expert behind his confusion."""
    dated = bool(named_days(texts))
    if dated != isinstance(as_of, str):
        raise KnowledgeError(
            "its rules have dates, and no day is named that they are read as of"
            if dated
            else "a day is named, and no rule has a date"
        )
    known = read_knowledge(day_texts(texts, parse_day(as_of)) if dated else texts)
    if rows is None or not known.predict.sources:
        return known
    return replace(known, confusion=np.array(rows, dtype=np.float64))


def name_faults(graph: Graph, facts: Facts) -> list[str]:
    """Where the metadata of a graph contradicts its knowledge or its bundle."""
    known, metadata = facts.known, dict(graph.metadata)
    plain = {"fedlore.format": "1", "fedlore.opset": "17", "fedlore.client": facts.client}
    plain |= {"fedlore.bundle": digest(manifest(facts.files))}
    plain |= {} if facts.as_of is None else {"fedlore.as_of": facts.as_of}
    wrong = [key for key, value in plain.items() if metadata.pop(key, None) != value]
    values: dict[str, Any] = {"features": [one.values() for one in known.columns]}
    values |= {"classes": list(known.classes)} if facts.target is None else {"target": facts.target}
    for key, own in values.items():
        text = metadata.pop(f"fedlore.{key}", "null")
        wrong += [] if _same(read_json(text.encode(), key), own) else [f"fedlore.{key}"]
    holdings = metadata.pop("fedlore.holdings", None)
    if holdings is not None:
        file = json.dumps(read_json(holdings.encode(), "holdings"), indent=1) + "\n"
        same = digest(file.encode()) == facts.files.get("holdings.json")
        wrong += [] if same else ["fedlore.holdings"]
    wrong += sorted({*metadata} - {"fedlore.knowledge.files"})
    texts = {n: digest(text.encode()) for n, text in facts.texts.items()}
    wrong += [n for n, d in texts.items() if facts.files.get(n) != d]
    return [f"its '{key}' is not that of the knowledge or of the bundle" for key in wrong[:1]]


def try_definition(known: Known) -> int:
    """The definition of a personal model on rows of the scope, with scores of every size: on how
    many rows it kept the range; -1: not on all.

    Whatever a network and its members say, of a finite score in each class the definition makes
    probabilities in the range, and of any number one in the set.
    """
    x = sample_rows(known, 1_000, seed=1).astype(SINGLE)
    draw, o = np.random.default_rng(1), Numpy(x)
    with np.errstate(all="ignore"):
        if known.line is not None:
            found = compile_number_knowledge(o, known)
            sets = found.sets or bound_rows(o, (known.number.lower, known.number.upper))
            values = [_scores(draw, len(x), 1).astype(np.float64) for _ in range(3)]
            number, _, refused = number_outputs(o, sets, found.refused, values)
            good = sets_of(known, x).holds(number)[~refused].all()
            return int((~refused).sum()) if good else -1
        nodes = compile_knowledge(o, known)
        allowed = mask_range(o, nodes, known.k)
        shares = [Part(o.guard(_scores(draw, len(x), known.k), SINGLE), 0.5) for _ in range(2)]
        mixed = mix_parts(o, shares, allowed, SINGLE)
        if nodes.prior is not None:
            trust = np.float32(known.trust) if nodes.trust is None else nodes.trust
            mixed = add_expert(o, mixed, nodes.prior, trust, SINGLE)
        p = inside_range(o, mixed, allowed, SINGLE)[~nodes.refused[:, 0]]
    inside = said_of(known, x).allowed[~nodes.refused[:, 0]]
    good = (p[~inside] == 0).all() and np.isfinite(p).all()
    return len(p) if good and (np.abs(p.sum(1) - 1) < 1e-4).all() else -1


def _scores(draw: Any, n: int, k: int) -> Any:
    """Scores of every size, some of which are no numbers."""
    found = draw.normal(size=(n, k)) * 10.0 ** draw.integers(-3, 39, (n, 1))
    return np.where(draw.random((n, k)) < 0.02, np.nan, found).astype(SINGLE)
