"""The paper's function transformation T, its loss, and the gradient of that loss in closed form.

Fan, Zhou, Pei, Friedlander, Hu, Li, Zhang (2022), Knowledge-Injected Federated Learning:
the transformation of Definition 5.1, its Jacobian of Proposition 5.1 (d), its batch gradient.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import FedloreError
from .examples import Examples


def inject(
    logits: Tensor,  # (..., k)
    prior: Tensor | None = None,  # (..., k)  rows of g_p; a zero row abstains
    allowed: Tensor | None = None,  # (..., k)  rows of g_r, bool, never empty
    trust: float | Tensor = 0.0,  # λ in the paper, of all rows or of each (...)
) -> Tensor:
    """log[(1-λ)·softmax(f + ∞·(g_r - 1)) + λ·g_p], row by row.

    >>> logits = torch.zeros(1, 3)
    >>> inject(logits, torch.tensor([[0., 1., 0.]]), torch.tensor([[True, True, False]]), 0.5).exp()
    tensor([[0.2500, 0.7500, 0.0000]])
    """
    if allowed is not None:
        logits = logits.masked_fill(~allowed, -torch.inf)
    learned = logits.log_softmax(-1)
    if prior is None:
        return learned
    if isinstance(trust, Tensor):
        trust = trust.to(prior)
        trust = trust.unsqueeze(-1) if trust.ndim == prior.ndim - 1 else trust
    expert = trust * prior  # rows sum to λ, or to 0 where g_p abstains
    # clamped: a soft row may sum to a hair above 1, and log1p(-1.0000001) is NaN
    kept = learned + torch.log1p(-expert.sum(-1, keepdim=True).clamp(max=1.0))
    spoken = expert > 0
    safe = torch.where(spoken, expert, 1.0).log()  # never log(0): keeps the gradient finite
    return torch.where(spoken, torch.logaddexp(kept, safe), kept)


def fill_trust(trust: Tensor | None, constant: float) -> float | Tensor:
    """λ of each row, (n,), with the one number where a row has none of its own (NaN)."""
    return constant if trust is None else torch.where(trust.isnan(), constant, trust)


def guard(logits: Tensor) -> Tensor:
    """Finite logits whatever the weights did, so that nothing can void the range."""
    limit = torch.finfo(logits.dtype).max
    return logits.nan_to_num(nan=0.0, posinf=limit, neginf=-limit)


def odds_of(prior: Tensor, y: Tensor | None, trust: float) -> Tensor:
    """λ·p_y / (1-λ_row) for each row: how loudly the expert already says the label.

    It is all that the gradient needs to know about g_p and λ: 0 where the expert is wrong or
    silent. `y` holds class indices, (n, 1), and so has the result; without it the result is
    that of every class, (n, k).
    """
    expert = trust * prior.double()  # 1 - λ has no digits left in single precision
    aimed = expert if y is None else expert.gather(-1, y)
    odds = aimed / (1.0 - expert.sum(-1, keepdim=True)).clamp(min=torch.finfo(expert.dtype).tiny)
    return odds.clamp(max=torch.finfo(prior.dtype).max).to(prior.dtype)


def pair_of(target: Tensor, odds: Tensor | None = None, wall: Tensor | None = None) -> Tensor:
    """What to add to the logits of a row, (n, 2, k), so that two softmaxes make its slope.

    The row's loss is log Σ e^f - log[e^f_y + o·Σ e^f]: its slope is softmax(f) minus the softmax
    with class y counted 1 + o times and every other one o times. Nothing can underflow in it.
    """
    if odds is None:
        odds = target.new_zeros(*target.shape[:-1], 1)
    aim = torch.where(target > 0, odds.log1p(), odds.log())
    first = torch.zeros_like(target) if wall is None else wall
    return torch.stack([first, first + aim], -2)


def slope(
    logits: Tensor,  # (..., n, k)
    target: Tensor,  # (..., n, k)  the label, one-hot; or a distribution within the range
    *,
    wall: Tensor | None = None,  # (..., n, k)  0 inside the range, log ε or -inf outside
    pair: Tensor | None = None,  # (..., n, 2, k)  where an expert speaks; holds the wall
    odds: Tensor | None = None,  # (..., n, k)  the same for a soft target
    plain: float = 0.0,  # α, the share of ordinary cross-entropy
    dim: int = -1,  # the axis of classes
) -> Tensor:
    """d/df of α·CE(f) + (1-α)·CE(f^m) for each row, without a graph.

    With s the masked softmax the second part is w·(s - y), w = s_y / (s_y + odds): the network
    spends its effort where the expert is wrong. For a soft target q the cross-entropy is
    -Σ q_i log f^m_i, and the second part Σ q_i w_i·(s - e_i).
    """
    if pair is not None:
        learned, expert = (logits.unsqueeze(dim - 1) + pair).softmax(dim).unbind(dim - 1)
        error = learned - expert
    else:
        error = (logits if wall is None else logits + wall).softmax(dim)  # s
        if odds is None:
            error.sub_(target)
        else:
            # guarded: s may underflow, and 0 / (0 + 0) is not the weight 1 that is meant
            aimed = error.clamp(min=torch.finfo(error.dtype).tiny)
            aimed.div_(aimed + odds).mul_(target)
            error.mul_(aimed.sum(dim, keepdim=True)).sub_(aimed)
    if plain == 0.0:
        return error
    return error.lerp_(logits.softmax(dim).sub_(target), plain)


@dataclass(frozen=True, eq=False)
class Lesson:
    """Training rows. The network hears `prior` and `allowed`; the loss uses the rest."""

    x: Tensor  # (n, *features), scaled
    y: Tensor  # (n, 1)  class index
    target: Tensor  # (n, k)  the same, one-hot; or a distribution within the range
    prior: Tensor | None = None  # (n, k)
    allowed: Tensor | None = None  # (n, k)
    wall: Tensor | None = None  # (n, k)  0 inside the range of the loss, log ε or -inf outside
    pair: Tensor | None = None  # (n, 2, k)  in place of the wall where an expert is trusted
    odds: Tensor | None = None  # (n, k)  beside the wall for a soft target

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Tensor | slice) -> "Lesson":
        return self._each(lambda t: t[rows])

    def batches(self, size: int) -> Iterator["Lesson"]:
        """Consecutive parts of `size` rows, the last one smaller; views, no copies."""
        parts = [None if t is None else torch.split(t, size) for t in vars(self).values()]
        for i in range(math.ceil(len(self) / size)):
            yield Lesson(*(None if part is None else part[i] for part in parts))  # type: ignore[arg-type]

    def error(self, logits: Tensor, plain: float = 0.0) -> Tensor:
        """The slope of each row's loss at these logits, (n, k); see inject.slope."""
        return slope(
            logits, self.target, wall=self.wall, pair=self.pair, odds=self.odds, plain=plain
        )

    def loss(self, logits: Tensor) -> Tensor:
        """Each row's loss, (n,), whose slope is `error`, up to what no network can change.

        For a network that is trained by autograd; log(1-λ) of each row is left out.
        """
        if self.pair is not None:
            learned, expert = (logits.unsqueeze(-2) + self.pair).logsumexp(-1).unbind(-1)
            return learned - expert
        # log s, where it counts alone: elsewhere it may be -inf, and 0 · inf is NaN
        silent = self.target == 0
        said = (logits if self.wall is None else logits + self.wall).log_softmax(-1)
        said = said.masked_fill(silent, 0.0)
        if self.odds is not None:
            said = torch.logaddexp(said, self.odds.log())
        return -(self.target * said).sum(-1)

    def to(self, device: torch.device | str) -> "Lesson":
        return self._each(lambda t: t.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Lesson":
        parts: dict[str, Tensor | None] = vars(self)
        return Lesson(*(None if t is None else change(t) for t in parts.values()))  # type: ignore[arg-type]


def teach(
    data: Examples,
    classes: int,
    *,
    trust: float = 0.0,
    outside: str = "error",
    heard: bool = True,
    floor: float = 0.0,
) -> Lesson:
    """Annotated examples as a lesson, with the policy for labels outside the range applied.

    `heard` keeps what a hearing network gets as input; a deaf one has no use for it. With a
    `floor` ε the loss gives classes outside the range a weight of ε in place of none, so that
    training leaves no exact zeros to be read from an upload; prediction knows no floor.
    """
    if data.y is None:
        raise FedloreError("training needs labels, these examples have none")
    if trust >= 1.0:
        raise FedloreError(
            f"trust must be below 1 in training (nothing is left to learn), got {trust:g}"
        )
    if not 0.0 <= floor < 1.0:
        raise FedloreError(f"floor must lie in [0, 1), got {floor:g}")
    if outside == "drop" and data.allowed is not None:
        data = _inside(data, data.allowed.gather(-1, data.y.unsqueeze(-1)).squeeze(-1))
    assert data.y is not None  # kept by indexing
    x, y = data.x, data.y.unsqueeze(-1)
    wall = within = None
    if data.allowed is not None:
        within = data.allowed.scatter(-1, y, True) if outside == "widen" else data.allowed
        _refuse_outside(within, y)
        height = math.log(floor) if floor > 0 else -math.inf
        wall = x.new_zeros(within.shape).masked_fill_(~within, height)
    target = x.new_zeros(len(x), classes).scatter_(-1, y, 1.0)
    if data.target is not None:
        target = _restrict(data.target.to(x.dtype), within, target)
    pair = odds = None
    if data.prior is not None and trust > 0:
        if data.target is None:
            pair = pair_of(target, odds_of(data.prior, y, trust).to(x.dtype), wall)
            wall = None
        else:
            odds = odds_of(data.prior, None, trust).to(x.dtype)
    return Lesson(
        x,
        y,
        target=target,
        prior=data.prior if heard else None,
        allowed=data.allowed if heard else None,
        wall=wall,
        pair=pair,
        odds=odds,
    )


def _inside(data: Examples, inside: Tensor) -> Examples:
    """The rows whose label lies in the range."""
    if not inside.any():
        raise FedloreError("every label is outside its range: nothing is left to learn")
    return data[inside]


def _restrict(target: Tensor, within: Tensor | None, hard: Tensor) -> Tensor:
    """A soft target inside the range, rows sum to 1; where nothing is left of it, the label."""
    if within is not None:
        target = target.masked_fill(~within, 0.0)
    total = target.sum(-1, keepdim=True)
    return torch.where(total > 0, target / torch.where(total > 0, total, 1.0), hard)


def _refuse_outside(within: Tensor, y: Tensor) -> None:
    outside = ~within.gather(-1, y).squeeze(-1)
    if outside.any():
        raise FedloreError(
            f"{int(outside.sum())} labels lie outside their range, first row "
            f"{int(outside.nonzero()[0])}"
        )
