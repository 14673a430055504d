"""How good a guess is: errors against the best guess that needs no upload at all.

A score is the share of that guess's error which the attack takes away: 0 is chance, 1 is exact, and
below 0 the attack would have done better to look at nothing. Attacks that learn do so from shadows:
other simulated sites whose secrets the attacker knows, never the site under attack.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from fedlore import Examples, Fitted, Personal
from fedlore.core import tree
from fedlore.core.rng import draw_numbers, stream
from fedlore.engine import Client, Recipe
from fedlore.errors import FedloreError
from fedlore.experiments import predict_approach, score_approach

from .settings import LeakSetting
from .uploads import Seen

SHRINK = (1.0, 10.0, 100.0, 1e3, 1e9)  # of the ridge; the last leaves nothing but the mean
RESAMPLED = 1000


@dataclass(frozen=True)
class Leak:
    """A score with its 95 % interval, over sites and seeds."""

    score: float
    low: float
    high: float

    @property
    def at_chance(self) -> bool:
        """Whether nothing shows that an upload told more than no upload."""
        return self.low <= 0.0


def score_leak(errors: Sequence[float], chance: Sequence[float]) -> Leak:
    """1 - (sum of errors) / (sum of the errors of no look), with a bootstrap interval over cases.

    >>> score_leak([0.0, 0.0], [0.5, 0.25])
    Leak(score=1.0, low=1.0, high=1.0)
    """
    if not errors or len(errors) != len(chance):
        raise FedloreError(
            f"a score needs as many errors as chances, got {len(errors)}, {len(chance)}"
        )
    pairs = torch.tensor([errors, chance], dtype=torch.float64)  # (2, n)
    score = float(_skill(pairs.sum(1, keepdim=True)))
    n = len(errors)
    picks = torch.randint(n, (RESAMPLED, n), generator=stream("leak", n))
    found = _skill(pairs[:, picks].sum(2)).sort().values
    edge = max(0, math.ceil(0.025 * RESAMPLED) - 1)
    return Leak(score, float(found[edge]), float(found[-1 - edge]))


def _skill(sums: Tensor) -> Tensor:
    """(2, r) sums of errors and of chances -> (r,); where chance is always right, 0."""
    return torch.where(sums[1] > 0, 1.0 - sums[0] / torch.where(sums[1] > 0, sums[1], 1.0), 0.0)


def auc(positive: Tensor, negative: Tensor) -> float:
    """How often a positive case has the higher value, ties count half; (p,) and (q,).

    >>> auc(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0]))
    0.875
    """
    if not len(positive) or not len(negative):
        raise FedloreError("AUC needs at least one case of either kind")
    apart = positive.double()[:, None] - negative.double()[None]
    return float(((apart > 0).double() + 0.5 * (apart == 0).double()).mean())


def shadow_mean(secrets: Tensor, groups: Tensor) -> Tensor:
    """For each case the mean secret over all other groups: a guess without any look, (n, ...)."""
    found = torch.empty_like(secrets)
    for group in _names(groups):
        found[groups == group] = secrets[groups != group].mean(0)
    return found


def shadow_guess(signs: Tensor, secrets: Tensor, groups: Tensor) -> Tensor:
    """For each case a guess learned from all other groups, (n, f), (n,) -> (n,).

    Ridge regression. How much to shrink is chosen on those groups alone; with useless signs their
    mean remains.
    """
    found = torch.empty_like(secrets)
    for group in _names(groups):
        mine = groups == group
        others, inner = ~mine, groups[~mine]
        shrink = _choose(signs[others], secrets[others], inner)
        found[mine] = _ridge(signs[others], secrets[others], signs[mine], shrink)
    return found


def _names(groups: Tensor) -> list[int]:
    return sorted(set(groups.tolist()))


def _choose(signs: Tensor, secrets: Tensor, groups: Tensor) -> float:
    names = _names(groups)
    if len(names) < 2:
        return SHRINK[2]
    lost = []
    for shrink in SHRINK:
        errors = torch.empty_like(secrets)
        for group in names:
            out = groups == group
            errors[out] = secrets[out] - _ridge(signs[~out], secrets[~out], signs[out], shrink)
        lost.append(float(errors.abs().mean()))
    return SHRINK[lost.index(min(lost))]


def _ridge(signs: Tensor, secrets: Tensor, at: Tensor, shrink: float) -> Tensor:
    """Ridge regression on standardised signs: fit (n, f), (n,), predict at (p, f) -> (p,)."""
    mean, spread = signs.mean(0), signs.std(0, correction=0)
    spread = torch.where(spread > 1e-9, spread, torch.inf)  # a constant sign says nothing
    x, level = (signs - mean) / spread, secrets.mean()
    gram = x.T @ x + shrink * torch.eye(x.shape[1], dtype=x.dtype)
    slope = torch.linalg.solve(gram, x.T @ (secrets - level))
    # what no shadow ever showed is not extrapolated far
    guess: Tensor = ((at - mean) / spread).clamp(-4.0, 4.0) @ slope + level
    return guess


EARLY = 3  # rounds at the beginning that are looked at one by one
LATE = 10  # rounds at the end in which a row that was trained on shows
KNOWN_ROWS = 200  # rows whose membership is asked, of either kind


def over_time(looks: Sequence[Seen], signs: Callable[[Seen], Tensor]) -> Tensor:
    """Signs of the first round, of the first few on average, and of all movement together."""
    early = torch.stack([signs(look) for look in looks[:EARLY]])
    total = tree.mean([({"": look.moved}, 1.0) for look in looks])[""]
    return torch.cat([early[0], early.mean(0), signs(Seen(looks[0].before, total))], -1)


def secrets_of(group: Sequence[Client]) -> dict[str, list[Tensor]]:
    """What the attacks are after, for each site: union, frequency, labels, right."""
    found: dict[str, list[Tensor]] = {"union": [], "frequency": [], "labels": [], "right": []}
    for client in group:
        data = client.data
        assert data.y is not None and data.allowed is not None and data.prior is not None
        k = data.allowed.shape[1]
        found["union"].append(data.allowed.any(0).double())
        found["frequency"].append(data.allowed.double().mean(0))
        found["labels"].append(torch.bincount(data.y, minlength=k) / len(data.y))
        found["right"].append((data.prior.gather(1, data.y[:, None]) > 0.5).double().mean())
    found["labels"] = [t.double() for t in found["labels"]]
    return found


def sum_up(
    group: Sequence[Client],
    look: Callable[[Client], dict[str, Tensor]],
    setting: LeakSetting,
    fitted: Fitted[Personal],
) -> dict[str, Tensor]:
    """What is seen of every site, the secrets behind it, and its accuracy, each stacked."""
    found: dict[str, list[Tensor]] = secrets_of(group)
    for client in group:
        scores = score_approach(
            setting.approach, client, predict_approach(setting.approach, fitted, client)
        )
        ta = torch.tensor(scores["ta"], dtype=torch.float64)
        for name, value in {**look(client), "ta": ta}.items():
            found.setdefault(name, []).append(value)
    return {name: torch.stack(values) for name, values in found.items()}


def known_rows(client: Client, recipe: Recipe, seed: int) -> tuple[Tensor, Tensor, int]:
    """Rows whose membership is asked, scaled, with their labels; how many first ones are in."""
    assert client.test is not None
    parts = [_some(part, seed, client.id) for part in (client.data, client.test)]
    scaled = [p.x if recipe.scaler is None else recipe.scaler(p.x) for p in parts]
    x, y = torch.cat(scaled).float(), torch.cat([p.y for p in parts if p.y is not None])
    return x, y, len(parts[0])


@torch.no_grad()
def member_by_loss(recipe: Recipe, looks: Sequence[Seen], client: Client, seed: int) -> Tensor:
    """AUC of telling trained rows from others of the site: by fall of the loss, by its height."""
    x, y, n = known_rows(client, recipe, seed)

    def loss(weights: tree.Params) -> Tensor:
        logits = functional_call(recipe.model, weights, (x,))
        return torch.nn.functional.cross_entropy(logits, y, reduction="none")

    fall = torch.zeros(len(x))
    for look in looks[-LATE:]:
        local = look.before | tree.add(look.moved, {n: look.before[n] for n in look.moved})
        after = loss(local)
        fall += loss(look.before) - after
    return torch.tensor([auc(s[:n], s[n:]) for s in (fall, -after)], dtype=torch.float64)


def _some(data: Examples, seed: int, who: str) -> Examples:
    """At most so many rows, drawn."""
    rows = draw_numbers(min(KNOWN_ROWS, len(data)), len(data), seed, "leak member", who)
    return data[torch.tensor(rows)]
