"""What may stand in bundle.json, value by value: fedlore and the checker read the same forms."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from ..errors import ConfigError, unknown
from ..kernel.graph.ops import LARGEST

Array = Any  # of numpy

FORMAT = 4  # of bundle.json and all that lies beside it; any other is refused
Extra = Literal["ignore", "error"]
TaskName = Literal["classification", "regression"]
_MOST_LEVELS = 100_000


@dataclass(frozen=True)
class Policies:
    """What to do about rows that are not as they should be."""

    extra: Extra = "ignore"  # a column that is no feature: pass over, or refuse
    signed: bool = False  # whether it is used only with the signature of its knowledge

    def __post_init__(self) -> None:
        if self.extra not in get_args(Extra):
            raise ConfigError(f"extra must be {' or '.join(get_args(Extra))}, got '{self.extra}'")


@dataclass(frozen=True)
class StoredInput:
    """How a feature reaches the network."""

    levels: int
    other: bool
    missing: bool
    fill: float | None = None  # None: none of the levels

    def __post_init__(self) -> None:
        if not 0 <= self.levels <= _MOST_LEVELS or not math.isfinite(self.fill or 0.0):
            raise ConfigError(f"{self.levels} levels filled by {self.fill} are not an input")

    @property
    def width(self) -> int:
        """How many numbers the network has of it."""
        return (self.levels + self.other or 1) + self.missing


@dataclass(frozen=True)
class Header:
    """bundle.json."""

    format: int
    client: str
    task: TaskName
    model: dict[str, object]
    hears: bool
    shape: tuple[int, ...]  # of one row as the network takes it
    schema: dict[str, Any]
    scaling: dict[str, object] | None  # shift and spread, in the shape of a row
    bins: tuple[float, ...] | None  # all edges, for a number
    trust: float  # λ in training
    rely: float  # λ at prediction
    conflict: str
    outside: str
    confusion: tuple[tuple[float, ...], ...] | None  # of an expert who is heard through it
    policies: Policies
    metrics: dict[str, float]
    versions: dict[str, str]
    created: str
    ensemble: dict[str, Any] | None = None  # members and weights of an ensemble
    inputs: tuple[StoredInput, ...] | None = None  # how each feature reaches the network


@dataclass(frozen=True)
class EnsembleValues:
    """What a header says of an ensemble."""

    network: float
    expert: float
    heard: tuple[str, ...]
    members: tuple[dict[str, Any], ...]
    width: float | None = None  # of a number
    inverse_temperature: float | None = None  # of classes

    def calibration(self, *, number: bool) -> dict[str, float]:
        """The one number beside the weights, by its name: another one must not stand there."""
        names = ("width", "inverse_temperature")
        said = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        wanted = "width" if number else "inverse_temperature"
        if said.keys() != {wanted} or not 0.0 < said[wanted] < math.inf:
            raise ConfigError(f"it must say {wanted} alone, positive and finite")
        return said


#: The layers of a network, each of which answers a row by itself, with their keys.
LAYERS = {
    name: keys.split()
    for name, keys in {
        "sequential": "parts",
        "deaf": "body",
        "hearing": "trunk head classes",
        "ordered": "trunk head line classes options",
        "lipschitz": "hidden classes options",
        "linear": "in_features out_features bias",
        "conv2d": "in_channels out_channels kernel_size stride padding dilation groups "
        "padding_mode bias",
        "max_pool2d": "kernel_size stride padding",
        "avg_pool2d": "kernel_size stride padding ceil_mode count_include_pad divisor_override",
        "flatten": "start_dim end_dim",
        "leaky_relu": "negative_slope",
        "gelu": "approximate",
        "dropout": "p",
        "layer_norm": "normalized_shape eps",
        "group_norm": "num_groups num_channels eps",
        **dict.fromkeys("as_image relu tanh sigmoid silu identity".split(), ""),
    }.items()
}


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0


def _is_positive(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value <= LARGEST  # True is no number


#: What a value of a layer or a member must be, by its name.
_VALUES: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys("in_features out_features in_channels out_channels".split(), _is_count),
    **dict.fromkeys("groups num_groups num_channels features".split(), _is_count),
    "classes": lambda value: type(value) is int and 2 <= value <= 1 << 16,
    "hidden": lambda value: all(map(_is_count, value)),
    **dict.fromkeys("slope width inverse_temperature eps rows share".split(), _is_positive),
    "reach": lambda value: value is None or _is_positive(value),
    **dict.fromkeys(
        "bias hears linear between over votes scaled quadratic".split(),
        lambda value: type(value) is bool,
    ),
    "start_dim": lambda value: type(value) is int and value == 1,  # all axes but the rows'
    "end_dim": lambda value: type(value) is int and value == -1,
    "around": lambda value: value in ("middle", "expert"),
    "name": lambda value: isinstance(value, str) and 0 < len(value) <= 100,
}


def odd_keys(values: Mapping[str, Any]) -> list[str]:
    """The keys whose value cannot be what it should be."""
    return [key for key, value in values.items() if not _VALUES.get(key, _any)(value)]


def _any(value: Any) -> bool:
    return True


#: What a member of a site's own says of itself, by its kind,
MEMBERS = {
    "number": {"name", "hears", "over", "width"},
    "order": {"name", "hears", "over", "width", "classes"},
    "classes": {"name", "hears", "votes", "inverse_temperature"},
}
#: and the tensors of its body, with their axes.
_LINEAR = {"mean": 1, "scale": 1, "weight": 2, "constant": 1}
_BENT = {**_LINEAR, "column": 1, "low": 1, "high": 1}
BODIES: dict[str, dict[str, int]] = {
    "linear": _LINEAR,
    "bent": _BENT,
    "waves": {**_BENT, "frequency": 2},
    "trees": {
        "values": 2,
        **dict.fromkeys("feature threshold child roots output base scale".split(), 1),
    },
}
_TYPES = {
    **dict.fromkeys(("feature", "output", "column"), "int16"),
    **dict.fromkeys(("child", "roots"), "int32"),
    **dict.fromkeys(("threshold", "values", "low", "high"), "float32"),
}  # every other tensor is float64
DEEPEST = 512  # steps from a tree's root to its last leaf


def member_fault(
    place: int, one: Mapping[str, Any], own: Mapping[str, Array], columns: int, heard: int
) -> str:
    """What is wrong with a member of a site's own, or nothing: its values and its tensors.

    `columns` are the features of a row, `heard` the expert's numbers.
    """
    for what, name, known in (
        ("kind of member", one.get("kind"), MEMBERS),
        ("body of a member", one.get("body"), BODIES),
    ):
        if not isinstance(name, str) or name not in known:
            return unknown(what, str(name), known)
    wanted = {"kind", "body", *MEMBERS[one["kind"]]}
    said = one.keys() - {"quadratic"} if one["body"] == "linear" else one.keys()
    if said != wanted:
        keys, own_keys = ", ".join(sorted(wanted)), ", ".join(sorted(said))
        return f"member {place} must say {keys}, it says {own_keys}"
    for name in odd_keys(one):
        return f"{name} of member {place} cannot be {one[name]!r}"
    ranks = BODIES[one["body"]]
    if own.keys() != ranks.keys():
        return f"member {place} must have {sorted(ranks)}, it has {sorted(own)}"
    for name, values in own.items():
        kind = _TYPES.get(name, "float64")
        if values.dtype != kind or values.ndim != ranks[name]:
            return (
                f"'{place}.{name}' must be {kind} with {ranks[name]} axes, got {values.dtype} of "
                f"shape {values.shape}"
            )
        # a threshold may be infinite, a value may not
        if (np.isnan(values) if name == "threshold" else ~np.isfinite(values)).any():
            return f"'{place}.{name}' must be finite"
    inputs = columns + heard * one["hears"]
    if one["body"] == "trees":
        if not _are_trees(own, inputs):
            return f"member {place} is not a set of trees over {inputs} inputs"
        deep = tree_depth(own) > DEEPEST
        return f"trees of a member may be {DEEPEST} deep, those of {place} are not" if deep else ""
    if not _fits(one, own, inputs):
        shapes = {name: values.shape for name, values in own.items()}
        return f"member {place} does not fit {inputs} inputs: {shapes}"
    if not (own["scale"] > 0).all() or ("low" in own and not (own["low"] <= own["high"]).all()):
        return f"member {place} has a scale that is not above 0, or ends that cross"
    return ""


def _fits(one: Mapping[str, Any], own: Mapping[str, Array], inputs: int) -> bool:
    """Whether there is a weight for each input, or piece of one, for each product and each wave."""
    terms = columns = len(own.get("column", range(inputs)))
    if "column" in own and not ((own["column"] >= 0) & (own["column"] < inputs)).all():
        return False
    if one.get("quadratic"):
        terms = columns * (columns + 3) // 2
    if "frequency" in own:
        terms += 2 * own["frequency"].shape[1]
    ends = (own[name] for name in ("mean", "scale", "low", "high", "frequency") if name in own)
    return own["weight"].shape == (terms, len(own["constant"])) and all(
        len(values) == columns for values in ends
    )


def _are_trees(own: Mapping[str, Array], inputs: int) -> bool:
    """Whether every node looks at an input that there is and leads down to existing leaves."""
    feature, child, roots = (own[name].astype(int) for name in ("feature", "child", "roots"))
    here, inner = np.arange(len(feature)), feature >= 0
    leaves, width = own["values"].shape
    ends = len(own["base"]), len(own["scale"])
    return (
        len(own["threshold"]) == len(child) == len(feature)
        and len(own["output"]) == len(roots)
        and ends[0] == ends[1]
        and width in (1, ends[0])
        and bool(((feature >= -1) & (feature < inputs)).all())
        and bool(((child > here) & (child + 1 < len(child)))[inner].all())  # downwards: no circles
        and bool(((child >= 0) & (child < leaves))[~inner].all())
        and bool(((roots >= 0) & (roots < len(child))).all())
        and bool(((own["output"] >= 0) & (own["output"] < ends[0])).all())
    )


def tree_depth(own: Mapping[str, Array]) -> int:
    """How many steps lead from the roots to the last leaf; not counted far beyond what may be."""
    child, level, depth = own["child"].astype(int), np.unique(own["roots"]), 0
    while depth <= DEEPEST and len(inner := level[own["feature"][level] >= 0]):
        level, depth = np.unique(np.concatenate([child[inner], child[inner] + 1])), depth + 1
    return depth
