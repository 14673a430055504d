"""The shapes of a knowledge file: in which direction a feature moves the answer, and where."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .expressions import Tree


class Direction(NamedTuple):
    """A column, the sign of its effect, and the rows in which it holds."""

    column: int
    sign: int
    region: Tree | None


def read_directions(
    said: Mapping[str, Any], names: list[str], parse: Callable[[str], Tree]
) -> tuple[Direction, ...]:
    """The shapes that a knowledge file declares."""
    return tuple(
        Direction(
            names.index(one["feature"]),
            {"raises": 1, "lowers": -1}[one["effect"]],
            parse(f"where({one['where']}, 1, 0)") if one.get("where") else None,
        )
        for one in said.get("shape", {}).get("sources", ())
    )
