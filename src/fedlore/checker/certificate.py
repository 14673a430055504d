"""A certificate, derived from what it is about: issuer and checker make it by the same steps.

So it holds nothing that a checker could not find by itself: each field is compared, and a claim is
a wish until the checker's own verdict is the same.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernel.cells import parse_day
from ..kernel.dates import named_days, stretch_of
from ..kernel.knowledge import Known, scope_of
from ..kernel.prove import never_disagrees, never_empty, stays_inside
from ..kernel.search import Verdict
from ..kernel.sheets import DATES
from ..kernel.sources import is_soft

FORMAT, VERSION = "fedlore range certificate", 2
Array = Any  # of numpy


@dataclass(frozen=True, eq=False)
class Facts:
    """What a certificate is derived from."""

    known: Known
    client: str
    files: Mapping[str, str]  # the hash of every member of the bundle
    texts: Mapping[str, str]  # of the knowledge
    weights: Mapping[str, Array]  # of the network
    target: Mapping[str, Any] | None  # the number that the knowledge is about
    expert: float | None  # his weight in the answer, of classes; None: nobody predicts, or a number
    confusion: Any = None  # (k, k) as lists
    signature: Mapping[str, Any] | None = None
    moves: Verdict | None = None  # of answers along the shapes that are directions
    bends: Verdict | None = None  # of numbers along those that are concave or convex
    graph: Mapping[str, str] | None = None  # how its outputs are computed, hashed
    as_of: str | None = None  # the day that rules with dates were read as of

    def derive(self) -> dict[str, Any]:
        """The certificate, sealed by its hash."""
        known, claims = self.known, claims_of(self)
        found: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
            "bundle": digest(manifest(self.files)),
            "client": self.client,
            "files": dict(self.files),
            "knowledge": {n: digest(text.encode()) for n, text in sorted(self.texts.items())},
            "weights": {
                name: {"shape": list(v.shape), "sha256": digest(np.ascontiguousarray(v).tobytes())}
                for name, v in self.weights.items()
            },
            "confusion": self.confusion,
            "expert": self.expert,
            "scope": _scope(known),
            "graph": self.graph,
            "classes": list(known.classes),
            "target": self.target,
            "conflict": known.conflict,
            "signature": self.signature,
            "claims": claims,
            "verdict": sum_up(claims),
            "limits": [*LIMITS, *[SOFT] * is_soft(known), *[SIGNED] * bool(self.signature)],
        }
        if self.as_of is not None:  # and the days around it on which the rules are the same
            stretch = stretch_of(named_days(self.texts), parse_day(self.as_of))
            ends = {key: None if day is None else day.isoformat()
                    for key, day in zip(DATES, stretch, strict=True)}  # fmt: skip
            found |= {"as_of": self.as_of, "same": ends}
        return found | {"sha256": seal(found)}

    @property
    def count(self) -> int:
        return sum(values.size for values in self.weights.values())


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def manifest(files: Mapping[str, str]) -> bytes:
    """A line for every member with its hash; the hash of these lines is the bundle's own."""
    return "".join(f"{files[name]}  {name}\n" for name in sorted(files)).encode()


def seal(values: Mapping[str, Any]) -> str:
    """The hash of a certificate: of everything in it but the hash."""
    said = {key: value for key, value in values.items() if key != "sha256"}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return digest(text.encode())


def claims_of(facts: Facts) -> list[dict[str, Any]]:
    """Every claim with the kernel's verdict, how it is known, and whether the whole hangs on it."""
    known, number = facts.known, facts.known.line is not None
    found = [
        _claim("inside-range", Verdict("proved"), kind="number" if number else "classes"),
        _claim("finite-weights", Verdict("proved"), weights=facts.count),
        _claim("never-empty", never_empty(known)),
    ]
    if any(getattr(source, "policy", "") == "unique" for source in known.predict.sources):
        found.append(_claim("prediction-agrees", never_disagrees(known)))
    soft = is_soft(known)
    if (number or known.range.sources) and (known.predict.sources or soft):
        needed = known.conflict == "error"
        found.append(_claim("prediction-inside", stays_inside(known), needed=needed, soft=soft))
    if facts.moves is not None:
        found.append(_claim("monotone", facts.moves, needed=False))
    if facts.bends is not None:
        found.append(_claim("curvature", facts.bends, needed=False))
    if facts.expert is not None and facts.expert > known.trust and known.row_trust is None:
        trust = facts.expert, known.trust  # of an ensemble; a network alone is refused
        found.append(_claim("trust-kept", Verdict("refuted"), needed=False, trust=trust))
    return found


def _claim(name: str, verdict: Verdict, *, needed: bool = True, **about: Any) -> dict[str, Any]:
    how = explain_claim(name, verdict.status, verdict.boxes, needed=needed, **about)
    row = {"claim": name, "status": verdict.status, "how": how, "needed": needed}
    return row if verdict.example is None else row | {"example": list(verdict.example)}


def sum_up(claims: list[dict[str, Any]]) -> str:
    """Proved where every needed claim is; refuted where one is."""
    found = {claim["status"] for claim in claims if claim["needed"]}
    return next((word for word in ("refuted", "unknown") if word in found), "proved")


def _scope(known: Known) -> list[dict[str, Any]]:
    scope = scope_of(known.columns)
    ends = zip(known.columns, scope.low.tolist(), scope.high.tolist(), strict=True)
    return [{"feature": column.name, "low": low, "high": high} for column, low, high in ends]


LIMITS = (
    "It speaks of rows inside the scope, in single precision. A value that may be missing only "
    "widens the range where it is, so that what holds for every value holds without it.",
    "That the range is right is the expert's word, not a result of this certificate.",
    "Formulas are bounded as they are computed, rounding included, by runtimes that round + - * / "
    "to the nearest and miss roots, exp, log and powers by at most 8 units in the last place.",
    "The structure argument is about fedlore's own Personal, or the graph that was checked.",
    "The hash shows that nothing was changed since; it does not show who issued it.",
)
SOFT = (
    "Some rules here hold in most cases only. They weigh in the prediction; they exclude no class, "
    "and nothing is claimed of them."
)
SIGNED = (
    "The signature shows that the holder of its key stands behind the rules and examples; λ, "
    "weights of an average and calibrated ranges that only narrow are not signed. Whose key it is "
    "must be known from elsewhere."
)
_STRUCTURE = {
    "classes": "structure: the scores of network and members are made finite, those outside the "
    "range become -inf before the softmax, which makes their probabilities exactly 0; weights are "
    "not negative and sum to 1, and the prediction's weight outside is removed",
    "number": "structure: every number that is given out is made finite and moved to the nearest "
    "one of S(x), the last step before it leaves",
}
#: What is said where a claim was tested on rows in place of a proof.
TESTED = {
    "inside-range": "the definition of the model, whose code is not read here; a graph is proved",
    "monotone": "the knowledge's part is proved, the network's is not decided for all rows",
    "curvature": "the knowledge's part is proved, the members' is not decided for all rows",
}
_DECIDED = {"proved": "in every row", "refuted": "not in this row", "unknown": "undecided"}
_MONOTONE = {
    "proved": "structure: a slope above 0 in the place for any weights, a bell of one width, a "
    "range and prediction that move the same way, and members whose weights and trees do",
    "refuted": "the range or the prediction moves the other way from a row on; of rows with the "
    "same range it is so by structure",
    "unknown": "whether range, prediction and members all move the same way is undecided here; the "
    "network does by structure, of rows with the same range",
}
_CURVATURE = {
    "proved": "structure: a sum of lines, of knees and squares whose weights have the sign of the "
    "shape, and of what does not look at the feature; it is moved into the range last",
    "refuted": "three rows on a line of which the middle one breaks it",
    "unknown": "whether range, prediction and members all bend the same way is undecided here",
}


def explain_claim(
    claim: str,
    status: str,
    boxes: int,
    *,
    needed: bool,
    kind: str = "",
    weights: int = 0,
    soft: bool = False,
    trust: tuple[float, float] = (0.0, 0.0),
) -> str:
    """How a claim is known."""
    if claim == "inside-range":
        return _STRUCTURE[kind]
    if claim == "finite-weights":
        return f"each of {weights} numbers was looked at"
    if claim == "trust-kept":
        own, said = trust
        return (
            f"the expert weighs {own:g} in the answer, learned at the site; the file says {said:g}"
        )
    if claim in ("monotone", "curvature"):
        return (_MONOTONE if claim == "monotone" else _CURVATURE)[status]
    how = f"{_DECIDED[status]}, all sources together, over {boxes} boxes, rounding included"
    if soft:
        how = "what holds in most cases only is not counted"
    if not needed and status != "proved":
        how += "; not needed, the policy takes care of what is outside"
    return how
