"""Tables of the regression study, made from its rows."""

from collections.abc import Iterable, Sequence

from fedlore.core.history import Row
from fedlore.experiments import MeanInterval, interval, pair_interval

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


def rmse_table(rows: Sequence[Row], kind: str) -> list[list[str]]:
    """RMSE by approach and number of bins, the smallest of each column in bold; header first."""
    columns = bins_of(rows)
    table = [["approach", *(f"k = {k}" for k in columns)]]
    found = {
        (name, k): interval(values)
        for name in _ORDER
        for k in columns
        if (
            values := per_seed(
                rows, name, "rmse", k=NO_BINS if name in WITHOUT_BINS else k, kind=kind
            )
        )
    }
    for name in dict.fromkeys(name for name, _ in found):
        cells = []
        for k in columns:
            if (name, k) not in found:
                cells.append("-")
                continue
            best = min(cell.mean for (_, other), cell in found.items() if other == k)
            text = _show(found[name, k])
            cells.append(f"**{text}**" if found[name, k].mean == best else text)
        table.append([name, *cells])
    return table


def detail_table(rows: Sequence[Row], kind: str, k: int) -> list[list[str]]:
    """All scores at one number of bins, means over clients and seeds; header first."""
    metrics = ("rmse", "mae", "r2", "pov", "coverage", "width")
    table = [["approach", "RMSE", "MAE", "R²", "POV %", "90 % interval holds %", "its width"]]
    names = dict.fromkeys(str(r["approach"]) for r in rows if r["k"] in (k, NO_BINS))
    order = [n for n in _ORDER if n in names] + [n for n in names if n not in _ORDER]
    for name in order:
        own = NO_BINS if name in WITHOUT_BINS else k
        cells = []
        for metric in metrics:
            values = per_seed(rows, name, metric, k=own, kind=kind)
            if not values or (name in WITHOUT_BINS and metric in ("coverage", "width")):
                cells.append("-")
                continue
            mean = sum(values) / len(values)
            share = metric in ("pov", "coverage")
            cells.append(f"{100 * mean:.1f}" if share and mean else "0" if share else _short(mean))
        if cells[0] != "-":
            table.append([name, *cells])
    return table


def number_margins(rows: Sequence[Row], *, k: int, kind: str) -> dict[str, MeanInterval]:
    """RMSE of lore minus every other's, paired by seed; below 0 lore is better."""
    ours = per_seed(rows, "lore", "rmse", k=k, kind=kind)
    found = {}
    for name in _ORDER:
        theirs = per_seed(rows, name, "rmse", k=NO_BINS if name in WITHOUT_BINS else k, kind=kind)
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


def _markdown(table: Sequence[Sequence[str]]) -> str:
    """A table as Markdown."""
    head, *body = table
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def report(rows: Sequence[Row], *, unit: str) -> str:
    """All tables of one data set as Markdown."""
    name = str(rows[0]["dataset"])
    seeds = len({row["seed"] for row in rows})
    parts = [f"## {name}\n"]
    for kind in RANGES:
        parts.append(f"RMSE in {unit}, {kind} ranges, {seeds} seeds ± 95 %:\n")
        parts.append(_markdown(rmse_table(rows, kind)))
    k = shown_bins(rows)
    parts.append(f"All scores, honest ranges, k = {k}:\n")
    parts.append(_markdown(detail_table(rows, "honest", k)))
    return "\n".join(parts)


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
