"""fedlore paper regression: eight approaches and a network without bins on numbers.

Its number is moved to the nearest one of S(x) afterwards, so it has the guarantee too; what it has
not is a distribution.

Fan et al. (2022), appendix C, says how to carry the method to regression and shows no experiment;
this is one. Five clients per data set, unlike by one column; the P-KM is a linear model on a third
of the columns (coal: Dulong's formula), made from rows that neither train nor test a network; the
R-KM is an oracle, as in the paper's tables, or honest: a split-conformal interval (coal: the
formula's band). All networks start alike and take the same local steps.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from fedlore import HEARD, Bins, Measured
from fedlore.algorithms import Plan
from fedlore.answers import Line, all_scores, region_scores, rmse
from fedlore.core.history import Row
from fedlore.core.nets import mlp
from fedlore.core.rng import stream
from fedlore.core.scaler import Scaler, from_moments, moments
from fedlore.core.tree import mean
from fedlore.engine import NumberClient
from fedlore.errors import ConfigError, unknown
from fedlore.experiments import (
    FL,
    FL_MASK,
    FLWKM,
    LOCAL_BEST,
    LORE,
    ML,
    MLWKM,
    PKM,
    Approach,
    Drawing,
    MeanInterval,
    Outcome,
    Runner,
    Trained,
    interval,
    pair_interval,
    trust_of,
)
from fedlore.look.tables import Cell, TextTable, markdown

from .number_sets import SOURCES, NumberSite, load_numbers, sites

RANGES = ("oracle", "honest")
NO_BINS = 0  # k in the rows of approaches without bins
RATES = (0.2, 0.05)  # of the networks without bins, chosen by validation


@dataclass(frozen=True)
class NumberStudy:
    """What is run; the same settings for all data sets."""

    dataset: str
    bins: tuple[int, ...] = (10, 20, 50, 100)  # k
    seeds: int = 5
    first_seed: int = 0
    rounds: int = 40
    hidden: tuple[int, ...] = (64, 64)
    trust: float = 0.3  # λ of MLwKM and FLwKM, as in the paper
    plan: Plan = field(default_factory=lambda: Plan(steps=25, batch=32, lr=0.1, schedule="cosine"))

    def __post_init__(self) -> None:
        if self.dataset not in SOURCES:
            raise ConfigError(unknown("data set", self.dataset, SOURCES))
        if self.seeds < 1:
            raise ConfigError(f"seeds must be at least 1, got {self.seeds}")
        for k in self.bins:
            Bins(0.0, 1.0, k)


def draw_numbers(
    study: NumberStudy, own: Sequence[NumberSite], k: int, seed: int, kind: str
) -> Drawing:
    """The sites with one kind of range, and what all approaches share; `k` = 0 has no bins."""
    source = SOURCES[study.dataset]
    bins = Bins(source.lower, source.upper, k) if k != NO_BINS else bounds_of(study)
    clients = clients_of(own, kind, study.trust)
    features = clients[0].data.x.shape[1]

    def make_model(hears: bool) -> nn.Module:
        return mlp(features + HEARD * hears, bins.k, hidden=study.hidden, seed=seed)

    return Drawing(
        clients,
        make_model,
        study.plan,
        study.rounds,
        seed,
        bins=bins,
        hidden=study.hidden,
        name=kind,
    )


def bounds_of(study: NumberStudy) -> Bins:
    """Bins of an approach that has none: the bounds are all that matters."""
    source = SOURCES[study.dataset]
    return Bins(source.lower, source.upper, 2)


def clients_of(own: Sequence[NumberSite], kind: str, trust: float) -> list[NumberClient]:
    """The sites with one kind of range."""
    return [
        NumberClient(s.id, s.train, replace(s.knowledge[kind], trust=trust), s.test) for s in own
    ]


@dataclass(frozen=True, eq=False)
class Direct:
    """One client's network for a number in [lower, upper], not yet clipped to any set."""

    model: nn.Module
    scaler: Scaler
    bins: Bins

    @torch.no_grad()
    def predict(self, x: Tensor) -> Tensor:
        """(n, d) -> (n,) float64, within the bounds."""
        middle, half = self.bins.middle
        value: Tensor = middle + half * self.model(self.scaler(x)).squeeze(1).double()
        return value.clamp(self.bins.lower, self.bins.upper)


def train_direct(
    data: Sequence[Measured],
    bins: Bins,
    *,
    hidden: Sequence[int],
    plan: Plan,
    rounds: int,
    seed: int,
    alone: bool = False,
) -> list[Direct]:
    """A network per client: all the same by FedAvg, or each by itself. Steps are those of `fit`.

    Numbers are put on [-1, 1] by the declared bounds; the loss is half the squared error.
    """
    scaler = from_moments(mean(({"moments": moments(d.x)}, 1.0) for d in data)["moments"])
    middle, half = bins.middle
    rows = [(scaler(d.x), ((d.numbers() - middle) / half).float().unsqueeze(1)) for d in data]
    start = mlp(data[0].x.shape[1], 1, hidden=hidden, seed=seed)
    models = [copy.deepcopy(start) for _ in data]
    for round in range(1, rounds + 1):
        rate = plan.lr * plan.rate(round, rounds)
        for i, ((x, y), model) in enumerate(zip(rows, models, strict=True)):
            _descend(model, x, y, plan, rate, stream(seed, "direct", round, i))
        if not alone:
            shared = mean(({"model": dict(m.named_parameters())}, 1.0) for m in models)["model"]
            for model in models:
                model.load_state_dict({name: t.detach() for name, t in shared.items()})
    return [Direct(model, scaler, bins) for model in models]


def _descend(
    model: nn.Module, x: Tensor, y: Tensor, plan: Plan, rate: float, draw: torch.Generator
) -> None:
    """One round of one client: reshuffled epochs, momentum fresh."""
    optimiser = torch.optim.SGD(
        model.parameters(), lr=rate, momentum=plan.momentum, weight_decay=plan.decay
    )
    size = plan.batch or len(x)
    left = plan.local_steps(len(x))
    while left > 0:
        order = torch.randperm(len(x), generator=draw)
        for batch in torch.split(order, size)[:left]:
            optimiser.zero_grad()
            (0.5 * (model(x[batch]) - y[batch]).square().mean()).backward()
            optimiser.step()
            left -= 1


def run_regression(
    study: NumberStudy,
    *,
    folder: str | Path | None = None,
    done: Sequence[Row] = (),
    on_rows: Callable[[list[Row], str], None] | None = None,
) -> list[Row]:
    """All rows of a study: one per approach, client, seed, number of bins and kind of range.

    What is in `done` is not run again; `on_rows` gets all rows so far after each part.
    """
    rows = load_numbers(study.dataset, folder)
    found = [row for row in done if row["dataset"] == study.dataset]
    have = {(row["seed"], row["k"], row["approach"]) for row in found}
    for seed in range(study.first_seed, study.first_seed + study.seeds):
        own = sites(rows, seed=seed)
        for k, approach, make in _parts_of(study):
            if (seed, k, approach) in have:
                continue
            found += make(study, own, k, seed)
            if on_rows is not None:
                on_rows(found, f"{study.dataset}, seed {seed}, {k or 'no'} bins, {approach}")
    return found


_Make = Callable[[NumberStudy, list[NumberSite], int, int], list[Row]]
#: What is compared over bins; FL+mask relies on the range alone, so that it is not FLwKM again.
_BINNED = (PKM, ML, MLWKM, FL, FLWKM, replace(FL_MASK, trust=0.0))
_SHOWN = ("rmse", "mae", "r2", "pov", "coverage", "width")


def _parts_of(study: NumberStudy) -> Iterator[tuple[int, str, _Make]]:
    """What is computed at once, by the number of bins and an approach that stands for it."""
    yield NO_BINS, LOCAL_BEST.name, partial(_compared, (LOCAL_BEST,))
    yield NO_BINS, "direct FL", _direct
    for k in study.bins:
        yield k, FLWKM.name, partial(_compared, _BINNED)
        yield k, LORE.name, partial(_compared, (LORE,))


def _compared(
    approaches: Sequence[Approach], study: NumberStudy, own: list[NumberSite], k: int, seed: int
) -> list[Row]:
    """Approaches with every kind of range; weights without knowledge serve all of these."""
    found: list[Row] = []
    kept: dict[object, Trained] = {}
    for kind in RANGES:
        drawing = draw_numbers(study, own, k, seed, kind)
        runner = Runner(drawing, kept)
        for approach in approaches:
            where: Row = {
                "dataset": study.dataset,
                "k": k,
                "seed": seed,
                "range": kind,
                "approach": approach.name,
                "trust": trust_of(approach, study.trust),
            }
            outcome = runner.run(approach)
            found += [
                {**where, **_shown(row, outcome), **_sets_of(approach, drawing, place)}
                for place, row in enumerate(outcome.rows)
            ]
    return found


def _shown(row: Row, outcome: Outcome) -> Row:
    """The columns of a study, and of lore also who speaks with what weight."""
    own = {name: row.get(name) for name in ("model", "client", *_SHOWN)}
    own |= {"chosen": row["chosen"]} if "chosen" in row else {}
    fitted = outcome.trained.fitted
    table = None if fitted is None else fitted.tables.get(str(row["client"]))
    if table is None:
        return own
    return {**own, "weights": "; ".join(f"{n} {w:.3f}" for n, w in table.weights.items())}


def _sets_of(approach: Approach, drawing: Drawing, place: int) -> Row:
    """How good the range is, beside its expert: how often it holds the label, and how wide."""
    client = drawing.clients[place]
    if not approach.silent or not isinstance(client, NumberClient):
        return {}
    assert client.test is not None and drawing.bins is not None
    known = client.knowledge.annotate(client.test, Line(drawing.bins), training=False)
    assert known.sets is not None and known.y is not None
    return {**region_scores(known.sets, known.y)}


def _direct(study: NumberStudy, own: list[NumberSite], k: int, seed: int) -> list[Row]:
    """The networks without bins, clipped to each kind of range."""
    bins = bounds_of(study)
    found: list[Row] = []
    for name, alone in (("direct ML", True), ("direct FL", False)):
        rate, models = _best_direct(study, own, bins, seed, alone)
        for kind in RANGES:
            for site, model in zip(own, models, strict=True):
                known = site.knowledge[kind].annotate(site.test, Line(bins), training=False)
                assert known.sets is not None and known.y is not None
                clipped = known.sets.nearest(model.predict(site.test.x))
                found.append(
                    {
                        "dataset": study.dataset,
                        "k": k,
                        "seed": seed,
                        "range": kind,
                        "approach": name,
                        "model": f"lr {rate:g}",
                        "client": site.id,
                        "trust": 0.0,
                        **all_scores(clipped, known.y, known.sets),
                        "coverage": None,
                        "width": None,
                    }
                )
    return found


def _best_direct(
    study: NumberStudy, own: list[NumberSite], bins: Bins, seed: int, alone: bool
) -> tuple[float, list[Direct]]:
    """Choose the step size as lore's candidates are chosen, then train on all training rows."""
    parts = [s.train.split(0.75, stream(seed, "validation", s.id)) for s in own]

    def trained(rate: float, whole: bool) -> list[Direct]:
        return train_direct(
            [s.train if whole else kept for s, (kept, _) in zip(own, parts, strict=True)],
            bins,
            hidden=study.hidden,
            plan=replace(study.plan, lr=rate),
            rounds=study.rounds if whole else study.rounds // 2,
            seed=seed,
            alone=alone,
        )

    def error(rate: float) -> float:
        models = trained(rate, False)
        each: list[float] = []
        for model, (_, held) in zip(models, parts, strict=True):
            predicted: Tensor = model.predict(held.x)
            each.append(rmse(predicted, held.numbers()) if predicted.isfinite().all() else 1e300)
        return sum(each) / len(each)

    rate = min(RATES, key=error)
    return rate, trained(rate, True)


SEVEN = ("P-KM", "ML", "MLwKM", "FL", "FLwKM", "FL+mask", "lore")
WITHOUT_BINS = ("local best", "direct ML", "direct FL")
_ORDER = ("local best", *SEVEN, "direct ML", "direct FL")  # the honest baseline first
BEATEN = ("local best", "P-KM", "ML", "MLwKM", "FL")  # what lore has to beat
GUARDED = ("P-KM", "MLwKM", "FLwKM", "FL+mask", "lore", *WITHOUT_BINS)


def per_seed(rows: Iterable[Row], approach: str, metric: str, *, k: int, kind: str) -> list[float]:
    """The mean of a metric over clients, one value for each seed in order."""
    cells: dict[int, list[float]] = {}
    for row in rows:
        if (row["approach"], row["k"], row["range"]) == (approach, k, kind):
            cells.setdefault(int(row["seed"] or 0), []).append(float(row[metric] or 0.0))
    return [sum(values) / len(values) for _, values in sorted(cells.items())]


def bins_of(rows: Iterable[Row]) -> list[int]:
    """The numbers of bins that were run."""
    return sorted({int(row["k"] or 0) for row in rows} - {NO_BINS})


def shown_bins(rows: Sequence[Row]) -> int:
    """The number of bins for which all scores are shown."""
    found = bins_of(rows)
    return 50 if 50 in found else found[-1]


def _own_k(name: str, k: int) -> int:
    return NO_BINS if name in WITHOUT_BINS else k


def rmse_table(rows: Sequence[Row], kind: str, unit: str) -> TextTable:
    """RMSE by approach and number of bins, the smallest of each column marked."""
    columns, body = bins_of(rows), list[tuple[str | Cell, ...]]()
    values = {
        (name, k): per_seed(rows, name, "rmse", k=_own_k(name, k), kind=kind)
        for name in _ORDER
        for k in columns
    }
    found = {key: interval(some) for key, some in values.items() if some}
    best = {k: min((c.mean for (_, at), c in found.items() if at == k), default=0) for k in columns}
    for name in dict.fromkeys(name for name, _ in found):
        cells = [found.get((name, k)) for k in columns]
        shown = [
            Cell("-") if c is None else Cell(_show(c), c.mean == best[k])
            for k, c in zip(columns, cells, strict=True)
        ]
        body.append((name, *shown))
    seeds = len({row["seed"] for row in rows})
    title = f"RMSE in {unit}, {kind} ranges, {seeds} seeds ± 95 %"
    return TextTable.of(title, ("approach", *(f"k = {k}" for k in columns)), body)


def detail_table(rows: Sequence[Row], kind: str, k: int) -> TextTable:
    """All scores at one number of bins, means over clients and seeds."""
    metrics = ("rmse", "mae", "r2", "pov", "coverage", "width")
    head = ("approach", "RMSE", "MAE", "R²", "POV %", "90 % interval holds %", "its width")
    names = dict.fromkeys(str(r["approach"]) for r in rows if r["k"] in (k, NO_BINS))
    order = [n for n in _ORDER if n in names] + [n for n in names if n not in _ORDER]
    body = []
    for name in order:
        cells = []
        for metric in metrics:
            values = per_seed(rows, name, metric, k=_own_k(name, k), kind=kind)
            if not values or (name in WITHOUT_BINS and metric in ("coverage", "width")):
                cells.append("-")
                continue
            mean = sum(values) / len(values)
            share = metric in ("pov", "coverage")
            cells.append(f"{100 * mean:.1f}" if share and mean else "0" if share else _short(mean))
        if cells[0] != "-":
            body.append((name, *cells))
    return TextTable.of(f"All scores, {kind} ranges, k = {k}", head, body)


def number_margins(rows: Sequence[Row], *, k: int, kind: str) -> dict[str, MeanInterval]:
    """RMSE of lore minus every other's, paired by seed; below 0 lore is better."""
    ours = per_seed(rows, "lore", "rmse", k=k, kind=kind)
    found = {}
    for name in _ORDER:
        theirs = per_seed(rows, name, "rmse", k=_own_k(name, k), kind=kind)
        if name != "lore" and theirs and len(theirs) == len(ours):
            found[name] = pair_interval(ours, theirs)
    return found


def beats(rows: Sequence[Row], *, k: int, kind: str) -> bool:
    """Whether lore's mean RMSE is below that of local best, P-KM, ML, MLwKM and FL."""
    gaps = number_margins(rows, k=k, kind=kind)
    return all(name in gaps and gaps[name].mean < 0 for name in BEATEN)


def worst_violation(rows: Iterable[Row]) -> float:
    """The largest share of violations of any approach that carries the range: 0, or a defect."""
    return max((float(r["pov"] or 0.0) for r in rows if r["approach"] in GUARDED), default=0.0)


def report(rows: Sequence[Row], *, unit: str) -> str:
    """All tables of one data set as Markdown."""
    made = [rmse_table(rows, kind, unit) for kind in RANGES]
    made.append(detail_table(rows, "honest", shown_bins(rows)))
    return f"## {rows[0]['dataset']}\n\n{markdown(made)}"


def _show(cell: MeanInterval) -> str:
    half = f" ± {_short(cell.half)}" if cell.half == cell.half else ""
    return f"{_short(cell.mean)}{half}"


def _short(value: float) -> str:
    """Three significant digits, no exponent."""
    digits = 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
    return f"{value:.{digits}f}"
