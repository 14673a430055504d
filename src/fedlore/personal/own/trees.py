"""Trees as plain tables, evaluated for all rows and trees at once.

A node is a row of three tables. Inner nodes send a row with x[feature] <= threshold to `child` and
every other one to the node after it; a leaf has the feature -1, and its `child` is a row of
`values`. In ONNX this is one TreeEnsemble node (BRANCH_LEQ, the same float32 thresholds), or the
loop below written with Gather and Where, `depth` times.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

LEAF = -1
AT_ONCE = 1 << 18  # leaf values of all rows and trees; more would not stay in the cache


@dataclass(frozen=True, eq=False)
class Trees:
    """base + scale · the sum over trees of the values of the leaves that a row ends in."""

    feature: Tensor  # (v,) int16, -1 at leaves
    threshold: Tensor  # (v,) float32
    child: Tensor  # (v,) int32
    roots: Tensor  # (t,) int32
    values: Tensor  # (l, w) float32
    output: Tensor  # (t,) int16  which output a tree adds to, where w = 1; else it is 0
    base: Tensor  # (o,) float64
    scale: Tensor  # (o,) float64
    depth: int

    def __call__(self, inputs: Tensor) -> Tensor:
        """(n, i) -> (n, o) float64."""
        size = max(1, AT_ONCE // max(1, len(self.roots) * self.values.shape[1]))
        parts = [self._sums(rows) for rows in torch.split(inputs.float(), size)]
        return self.base + self.scale * torch.cat(parts)

    def _sums(self, x: Tensor) -> Tensor:
        leaf, own = self.feature < 0, torch.arange(len(self.feature), device=x.device)
        # nothing is above infinity, so that a leaf leads to itself and needs no question
        feature = self.feature.long().masked_fill(leaf, 0)
        threshold = self.threshold.masked_fill(leaf, torch.inf)
        child = torch.where(leaf, own, self.child.long())
        node = self.roots.long().repeat(len(x))  # (n·t,)
        first = torch.arange(len(x), device=x.device) * x.shape[1]
        first = first.repeat_interleave(len(self.roots))  # where a row begins
        flat = x.reshape(-1)
        for _ in range(self.depth):
            value = flat.index_select(0, feature.index_select(0, node).add_(first))
            above = value > threshold.index_select(0, node)
            node = child.index_select(0, node).add_(above)
        ends = self.child.long().index_select(0, node).view(len(x), -1)
        leaves = self.values[ends].double()  # (n, t, w)
        if self.values.shape[1] > 1 or len(self.base) == 1:
            return leaves.sum(1)
        total = leaves.new_zeros(len(x), len(self.base))
        return total.index_add_(1, self.output.long(), leaves.squeeze(2))
