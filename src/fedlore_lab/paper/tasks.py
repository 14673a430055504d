"""The paper's two tasks: rows shared out by class, experts that see less, ranges around them.

Fan et al. (2022), section 7.2, with what its authors' code adds: the P-KM is a small model behind
a view, trained at home; the R-KM is a table of {true label, the P-KM's label, random classes of
the client}. No two rows look the same, in either data set and even behind the 2×2 pool, so the
table is worked out row by row. It is made from the labels of the rows it speaks about and is
therefore called `oracle`. Beside it stand honest ranges: conformal sets around the P-KM,
calibrated on rows of the client's own training part that the P-KM did not learn from.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from fedlore import Examples
from fedlore.algorithms import Alone, Plan
from fedlore.config import build, read_toml
from fedlore.core.nets import lenet5, logistic, mlp, small_cnn
from fedlore.core.rng import stream
from fedlore.data import by_class, class_owners, covtype, fashion_mnist, stratify
from fedlore.engine import Client, fit
from fedlore.errors import ConfigError
from fedlore.knowledge import (
    ConformalRange,
    Knowledge,
    Mask,
    MaxPool,
    PredictionModel,
    SeenModel,
    from_torch,
)

SHIPPED = Path(__file__).parent


@dataclass(frozen=True)
class Teaching:
    """How the P-KM of every client is made: a small model that sees less, trained at home."""

    plan: Plan
    sees: int  # tables: how many columns, drawn for each client; images: the side of the pool
    held_back: float = 0.2  # share of the training part kept for the calibration of honest ranges

    def __post_init__(self) -> None:
        if self.sees < 1:
            raise ConfigError(f"sees must be at least 1, got {self.sees}")
        if not 0.0 < self.held_back < 1.0:
            raise ConfigError(f"held_back must lie between 0 and 1, got {self.held_back}")


@dataclass(frozen=True)
class Setup:
    """One data set under one protocol."""

    plan: Plan  # local training in a round, the same for every approach
    expert: Teaching
    rounds: dict[str, int]  # share of the training part in percent -> rounds
    ranges: tuple[str, ...]  # what `all` stands for: oracle, conformal95, ...
    clients: int = 5  # M in the paper
    classes_each: int = 5
    train: float = 0.1  # training part of a client's rows, where the data have no split
    test_rows: int = 0  # at most so many test rows per client; 0 takes all
    trust: float = 0.3  # λ in the paper
    stray: int = 1  # random classes of the client in an oracle range
    alone: int = 0  # rounds for ML and MLwKM; 0 gives them as many as the others
    tuned: bool = False  # score clients after one more local round, as the paper's authors did

    def __post_init__(self) -> None:
        for name in ("train", "trust"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise ConfigError(f"{name} must lie between 0 and 1, got {getattr(self, name)}")
        for name in ("test_rows", "stray", "alone"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must be at least 0, got {getattr(self, name)}")
        for percent, rounds in self.rounds.items():
            if not percent.isdigit() or not 1 <= int(percent) <= 100 or rounds < 1:
                raise ConfigError(f"rounds must map percents to rounds, got '{percent}' = {rounds}")
        for kind in self.ranges:
            level(kind)

    def rounds_at(self, share: float) -> int:
        """Rounds at a share of the training part."""
        name = f"{100 * share:g}"
        if name not in self.rounds:
            known = ", ".join(self.rounds)
            raise ConfigError(f"the protocol has no rounds for {name} % (it has {known} %)")
        return self.rounds[name]

    @property
    def shares(self) -> tuple[float, ...]:
        return tuple(int(percent) / 100 for percent in self.rounds)


@dataclass(frozen=True)
class Protocol:
    """All data sets under one protocol."""

    about: str
    covtype: Setup
    fmnist: Setup


def read_protocol(name: str | Path) -> Protocol:
    """A protocol that ships with fedlore by its name, or any other by the path of its TOML."""
    path = Path(name)
    if path.suffix != ".toml":
        path = SHIPPED / f"{name}.toml"
        if not path.is_file():
            known = ", ".join(sorted(p.stem for p in SHIPPED.glob("*.toml")))
            raise ConfigError(f"unknown protocol '{name}'; known: {known}, or the path of a .toml")
    return build(Protocol, read_toml(path))


def level(kind: str) -> float | None:
    """How often a kind of range promises to hold the label; None for the oracle, which always does.

    >>> level("conformal95"), level("oracle")
    (0.95, None)
    """
    if kind == "oracle":
        return None
    digits = kind.removeprefix("conformal")
    if digits == kind or not digits.isdigit() or not 0 < int(digits) < 100:
        raise ConfigError(f"a range must be oracle or conformal with a percent, got '{kind}'")
    return int(digits) / 100


_View = Callable[[SeenModel], SeenModel]  # puts a view in front of a model


@dataclass(frozen=True)
class PaperTask:
    """A data set and the models that go with it."""

    name: str
    classes: int
    load: Callable[[], tuple[Examples, Examples | None]]  # all rows, or train and test
    server: Callable[[bool, int], nn.Module]  # hears, seed -> a fresh server model
    student: Callable[[int, int], nn.Module]  # sees, seed -> a fresh model for the P-KM
    view: Callable[[int, torch.Generator], _View]  # sees -> what one client's expert looks at


@dataclass(frozen=True, eq=False)
class TaskSite:
    """One client before it knows anything."""

    id: str
    train: Examples  # its whole training part
    test: Examples
    held: Tensor  # (k,) bool  the classes it drew


@dataclass(frozen=True, eq=False)
class DataExpert:
    """One client's P-KM, as an answer and as probabilities, and rows it has not seen."""

    prediction: PredictionModel
    scorer: PredictionModel
    unseen: Examples


def share_out(setup: Setup, train: Examples, test: Examples | None, *, seed: int) -> list[TaskSite]:
    """The rows of every client, by class; those without a test set of their own are split."""
    owned = class_owners(_labels(train), setup.clients, setup.classes_each, seed=seed)
    parts = [train[rows] for rows in _rows(train, setup, seed)]
    tests = [None] * len(parts) if test is None else [test[r] for r in _rows(test, setup, seed)]
    sites = []
    for i, (mine, apart) in enumerate(zip(parts, tests, strict=True)):
        name = f"client-{i + 1}"
        if apart is None:
            first, rest = stratify(_labels(mine), setup.train, seed=seed, of=name)
            mine, apart = mine[first], mine[rest]
        if 0 < setup.test_rows < len(apart):
            some = setup.test_rows / len(apart)
            apart = apart[stratify(_labels(apart), some, seed=seed, of=f"{name} test")[0]]
        sites.append(TaskSite(name, mine, apart, owned[i]))
    return sites


def experts(
    task: PaperTask, setup: Setup, sites: Sequence[TaskSite], *, honest: bool, seed: int
) -> list[DataExpert]:
    """The P-KM of every client, trained at home on what its view shows.

    An honest one leaves a part of the training rows for calibration.
    """
    teaching = setup.expert
    views = [task.view(teaching.sees, stream(seed, "view", site.id)) for site in sites]
    learned, unseen = [], []
    for site in sites:
        kept = teaching.held_back if honest else 0.0
        back, rows = stratify(_labels(site.train), kept, seed=seed, of=f"{site.id} held back")
        learned.append(site.train[rows])
        unseen.append(site.train[back])
    pupils = [
        Client(site.id, Examples(view(lambda x: x)(rows.x), rows.y))
        for site, view, rows in zip(sites, views, learned, strict=True)
    ]
    fitted = fit(
        pupils,
        task.student(teaching.sees, seed),
        algorithm=Alone(),
        plan=teaching.plan,
        rounds=1,
        scale=False,
        seed=seed,
    )
    made = []
    for site, view, rest in zip(sites, views, unseen, strict=True):
        student = fitted.model(site.id).model
        hard, soft = (from_torch(student, soft=soft) for soft in (False, True))
        made.append(DataExpert(view(hard), view(soft), rest))
    return made


def know(
    setup: Setup, site: TaskSite, expert: DataExpert, *, kind: str, share: float, seed: int
) -> Client:
    """A client with a share of its training part and its knowledge, evaluated once."""
    rows, _ = stratify(_labels(site.train), share, seed=seed, of=f"{site.id} share")
    promise = level(kind)
    if promise is not None:
        alpha = round(1 - promise, 6)
        sets = ConformalRange.calibrate(expert.scorer, expert.unseen, alpha=alpha)
        # honest, so now and then a training label lies outside: widened in the training loss only
        knowledge = Knowledge(expert.prediction, sets, setup.trust, outside="widen")
        return Client(site.id, site.train[rows], knowledge, test=site.test)
    data, test = (
        _with_oracle(part, site.held, expert, setup.stray, stream(seed, "oracle", site.id, name))
        for name, part in (("train", site.train[rows]), ("test", site.test))
    )
    return Client(site.id, data, Knowledge(expert.prediction, None, setup.trust), test=test)


def _with_oracle(
    rows: Examples, held: Tensor, expert: DataExpert, stray: int, draw: torch.Generator
) -> Examples:
    """{true label, the P-KM's label, random classes of the client} as the range of each row."""
    prior = expert.prediction(rows.x)  # (n, k)
    allowed = (prior > 0).scatter_(1, _labels(rows).unsqueeze(1), True)
    own = held.nonzero().squeeze(1)
    picked = torch.randint(len(own), (len(rows), stray), generator=draw)
    return replace(rows, prior=prior, allowed=allowed.scatter_(1, own[picked], True))


def _rows(data: Examples, setup: Setup, seed: int) -> list[Tensor]:
    return by_class(_labels(data), setup.clients, setup.classes_each, seed=seed)


def _labels(data: Examples) -> Tensor:
    assert data.y is not None
    return data.y


def _columns(sees: int, draw: torch.Generator) -> _View:
    columns = tuple(sorted(torch.randperm(54, generator=draw)[:sees].tolist()))
    return lambda model: Mask(columns, model)


def _fashion() -> tuple[Examples, Examples | None]:
    parts = fashion_mnist()
    return parts.train, parts.test


PAPER_TASKS = {
    "covtype": PaperTask(
        "covtype",
        7,
        load=lambda: (covtype(), None),
        server=lambda hears, seed: mlp(54, 7, hears=hears, seed=seed),
        student=lambda sees, seed: logistic(sees, 7, seed=seed),
        view=_columns,
    ),
    "fmnist": PaperTask(
        "fmnist",
        10,
        load=_fashion,
        server=lambda hears, seed: lenet5(10, hears=hears, seed=seed),
        student=lambda sees, seed: small_cnn(10, side=28 // sees, seed=seed),
        view=lambda sees, draw: lambda model: MaxPool(sees, model),
    ),
}
