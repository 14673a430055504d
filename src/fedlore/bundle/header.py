"""What a bundle is, and bundle.json: its fields, what they must agree with, tensors among them."""

import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np
import torch

from ..checker.forms import FORMAT, Header, Policies, StoredInput, TaskName
from ..config import build
from ..core.conformal import CoveragePromise, check_level
from ..core.scaler import Input, Inputs, Scaler
from ..errors import ConfigError, FedloreError
from ..kernel.schema import Schema
from ..knowledge import Knowledge
from ..knowledge.scope import inputs_of
from ..knowledge.timeline import Timeline
from ..knowledge.views import Recalibrated
from ..models.client import PersonalModel
from ..models.tasks import Classification, Regression
from ..version import __version__
from .archive import Refused
from .knowledge import knowledge_members
from .networks import check_room


@dataclass(frozen=True, eq=False, repr=False)
class Bundle:
    """A personal model, the names of its columns and classes, and the bytes it is stored as."""

    personal: PersonalModel
    schema: Schema
    client: str
    task: TaskName
    metrics: Mapping[str, float]
    card: str  # Markdown
    versions: Mapping[str, str]
    created: str
    fingerprint: str  # SHA-256 over everything
    policies: Policies = field(default_factory=Policies)
    shape: tuple[int, ...] = ()  # of one row as the network takes it
    members: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    holdings: tuple[CoveragePromise, ...] = ()  # what its sets and intervals promise, and to whom

    def __repr__(self) -> str:
        """One line: the card is there to be read, weights are not."""
        size = f"{len(self.schema.features)} features"
        return f"Bundle({self.client}: {self.task}, {size}, {self.fingerprint[:12]})"

    @property
    def timeline(self) -> Timeline | None:
        """The dates of its rules, and the day that it answers as of; None: it has none."""
        return self.personal.knowledge.timeline

    @property
    def knowledge_text(self) -> str:
        """The knowledge.toml inside."""
        return self.members["knowledge.toml"].decode()

    @property
    def tables(self) -> dict[str, bytes]:
        """The decision tables and models beside it, by the name of their file."""
        return {n: b for n, b in knowledge_members(self.members).items() if n != "knowledge.toml"}


def read_header(data: bytes) -> Header:
    """bundle.json as a header; another format is refused."""
    try:
        values = json.loads(data)
        found = values["format"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Refused("bundle.json is not readable") from None
    if found != FORMAT:
        raise Refused(
            f"the bundle has format {found!r}, fedlore {__version__} reads format {FORMAT}: export "
            "it again with this version, or open it with the one that wrote it"
        )
    try:
        return build(Header, values)
    except ConfigError as error:
        raise Refused(f"bundle.json: {error}") from None


def check_agreement(header: Header, held: Knowledge) -> None:
    """What stands in two places must be the same: tools read bundle.json alone."""
    known, schema = held, held.require_schema()
    for what, same in (
        ("schema", header.schema == schema.values()),
        ("task", header.task == task_about(held).name),
        ("bins", header.bins == (None if held.bins is None else held.bins.edges)),
        ("trust", (header.trust, header.rely) == (known.trust, known.trust_at_prediction)),
        ("policies", (header.conflict, header.outside) == (known.conflict, known.outside)),
        (
            "shape",
            min(header.shape, default=0) > 0 and math.prod(header.shape) == len(schema.features),
        ),
    ):
        if not same:
            raise Refused(f"bundle.json and knowledge.toml differ in their {what}")


def task_about(held: Knowledge, *, hears: bool = False) -> Classification | Regression:
    """The task that stored knowledge is for."""
    return Classification() if held.bins is None else Regression(held.bins, hears=hears)


def heard_through(known: Knowledge, header: Header) -> Knowledge:
    """The knowledge, its expert behind the confusion where there is one."""
    if header.confusion is None or known.line is not None:
        return known
    if known.prediction is None and known.timeline is not None:
        return known  # he is silent on this day
    k = len(known.schema.classes) if known.schema is not None else 0
    rows = header.confusion
    if len(rows) != k or any(len(row) != k for row in rows) or known.prediction is None:
        raise Refused(f"the expert's confusion must be {k} rows of {k} numbers")
    table = torch.tensor(rows, dtype=torch.float64)
    if not (table >= 0).all() or not ((table.sum(1) - 1).abs() <= 1e-6).all():
        raise Refused("the rows of the expert's confusion must be distributions")
    return replace(known, prediction=Recalibrated(known.prediction, table))


def scaling_values(scaler: Scaler | None) -> dict[str, object] | None:
    """A scaler for JSON; Python writes floats so that reading gives the same bits."""
    if scaler is None:
        return None
    return {"shift": scaler.shift.double().tolist(), "spread": scaler.spread.double().tolist()}


def input_values(inputs: Inputs | None) -> list[dict[str, object]] | None:
    """How features reach the network, for JSON."""
    if inputs is None:
        return None
    return [asdict(_stored(one)) for one in inputs.features]


def header_inputs(header: Header, schema: Schema) -> Inputs | None:
    """How features reach the network, held against what the knowledge says of them."""
    if header.inputs is None:
        if any(feature.may_miss or feature.other for feature in schema.features):
            raise Refused("knowledge.toml has missing values that the network knows nothing of")
        return None
    wanted = inputs_of(schema)
    inputs = Inputs(tuple(map(_made, header.inputs)))
    fits = wanted is not None and len(inputs.features) == len(schema.features)
    fits = fits and all(
        (a.levels, a.other) == (b.levels, b.other) and a.missing >= b.missing
        for a, b in zip(inputs.features, wanted.features if wanted else (), strict=False)
    )
    if not fits:
        raise Refused("bundle.json and knowledge.toml differ in levels, or in what may be missing")
    return inputs


def _stored(one: Input) -> StoredInput:
    fill = None if math.isnan(one.fill) else one.fill
    return StoredInput(one.levels, one.other, one.missing, fill)


def _made(one: StoredInput) -> Input:
    fill = math.nan if one.fill is None else one.fill
    return Input(one.levels, one.other, one.missing, "given", fill)


def header_scaler(header: Header, heard: int, inputs: Inputs | None = None) -> Scaler | None:
    """The scaler of a header, checked; `heard` inputs stand behind the features."""
    said = header.scaling
    if said is None:
        if inputs is not None:
            raise Refused("levels and missing values need a scaling, be it by 1")
        return None
    try:
        shift, spread = (torch.tensor(said[k], dtype=torch.float64) for k in ("shift", "spread"))
    except (KeyError, TypeError, ValueError):
        raise Refused("the scaling must be a shift and a spread for each feature") from None
    wanted = input_shape(header, heard, inputs)
    if tuple(shift.shape) != wanted or tuple(spread.shape) != wanted:
        raise Refused(
            f"the scaling has shapes {tuple(shift.shape)} and {tuple(spread.shape)}, a row has "
            f"{wanted}"
        )
    if not shift.isfinite().all() or not (spread.isfinite() & (spread > 0)).all():
        raise Refused("the scaling must be finite, with a positive spread")
    return Scaler(shift, spread, inputs)


def input_shape(header: Header, heard: int, inputs: Inputs | None) -> tuple[int, ...]:
    """The shape of a row as the network takes it."""
    if inputs is not None:
        return (inputs.width + heard,)
    return (*header.shape[:-1], header.shape[-1] + heard)


def try_row(
    personal: PersonalModel, header: Header, heard: int, inputs: Inputs | None = None
) -> None:
    """One row through the network: it must take the schema's features and give its classes."""
    inner = personal.inner
    one = next(inner.model.parameters(), None)
    shape = input_shape(header, heard, inputs)
    row = torch.zeros(1, *shape, dtype=torch.float32 if one is None else one.dtype)
    k = len(header.schema["classes"])
    try:
        with torch.no_grad():
            check_room(header.model, shape)
            found = tuple(inner.model(row, None, None).shape)
    except FedloreError:
        raise
    except (RuntimeError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise Refused(
            f"the network cannot take a row of {math.prod(shape)} features: {error}"
        ) from None
    if found != (1, k):
        raise Refused(f"the network must give {k} scores a row, it gives shape {found}")


def row_shape(network: Mapping[str, object], schema: Schema) -> tuple[int, ...]:
    """A row as the network takes it: images are square, everything else is a list of features."""
    d = len(schema.features)
    side = math.isqrt(d)
    if '"as_image"' in json.dumps(network) and side * side == d:
        return (side, side)
    return (d,)


def finite_scores(metrics: Mapping[str, object]) -> dict[str, float]:
    """Scores that are numbers; a log-loss that is infinite says nothing and is left out."""
    found = {str(k): v for k, v in metrics.items() if isinstance(v, int | float)}
    return {k: float(v) for k, v in found.items() if math.isfinite(v)}


def versions() -> dict[str, str]:
    """What made the bundle."""
    packages = {one.__name__: one.__version__ for one in (torch, np)}
    return {"fedlore": __version__, **packages, "python": platform.python_version()}


HOLDINGS = "holdings.json"
_MOST = 64  # cuts in one bundle


def pack_holdings(holdings: Sequence[CoveragePromise]) -> bytes:
    """The member of a bundle."""
    return (json.dumps([asdict(one) for one in holdings], indent=1) + "\n").encode()


def read_holdings(data: bytes) -> tuple[CoveragePromise, ...]:
    """The cuts of such a member; nothing in it is believed before it is checked."""
    try:
        values = json.loads(data)
        if not isinstance(values, list) or len(values) > _MOST:
            raise Refused(f"{HOLDINGS} must be a list of at most {_MOST} cuts")
        found = tuple(build(CoveragePromise, one) for one in values)
        for one in found:
            check_level(one.level)
            if not (math.isfinite(one.cut) and 0.0 <= one.cut <= 1.0 and one.rows > 0):
                raise Refused(f"{HOLDINGS}: a cut of {one.cut} from {one.rows} rows is impossible")
            if not 0 <= one.outside <= one.rows:
                raise Refused(f"{HOLDINGS}: {one.outside} of {one.rows} rows cannot be outside")
    except Refused:
        raise
    except (ValueError, TypeError, AttributeError, RecursionError, FedloreError) as error:
        raise Refused(f"{HOLDINGS} is not readable: {error}") from None
    return found
