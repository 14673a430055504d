"""What a certificate says, and how each part of it was established."""

from dataclasses import dataclass
from typing import Any, Literal

from ...knowledge.formulas.search import ProofStatus

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


def claim_verdict(claims: list[Claim]) -> ProofStatus:
    """Proved where every needed claim is; refuted where one is."""
    found = {claim.status for claim in claims if claim.needed}
    return "refuted" if "refuted" in found else "unknown" if "unknown" in found else "proved"
