"""The shared network as a member of a site's ensemble: what it says of rows it had not seen."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ...core.tree import Params
from .report import StackMember
from .space import MAIN

_Stack = Any  # a `Stack` of classes or of numbers


def pays(before: Tensor, after: Tensor, *, errors: float = 1.0) -> bool:
    """Whether the losses of rows went down by more than so many standard errors of that."""
    gain = before - after
    error = float(gain.std(correction=0)) / math.sqrt(len(gain))
    return float(gain.mean()) > errors * error


def out_of_fold(
    stack: _Stack, folds: Sequence[Params], *, finish: bool = True
) -> tuple[Tensor, int]:
    """What the networks of the folds say of the rows they had not seen, and last steps that pay."""
    site, candidate = stack.site, stack.candidate
    places = site.folds
    assert places is not None
    found: dict[int, Tensor] = {}
    for steps in sorted({0, *(site.common.search_space.finishes if finish else ())}):
        for fold, params in enumerate(folds):
            rest, held = site.part(candidate, fold)
            assert held is not None
            last = site.polish(candidate, rest, params, steps) if steps else params
            away = places == fold
            said = stack.read(site.logits(candidate, last, held), away)
            at = found.setdefault(steps, said.new_empty(len(places), *said.shape[1:]))
            at[away] = said
    best = 0
    for steps in sorted(found):
        if steps and pays(stack.step_losses(found[best]), stack.step_losses(found[steps])):
            best = steps
    return found[best], best


def judge_network(
    stack: _Stack, main: Params, folds: Sequence[Params]
) -> tuple[list[StackMember], StackMember, Params | None]:
    """The network as a member, if its folds allow; what it says of its own rows; its last steps."""
    if not folds:
        return [], stack.in_sample(main), None
    network, steps = stack.network(folds)
    finished = None
    if steps:
        client, _ = stack.site.part(stack.candidate, MAIN)
        finished = stack.site.polish(stack.candidate, client, main, steps)
    seen = stack.in_sample(main if finished is None else finished)
    # one that knows its own rows less well than the folds' know others is not of their kind
    alien = pays(stack.losses(seen.oof), stack.losses(network.oof), errors=3.0)
    return [] if alien else [network], seen, finished
