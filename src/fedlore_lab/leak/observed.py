"""What was observed of one seed under one setting, as tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Observed:
    """Per site: signs that the coordinator has, secrets that it is after, and the accuracy."""

    sites: tuple[str, ...]
    together: Tensor  # (m,)  which federation the site is in
    ta: Tensor  # (m,)
    still: Tensor  # (m, k)  class seems never allowed
    classes: Tensor  # (m, k, f)
    whole: Tensor  # (m, g)
    member: Tensor  # (m, 2)  AUC of two statistics
    row_range: Tensor  # (m,)  errors of the one-row attack; NaN where there is nothing to find
    row_right: Tensor  # (m,)
    row_truth: Tensor  # (m, PROBES, k)  the ranges behind
    trust_signs: Tensor  # (DRAWINGS·m, h), none where λ does not enter training
    trust: Tensor  # (DRAWINGS·m,)
    union: Tensor  # (m, k)  1 where the class is in some row's range
    frequency: Tensor  # (m, k)  share of rows whose range has the class
    labels: Tensor  # (m, k)
    right: Tensor  # (m,)  share of rows on which the P-KM is right

    def arrays(self) -> dict[str, Any]:
        """As plain arrays, for a file without pickles."""
        return {n: np.asarray(v) if n == "sites" else v.numpy() for n, v in vars(self).items()}

    @staticmethod
    def of(arrays: Mapping[str, Any]) -> "Observed":
        parts = {n: torch.from_numpy(v) for n, v in arrays.items() if n != "sites"}
        return Observed(tuple(str(s) for s in arrays["sites"]), **parts)
