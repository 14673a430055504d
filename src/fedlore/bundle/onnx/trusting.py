"""λ row by row as nodes: the owner's regions, what the site has learned, else the one number."""

from ...knowledge import Knowledge
from ...knowledge.numbers.numbers import Numbers
from .builder import SINGLE, Builder
from .formulas import number_node


def lean_nodes(build: Builder, x: str, known: Knowledge | Numbers, constant: float) -> str | None:
    """λ of each row, (n, 1) in single precision, in [0, 1] whatever the rows hold; None: it is one.

    `x` is the rows as knowledge sees them, and `constant` λ where nothing else is known.
    """
    rows, orders = known.row_trust, known.orders
    withheld = orders is not None and not orders.hears_prediction
    if rows is None or not rows.speaks or withheld or known.prediction is None:
        return None
    one = build.constant([[constant]])
    value = one
    if rows.learned is not None:
        found = number_node(build, x, rows.learned)
        value = build.op("Where", build.op("IsNaN", found), one, found)
    inside = [number_node(build, x, region.formula) for _, region in rows.stated]
    for place in inside:
        value = build.op("Where", build.op("IsNaN", place), one, value)
    for (trust, _), place in zip(rows.stated, inside, strict=True):
        here = build.op("Greater", place, build.constant(0.0))
        value = build.op("Where", here, build.constant([[trust]]), value)
    number = build.op("Where", build.op("IsNaN", value), build.constant(0.0, SINGLE), value)
    return build.op("Clip", number, build.constant(0.0), build.constant(1.0))
