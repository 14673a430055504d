"""What an upload says about a site's shapes: tensors in, signs of a secret out.

Where a site has a shape its linear coefficient is clamped, so the gradient of the shared one is
scaled down, and the trunk is pulled the other way to make up for the slope that the clamp adds.
"""

import torch
from torch import Tensor

from .uploads import Seen

_TINY = 1e-12


def shape_signs(seen: Seen, column: int) -> Tensor:
    """How the coefficient and the trunk's column of one input moved, beside the others, (5,)."""
    line = seen.moved["line.weight"][0].double()
    first = seen.moved["trunk.0.weight"].double()  # (h, w)
    size, wide = (line.abs() + _TINY).log10(), (first.norm(dim=0) + _TINY).log10()
    pull = _mean_weights(seen, len(first)) @ first  # how the trunk's slopes moved, (w,)
    return torch.stack(
        [
            size[column] - size.mean(),
            line[column] / line.norm().clamp(min=_TINY),
            wide[column] - wide.mean(),
            pull[column] / pull.norm().clamp(min=_TINY),
            seen.before["line.weight"][0, column].double(),
        ]
    )


def _mean_weights(seen: Seen, units: int) -> Tensor:
    """What each unit of the first layer counts at the next, on average over both orders, (h,)."""
    after = seen.before.get("trunk.1.weight")
    if after is None:  # without hidden layers the first is the last
        return torch.ones(units, dtype=torch.float64)
    total = after.double().sum(0)
    half = units // 2
    both = (total[:half] + total[half : 2 * half]) / 2
    return torch.cat([both, both, total[2 * half :]])
