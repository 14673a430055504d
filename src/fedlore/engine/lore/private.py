"""What one site chose for itself, and how it compares voices on rows that they had not seen."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...core.conformal import Holding, unseen_holdings
from ...core.tree import Params
from ...knowledge.models import Knowledge
from ...personal.beside import Beside, NumberBeside
from ...personal.brought import Brought, BroughtLine
from ...personal.own.best import Own, OwnModel
from ...personal.own.mixture import scale_weights
from ...personal.own.weights import SHARED, class_weights, start_weights

HARDLY = 0.001  # the expert's weight before any row has spoken
SMALL = 0.01  # a weight below which a member is left out
WIDE = 1.96  # standard errors of a 95 % interval
PARTS = 5  # in which the weights are tried on rows they were not learned from


@dataclass(frozen=True, eq=False)
class Private:
    """What one site chose for itself: it stays there, in its own bundle."""

    beside: Beside | NumberBeside | None
    knowledge: (
        Knowledge  # what the network is seen through, the expert reread where that was chosen
    )
    finished: Params | None = None  # the network after last steps at home, where they paid
    brought: Brought | None = None
    scores: Tensor | None = None  # (n,) how far labels lie from answers, of rows no member had seen

    @property
    def holdings(self) -> tuple[Holding, ...]:
        """What these scores allow to be said of the site's new rows."""
        return () if self.scores is None else unseen_holdings(self.scores)


@dataclass(frozen=True, eq=False)
class Voice:
    """One member of a mixture, and what it said of rows that it had not seen."""

    name: str
    held: Tensor  # (n, k) log-probabilities or (n,) numbers
    shared: bool  # whether all sites made it together
    member: Any = None  # None: the network, or the expert himself
    firm: bool = False  # keeps its own doubt, however sharp the others are made


@dataclass(frozen=True, eq=False)
class Unseen:
    """What voices said of rows that none of them had seen: enough to judge their mixture anew."""

    voices: tuple[Voice, ...]  # those that count
    share: Mapping[str, float]  # their weights, by name
    y: Tensor  # (n,)
    ordered: bool
    factor: float  # on their log-probabilities, as the mixture has it
    prior: Tensor | None = None  # (n, k) what the expert says
    lean: Tensor | None = None  # (n,) his weight in each row, NaN where it is the one number

    def weigh(self, some: Sequence[Voice], rows: Tensor) -> Tensor:
        """The weights that some rows give to voices."""
        return weigh_classes(some, self.y, rows)


NETWORK, EXPERT, LOCAL_BEST, ONE_ROUND = "network", "expert", "local best", "exact"

Weigh = Callable[[Sequence[Voice], Tensor], Tensor]  # voices, rows (bool) -> weights
Mixed = Callable[[Sequence[Voice], Tensor], Tensor]  # voices, weights -> what they say together
_Errors = Callable[[Tensor], Tensor]  # what was said -> the loss of each row, (n,)


def prune_voices(voices: Sequence[Voice], weights: Tensor) -> tuple[list[Voice], list[float]]:
    """The voices that count; the network is always one of them."""
    kept = [
        (voice, float(w))
        for voice, w in zip(voices, weights, strict=True)
        if w >= SMALL or voice.name == NETWORK
    ]
    return [voice for voice, _ in kept], list(scale_weights([w for _, w in kept]))


def cross_mixed(
    voices: Sequence[Voice], weigh: Weigh, mixed: Mixed, rows: int, without: str | None = None
) -> Tensor:
    """What the mixture says of each row, with weights learned from the other rows."""
    some = [v for v in voices if v.name != without]
    part = torch.arange(rows) % PARTS
    found: Tensor | None = None
    for place in range(PARTS):
        out = part == place
        if not out.any() or out.all():
            continue
        said = mixed(some, weigh(some, ~out))
        found = torch.zeros_like(said) if found is None else found
        found[out] = said[out]
    return mixed(some, weigh(some, torch.ones(rows, dtype=torch.bool))) if found is None else found


def cross_chosen(own: Sequence[Tensor], losses: _Errors, rows: int) -> Tensor:
    """What the best own model says of each row, chosen by its losses on the other rows.

    Chosen by the same rows the best of a dozen models would look better than it is.
    """
    each = torch.stack([losses(said) for said in own])  # (j, n)
    part = torch.arange(rows) % PARTS
    found = own[int(each.mean(1).argmin())].clone()
    for place in range(PARTS):
        out = part == place
        if out.any() and not out.all():
            best = own[int(each[:, ~out].mean(1).argmin())]
            found[out] = best[out]
    return found


def pays(before: Tensor, after: Tensor) -> bool:
    """Whether the losses of rows went down by more than the standard error of the difference."""
    gain = before - after
    error = float(gain.std(correction=0)) / math.sqrt(len(gain))
    return float(gain.mean()) > error


@dataclass(frozen=True, eq=False)
class Weighed:
    """Members that count, by name their weights, and what they say together of unseen rows."""

    members: tuple[Any, ...]
    weights: tuple[float, ...]
    share: dict[str, float]
    together: Tensor
    brought: Brought


def compose(
    voices: Sequence[Voice],
    weigh: Weigh,
    mixed: Mixed,
    errors: _Errors,
    *,
    rows: int,
    own: Sequence[Tensor],  # what each of the site's own models says
    losses: _Errors,  # by which the best of those is chosen
    measure: str,
) -> Weighed:
    """A mixture of voices with weights from rows that none had seen, and the site's table.

    Where no network could be tried on unseen rows it gets what shared members start with.
    """
    kept, shares = prune_voices(voices, weigh(voices, torch.ones(rows, dtype=torch.bool)))
    together = cross_mixed(kept, weigh, mixed, rows)
    costs = {}
    for voice in kept if len(kept) > 1 else []:
        less = cross_mixed(kept, weigh, mixed, rows, without=voice.name)
        costs[voice.name] = _gain(errors(less), errors(together), measure).value
    share = {voice.name: w for voice, w in zip(kept, shares, strict=True)}
    if NETWORK not in share:
        share = {NETWORK: SHARED, **{name: (1.0 - SHARED) * w for name, w in share.items()}}
    members = [voice for voice in kept if voice.member is not None]
    said = {LOCAL_BEST: cross_chosen(own, losses, rows)} if own else {}
    said |= {v.name: v.held for v in voices if v.shared or v.name == EXPERT}
    said["mixture"] = together
    each = {name: errors(values) for name, values in said.items()}
    lines = tuple(measure_line(name, e, measure) for name, e in each.items())
    against = next((n for n in (LOCAL_BEST, EXPERT, NETWORK) if n in each), "mixture")
    gain = _gain(each[against], each["mixture"], measure)
    sentence = _sentence(gain, against, rows, measure)
    return Weighed(
        tuple(voice.member for voice in members),
        tuple(share[voice.name] for voice in members),
        share,
        together,
        Brought(measure, rows, lines, share, costs, gain, sentence),
    )


def weigh_voices(voices: Sequence[Voice]) -> Tensor:
    """Where the weights of voices in any order begin, (j,).

    The expert begins at almost nothing: others have heard him, and rows must speak for more.
    """
    shared = sum(voice.shared for voice in voices)
    own = sum(not voice.shared and voice.name != EXPERT for voice in voices)
    if not shared + own:
        return torch.ones(1, dtype=torch.float64)
    start = start_weights(shared, own)
    each = [start[0] if v.shared else start[-1] for v in voices if v.name != EXPERT]
    found = [start.new_tensor(HARDLY) if v.name == EXPERT else each.pop(0) for v in voices]
    return torch.stack(found) / torch.stack(found).sum()


def weigh_classes(voices: Sequence[Voice], y: Tensor, rows: Tensor) -> Tensor:
    """The weights of voices over classes by these rows, (n,) bool."""
    return class_weights([voice.held[rows] for voice in voices], y[rows], weigh_voices(voices))


def few_rows(own: Own) -> list[OwnModel]:
    """Of each kind of learner the best way to use the expert."""
    best: dict[str, OwnModel] = {}
    for one in sorted(own.candidates, key=lambda c: c.error):
        best.setdefault(one.member.name.partition(",")[0], one)
    return list(best.values())


def measure_line(name: str, errors: Tensor, measure: str) -> BroughtLine:
    """A line of a site's table from the loss of each row: accuracy or RMSE, with its interval."""
    n, mean = len(errors), float(errors.mean())
    wide = WIDE * float(errors.std(correction=0)) / n**0.5
    if measure == "rmse":
        low, high = max(mean - wide, 0.0), mean + wide
        return BroughtLine(name, mean**0.5, low**0.5, high**0.5)
    # Wilson 1927: it is right for few rows and for shares near 0 and 1
    right, z = 1.0 - mean, WIDE**2 / n
    centre = (right + z / 2) / (1 + z)
    half = (z * right * (1 - right) + z * z / 4) ** 0.5 / (1 + z)
    return BroughtLine(name, right, max(centre - half, 0.0), min(centre + half, 1.0))


def _gain(before: Tensor, after: Tensor, measure: str) -> BroughtLine:
    gain = before - after
    mean, wide = float(gain.mean()), WIDE * float(gain.std(correction=0)) / len(gain) ** 0.5
    unit = 1.0
    if measure == "rmse":  # a - b of roots is (a² - b²) / (a + b)
        unit = float(before.mean()) ** 0.5 + float(after.mean()) ** 0.5 or 1.0
    return BroughtLine("gain", mean / unit, (mean - wide) / unit, (mean + wide) / unit)


def _sentence(gain: BroughtLine, against: str, rows: int, measure: str) -> str:
    scale, unit = (100.0, " points of accuracy") if measure == "accuracy" else (1.0, " of RMSE")
    digits = ".1f" if measure == "accuracy" else ".3g"
    said = (
        f"{scale * gain.value:+{digits}}{unit} over {against} "
        f"({scale * gain.low:+{digits}} to {scale * gain.high:+{digits}}, {rows} rows)"
    )
    if gain.low > 0:
        return f"Taking part pays for this site: {said}."
    if gain.high < 0:
        return f"Taking part does not pay for this site: {said}."
    lean = "is likely to pay" if gain.value > 0 else "is not likely to pay"
    return f"Taking part {lean} for this site, but its rows cannot prove it: {said}."
