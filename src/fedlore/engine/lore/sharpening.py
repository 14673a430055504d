"""A site's mixture made as sharp as its own rows and those of all sites together say.

What leaves a site is one summed loss for each factor of a grid. Numbers keep their own width: a
common one held fewer rows where they were fewest (docs/explain/lore.md).
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ...core.sharpness import SHARP_FACTORS, choose_factor
from ...personal.beside import Beside
from .calibrating import UnseenJudged, mixed_losses, sharpen, try_classes
from .private import Private, Unseen


def curve_of(unseen: Unseen | None) -> Tensor:
    """The summed loss of a site's unseen rows under each factor, (SHARP_FACTORS,)."""
    if unseen is None:
        return torch.zeros(len(SHARP_FACTORS), dtype=torch.float64)
    found = [float(mixed_losses(unseen, factor).sum()) for factor in SHARP_FACTORS]
    return torch.tensor(found, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Sharpened:
    """A mixture with another factor, and what it says of unseen rows with it."""

    beside: Beside
    unseen: Unseen
    judged: UnseenJudged


def sharpen_anew(beside: Beside, unseen: Unseen, total: Tensor) -> Sharpened:
    """The mixture as sharp as its own rows choose, drawn to what all sites' rows together do."""
    factor = choose_factor(curve_of(unseen), choose_factor(total))
    ratio = factor / unseen.factor
    members = tuple(sharpen(member, ratio) for member in beside.members)
    sharp = replace(
        beside, members=members, sharpness=ratio * beside.sharpness, calibrated="common"
    )
    return Sharpened(sharp, replace(unseen, factor=factor), try_classes(unseen, factor))


def sharpen_private(private: Private, total: Tensor) -> Private:
    """A site's own model likewise; as it was where it has no mixture of classes."""
    if not isinstance(private.beside, Beside) or private.unseen is None:
        return private
    found = sharpen_anew(private.beside, private.unseen, total)
    told = None if private.brought is None else found.judged.tell(private.brought)
    return replace(
        private,
        beside=found.beside,
        brought=None if told is None else replace(told, calibrated="common"),
        scores=found.judged.scores,
        unseen=found.unseen,
    )
