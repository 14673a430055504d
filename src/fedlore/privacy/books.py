"""A site's ledger as others may read it: how far it goes, and what of a budget is spent."""

import math
from dataclasses import dataclass
from pathlib import Path

from ..errors import FedloreError
from .dp.ledger import Ledger, Level, read_marks
from .settings import Privacy

__all__ = ["Spending", "read_marks", "read_spending"]


@dataclass(frozen=True)
class Spending:
    """What is spent of what is allowed, at one level."""

    level: Level
    spent: float  # ε
    allowed: float  # ε of the terms, or less if the policy has less
    delta: float
    answers: int
    trouble: str = ""  # why it cannot be told


def read_spending(
    path: Path, privacy: Privacy | None, *, most: float | None, delta: float
) -> Spending | None:
    """The ledger in ε under the terms, or under a policy's own limits where no noise is agreed.

    None where there is neither a budget nor a ledger; one that cannot be read counts as spent.
    """
    dp = None if privacy is None else privacy.dp
    if dp is None and not path.exists():
        return None
    level: Level = "site" if dp is None else dp.level
    delta = delta if dp is None else dp.delta
    allowed = min(math.inf if dp is None else dp.epsilon, math.inf if most is None else most)
    try:
        ledger = Ledger(path)
        return Spending(level, ledger.spent(level, delta), allowed, delta, len(ledger.entries()))
    except FedloreError as error:
        return Spending(level, math.inf, allowed, delta, 0, str(error).partition("\n")[0])
