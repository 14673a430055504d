"""Which class was taken for which, as flat rows."""

from collections import Counter

from torch import Tensor

from ..core.history import Row


def confusion(predicted: Tensor, y: Tensor) -> list[Row]:
    """How often each label met each prediction, one row per pair that occurred; -1 abstains.

    >>> from torch import tensor
    >>> confusion(tensor([1, 1, -1]), tensor([1, 1, 0]))
    [{'label': 0, 'predicted': -1, 'count': 1}, {'label': 1, 'predicted': 1, 'count': 2}]
    """
    pairs = Counter(zip(y.tolist(), predicted.tolist(), strict=True))
    return [
        {"label": label, "predicted": guess, "count": count}
        for (label, guess), count in sorted(pairs.items())
    ]
