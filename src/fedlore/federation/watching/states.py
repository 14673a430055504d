"""How a site stands, in one word."""

from collections.abc import Mapping
from typing import Any

#: Each word, and what it means; in the order in which a page explains them.
STATES = {
    "waiting": "here, and nothing is asked of it",
    "training": "was asked, and gives signs of life; however long it takes, it is not dead",
    "sent": "has answered, others have not yet",
    "late": "gives signs of life, but its answer was not there at the deadline",
    "copied": "speaks from two places: somebody has a copy of its kit (federation renew)",
    "lost": "has hung up, or given no sign of life for ten seconds",
    "refused": "its policy refused the last task",
    "spent": "its privacy budget is spent",
    "failed": "could not answer: its own log says why",
    "rejected": "sent something that cannot be used",
    "left": "has said goodbye",
    "absent": "has not come since the server was started",
    "unknown": "the server is down, so nobody knows",
}
TROUBLE = ("copied", "late", "lost", "refused", "spent", "failed", "rejected")
SPENT = "the privacy budget is spent"  # how a site's ledger begins its refusal


def tell_state(record: Mapping[str, Any], here: str, *, underway: bool, asking: bool) -> str:
    """The word for a site: its record in status.json, and what the gate sees of it.

    `underway`: a training runs; `asking`: somebody has not answered yet.
    """
    if here != "here":  # before all else: an answer that never comes is not waited for
        return here
    last = str(record.get("last", ""))
    if last == "refused":
        return "spent" if SPENT in str(record.get("note", "")) else "refused"
    if last in ("failed", "rejected"):
        return last
    if not underway:
        return "waiting"
    if last == "reply":
        return "sent" if asking else "waiting"
    return {"asked": "training", "silent": "late"}.get(last, "waiting")
