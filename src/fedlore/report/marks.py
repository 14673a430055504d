"""Tables of scores that are fair to rare classes and to near grades, and class by class."""

from collections.abc import Sequence

import torch

from ..core.history import Row, mean_of
from ..core.marks import per_class
from ..look.tables import Cell, TextTable
from .scores import by_convention

#: Column of rows -> its name on the page, by how much it is multiplied, and whether less is better.
MARKS = {
    "balanced": ("balanced accuracy, %", 100.0, False),
    "macro_f1": ("macro F1, %", 100.0, False),
    "grade_error": ("mean error, grades", 1.0, True),
    "kappa": ("quadratic kappa", 1.0, False),
}


def marks_table(rows: Sequence[Row]) -> list[TextTable]:
    """Balanced accuracy and macro F1; of ordered classes the error in grades and kappa too."""
    there = [key for key in MARKS if any(row.get(key) is not None for row in rows)]
    if not there:
        return []
    names = by_convention(str(row["approach"]) for row in rows)
    columns = [
        [mean_of([r for r in rows if r["approach"] == name], key) for name in names]
        for key in there
    ]
    body = []
    for i, name in enumerate(names):
        cells = [Cell(name)]
        for key, column in zip(there, columns, strict=True):
            _, scale, less = MARKS[key]
            known = [value for value in column if value is not None]
            best = (min if less else max)(known) if len(known) > 1 else None
            value = column[i]
            text = "–" if value is None else f"{scale * value:.{1 if scale > 1 else 3}f}"
            cells.append(Cell(text, value is not None and value == best))
        body.append(tuple(cells))
    head = ("approach", *(MARKS[key][0] for key in there))
    note = (
        "Balanced accuracy is the mean share of each class that was found, macro F1 the mean of "
        "2·right / (named + there) over classes: rare ones count as much as common ones."
    )
    return [
        TextTable(
            "Scores that count every class alike, mean over clients", head, tuple(body), (note,)
        )
    ]


def class_tables(confusion: Sequence[Row], classes: Sequence[str] = ()) -> list[TextTable]:
    """Precision and recall of each class under every approach, all clients together."""
    if not confusion:
        return []
    k = 1 + max(int(r[side] or 0) for r in confusion for side in ("label", "predicted"))
    names = by_convention(str(row["approach"]) for row in confusion)
    found = {}
    for name in names:
        counts = torch.zeros(k, k + 1, dtype=torch.float64)
        for row in confusion:
            if row["approach"] == name:
                said = int(row["predicted"] or 0)
                counts[int(row["label"] or 0), said if said >= 0 else k] += int(row["count"] or 0)
        found[name] = per_class(counts)
    words = classes if len(classes) >= k else [str(i) for i in range(k)]
    body = tuple(
        (
            Cell(words[c]),
            *(Cell(" | ".join(_percent(found[n][s], c) for s in (0, 1))) for n in names),
        )
        for c in range(k)
    )
    return [TextTable("Precision | recall of each class, %", ("class", *names), body)]


def _percent(values: torch.Tensor, place: int) -> str:
    value = float(values[place])
    return "–" if value != value else f"{100 * value:.1f}"
