"""Trees of a site: extra trees and boosted trees, grown by scikit-learn, kept as plain arrays."""

import copy
import importlib
import importlib.util
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import FedloreError
from .limits import thin

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

    @property
    def outputs(self) -> int:
        return len(self.base)

    def __call__(self, inputs: Tensor) -> Tensor:
        """(n, i) -> (n, o) float64."""
        wide = max(len(self.roots) * self.values.shape[1], inputs.shape[1])
        size = max(1, AT_ONCE // max(1, wide))
        parts = [self._sums(rows) for rows in torch.split(inputs.float(), size)]
        return self.base + self.scale * torch.cat(parts)

    def _sums(self, x: Tensor) -> Tensor:
        count = partial(torch.arange, dtype=torch.int32, device=x.device)  # half as wide as usual
        leaf = self.feature < 0
        # nothing is above infinity, so that a leaf leads to itself and needs no question
        feature = self.feature.int().masked_fill(leaf, 0)
        threshold = self.threshold.masked_fill(leaf, torch.inf)
        child = torch.where(leaf, count(len(leaf)), self.child)
        node = self.roots.repeat(len(x))  # (n·t,)
        first = count(len(x)) * x.shape[1]
        first = first.repeat_interleave(len(self.roots))  # where a row begins
        flat = x.reshape(-1)
        for _ in range(self.depth):
            value = flat.index_select(0, feature.index_select(0, node).add_(first))
            above = value > threshold.index_select(0, node)
            node = child.index_select(0, node).add_(above)
        ends = self.child.index_select(0, node)
        leaves = self.values.index_select(0, ends).double()
        leaves = leaves.view(len(x), len(self.roots), self.values.shape[1])  # (n, t, w)
        if self.values.shape[1] > 1 or len(self.base) == 1:
            return leaves.sum(1)
        total = leaves.new_zeros(len(x), len(self.base))
        return total.index_add_(1, self.output.long(), leaves.squeeze(2))

    def keeps(self, signs: Tensor) -> bool:
        """Of each split by such an input, no leaf on one side may lie beyond any on the other."""
        feature, child = self.feature.long(), self.child.long()
        inner = feature >= 0
        if len(self.base) != 1 or bool((self.scale < 0).any()):
            return False
        leaf = self.values[:, 0].double()[torch.where(inner, 0, child)]
        low = torch.where(inner, torch.inf, leaf)
        high = torch.where(inner, -torch.inf, leaf)
        left, right = child[inner], child[inner] + 1
        for _ in range(self.depth):  # leaves are told upwards, a level at a time
            low[inner] = torch.minimum(low[left], low[right])
            high[inner] = torch.maximum(high[left], high[right])
        if bool(signs[3][feature[inner]].any()):  # steps are neither concave nor convex
            return False
        way = ways_of_splits(signs, feature[inner], self.threshold[inner].double())
        rises, falls = high[left] <= low[right], low[left] >= high[right]
        return bool(torch.where(way > 0, rises, torch.where(way < 0, falls, way == 0)).all())


def ways_of_splits(signs: Tensor, feature: Tensor, threshold: Tensor) -> Tensor:
    """Which way splits x <= t must lead: before a turn one way, behind it the other.

    Between the ends of an interval nothing is asked: no two rows of one side of it are parted.
    """
    first, start, end = signs[:3, feature]
    behind = torch.where(threshold >= end, -first, 0.0)
    found = torch.where(threshold < start, first, behind)
    return torch.where(start.isnan(), first, found)


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
        inputs, target = inputs[thin(len(inputs))], target[thin(len(target))]
        found = []
        for least in settings:
            forest = self._grow(inputs, target, least, self.fewer)
            found.append(self._outputs(forest, inputs, target)(at))
        return torch.stack(found)

    def near(self, setting: int) -> tuple[int, ...]:
        return (setting,)

    def fit(self, inputs: Tensor, target: Tensor, setting: int) -> Trees:
        # the leaves of a tree are bounded, so more rows would cost much and change little
        inputs, target = inputs[thin(len(inputs))], target[thin(len(target))]
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
        forest._make_estimator = partial(_next_tree, forest)
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


def _next_tree(forest: Any, append: bool = True, random_state: Any = None) -> Any:
    """The next tree of a forest as scikit-learn makes it, copied instead of cloned.

    A clone reads the signature of its class again, for each of thousands of small trees.
    """
    made = copy.copy(forest.estimator_)
    for name in forest.estimator_params:
        setattr(made, name, getattr(forest, name))
    made.random_state = random_state.randint(np.iinfo(np.int32).max)
    if append:
        forest.estimators_.append(made)
    return made


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
#: From so many rows on also as scikit-learn boosts by itself, so that nobody does better in a line.
MANY_ROWS = 2000
_MANY = (((0.1, 31, 20), (50, 100)),)


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
    rows: int = 0  # how many there are to learn from

    @property
    def settings(self) -> tuple[Boosting, ...]:
        usual = _NUMBERS if self.classes is None else CLASSES
        return _settings_of((*usual, *_MANY) if self.rows >= MANY_ROWS else usual)

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


#: A tree of a library: left, right, feature (below 0 at leaves), threshold, value, node by node.
Grown = tuple[Any, Any, Any, Any, Any]


def has_trees() -> bool:
    """Whether scikit-learn is there to grow trees."""
    return importlib.util.find_spec("sklearn") is not None


def ensembles() -> Any:
    """scikit-learn's trees, or an error that says what to install."""
    try:
        return importlib.import_module("sklearn.ensemble")
    except ImportError:
        raise FedloreError("trees need scikit-learn: pip install 'fedlore[sklearn]'") from None


def calmly() -> Any:
    """scikit-learn without the checks that cost as much as growing a small tree."""
    package = importlib.import_module("sklearn")
    return package.config_context(skip_parameter_validation=True, assume_finite=True)


def level_of(target: Tensor) -> tuple[float, float]:
    """Mean and spread of the numbers: trees learn them standardised, so float32 leaves do."""
    spread = float(target.double().std(correction=0))
    return float(target.double().mean()), spread if spread > 0 else 1.0


def labels(target: Tensor, classes: int | None) -> Any:
    """What scikit-learn is given to learn: classes, or standardised numbers."""
    if classes is not None:
        return target.numpy()
    middle, spread = level_of(target)
    return ((target.double().squeeze(1) - middle) / spread).numpy()


def bound_signs(signs: Sequence[float], inputs: int) -> list[int] | None:
    """Signs of inputs as scikit-learn takes them; what is withheld holds nothing to split by."""
    return [0 if s != s else int(s) for s in signs[:inputs]] if signs else None


def grow_tables(
    grown: Sequence[Grown],
    base: Sequence[float],
    scale: Sequence[float],
    outputs: Sequence[int] | None = None,
) -> Trees:
    """Trees of a library as one set of tables: siblings beside each other, leaves apart."""
    sizes = [len(left) for left, *_ in grown]
    tree = np.repeat(np.arange(len(grown)), sizes)
    roots = np.cumsum([0, *sizes[:-1]])
    left, right, feature, threshold, value = map(np.concatenate, zip(*grown, strict=True))
    left, right = (side.astype(np.int64) + roots[tree] for side in (left, right))
    order, depth = _bylevel(left, right, feature, roots)
    order = order[np.argsort(tree[order], kind="stable")]  # one tree behind the other
    place = np.empty(len(left), dtype=np.int64)
    place[order] = np.arange(len(order))
    is_leaf = feature[order] < 0
    child = np.empty(len(order), dtype=np.int64)
    child[~is_leaf] = place[left[order[~is_leaf]]]
    child[is_leaf] = np.arange(int(is_leaf.sum()))
    leaves = value[order[is_leaf]].reshape(int(is_leaf.sum()), -1)
    return Trees(
        torch.from_numpy(np.where(is_leaf, LEAF, feature[order]).astype(np.int16)),
        torch.from_numpy(_rounded_down(np.where(is_leaf, 0.0, threshold[order]))),
        torch.from_numpy(child.astype(np.int32)),
        torch.from_numpy(place[roots].astype(np.int32)),
        torch.from_numpy(leaves.astype(np.float32)),
        torch.tensor(outputs or [0] * len(grown), dtype=torch.int16),
        torch.tensor(base, dtype=torch.float64),
        torch.tensor(scale, dtype=torch.float64),
        depth,
    )


def _bylevel(left: Any, right: Any, feature: Any, roots: Any) -> tuple[Any, int]:
    """The nodes of trees from the roots down, siblings beside each other; and the depth."""
    row = roots
    order, depth = [row], 0
    while True:
        inner = row[feature[row] >= 0]
        if len(inner) == 0:
            return np.concatenate(order), depth
        row = np.stack([left[inner], right[inner]], 1).ravel()
        order.append(row)
        depth += 1


def _rounded_down(threshold: Any) -> Any:
    """The largest float32 not above each number: a float32 lies below both or above both."""
    near = threshold.astype(np.float32)
    below = np.nextafter(near, np.float32(-np.inf))
    return np.where(near.astype(np.float64) > threshold, below, near)
