"""λ of a knowledge file: one number, and where a row has one of its own, what that is."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..errors import KnowledgeError
from .expressions import Tree, columns_in

Array = Any  # of numpy


class Leaning(NamedTuple):
    """λ row by row: where the owner says it, and elsewhere what the site has learned."""

    regions: tuple[tuple[Tree, float], ...]  # 1 inside, 0 outside, NaN unknown; and λ there
    learned: Tree | None

    @property
    def columns(self) -> set[int]:
        """The columns that λ looks at."""
        trees = [tree for tree, _ in self.regions]
        trees += [] if self.learned is None else [self.learned]
        return {column for tree in trees for column in columns_in(tree)}


def read_trust(said: Mapping[str, Any]) -> float:
    """λ at prediction where a row has none of its own."""
    reliance = said.get("reliance")
    table = said.get("trust", 0.0)
    one = table.get("value", 0.0) if isinstance(table, Mapping) else table
    return float(one if reliance is None else reliance)


def read_leaning(said: Mapping[str, Any], parse: Callable[[str], Tree]) -> Leaning | None:
    """λ row by row where the file says so; None where it is one number."""
    table = said.get("trust", 0.0)
    if not isinstance(table, Mapping):
        return None
    stated = [one for one in table.get("regions", ()) if "trust" in one]
    trusts = [float(one["trust"]) for one in stated]
    if any(not 0.0 <= trust <= 1.0 for trust in trusts):
        raise KnowledgeError(f"λ of a region lies outside [0, 1]: {trusts}")
    regions = tuple(
        (parse(f"where({one['where']}, 1, 0)"), trust)
        for one, trust in zip(stated, trusts, strict=True)
    )
    learned = parse(table["formula"]) if table.get("formula") else None
    return Leaning(regions, learned) if regions or learned is not None else None
