"""What may stand in bundle.json, value by value: fedlore and the checker read the same forms."""

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..errors import ConfigError

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
