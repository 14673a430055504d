"""`fedlore run`: a user's own sites in one process; finished approaches are kept, not run again.

What does not fit into a limit of time is left out, and said.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ..algorithms import FedAvg
from ..core.history import RoundSeen, Row, listen_to_rounds, read_rows
from ..engine import Client, NumberClient
from ..errors import FedloreError
from ..federation.settings import read_duration
from ..knowledge.protocols import kind_of
from ..models.own.baseline import FOLDS
from ..models.own.limits import remembering
from .approaches import APPROACHES, FL, LOCAL_BEST, LORE, PKM, Approach, effort, trust_of
from .benefit import write_tables
from .cells import ResultCell, ResultLedger, package_versions, replace_rows, settings_fingerprint
from .runner import Outcome, Runner
from .sites import Gathering
from .tracks import keep_settings
from .weights import keep_bundle, weights_path, weights_there, write_weights


class LeftOut(FedloreError):
    """Why an approach, or a seed, is not among the results of a run."""


@dataclass(eq=False)
class TimeBudget:
    """How much of the time is spent, and by what."""

    limit: float  # seconds; endless where nobody set one
    clock: Callable[[], float] = time.monotonic
    spent: dict[str, float] = field(default_factory=dict)  # seconds of an approach, at its last
    _efforts: float = 0.0  # of trainings that are over, and their seconds
    _seconds: float = 0.0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self._began = self.clock()

    def check(self, approach: Approach) -> None:
        """Refuse to begin an approach that would not end, as far as can be foreseen.

        What a site makes on its own is like nothing else, and is always begun.
        """
        seconds = self.spent.get(approach.name, 0.0)
        if not seconds and self._efforts and not approach.alone:
            seconds = effort(approach) * self._seconds / self._efforts
        self._check("it", seconds)

    def check_seed(self) -> None:
        """Refuse another seed that would not end."""
        self._check("another seed", sum(self.spent.values()))

    @contextmanager
    def spend(self, approach: Approach) -> Iterator[None]:
        """Inside this block work ends with `LeftOut` at the first step after the time is up."""
        start = self.clock()

        def hear(seen: RoundSeen) -> None:
            if self._left() < 0:
                raise LeftOut(f"it was not finished when time_limit ({_say(self.limit)}) was up")

        with listen_to_rounds(hear):
            yield
        self.spent[approach.name] = self.clock() - start
        if not approach.alone and not approach.chosen:
            self._efforts += effort(approach)
            self._seconds += self.spent[approach.name]

    def _left(self) -> float:
        return self.limit - (self.clock() - self._began)

    def _check(self, what: str, seconds: float) -> None:
        left = self._left()
        if left <= 0:
            raise LeftOut(f"time_limit ({_say(self.limit)}) is up")
        if seconds > left:
            raise LeftOut(f"{what} takes about {_say(seconds)}, time_limit leaves {_say(left)}")


def _say(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


HISTORY, CONFUSION = "rounds.jsonl", "confusion.jsonl"
_ORDER = [approach.name for approach in APPROACHES]
_FIRST = (LOCAL_BEST, PKM, FL, LORE)  # where time is short; FL tells how long a training takes
OnApproach = Callable[[str, bool], None]  # its name, and whether it was computed just now


@dataclass(frozen=True)
class Finished:
    """All rows of a run."""

    rows: list[Row]
    history: list[Row]
    confusion: list[Row]
    left_out: dict[str, str]  # approach -> why it could not be run


def plan_run(gathering: Gathering) -> list[Approach]:
    """The approaches as they are run: under a time limit what matters most comes first."""
    approaches = gathering.approaches
    if gathering.setting.run.time_limit:
        approaches.sort(key=lambda one: _FIRST.index(one) if one in _FIRST else len(_FIRST))
    return approaches


def run_federation(
    gathering: Gathering, out: Path, *, on_approach: OnApproach | None = None
) -> Finished:
    """Compute what is not finished yet; rows, weights and side files go to `out`.

    Weights, bundles and the sites' tables are those of the first seed.
    """
    run, first = gathering.setting.run, gathering.setting.seed
    ledger, budget = ResultLedger(out / "results.jsonl"), TimeBudget(read_duration(run.time_limit))
    rows: list[Row] = []
    left_out: dict[str, str] = {}
    for seed in range(first, first + run.seeds):
        drawn = gathering.at_seed(seed)
        try:
            if seed > first:
                budget.check_seed()
        except LeftOut as why:
            left_out[f"seed {seed}"] = str(why)
            continue
        with remembering():  # local best and lore's ensemble need the same models of every site
            runner = Runner(drawn.drawing())
            for approach in plan_run(drawn):
                try:
                    found, fresh = _finish(drawn, approach, runner, ledger, budget, seed == first)
                except LeftOut as why:
                    name = approach.name if seed == first else f"{approach.name}, seed {seed}"
                    left_out[name] = str(why)
                    continue
                rows += found
                if on_approach is not None:
                    on_approach(approach.name, fresh)
    rows.sort(key=lambda row: _ORDER.index(str(row["approach"])))
    return Finished(rows, _read(out / HISTORY), _read(out / CONFUSION), left_out)


def _finish(
    gathering: Gathering,
    approach: Approach,
    runner: Runner,
    ledger: ResultLedger,
    budget: TimeBudget,
    first: bool,
) -> tuple[list[Row], bool]:
    """The rows of an approach, and whether they were computed just now."""
    _check_possible(gathering, approach)
    out = ledger.path.parent
    cell, config = _cell(gathering, approach), _config(gathering, approach)
    found = ledger.find(cell, config)
    if found and (not first or weights_there(out, approach, gathering.clients)):
        return found, False
    budget.check(approach)
    with budget.spend(approach):
        made = _compute(gathering, approach, cell, runner, out, first)
    own = {"config": config, "versions": package_versions()}
    settings = asdict(gathering.setting.without_deployment())
    del settings["run"]  # what is compared, and where: nothing that a result depends on
    keep_settings(out, config, settings)
    found = [{**cell.tags, **row, **own} for row in made]
    ledger.add(cell, found)
    return found, True


def _check_possible(gathering: Gathering, approach: Approach) -> None:
    """Refuse an approach that cannot be run here."""
    for client in gathering.clients:
        if approach.silent and client.knowledge.prediction is None:
            raise LeftOut(f"site '{client.id}' has no expert's prediction ([[predict.sources]])")
        if approach.alone and len(client.data) < FOLDS:
            raise LeftOut(
                f"site '{client.id}' has {len(client.data)} training rows, its own models need "
                f"at least {FOLDS}"
            )


def _compute(
    gathering: Gathering,
    approach: Approach,
    cell: ResultCell,
    runner: Runner,
    out: Path,
    first: bool,
) -> list[Row]:
    """The rows of one approach. All else of it is kept first: rows say that it is finished."""
    setting, adapted = gathering.setting, approach
    if isinstance(approach.algorithm, FedAvg):  # the federation's own, and its kind of network
        adapted = replace(approach, algorithm=setting.algorithm.make())
    adapted = replace(adapted, hears=approach.hears or setting.model.hears)
    made = runner.run(adapted)
    fitted = made.trained.fitted
    if fitted is not None and first:
        _keep(out, cell, adapted, made, gathering)
        if fitted.tables:
            write_tables(gathering, fitted, out)
    for name, rows in ((HISTORY, made.history), (CONFUSION, made.confusion)):
        replace_rows(out / name, [{**cell.tags, **row} for row in rows], cell.belongs)
    if fitted is None or not fitted.privacy:
        return made.rows
    return [{**row, "privacy": "; ".join(fitted.privacy)} for row in made.rows]  # what it cost


def _keep(
    out: Path, cell: ResultCell, approach: Approach, made: Outcome, gathering: Gathering
) -> None:
    """The weights and the bundle of every site."""
    fitted = made.trained.fitted
    assert fitted is not None
    clients: Sequence[Client | NumberClient] = gathering.clients
    for place, client in enumerate(clients):
        path = weights_path(out, cell.approach, client.id)
        write_weights(fitted, client.id, path)
        keep_bundle(
            path,
            approach,
            fitted,
            client,
            made.rows[place],
            signature=gathering.signatures.get(client.id),
            signed=gathering.setting.run.signed,
        )


def _cell(gathering: Gathering, approach: Approach) -> ResultCell:
    setting = gathering.setting
    said = {c.knowledge.trust for c in gathering.clients}
    trust = trust_of(approach, said.pop()) if len(said) == 1 else None
    return ResultCell(
        setting.name, "own", _range(gathering), approach.name, setting.seed, 1.0, trust
    )


def _range(gathering: Gathering) -> str:
    """What kind of range the sites have."""
    ranges = [c.knowledge.range for c in gathering.clients if c.knowledge.range is not None]
    if not ranges:
        return "none"
    return "conformal" if any(kind_of(r) == "statistical" for r in ranges) else "expert"


def _config(gathering: Gathering, approach: Approach) -> str:
    """What the results of an approach depend on, and nothing else."""
    setting = gathering.setting
    what = asdict(setting.without_deployment()) | {"run": [setting.run.test, setting.run.signed]}
    del what["seed"]  # it stands in the rows
    del what["recipe"]  # whether lore is run stands in the approaches
    if not approach.chosen:
        del what["search_space"]
    if setting.metric and (approach.chosen or approach.alone):
        what["metric"] = setting.metric
    return settings_fingerprint(what, repr(approach), gathering.digest)


def _read(path: Path) -> list[Row]:
    return read_rows(path) if path.exists() else []
