"""Boosted trees, grown by scikit-learn and kept as tables."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .grown import bound_signs, calmly, ensembles, grow_tables, labels, level_of
from .trees import LEAF, Trees

ABSENT = -30.0  # the logit of a class that no row had


@dataclass(frozen=True)
class Boosting:
    """One setting of boosted trees."""

    rate: float
    leaves: int
    least: int  # rows in a leaf
    steps: int


_Shapes = Sequence[tuple[tuple[float, int, int], Sequence[int]]]

#: For numbers: rate, leaves, least leaf, and the steps at which a run is looked at.
_NUMBERS = (
    ((0.08, 4, 5), (30, 60, 120, 200)),
    ((0.08, 8, 5), (30, 60, 120)),
    ((0.08, 16, 10), (30, 60, 100)),
)
#: For classes, where each step grows a tree per class: short runs with large steps.
CLASSES = (((0.15, 4, 5), (10, 20, 40, 60)), ((0.15, 12, 5), (10, 20, 30, 40)))


def _settings_of(shapes: _Shapes) -> tuple[Boosting, ...]:
    """All settings of some shapes."""
    return tuple(Boosting(*shape, steps) for shape, looks in shapes for steps in looks)


@dataclass(frozen=True)
class BoostedTrees:
    """Gradient boosting on histograms; how long to boost is read off along one run."""

    name: str
    classes: int | None = None  # k; None: a number
    seed: int = 0
    signs: tuple[float, ...] = ()  # which way an input may move a number, see `input_signs`

    @property
    def settings(self) -> tuple[Boosting, ...]:
        return _settings_of(_NUMBERS if self.classes is None else CLASSES)

    def trace(
        self, inputs: Tensor, target: Tensor, at: Tensor, settings: Sequence[Boosting]
    ) -> Tensor:
        """Outputs at other rows, (s, m, o)."""
        only = self._only(target)
        if only is not None:
            return only(at).expand(len(settings), -1, -1)
        found: dict[Boosting, Tensor] = {}
        for longest in _longest(settings):
            machine = self._grow(inputs, target, longest)
            looks = {s.steps: s for s in settings if _shape(s) == _shape(longest)}
            for steps, said in enumerate(self._stages(machine, at.double().numpy()), 1):
                if steps in looks:
                    found[looks[steps]] = self._outputs(machine, said, target)
        return torch.stack([found[one] for one in settings])

    def near(self, setting: Boosting) -> tuple[Boosting, ...]:
        """The same shape for any number of steps."""
        return tuple(s for s in self.settings if _shape(s) == _shape(setting))

    def fit(self, inputs: Tensor, target: Tensor, setting: Boosting) -> Trees:
        only = self._only(target)
        if only is not None:
            return only
        machine = self._grow(inputs, target, setting)
        grown, outputs = [], []
        present = self._present(machine)
        for stage in machine._predictors:
            for place, tree in enumerate(stage):
                n = tree.nodes
                feature = np.where(n["is_leaf"] == 1, LEAF, n["feature_idx"].astype(np.int64))
                grown.append((n["left"], n["right"], feature, n["num_threshold"], n["value"]))
                outputs.append(present[place])
        start = np.asarray(machine._baseline_prediction, dtype=np.float64).ravel()
        if self.classes is None:
            middle, spread = level_of(target)
            return grow_tables(grown, [middle + spread * float(start[0])], [spread])
        base = np.full(self.classes, ABSENT)
        base[np.asarray(machine.classes_, dtype=np.int64)] = 0.0
        base[present] = start
        return grow_tables(grown, base.tolist(), [1.0] * self.classes, outputs)

    def _only(self, target: Tensor) -> Trees | None:
        """Where all rows have one class there is nothing to boost: a single leaf that says it."""
        if self.classes is None or bool((target != target[0]).any()):
            return None
        base = torch.full((self.classes,), ABSENT)
        base[target[0]] = 0.0
        none = np.full(1, LEAF)
        stump = (none, none, none, np.zeros(1), np.zeros(1))
        return grow_tables([stump], base.tolist(), [1.0] * self.classes)

    def _grow(self, inputs: Tensor, target: Tensor, setting: Boosting) -> Any:
        kind = "Regressor" if self.classes is None else "Classifier"
        machine = getattr(ensembles(), f"HistGradientBoosting{kind}")(
            learning_rate=setting.rate,
            max_leaf_nodes=setting.leaves,
            min_samples_leaf=setting.least,
            max_iter=setting.steps,
            l2_regularization=1.0,
            early_stopping=False,
            random_state=self.seed,
            monotonic_cst=bound_signs(self.signs, inputs.shape[1]),
        )
        with calmly():
            return machine.fit(inputs.double().numpy(), labels(target, self.classes))

    def _present(self, machine: Any) -> list[int]:
        """The output that each tree of a stage adds to; of two classes only the second has one."""
        if self.classes is None:
            return [0]
        present = [int(c) for c in machine.classes_]
        return present[1:] if len(present) == 2 else present

    def _stages(self, machine: Any, rows: Any) -> Iterator[Any]:
        """What the machine says after each step: numbers, or shares of classes."""
        staged = machine.staged_predict if self.classes is None else machine.staged_predict_proba
        yield from staged(rows)

    def _outputs(self, machine: Any, said: Any, target: Tensor) -> Tensor:
        if self.classes is None:
            middle, spread = level_of(target)
            return middle + spread * torch.from_numpy(said).unsqueeze(1)
        logits = np.full((len(said), self.classes), ABSENT)
        columns = np.asarray(machine.classes_, dtype=np.int64)
        logits[:, columns] = np.log(np.clip(said, math.exp(ABSENT), None))
        return torch.from_numpy(logits)


def _shape(setting: Boosting) -> tuple[float, int, int]:
    return setting.rate, setting.leaves, setting.least


def _longest(settings: Sequence[Boosting]) -> list[Boosting]:
    """The longest run of each shape: the shorter ones are its beginnings."""
    shapes: dict[tuple[float, int, int], Boosting] = {}
    for one in settings:
        shape = _shape(one)
        if shape not in shapes or shapes[shape].steps < one.steps:
            shapes[shape] = one
    return list(shapes.values())
