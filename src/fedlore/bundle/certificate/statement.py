"""The range certificate of a bundle: what is claimed, of which bytes, and how it is known.

It is sealed by a hash only. That shows that its text and the files it names have not been changed
since; it does not show who wrote it. Whose rules they are it shows where their owner signed them.
"""

import hashlib
import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ...checker.bundles import read_weights
from ...checker.graphs import Graph, structure
from ...checker.numbergraphs import number_structure
from ...checker.shapes import monotone
from ...checker.verdict import FORMAT, VERSION, seal
from ...core.store import write_whole
from ...errors import FedloreError, KnowledgeError
from ...kernel.knowledge import read_knowledge
from ...kernel.numbersets import read_number_knowledge
from ...knowledge import Knowledge
from ...knowledge.combine import AllOf, AnyOf, Average, FirstOf
from ...knowledge.formulas.formula import Formula
from ...knowledge.formulas.grading import GradedFormula, SoftFormula
from ...knowledge.formulas.search import Verdict
from ...knowledge.lint.over import view_prediction, view_range
from ...knowledge.lint.single import scope_box
from ...knowledge.lint.together import AllSources
from ...knowledge.soft import Softened, SoftFormulas, has_soft
from ...knowledge.sources.writing import kind_of_model
from ...knowledge.tables.soft import SoftTable
from ...knowledge.tables.table import Table
from ...personal.classifier import Personal
from ...personal.regressor import PersonalRegressor
from ...version import __version__
from .. import Bundle
from ..known import unwrap_confusion
from ..onnx import bundle_to_onnx
from ..signed import check_signature
from .claims import Claim, Name, claim_verdict
from .coverage import never_empty
from .numbers import claim_number

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
STRUCTURE = (
    "structure: scores are made finite, those outside the range become -inf before the softmax, "
    "which makes their probabilities exactly 0, and the prediction's weight there is removed"
)
_MIXTURE = (
    "structure: a sum of {members} members with weights that are not negative and sum to 1; the "
    "scores of each are made finite, and those outside the range become -inf before its softmax, "
    "which makes their probabilities exactly 0; the prediction's weight there is removed"
)


_NOT_NEEDED = {False: "; not needed, the policy removes what is outside", True: ""}


def certify(bundle: Bundle) -> dict[str, Any]:
    """The certificate of a bundle, as plain values with their hash."""
    personal = bundle.personal
    if not isinstance(personal, Personal):
        about = {"target": {"lower": personal.bins.lower, "upper": personal.bins.upper}}
        claims = [_finite(personal.inner), *claim_number(bundle, personal)]
        if personal.knowledge.shapes is not None:
            claims.append(_monotone(bundle))
        return _sealed(bundle, claims, None, personal.knowledge.conflict, about)
    knowledge, confusion = unwrap_confusion(personal.knowledge)
    assert isinstance(knowledge, Knowledge)  # of classes
    experts = _experts(knowledge)
    claims = [
        Claim("inside-range", "proved", _structure(personal)),
        _finite(personal),
        never_empty(knowledge, bundle.schema),
    ]
    if experts:
        claims += _predictions(bundle, knowledge, experts, confusion)
    if knowledge.shapes is not None:
        claims.append(_monotone(bundle))
    soft = has_soft(knowledge.prediction)
    return _sealed(bundle, claims, confusion, knowledge.conflict, {}, soft=soft)


def _sealed(
    bundle: Bundle,
    claims: list[Claim],
    confusion: Any,
    conflict: str,
    more: Mapping[str, Any],
    *,
    soft: bool = False,
) -> dict[str, Any]:
    """Claims about the very bytes of a bundle, with their hash."""
    signed = check_signature(bundle.members)
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
            for name, (low, high) in zip(bundle.schema.names, scope_box(bundle.schema), strict=True)
        ],
        "graph": _graph(bundle),
        "numbers": "float32",
        "classes": list(bundle.schema.classes),
        "conflict": conflict,
        **({} if signed is None else {"signature": signed}),
        **more,
        "claims": [claim.as_row() for claim in claims],
        "verdict": claim_verdict(claims),
        "limits": [
            *_LIMITS,
            *((_SOFT,) if soft else ()),
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


def _experts(knowledge: Knowledge) -> Sequence[Any]:
    model = knowledge.prediction
    if isinstance(model, Softened):
        model = model.expert
    parts = model.predictions if isinstance(model, FirstOf | Average) else (model,)
    for place, part in enumerate(parts, 1):
        kind = kind_of_model(part)
        known = part is None or isinstance(part, Table | SoftTable)
        known = known or (kind is not None and bool(kind.proof))
        part = part.model if isinstance(part, SoftFormulas) else part
        if isinstance(part, GradedFormula | SoftFormula):
            known = isinstance(part.formula, Formula)
        if not known:
            raise KnowledgeError(
                "a certificate speaks of tables and formulas: [predict] source "
                f"{place} is a {type(part).__name__}"
            )
    return [part for part in parts if part is not None]


def _monotone(bundle: Bundle) -> Claim:
    """What is proved of the site's shapes, by the checker's own reading of the bundle."""
    texts = {n: d.decode() for n, d in bundle.members.items() if n.endswith((".toml", ".csv"))}
    number = isinstance(bundle.personal, PersonalRegressor)
    known = read_number_knowledge(texts) if number else read_knowledge(texts)
    stored = bundle.members.get("beside.safetensors")
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


def _structure(personal: Personal) -> str:
    if personal.beside is None:
        return STRUCTURE
    return _MIXTURE.format(members=1 + len(personal.beside.members))


def _finite(personal: Personal) -> Claim:
    for name, values in personal.model.state_dict().items():
        if not values.isfinite().all():
            raise FedloreError(f"weights must be finite: '{name}' is not")
        if values.dtype != torch.float32:
            raise FedloreError(f"weights must be in single precision: '{name}' is {values.dtype}")
    count = sum(values.numel() for values in personal.model.state_dict().values())
    return Claim("finite-weights", "proved", f"each of {count} numbers was looked at")


def _predictions(
    bundle: Bundle, knowledge: Knowledge, experts: Sequence[Any], confusion: Any
) -> list[Claim]:
    """What all sources together say of the prediction over the whole scope, as claims."""
    model = knowledge.range
    ranges = model.ranges if isinstance(model, AllOf | AnyOf) else () if model is None else (model,)
    seen = [one for one in map(view_prediction, experts) if one is not None]
    limits = [one for one in map(view_range, ranges) if one is not None]
    together = AllSources(
        bundle.schema,
        limits,
        seen,
        alternatives=isinstance(model, AnyOf),
        empty=model.empty if isinstance(model, AllOf) else "error",
        averaged=isinstance(knowledge.prediction, Average),
    )
    claims = []
    if any(isinstance(one, Table) and one.policy == "unique" for one in experts):
        claims.append(_state("prediction-agrees", together.never_disagrees(), needed=True))
    if model is not None:
        needed = knowledge.conflict == "error"
        odd = len(seen) < len(experts) or len(limits) < len(ranges)
        if has_soft(knowledge.prediction):
            how = "what holds in most cases only is not counted" + _NOT_NEEDED[needed]
            claims.append(Claim("prediction-inside", "unknown", how, needed=needed))
        elif confusion is not None or odd:
            how = "a soft prediction has weight in every class" + _NOT_NEEDED[needed]
            claims.append(Claim("prediction-inside", "unknown", how, needed=needed))
        else:
            claims.append(_state("prediction-inside", together.stays_inside(), needed=needed))
    return claims


def _state(name: Name, found: Verdict, *, needed: bool) -> Claim:
    words = {"proved": "so everywhere", "refuted": "not so in a row", "unknown": "undecided"}
    how = f"all sources together: {words[found.status]}, {found.boxes} boxes"
    how += _NOT_NEEDED[needed or found.status == "proved"]
    return Claim(name, found.status, how, found.example, needed)


def _graph(bundle: Bundle) -> dict[str, str] | None:
    """How each output of the bundle's ONNX graph is computed, hashed; None without `onnx`."""
    if importlib.util.find_spec("onnx") is None:
        return None
    graph = Graph(bundle_to_onnx(bundle).SerializeToString())
    number = isinstance(bundle.personal, PersonalRegressor)
    wrong = number_structure(graph) if number else structure(graph)
    if wrong:
        raise FedloreError(f"no certificate: the graph of this model is not understood, {wrong[0]}")
    return graph.digests()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
