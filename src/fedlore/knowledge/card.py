"""The knowledge card: whose knowledge this is, and since when."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """What a person should know before trusting a piece of knowledge."""

    owner: str = ""  # who answers for it
    version: str = ""  # as the owner counts
    date: str = ""  # of the last change, as the owner writes it
    reference: str = ""  # a paper, a standard, a works instruction
    note: str = ""  # anything else
