"""Which inputs an answer hangs on: of single rows, and over many."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..core.rng import stream
from ..core.scaler import Scaler
from ..kernel.schema import Schema

_AT_ONCE = 2048  # changed rows: more would not stay in the cache


@torch.no_grad()
def input_effects(
    model: Any, x: Tensor, usual: Tensor, answered: tuple[Tensor, Tensor | None] | None = None
) -> Tensor:
    """How far each input moves the answer from where its usual value would put it, (n, d).

    Of classes it is the probability of the class that is answered, of a number the number; whoever
    has asked the model already gives them as `answered`, with the classes. One input is changed at
    a time: what two do only together is not told apart.
    """
    here, chosen = answered or _value(model, x, None)
    usual = usual.to(x.dtype)
    effects = torch.zeros(x.shape, dtype=torch.float64)
    for part in torch.split((x != usual).nonzero(), _AT_ONCE):
        rows, columns = part.unbind(1)
        other = x[rows].scatter_(1, part[:, 1:], usual[columns].unsqueeze(1))
        there, _ = _value(model, other, None if chosen is None else chosen[rows])
        effects[rows, columns] = (here[rows] - there).double()
    return effects


@torch.no_grad()
def input_importance(
    model: Any, x: Tensor, y: Tensor, *, seed: int = 0, repeats: int = 5
) -> Tensor:
    """How much worse the model gets when a column is shuffled, (d,): in shares right, or RMSE."""
    number = y.is_floating_point()

    def loss(rows: Tensor) -> float:
        said = model.predict(rows)
        missed = (said - y).square() if number else said != y
        mean = float(missed.double().mean())
        return mean**0.5 if number else mean

    found, before = torch.zeros(x.shape[1], dtype=torch.float64), loss(x)
    for column in range(x.shape[1]):
        for turn in range(repeats):
            other = x.clone()
            order = torch.randperm(len(x), generator=stream(seed, "importance", column, turn))
            other[:, column] = x[order, column]
            found[column] += (loss(other) - before) / repeats
    return found


def usual_row(scaler: Scaler | None, x: Tensor, schema: Schema | None) -> Tensor:
    """What inputs usually are, (d,): the federation's means and commonest levels.

    Where nothing was scaled, the middle of the rows at hand. There is nothing between two levels.
    """
    if scaler is None or len(scaler.shift) < x.shape[1] or not scaler.shift.any():
        usual = x.double().nanquantile(0.5, dim=0)
    elif scaler.inputs is None:
        usual = scaler.shift[: x.shape[1]].clone()
    else:
        return scaler.inputs.decode(scaler.shift[None, : scaler.inputs.width])[0]
    for place, feature in enumerate(() if schema is None else schema.features):
        if feature.levels:
            usual[place] = usual[place].round()
    return usual


def name_effects(
    effects: Tensor, schema: Schema | None, names: Sequence[str] = ()
) -> list[dict[str, float]]:
    """The effects of each row by the name of the input, the greatest first."""
    known = list(names or (() if schema is None else schema.names))
    known += [f"x{i}" for i in range(len(known), effects.shape[1])]
    order = effects.abs().argsort(dim=1, descending=True, stable=True).tolist()
    return [
        {known[i]: one[i] for i in places}
        for places, one in zip(order, effects.tolist(), strict=True)
    ]


def _value(model: Any, x: Tensor, chosen: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The answer as one number a row, (n,), and of classes which one it is about."""
    if not hasattr(model, "predict_proba"):
        return model.predict(x), None
    chances = model.predict_proba(x)
    chosen = model.predict(x) if chosen is None else chosen
    return chances.gather(1, chosen.unsqueeze(1)).squeeze(1), chosen
