"""A site makes its own model of a number: a mixture of all that it has, weighed on its own rows."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ...answers import Measured
from ...core.exact import Posterior, leave_out
from ...core.foresight import Foresight
from ...core.tree import Params
from ...personal.beside import NumberBeside
from ...personal.client import Client
from ...personal.foreseen import ForeseenNumber
from ...personal.own.best import own_numbers
from ...personal.own.crossfit import FOLDS
from ...personal.own.members import NumberMember, within
from ...personal.own.weights import number_weights
from ...personal.regressor import network_number
from ..exact import exact_rows
from .calibrating import number_width, try_number
from .candidates import Candidate
from .leaving import say_left_out
from .oneround import SignedLine, sign_line
from .private import (
    EXPERT,
    NETWORK,
    ONE_ROUND,
    Private,
    Voice,
    compose,
    few_rows,
    pays,
    weigh_voices,
)
from .seat import Seat, polish_seat
from .trial import MAIN, Trial
from .trusting import lean_numbers


def settle_number(
    seat: Seat,
    trial: Trial,
    main: Params,
    folds: Sequence[Params],
    posterior: Posterior | None,
) -> Private:
    """What a site with a number chooses, or what it had where it has too few rows to choose by."""
    candidate, knowledge = seat.common.candidate(trial), seat.member.knowledge
    client, told, places = seat.part(candidate, MAIN)[0], seat.told, seat.folds
    y = told.y
    if y is None or places is None:
        return Private(None, knowledge)
    own = None
    if seat.common.menu.own and told.x.ndim == 2 and len(told) >= FOLDS:
        own = own_numbers(told, seed=seat.common.seed, site=seat.id, signs=seat.signs)
    voices, finished = [], None
    if folds:
        said, steps = _out_of_fold(seat, candidate, folds, places, told)
        voices.append(Voice(NETWORK, said, shared=True))
        if steps:
            finished = polish_seat(seat, candidate, client, main, steps)
    foreseen = foreseen_number(seat, posterior, told)
    if foreseen is not None:
        voices.append(foreseen)
    if own is not None:
        voices += [
            Voice(c.member.name, c.held, shared=False, member=c.member) for c in few_rows(own)
        ]
    if not voices:
        return Private(None, knowledge, finished)
    if told.said is not None and seat.hears_expert:
        spoken = torch.where(told.said.isnan(), voices[0].held, told.said)
        voices.append(Voice(EXPERT, spoken, shared=False))

    def weigh(some: Sequence[Voice], rows: Tensor) -> Tensor:
        return number_weights([voice.held[rows] for voice in some], y[rows], weigh_voices(some))

    def mixed(some: Sequence[Voice], weights: Tensor) -> Tensor:
        return within(weights @ torch.stack([voice.held for voice in some]), told)

    def errors(said: Tensor) -> Tensor:
        return (said - y).square()

    alone = [] if own is None else [candidate.held for candidate in own.candidates]
    found = compose(
        voices, weigh, mixed, errors, rows=len(y), own=alone, losses=errors, measure="rmse"
    )
    share = found.share
    lean, together = lean_numbers(
        knowledge,
        told,
        voices,
        share,
        found.together,
        scaler=seat.common.scaler,
        seed=seat.common.seed,
    )
    usual = max(float(errors(together).mean()) ** 0.5, 1e-12)
    width = number_width(together, told, usual)
    beside = NumberBeside(
        found.members, found.weights, share[NETWORK], share.get(EXPERT, 0.0), width
    )
    verdict = try_number(together, told, width)
    brought = lean.tell(verdict.tell(found.brought), errors(together))
    brought = replace(brought, left_out=say_left_out(seat))
    return Private(beside, lean.knowledge(knowledge), finished, brought, verdict.scores)


def _out_of_fold(
    seat: Seat, candidate: Candidate, folds: Sequence[Params], places: Tensor, told: Measured
) -> tuple[Tensor, int]:
    """A number for every row by the network that had not seen it, and last steps that pay."""
    assert told.y is not None
    found: dict[int, Tensor] = {}
    for steps in sorted(set(seat.common.menu.finishes) | {0}):
        at = found.setdefault(steps, torch.empty(len(places), dtype=torch.float64))
        for fold, params in enumerate(folds):
            rest, held = seat.part(candidate, fold)
            assert held is not None
            last = polish_seat(seat, candidate, rest, params, steps) if steps else params
            away = places == fold
            at[away] = network_number(seat.logits(candidate, last, held), told[away])
    best = 0
    for steps, said in sorted(found.items()):
        if steps and pays((found[best] - told.y).square(), (said - told.y).square()):
            best = steps
    return found[best], best


def foreseen_number(seat: Seat, posterior: Posterior | None, told: Measured) -> Voice | None:
    """The model of one round on the scale of the bins, each row left out in closed form."""
    exact, common = seat.common.menu.exact, seat.common
    if posterior is None or exact is None:
        return None
    client: Client = seat.plain
    rows = exact_rows(client, exact, common.scaler, classes=common.classes)
    if seat.signs is not None:
        line = sign_line(common, rows, posterior, seat.signs)
        return None if line is None else _signed(line, told)
    foresight = Foresight(exact, posterior, rows.home, common.classes)
    mean, _ = leave_out(posterior, rows.home, rows.features, rows.target)
    held = within(told.bins.numbers(rows.start + mean), told)
    return Voice(ONE_ROUND, held, True, ForeseenNumber(foresight, common.scaler))


def _signed(line: SignedLine, told: Measured) -> Voice:
    """Its linear part, at a site with shapes."""
    assert told.y is not None
    held = within(line.held, told)
    width = max(float((held - told.y).square().mean()) ** 0.5, 1e-12)
    member = NumberMember(ONE_ROUND, line.body, line.hears, line.over, width)
    return Voice(ONE_ROUND, held, True, member)
