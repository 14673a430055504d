"""Extra trees, grown by scikit-learn and kept as tables."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .grown import bound_signs, calmly, ensembles, grow_tables, labels, level_of
from .trees import Trees

_BYTES = 4 << 20  # what one forest's tables may take
_NODE = 10  # bytes of a node


@dataclass(frozen=True)
class ExtraTrees:
    """Geurts, Ernst, Wehenkel (2006), Extremely Randomized Trees; a setting is the least leaf."""

    name: str
    classes: int | None = None  # k; None: a number
    seed: int = 0
    trees: int = 300
    fewer: int = 60  # in cross-validation, where trees are grown many times
    settings: tuple[int, ...] = (1, 3)
    signs: tuple[float, ...] = ()  # which way an input may move a number, see `input_signs`

    def trace(self, inputs: Tensor, target: Tensor, at: Tensor, settings: Sequence[int]) -> Tensor:
        """Outputs at other rows, (s, m, o): what forests of `fewer` trees say there."""
        found = []
        for least in settings:
            forest = self._grow(inputs, target, least, self.fewer)
            found.append(self._outputs(forest, inputs, target)(at))
        return torch.stack(found)

    def near(self, setting: int) -> tuple[int, ...]:
        return (setting,)

    def fit(self, inputs: Tensor, target: Tensor, setting: int) -> Trees:
        return self._outputs(self._grow(inputs, target, setting, self.trees), inputs, target)

    def _grow(self, inputs: Tensor, target: Tensor, least: int, trees: int) -> Any:
        kind = "ExtraTreesRegressor" if self.classes is None else "ExtraTreesClassifier"
        wide = 1 if self.classes is None else self.classes
        most = _BYTES // (self.trees * (2 * _NODE + 4 * wide))  # leaves that a tree may have
        forest = getattr(ensembles(), kind)(
            trees,
            min_samples_leaf=least,
            max_features=1.0 if self.classes is None else "sqrt",
            max_leaf_nodes=most if len(inputs) > least * most else None,
            random_state=self.seed,
            monotonic_cst=bound_signs(self.signs, inputs.shape[1]),
        )
        with calmly():
            return forest.fit(inputs.numpy(), labels(target, self.classes))

    def _outputs(self, forest: Any, inputs: Tensor, target: Tensor) -> Trees:
        share = 1.0 / len(forest.estimators_)
        grown = [
            (t.children_left, t.children_right, t.feature, t.threshold, t.value[:, 0, :])
            for t in (e.tree_ for e in forest.estimators_)
        ]
        if self.classes is None:
            middle, spread = level_of(target)
            return grow_tables(grown, [middle], [spread * share])
        columns = np.asarray(forest.classes_, dtype=np.int64)
        wide = []
        for left, right, feature, threshold, value in grown:
            all_classes = np.zeros((len(value), self.classes))
            all_classes[:, columns] = value
            wide.append((left, right, feature, threshold, all_classes))
        return grow_tables(wide, [0.0] * self.classes, [share] * self.classes)
