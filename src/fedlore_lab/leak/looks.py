"""How what was seen of a training is summed up, and the secrets that are held against it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.func import functional_call

from fedlore import Examples, Fitted, Personal
from fedlore.core import tree
from fedlore.core.rng import draw_numbers
from fedlore.engine import Client, Recipe
from fedlore.experiments import predict_approach, score_approach

from .score import auc
from .settings import LeakSetting
from .uploads import Seen

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
