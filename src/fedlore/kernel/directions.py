"""The shapes of a knowledge file: in which direction a feature moves the answer, and where."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .expressions import Tree, parse
from .schema import Feature


class Direction(NamedTuple):
    """A column, the sign of its effect, and the rows in which it holds."""

    column: int
    sign: int
    region: Tree | None


def read_region(columns: Sequence[Feature]) -> Callable[[str], Tree]:
    """How texts about rows are read, which may compare levels with their names."""
    return lambda text: parse(text, columns, words=True)


def read_directions(said: Mapping[str, Any], columns: Sequence[Feature]) -> tuple[Direction, ...]:
    """The shapes that a knowledge file declares."""
    names, region = [column.name for column in columns], read_region(columns)
    return tuple(
        Direction(
            names.index(one["feature"]),
            {"raises": 1, "lowers": -1}[one["effect"]],
            region(f"where({one['where']}, 1, 0)") if one.get("where") else None,
        )
        for one in said.get("shape", {}).get("sources", ())
    )
