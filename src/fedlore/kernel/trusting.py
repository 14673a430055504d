"""λ of a knowledge file: one number, and where a row has one of its own, what that is."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import KnowledgeError
from .expressions import Tree, columns_in, value

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

    def rows(self, x: Array) -> Array:
        """λ of rows as knowledge sees them, (n, d) -> (n,), NaN where it is the one number."""
        found = np.full(len(x), np.nan)
        if self.learned is not None:
            found = np.clip(value(self.learned, x).astype(np.float64), 0.0, 1.0)
        inside = [value(tree, x) for tree, _ in self.regions]
        for here in inside:
            found = np.where(np.isnan(here), np.nan, found)
        for (_, trust), here in zip(self.regions, inside, strict=True):
            found = np.where(here > 0, trust, found)
        return found


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


def lean(leaning: Leaning | None, x: Array) -> Array | None:
    """λ of rows as knowledge sees them, (n,), NaN where it is one number; None: everywhere."""
    return None if leaning is None else leaning.rows(x)


def fill_rows(found: Array | None, n: int, constant: float) -> Array:
    """λ of each row, (n, 1), with the one number where a row has none of its own."""
    if found is None:
        return np.full((n, 1), constant)
    return np.where(np.isnan(found), constant, found)[:, None]
