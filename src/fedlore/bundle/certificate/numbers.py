"""What is claimed of a bundle that predicts a number: it lies in S(x), and S(x) is never empty."""

from ...errors import KnowledgeError
from ...kernel.findings import errors
from ...kernel.numberproofs import number_agrees, number_inside, number_never_empty
from ...kernel.numbersets import NumberKnown, read_number_knowledge
from ...kernel.proofs import Verdict
from ...knowledge.lint.checkup import check_file
from ...personal.regressor import PersonalRegressor
from .. import Bundle
from ..known import knowledge_members
from .claims import Claim, Name

_STRUCTURE = (
    "structure: the probability of a bin is spread over that part of it which lies in S(x), and "
    "the number is one of the ends of those parts or lies between two of them"
)
_MIXTURE = (
    "structure: a weighted mean of {members} numbers, each moved to the nearest one of S(x), is "
    "moved there again"
)
_WORDS = {"proved": "in every row", "refuted": "not in this row", "unknown": "undecided"}
_EMPTY = ("empty-range", "beyond-bounds")  # what lint calls a set without a number


def claim_number(bundle: Bundle, personal: PersonalRegressor) -> list[Claim]:
    """The claims, each decided over the whole scope; lint must not know better."""
    members = knowledge_members(bundle.members)
    known = _read({name: data.decode() for name, data in members.items()})
    beside = personal.beside
    how = _STRUCTURE if beside is None else _MIXTURE.format(members=1 + len(beside.members))
    claims = [Claim("inside-range", "proved", how)]
    found = _state("never-empty", number_never_empty(known), needed=True)
    wrong = [f for f in errors(check_file(members).findings) if f.kind in _EMPTY]
    if wrong and found.status == "proved":
        found = Claim("never-empty", "unknown", f"fedlore lint: {wrong[0].message}")
    claims.append(found)
    if any(getattr(source, "policy", "") == "unique" for source in known.predict.sources):
        claims.append(_state("prediction-agrees", number_agrees(known), needed=True))
    if known.predict.sources:
        needed = known.conflict == "error"
        claims.append(_state("prediction-inside", number_inside(known), needed=needed))
    return claims


def _read(texts: dict[str, str]) -> NumberKnown:
    try:
        return read_number_knowledge(texts)
    except KnowledgeError as error:
        raise KnowledgeError(f"a certificate speaks of tables and formulas: {error}") from None


def _state(name: Name, found: Verdict, *, needed: bool) -> Claim:
    how = f"{_WORDS[found.status]}, by interval arithmetic over {found.boxes} boxes"
    if not needed:
        how += "; not needed, the policy takes care of what is outside"
    return Claim(name, found.status, how, found.example, needed=needed)
