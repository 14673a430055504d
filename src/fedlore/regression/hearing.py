"""A server model that hears the expert in order: four numbers instead of 2·k columns.

What is said about k ordered bins is a place on a line. A network that gets one column per bin has
to learn their order from few rows; this one is told where the expert points and how far the range
reaches.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..nets import initialised


class HearingOrder(nn.Module):
    """Features, then: where the P-KM points, whether it speaks, both ends of the range.

    Places run from -1 (first bin) to 1 (last bin). A soft P-KM points to its mean, so that it
    tells more than its bin. Without a P-KM it is silent, without a range both ends are open.
    """

    hears = True

    def __init__(self, trunk: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.trunk = trunk
        self.head = head

    def forward(
        self, x: Tensor, prior: Tensor | None = None, allowed: Tensor | None = None
    ) -> Tensor:
        seen = self.trunk(x)  # (n, h)
        nothing = seen.new_zeros(len(seen), 1)
        place, spoken, low, high = nothing, nothing, nothing - 1, nothing + 1
        if prior is not None:
            prior = prior.to(seen.dtype)
            at = torch.linspace(-1, 1, prior.shape[1], dtype=seen.dtype, device=seen.device)
            place, spoken = (prior * at).sum(1, keepdim=True), prior.sum(1, keepdim=True)
        if allowed is not None:
            at = torch.linspace(-1, 1, allowed.shape[1], dtype=seen.dtype, device=seen.device)
            low = torch.where(allowed, at, 1.0).amin(1, keepdim=True)
            high = torch.where(allowed, at, -1.0).amax(1, keepdim=True)
        told = torch.cat([place, spoken, low, high], 1)
        return self.head(torch.cat([seen, told], 1))  # type: ignore[no-any-return]


def ordered_mlp(
    features: int, bins: int, *, hidden: Sequence[int] = (128, 128), seed: int = 0
) -> nn.Module:
    """A multi-layer perceptron over bins that hears the expert in order."""
    widths = [features + 4, *hidden]
    layers: list[nn.Module] = []
    for a, b in zip(widths, widths[1:], strict=False):
        layers += [nn.Linear(a, b), nn.ReLU()]
    head = nn.Sequential(*layers, nn.Linear(widths[-1], bins))
    return initialised(HearingOrder(nn.Flatten(), head), seed)
