"""What becomes of a site's shapes: in its own range and prediction, and in its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...core.tensors import torch
from ...kernel.document import TURNING, FeatureShape
from ...kernel.findings import Finding, Place
from ...kernel.schema import Schema
from ..missing import join_columns
from ..models import Knowledge
from ..shapes.shape import OrderFound, SiteShapes
from ..shapes.turns import ROWS, find_turn, place_turns

if TYPE_CHECKING:
    from torch import Tensor


_SURE = 3.0  # standard errors from which rows contradict


def lint_shapes(known: Knowledge, place: Place) -> Iterator[Finding]:
    """Whether range and prediction keep each shape over the whole scope, and what still holds."""
    shapes, orders = known.shapes, known.orders
    if shapes is None or orders is None:
        return
    models = [model for model in (known.range, known.prediction) if model is not None]
    looked = join_columns(models, len(shapes.schema.features))
    for shape in shapes:
        if shape.lacks_turn:
            yield Finding("info", "shape-no-turn", place, {"shape": str(shape)})
    for shape, limits, said in zip(shapes.binding, orders.ranges, orders.predictions, strict=True):
        yield from _side(shape, "range", limits, shapes.schema, looked, place)
        yield from _side(shape, "prediction", said, shapes.schema, looked, place)
        if limits.kept and said.kept:
            yield Finding("info", "shape-kept", place, {"shape": str(shape)})


def _side(
    shape: FeatureShape,
    what: str,
    order: OrderFound,
    schema: Schema,
    looked: Sequence[int],  # the columns that some source looks at
    place: Place,
) -> Iterator[Finding]:
    if order.kept:
        return
    if order.pair is None:
        yield Finding("warning", "shape-unknown", place, {"side": what, "shape": str(shape)})
        return
    column = schema.column(shape.feature)
    low, high = order.pair[0][column], order.pair[-1][column]
    first = {name: _value(schema, i, order.pair[0][i]) for i, name in enumerate(schema.names)}
    args = {
        "side": what,
        "shape": str(shape),
        "feature": shape.feature,
        "low": low,
        "high": high,
        "others": {
            schema.names[c]: first[schema.names[c]]
            for c in looked
            if c != column and order.pair[0][c] == order.pair[0][c]
        },
    }
    if order.said is not None:
        said, line = order.said
        args |= {"at": order.pair[1][column], "said": said, "line": line, "bend": shape.bend}
        yield Finding("warning", f"shape-bent-{what}", place, args, counterexample=first)
        return
    args["sign"] = next(p.sign for p in shape.pieces if p.covers(low) and p.covers(high))
    yield Finding("warning", f"shape-{what}", place, args, counterexample=first)


def _value(schema: Schema, column: int, value: float) -> float | str:
    levels = schema.features[column].levels
    return levels[int(value)] if levels and value == value else float(f"{value:.6g}")


def check_shapes(shapes: SiteShapes | None, x: Tensor, y: Tensor, file: str) -> Iterator[Finding]:
    """Shapes that the site's own labelled rows contradict, everything else equal and linear.

    One that turns is asked on each side, and there in the half of the rows that is next to the
    turn: where the answer turns elsewhere the whole side may still look right.
    """
    if shapes is None:
        return
    for shape in shapes.bends:
        yield from _check_bend(shapes, shape, x, y, file)
    for shape, piece in shapes.pieces:
        column = shapes.schema.column(shape.feature)
        inside = shapes.region(shape, x, piece) & x.isfinite().all(1)
        values = x[:, column]
        parts = [inside]
        if piece.side and bool(inside.any()):
            middle = values[inside].median()
            parts.append(inside & (values >= middle if piece.side == "<=" else values <= middle))
        for part in parts:
            found = slope_of(x[part].double(), y[part].double(), column)
            if found is None or piece.sign * found[0] >= -_SURE * found[1]:
                continue
            args = {
                "shape": str(shape),
                "feature": shape.feature,
                "rows": int(part.sum()),
                "slope": found[0],
                "error": found[1],
                "rises": found[0] > 0,
                "side": piece.side,
                "low": float(values[part].min()),
                "high": float(values[part].max()),
            }
            yield Finding("warning", "shape-data", Place(file, column=shape.feature), args)
            break


def _check_bend(
    shapes: SiteShapes, shape: FeatureShape, x: Tensor, y: Tensor, file: str
) -> Iterator[Finding]:
    """The square of its feature in a fit that is linear in all others."""
    whole, column = x.isfinite().all(1), shapes.schema.column(shape.feature)
    x, y = x[whole].double(), y[whole].double()
    found = bend_of(x, y, column)
    if found is None or shape.bend * found[0] >= -_SURE * found[1]:
        return
    args = {
        "shape": str(shape),
        "feature": shape.feature,
        "rows": len(x),
        "slope": found[0],
        "error": found[1],
        "rises": found[0] > 0,
    }
    yield Finding("warning", "shape-data", Place(file, column=shape.feature), args, "bent")


def check_turns(known: Knowledge, x: Tensor, y: Tensor, file: str) -> Iterator[Finding]:
    """What the site's own labelled rows show of turns that nobody states, and what then follows."""
    shapes = known.shapes
    for shape in shapes or ():
        if shapes is None or not shape.lacks_turn:
            continue
        where, turn = Place(file, column=shape.feature), find_turn(shapes, shape, x, y)
        args = {
            "shape": str(shape),
            "feature": shape.feature,
            "rows": turn.rows,
            "sign": TURNING[shape.effect],
            "before": turn.before,
            "behind": turn.behind,
        }
        if turn.against:
            yield Finding("warning", "shape-turn", where, args, "against")
        elif turn.before is None and turn.behind is None:
            yield Finding("warning", "shape-turn", where, args, "unseen")
        else:
            yield Finding("info", "shape-turn", where, args)
    placed: Knowledge = place_turns(known, x, y)
    if placed is not known and placed.shapes is not None:
        estimated = {str(shape) for shape in placed.shapes if shape.estimated}
        for one in lint_shapes(placed, Place(file)):
            if one.severity != "info" and one.args["shape"] in estimated:
                yield one
    yield from check_shapes(placed.shapes, x, y, file)


def bend_of(x: Tensor, y: Tensor, column: int) -> tuple[float, float] | None:
    """The weight of a column's square beside all columns, and its standard error."""
    square = (x[:, column] - x[:, column].mean()).square()
    return slope_of(torch.cat([x, square[:, None]], 1), y, x.shape[1])


def slope_of(x: Tensor, y: Tensor, column: int) -> tuple[float, float] | None:
    """The slope of a column in a linear fit and its standard error; None: too few rows."""
    varied = x.std(0) > 0 if len(x) > 1 else torch.zeros(x.shape[1], dtype=torch.bool)
    if not bool(varied[column]) or len(x) < int(varied.sum()) + ROWS:
        return None
    kept = varied.nonzero()[:, 0].tolist()
    design = torch.cat([x[:, kept] - x[:, kept].mean(0), torch.ones(len(x), 1).double()], 1)
    gram = torch.linalg.pinv(design.T @ design)
    weights = gram @ design.T @ y
    free = max(len(x) - design.shape[1], 1)
    noise = float((y - design @ weights).square().sum()) / free
    place = kept.index(column)
    return float(weights[place]), float((gram[place, place] * noise).clamp(min=0).sqrt())
