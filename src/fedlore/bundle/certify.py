"""The range certificate of a bundle: what is claimed, of which bytes, and how it is known.

Claims are decided by the kernel, the same that lint and the checker ask: what is independent of it
is the model that runs (torch, onnxruntime), and brute force in the tests. A certificate is sealed
by a hash only. That shows that its text and the files it names have not been changed since; it does
not show who wrote it. Whose rules they are it shows where their owner signed them.
"""

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from ..checker.bundles import read_weights
from ..checker.forms import structure
from ..checker.graphs import Graph
from ..checker.shapes import monotone
from ..checker.verdict import FORMAT, VERSION, seal
from ..core.store import write_whole
from ..errors import FedloreError, KnowledgeError
from ..kernel.knowledge import Known, read_knowledge, scope_of
from ..kernel.prove import never_disagrees, never_empty, stays_inside
from ..kernel.search import ProofStatus, Verdict
from ..kernel.sources import is_soft
from ..models.classifier import Personal
from ..models.regressor import PersonalRegressor
from ..version import __version__
from .header import Bundle
from .knowledge import check_signature, unwrap_confusion
from .onnx import bundle_to_onnx

_FAULT = "certificate"  # the code of errors raised here

Name = Literal[
    "inside-range",
    "finite-weights",
    "never-empty",
    "prediction-agrees",
    "prediction-inside",
    "monotone",
]


@dataclass(frozen=True)
class Claim:
    """One statement about every row of the scope: proved, refuted by a row, or unknown."""

    claim: Name
    status: ProofStatus
    how: str
    example: tuple[float, ...] | None = None  # a whole row, in the order of the schema
    needed: bool = True  # whether the verdict hangs on it

    def as_row(self) -> dict[str, Any]:
        """The claim as plain values."""
        row = {"claim": self.claim, "status": self.status, "how": self.how, "needed": self.needed}
        return row if self.example is None else row | {"example": list(self.example)}


_LIMITS = (
    "It speaks of rows inside the scope, in single precision. A value that may be missing only "
    "widens the range where it is, so that what holds for every value holds without it.",
    "That the range is right is the expert's word, not a result of this certificate.",
    "Formulas are bounded as they are computed, rounding included, by runtimes that round + - * / "
    "to the nearest and miss roots, exp, log and powers by at most 8 units in the last place.",
    "The structure argument is about fedlore's own Personal, or the graph that was checked.",
    "The hash shows that nothing was changed since; it does not show who issued it.",
)
_SOFT = (
    "Some rules here hold in most cases only. They weigh in the prediction; they exclude no class, "
    "and nothing is claimed of them."
)
_SIGNED = (
    "The signature shows that the holder of its key stands behind the rules and examples; λ, "
    "weights of an average and calibrated ranges that only narrow are not signed. Whose key it is "
    "must be known from elsewhere."
)
_STRUCTURE = (
    "structure: scores are made finite, those outside the range become -inf before the softmax, "
    "which makes their probabilities exactly 0, and the prediction's weight there is removed"
)
_MIXTURE = (
    "structure: a sum of {members} members with weights that are not negative and sum to 1; the "
    "scores of each are made finite, and those outside the range become -inf before its softmax, "
    "which makes their probabilities exactly 0; the prediction's weight there is removed"
)
_NUMBER_STRUCTURE = (
    "structure: the probability of a bin is spread over that part of it which lies in S(x), and "
    "the number is one of the ends of those parts or lies between two of them"
)
_NUMBER_MIXTURE = (
    "structure: a weighted mean of {members} numbers, each moved to the nearest one of S(x), is "
    "moved there again"
)


def certify(bundle: Bundle) -> dict[str, Any]:
    """The certificate of a bundle, as plain values with their hash."""
    known, confusion = _read(bundle)
    claims = [_structure(bundle.personal), _finite(bundle.personal.inner)]
    claims.append(_state("never-empty", never_empty(known), needed=True))
    if any(getattr(source, "policy", "") == "unique" for source in known.predict.sources):
        claims.append(_state("prediction-agrees", never_disagrees(known), needed=True))
    bounded = known.line is not None or bool(known.range.sources)
    if bounded and (known.predict.sources or is_soft(known)):
        needed = known.conflict == "error"
        claims.append(
            _state("prediction-inside", stays_inside(known), needed=needed, soft=is_soft(known))
        )
    if known.directions:
        claims.append(_monotone(bundle, known))
    return _sealed(bundle, known, claims, confusion)


def _read(bundle: Bundle) -> tuple[Known, Any]:
    """The knowledge of a bundle as the kernel reads it, and an expert's confusion."""
    texts = {n: d.decode() for n, d in bundle.members.items() if n.endswith((".toml", ".csv"))}
    _, confusion = unwrap_confusion(bundle.personal.knowledge)
    try:
        known = read_knowledge(texts)
    except KnowledgeError as error:
        raise KnowledgeError(f"a certificate speaks of tables and formulas: {error}") from None
    if confusion is not None:
        known = replace(known, confusion=np.array(confusion, dtype=np.float64))
    return known, confusion


def _sealed(bundle: Bundle, known: Known, claims: list[Claim], confusion: Any) -> dict[str, Any]:
    """Claims about the very bytes of a bundle, with their hash."""
    signed = check_signature(bundle.members)
    scope = scope_of(known.columns)
    ends = scope.low.tolist(), scope.high.tolist()
    bounds = {}
    if known.line is not None:
        bounds = {"target": {"lower": known.number.lower, "upper": known.number.upper}}
    values = {
        "format": FORMAT,
        "version": VERSION,
        "issuer": f"fedlore {__version__}",
        "bundle": bundle.fingerprint,
        "client": bundle.client,
        "files": {name: _hash(data) for name, data in sorted(bundle.members.items())},
        "knowledge": {
            name: _hash(data)
            for name, data in sorted(bundle.members.items())
            if name == "knowledge.toml" or name.endswith(".csv")
        },
        "weights": {
            name: {"shape": list(t.shape), "sha256": _hash(t.contiguous().numpy().tobytes())}
            for name, t in bundle.personal.inner.model.state_dict().items()
        },
        "confusion": confusion,
        "scope": [
            {"feature": name, "low": low, "high": high}
            for name, low, high in zip(bundle.schema.names, *ends, strict=True)
        ],
        "graph": _graph(bundle),
        "numbers": "float32",
        "classes": list(bundle.schema.classes),
        "conflict": known.conflict,
        **({} if signed is None else {"signature": signed}),
        **bounds,
        "claims": [claim.as_row() for claim in claims],
        "verdict": _verdict(claims),
        "limits": [
            *_LIMITS,
            *((_SOFT,) if is_soft(known) else ()),
            *(() if signed is None else (_SIGNED,)),
        ],
    }
    return values | {"sha256": seal(values)}


def write_certificate(values: Mapping[str, Any], path: str | Path) -> None:
    """Write a certificate, whole or not at all."""
    path = Path(path)
    try:
        write_whole(path, json.dumps(values, indent=1) + "\n")
    except OSError as error:
        raise FedloreError(f"cannot write '{path}': {error.strerror}") from None


def _verdict(claims: list[Claim]) -> ProofStatus:
    """Proved where every needed claim is; refuted where one is."""
    found = {claim.status for claim in claims if claim.needed}
    return "refuted" if "refuted" in found else "unknown" if "unknown" in found else "proved"


def _structure(personal: Personal | PersonalRegressor) -> Claim:
    number, ensemble = isinstance(personal, PersonalRegressor), personal.ensemble
    how = _NUMBER_STRUCTURE if number else _STRUCTURE
    if ensemble is not None:
        mixture = _NUMBER_MIXTURE if number else _MIXTURE
        how = mixture.format(members=1 + len(ensemble.members))
    return Claim("inside-range", "proved", how)


def _finite(personal: Personal) -> Claim:
    for name, values in personal.model.state_dict().items():
        if not values.isfinite().all():
            raise FedloreError(f"weights must be finite: '{name}' is not")
        if values.dtype != torch.float32:
            raise FedloreError(f"weights must be in single precision: '{name}' is {values.dtype}")
    count = sum(values.numel() for values in personal.model.state_dict().values())
    return Claim("finite-weights", "proved", f"each of {count} numbers was looked at")


def _state(name: Name, found: Verdict, *, needed: bool, soft: bool = False) -> Claim:
    words = {"proved": "in every row", "refuted": "not in this row", "unknown": "undecided"}
    how = (
        f"{words[found.status]}, all sources together, over {found.boxes} boxes, rounding included"
    )
    if soft:
        how = "what holds in most cases only is not counted"
    if not needed and found.status != "proved":
        how += "; not needed, the policy takes care of what is outside"
    return Claim(name, found.status, how, found.example, needed)


def _monotone(bundle: Bundle, known: Known) -> Claim:
    """What is proved of the site's shapes."""
    stored = bundle.members.get("ensemble.safetensors")
    tensors = None if stored is None else read_weights(stored)
    found = monotone(known, json.loads(bundle.members["bundle.json"]), tensors)
    how = {
        "proved": "structure: a slope above 0 in the place for any weights, a bell of one width, "
        "a range and prediction that move the same way"
        + ("" if tensors is None else ", and members whose weights and trees do"),
        "refuted": "the range or the prediction moves the other way from a row on; of rows with "
        "the same range it is so by structure",
        "unknown": "whether range, prediction and members all move the same way is undecided here; "
        "the network does by structure, of rows with the same range",
    }[found.status]
    return Claim("monotone", found.status, how, found.example, needed=False)


def _graph(bundle: Bundle) -> dict[str, str] | None:
    """How each output of the bundle's ONNX graph is computed, hashed; None without `onnx`."""
    if importlib.util.find_spec("onnx") is None:
        return None
    graph = Graph(bundle_to_onnx(bundle).SerializeToString())
    number = isinstance(bundle.personal, PersonalRegressor)
    wrong = structure(graph, number=number)
    if wrong:
        raise FedloreError(f"no certificate: the graph of this model is not understood, {wrong[0]}")
    return graph.digests()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
