"""How long approaches take beside each other, for whoever shows how much is left."""

from ..personal.own.best import missing_learners
from .approaches import Approach


def effort(approach: Approach) -> float:
    """How long an approach takes, in ordinary trainings and roughly: what time is left goes by it.

    Measured on the demo, where a site's own models take longest: lore finds them there.
    """
    if approach.alone:
        return 4.0 if missing_learners() else 50.0
    if approach.chosen:
        return 10.0
    return 0.05 if approach.algorithm is None or approach.trained != approach.guarded else 1.0
