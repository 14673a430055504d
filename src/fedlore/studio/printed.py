"""Formulas drawn for the rule book: along each feature they look at, the range as a band."""

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FedloreError
from ..kernel.schema import Feature, Schema
from ..knowledge.formulas import Formula
from ..look.palette import COLOURS
from ..look.plots import Drawing, Plot, draw
from .maps import ends_of, middle_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PLOTS = 6
_STEPS = 200
_LINES = tuple(COLOURS[name] for name in ("FLwKM", "lore", "FL+mask", "P-KM"))

_Drawn = tuple[str, str, Tensor]  # formula, lower or upper; its text; its values along x, (n,)


def draw_formulas(values: Mapping[str, Any], schema: Schema) -> tuple[Drawing, ...]:
    """A plot for every feature that formulas look at, the others in the middle of their scope."""
    found = _formulas(values, schema)
    looked = dict.fromkeys(name for _, formula in found for name in formula.features)
    features = [f for f in schema.features if f.name in looked and not f.levels][:MOST_PLOTS]
    return tuple(draw(_plot(feature, found, schema)) for feature in features)


def _formulas(values: Mapping[str, Any], schema: Schema) -> list[tuple[str, Formula]]:
    """What each formula is (formula, lower, upper), and the formula; faulty ones are left out."""
    found = []
    for side in ("predict", "range"):
        part = values.get(side)
        for source in part.get("sources", []) if isinstance(part, Mapping) else []:
            for key in ("formula", "lower", "upper"):
                try:
                    if isinstance(source.get(key), str):
                        found.append((key, Formula.parse(source[key], schema)))
                except FedloreError:
                    continue
    return found


def _plot(feature: Feature, formulas: list[tuple[str, Formula]], schema: Schema) -> Plot:
    low, high = ends_of(feature, [], math.nan)
    x = torch.linspace(low, high, _STEPS)
    rows = torch.tensor([[middle_of(f) for f in schema.features]]).repeat(_STEPS, 1)
    rows[:, schema.column(feature.name)] = x
    here = [(key, one) for key, one in formulas if feature.name in one.features]
    lines = [(key, one.text, one(rows)) for key, one in here]
    unit = f" [{feature.unit}]" if feature.unit else ""
    others = ", ".join(
        f"{f.name} = {f.levels[0] if f.levels else f'{middle_of(f):g}'}"
        for f in schema.features
        if f.name != feature.name and any(f.name in one.features for _, one in here)
    )
    said = "; ".join(f"{key}: {text}" for key, text, _ in lines)
    caption = f"{said}{' where ' + others if others else ''}"
    paint = partial(_paint, name=f"{feature.name}{unit}", x=x, lines=lines)
    return Plot(f"formulas-{feature.name}", f"Along {feature.name}", others, caption, 2.2, paint)


def _paint(axes: "Axes", *, name: str, x: Tensor, lines: list[_Drawn]) -> None:
    ends = {key: values.numpy() for key, _, values in lines if key in ("lower", "upper")}
    if len(ends) == 2 and len([key for key, _, _ in lines if key != "formula"]) == 2:
        axes.fill_between(x.numpy(), ends["lower"], ends["upper"], alpha=0.2, color=_LINES[0])
    for place, (key, text, values) in enumerate(lines):
        shown = np.where(np.isfinite(values.numpy()), values.numpy(), np.nan)
        style = "-" if key == "formula" else "--"
        label = f"{key}: {text if len(text) <= 40 else text[:39] + '…'}"
        axes.plot(x.numpy(), shown, style, color=_LINES[place % len(_LINES)], label=label)
    axes.set_xlabel(name)
