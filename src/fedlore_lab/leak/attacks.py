"""The attacks on what was observed: an error for every site, beside that of no look at all."""

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from .coordinator import missed_classes
from .observe import Observed
from .score import auc, shadow_guess, shadow_mean

#: What is attacked, and how an error of it is measured.
ATTACKS = {
    "union": "classes that are in no row's range (1 - AUC over classes)",
    "own union": "the same, by and against someone told how many of the sites allow each class",
    "frequency": "share of rows whose range has the class (mean absolute error)",
    "right": "accuracy of the expert on the training rows (absolute error)",
    "trust": "λ (absolute error, each site with a λ of its own)",
    "member": "whether a known row was trained on (1 - AUC)",
    "labels": "distribution of the labels (total variation)",
    "row range": "range of the row, from one step on one row (balanced error)",
    "row right": "whether the expert is right, from one step on one row (balanced error)",
}

Distance = Callable[[Tensor, Tensor], Tensor]  # guesses and truths (n, k) -> (n,)
_Errors = dict[str, tuple[list[float], list[float]]]  # attack -> errors and chances, by site


def attack(
    seen: Sequence[Observed],
    groups: Sequence[Sequence[int]],
    usual: Mapping[str, Tensor] | None = None,
) -> _Errors:
    """Errors of every attack at every site, and of the best guess without an upload.

    `groups` names for every site of every observation whose shadow it may not be: in simulations
    all sites of a seed, which only other seeds may tell about; among given sites each its own.
    `usual` holds what is known of every class beforehand, (k,), from sites that are not under
    attack at all; without it that is the mean over the other groups. The latter is low where the
    secret is high, since it is the mean of the rest: never let an attack learn from it.
    """
    group = torch.tensor([g for some in groups for g in some])
    whole = torch.cat([o.whole for o in seen])
    found: _Errors = {}
    union, frequency, labels = (
        torch.cat([getattr(o, name) for o in seen]) for name in ("union", "frequency", "labels")
    )
    known = {
        name: shadow_mean(secret, group) if usual is None else _level(usual[name], secret, group)
        for name, secret in (("union", union), ("frequency", frequency), ("labels", labels))
    }
    found["union"] = _union(seen, union, known["union"], group)
    found["own union"] = _union(seen, union, torch.cat([_total(o) for o in seen]), group)
    signs = torch.cat([o.classes for o in seen])
    found["frequency"] = _by_class(signs, frequency, known["frequency"], group, _absolute)
    right = torch.cat([o.right for o in seen])
    prior = shadow_mean(right, group)
    guess = shadow_guess(whole, right, group)
    found["right"] = ((guess - right).abs().tolist(), (prior - right).abs().tolist())
    found["trust"] = _trust(seen, groups)
    member = torch.cat([o.member for o in seen])  # (n, 2)
    best = shadow_mean(member, group).argmax(1)  # which statistic works is learned from shadows
    found["member"] = (
        [1 - float(a[b]) for a, b in zip(member, best, strict=True)],
        [0.5] * len(best),
    )
    found["labels"] = _by_class(signs, labels, known["labels"], group, _variation)
    found["row range"] = _row_range(seen, known["frequency"])
    row_right = torch.cat([o.row_right for o in seen])
    found["row right"] = (row_right.tolist(), torch.full_like(row_right, 0.5).tolist())
    return found


def _level(usual: Tensor, secrets: Tensor, group: Tensor) -> Tensor:
    """What is usual, at the level of the other groups, which attacks know too, (n, k)."""
    rest = (secrets - usual).mean(1, keepdim=True)
    return usual + shadow_mean(rest, group)


def _total(o: Observed) -> Tensor:
    """The share of sites of the same federation that allow each class, (m, k)."""
    same = (o.together[:, None] == o.together[None]).double()  # (m, m)
    return same @ o.union / same.sum(1, keepdim=True)


def _union(
    seen: Sequence[Observed], union: Tensor, prior: Tensor, group: Tensor
) -> tuple[list[float], list[float]]:
    """Against a guesser who knows the prior alone, (n, k)."""
    still = torch.cat([o.still for o in seen])
    guess = _guess(torch.cat([o.classes for o in seen]), union, prior, group)
    guess = guess - 1e3 * still.double()  # exact zeros outrank whatever was learned
    errors, chances = [], []
    for truth, g, p in zip(union.bool(), guess, prior, strict=True):
        if truth.all():  # nothing is ruled out, so there is nothing to find
            errors.append(math.nan)
            chances.append(math.nan)
            continue
        errors.append(1 - auc(g[truth], g[~truth]))
        chances.append(1 - auc(p[truth], p[~truth]))
    return errors, chances


def _guess(signs: Tensor, secrets: Tensor, prior: Tensor, group: Tensor) -> Tensor:
    """Shadows' mean of each class, corrected by what the signs of the class say, (n, k)."""
    n, k, f = signs.shape
    rest = shadow_guess(
        signs.reshape(n * k, f), (secrets - prior).reshape(-1), group.repeat_interleave(k)
    )
    return prior + rest.reshape(n, k)


def _by_class(
    signs: Tensor, secrets: Tensor, prior: Tensor, group: Tensor, distance: Distance
) -> tuple[list[float], list[float]]:
    guess = _guess(signs, secrets, prior, group).clamp(0.0, 1.0)
    return distance(guess, secrets).tolist(), distance(prior, secrets).tolist()


def _absolute(guess: Tensor, truth: Tensor) -> Tensor:
    return (guess - truth).abs().mean(1)


def _variation(guess: Tensor, truth: Tensor) -> Tensor:
    guess = guess / guess.sum(1, keepdim=True).clamp(min=1e-9)
    return 0.5 * (guess - truth).abs().sum(1)


def _trust(
    seen: Sequence[Observed], groups: Sequence[Sequence[int]]
) -> tuple[list[float], list[float]]:
    """Per site the mean error over its drawings of λ."""
    if not len(seen[0].trust):
        nothing = [math.nan] * sum(len(g) for g in groups)
        return nothing, nothing
    times = len(seen[0].trust) // len(seen[0].sites)
    group = torch.tensor([g for some in groups for g in list(some) * times])
    truth, signs = (torch.cat([getattr(o, n) for o in seen]) for n in ("trust", "trust_signs"))
    errors = []
    for guess in (shadow_guess(signs, truth, group), shadow_mean(truth, group)):
        missed, place = (guess - truth).abs(), 0
        by_site: list[float] = []
        for some in groups:
            part = missed[place : place + times * len(some)].reshape(times, len(some))
            by_site += part.mean(0).tolist()
            place += times * len(some)
        errors.append(by_site)
    return errors[0], errors[1]


def _row_range(seen: Sequence[Observed], prior: Tensor) -> tuple[list[float], list[float]]:
    """Against a guesser who names the classes that are allowed more often than most."""
    usual = prior > prior.mean(1, keepdim=True)
    chances = []
    for rows, guess in zip(torch.cat([o.row_truth for o in seen]), usual, strict=True):
        limited = rows[~rows.all(1)]
        missed = [missed_classes(guess, row) for row in limited]
        chances.append(sum(missed) / len(missed) if missed else math.nan)
    return torch.cat([o.row_range for o in seen]).tolist(), chances
