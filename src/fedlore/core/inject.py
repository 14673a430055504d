"""The paper's function transformation T, its loss, and the gradient of that loss in closed form.

Fan, Zhou, Pei, Friedlander, Hu, Li, Zhang (2022), Knowledge-Injected Federated Learning:
the transformation of Definition 5.1, its Jacobian of Proposition 5.1 (d), its batch gradient.
"""

import torch
from torch import Tensor


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
    told = trust * prior  # rows sum to λ, or to 0 where g_p abstains
    # clamped: a soft row may sum to a hair above 1, and log1p(-1.0000001) is NaN
    kept = learned + torch.log1p(-told.sum(-1, keepdim=True).clamp(max=1.0))
    spoken = told > 0
    safe = torch.where(spoken, told, 1.0).log()  # never log(0): keeps the gradient finite
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
    told = trust * prior.double()  # 1 - λ has no digits left in single precision
    aimed = told if y is None else told.gather(-1, y)
    odds = aimed / (1.0 - told.sum(-1, keepdim=True)).clamp(min=torch.finfo(told.dtype).tiny)
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
        learned, told = (logits.unsqueeze(dim - 1) + pair).softmax(dim).unbind(dim - 1)
        error = learned - told
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
