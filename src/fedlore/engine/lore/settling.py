"""A site makes its own model of classes: a mixture of all that it has, weighed on its own rows."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ...core.exact import Posterior
from ...core.examples import Examples
from ...core.foresight import Foresight
from ...core.inject import inject
from ...core.metrics import decide
from ...core.tree import Params
from ...personal.beside import Beside
from ...personal.client import Client
from ...personal.foreseen import Foreseen
from ...personal.own.best import Own, judge_places, own_classes, own_order
from ...personal.own.crossfit import FOLDS
from ...personal.own.members import OrderMember, mask_logits
from ...personal.own.mixture import mix
from ..exact import exact_rows
from .calibrating import mixture_sharpness, sharpen, temper, try_classes
from .candidates import Candidate
from .leaving import say_left_out
from .oneround import SignedLine, sign_line
from .private import (
    EXPERT,
    NETWORK,
    ONE_ROUND,
    Private,
    Unseen,
    Voice,
    compose,
    few_rows,
    pays,
    weigh_classes,
)
from .seat import WORST, Seat, nll_rows, polish_seat
from .trial import MAIN, Trial
from .trusting import lean_classes

_SHARPNESS: tuple[float, ...] = tuple(
    2.0 ** (i / 4) for i in range(-12, 5)
)  # of a network's logits


def settle_classes(
    seat: Seat,
    trial: Trial,
    main: Params,
    folds: Sequence[Params],
    posterior: Posterior | None,
) -> Private:
    """What a site of classes chooses, or what it had where it has too few rows to choose by."""
    candidate = seat.common.candidate(trial)
    client, _ = seat.part(candidate, MAIN)
    data = client.data if client.injected else Examples(client.data.x, client.data.y)
    y, places = data.y, seat.folds
    if y is None or places is None:
        return Private(None, seat.member.knowledge)
    own = site_models(seat, data)
    voices, sharpness, finished = [], 1.0, None
    heard = data
    if folds:
        logits, heard, steps = _out_of_fold(seat, candidate, folds, places)
        sharpness = sharpest(logits, heard)
        said = inject(sharpness * logits.double(), None, heard.allowed)
        voices.append(Voice(NETWORK, said, shared=True))
        if steps:
            finished = polish_seat(seat, candidate, client, main, steps)
    foreseen = foreseen_classes(seat, client, posterior)
    if foreseen is not None:
        voices.append(foreseen)
    if own is not None:
        voices += [
            Voice(c.member.name, c.held, shared=False, member=c.member) for c in few_rows(own)
        ]
    if not voices:  # nothing is known of any row that was not learned from
        return Private(None, client.knowledge, finished)
    expert = expert_voice(heard, voices[0].held)
    if expert is not None and seat.hears_expert:
        voices.append(expert)

    def weigh(some: Sequence[Voice], rows: Tensor) -> Tensor:
        return weigh_classes(some, y, rows)

    def mixed(some: Sequence[Voice], weights: Tensor) -> Tensor:
        return mix(torch.stack([v.held.double().exp() for v in some]), weights.tolist()).log()

    def errors(said: Tensor) -> Tensor:
        return (decide(said, heard.prior, heard.signs) != y).double()

    def losses(said: Tensor) -> Tensor:
        """As `local best` is chosen: by likelihood where classes have an order."""
        if not seat.common.ordered:
            return errors(said)
        return -said.gather(1, y.unsqueeze(1)).squeeze(1).clamp(min=WORST)

    alone = [] if own is None else [candidate.held for candidate in own.candidates]
    found = compose(
        voices, weigh, mixed, errors, rows=len(y), own=alone, losses=losses, measure="accuracy"
    )
    share = found.share
    kept = tuple(voice for voice in voices if voice.name in share)
    factor = mixture_sharpness(kept, share, y)
    members = tuple(sharpen(member, factor) for member in found.members)
    expert_share = share.get(EXPERT, 0.0)
    beside = Beside(members, found.weights, share[NETWORK], expert_share, factor * sharpness)
    lean = lean_classes(
        client.knowledge,
        heard,
        [(voice, temper(voice, factor).exp()) for voice in voices],
        share,
        ordered=seat.common.ordered,
        scaler=seat.common.scaler,
        seed=seat.common.seed,
    )
    ordered = seat.common.ordered
    unseen = Unseen(kept, share, y, ordered, factor, heard.prior, lean.rows)
    verdict = try_classes(unseen, factor)
    told = lean.tell(verdict.tell(found.brought), errors(verdict.said.log()))
    told = replace(told, left_out=say_left_out(seat))
    known = lean.knowledge(client.knowledge)
    return Private(beside, known, finished, told, verdict.scores)


def site_models(seat: Seat, data: Examples) -> Own | None:
    """The site's own learners; none for images and for a handful of rows."""
    if not seat.common.menu.own or data.x.ndim != 2 or len(data) < FOLDS:
        return None
    common, site = seat.common, seat.id
    if common.ordered:
        return own_order(data, common.classes, seed=common.seed, site=site, signs=seat.signs)
    return own_classes(data, common.classes, seed=common.seed, site=site)


def _out_of_fold(
    seat: Seat, candidate: Candidate, folds: Sequence[Params], places: Tensor
) -> tuple[Tensor, Examples, int]:
    """Logits of every row by the network that had not seen it, the rows, and last steps that pay.

    The rows are those of the folds: a reread expert was reread without them.
    """
    found: dict[int, Tensor] = {}
    priors: Tensor | None = None
    whole, _ = seat.part(candidate, MAIN)
    for steps in sorted(set(seat.common.menu.finishes) | {0}):
        for fold, params in enumerate(folds):
            rest, held = seat.part(candidate, fold)
            assert held is not None
            last = polish_seat(seat, candidate, rest, params, steps) if steps else params
            logits = seat.logits(candidate, last, held).double()
            at = found.setdefault(steps, logits.new_empty(len(places), logits.shape[1]))
            at[places == fold] = logits
            if held.prior is not None:
                priors = (
                    held.prior.new_empty(len(places), logits.shape[1]) if priors is None else priors
                )
                priors[places == fold] = held.prior
    data = whole.data
    rows = (
        Examples(data.x, data.y, priors, data.allowed, signs=data.signs, trust=data.trust)
        if whole.injected
        else Examples(data.x, data.y)
    )
    best = 0
    for steps in sorted(found):
        if steps and pays(_losses(seat, found[best], rows), _losses(seat, found[steps], rows)):
            best = steps
    return found[best], rows, best


def _losses(seat: Seat, logits: Tensor, rows: Examples) -> Tensor:
    """What last steps must lower: the likelihood where classes have an order, else the errors."""
    if seat.common.ordered:
        return nll_rows(logits, rows)
    assert rows.y is not None
    said = inject(logits, None, rows.allowed).argmax(1)
    return said.ne(rows.y).double()


def sharpest(logits: Tensor, rows: Examples) -> float:
    """The factor on a network's logits under which rows that it had not seen are likeliest."""
    costs = [float(nll_rows(s * logits, rows).mean()) for s in _SHARPNESS]
    _, best = min(zip(costs, _SHARPNESS, strict=True))
    return best


def foreseen_classes(seat: Seat, client: Client, posterior: Posterior | None) -> Voice | None:
    """The model of one round with the site's own level, each row left out in closed form."""
    exact, common = seat.common.menu.exact, seat.common
    if posterior is None or exact is None:
        return None
    rows = exact_rows(client, exact, common.scaler, classes=common.classes)
    if seat.signs is not None:
        return _signed(seat, client, sign_line(common, rows, posterior, seat.signs))
    foresight = Foresight(exact, posterior, rows.home, common.classes)
    allowed = client.data.allowed if client.injected else None
    held = mask_logits(foresight.held_out(rows), allowed)
    return Voice(ONE_ROUND, held, True, Foreseen(foresight, common.scaler), firm=True)


def _signed(seat: Seat, client: Client, line: SignedLine | None) -> Voice | None:
    """Its linear part, at a site with shapes."""
    if line is None:
        return None
    k = seat.common.classes
    judged = judge_places(line.held, client.data, k)
    member = OrderMember(ONE_ROUND, line.body, line.hears, line.over, judged.width, k)
    return Voice(ONE_ROUND, judged.held, True, member)


def expert_voice(rows: Examples, silent: Tensor) -> Voice | None:
    """The expert as a member; where he is silent he says what `silent` says, (n, k)."""
    if rows.prior is None:
        return None
    said = rows.prior.double()
    total = said.sum(1, keepdim=True)
    spoken = torch.where(total > 0, said / torch.where(total > 0, total, 1.0), silent.exp())
    return Voice(EXPERT, spoken.log(), shared=False, firm=True)
