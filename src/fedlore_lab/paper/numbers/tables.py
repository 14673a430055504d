"""Tables of the regression study, made from its rows."""

from collections.abc import Iterable, Sequence

from fedlore.core.history import Row
from fedlore.experiments import MeanInterval, interval, pair_interval
from fedlore.look.tables import Cell, TextTable, markdown

from .study import NO_BINS, RANGES

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
    return (
        f"{_short(cell.mean)} ± {_short(cell.half)}"
        if cell.half == cell.half
        else _short(cell.mean)
    )


def _short(value: float) -> str:
    """Three significant digits, no exponent."""
    digits = 1 if abs(value) >= 100 else 2 if abs(value) >= 10 else 3
    return f"{value:.{digits}f}"
