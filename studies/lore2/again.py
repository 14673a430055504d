"""A block of evidence whose other rows are at hand: own best and lore anew, the rest as it was."""

import time
from collections.abc import Iterable, Sequence

from fedlore.core.history import Row
from fedlore.experiments.approaches import LORE, OWN_BEST, Approach
from fedlore.experiments.comparing import compare
from fedlore.personal.own.memory import remembering
from fedlore.personal.tasks.regression import LEVEL
from fedlore_lab.paper.drawings import StudyDrawing, drawing
from fedlore_lab.paper.numbers.mixed import number_lore_rows, own_best_rows
from fedlore_lab.paper.numbers.sets import load_numbers, sites
from fedlore_lab.paper.numbers.settings import (
    NO_BINS,
    RANGES,
    NumberStudy,
    bounds_of,
    clients_of,
    number_setting,
)

NUMBERS = ("coal", "ccpp", "concrete", "california", "casp")
CLASSES = {  # set -> (data, share of the training rows, kind of range)
    "coke": ("coke", 1.0, "expert"),
    "covtype": ("covtype", 0.01, "oracle"),
    "covtype-honest": ("covtype", 0.01, "conformal99"),
    "covtype10": ("covtype", 0.1, "oracle"),
    "fmnist": ("fmnist", 0.01, "oracle"),
    "fmnist-honest": ("fmnist", 0.01, "conformal99"),
    "fmnist10": ("fmnist", 0.1, "oracle"),
}
BINS = 50  # of the regression tables


def again(name: str, seed: int, before: Sequence[Row]) -> list[Row]:
    """A block whose rows of other approaches are at hand: own best and lore, and those."""
    start = time.process_time()
    ours = (OWN_BEST.name, LORE.name)
    kept = [row for row in before if row["approach"] not in ours]
    if name in NUMBERS:
        rows = _number_rows(NumberStudy(name, bins=(BINS,), seeds=1, first_seed=seed))
    else:
        rows = compare_drawn(drawing(*CLASSES[name], seed), [OWN_BEST, LORE])
    spent = round(time.process_time() - start, 1)
    own, lore_ = ([row for row in rows if row["approach"] == one] for one in ours)
    return [{**row, "set": name, "cpu": spent} for row in (*own, *kept, *lore_)]


def compare_drawn(
    it: StudyDrawing, approaches: Sequence[Approach], device: str | None = None
) -> list[Row]:
    """Rows of these approaches on one drawing."""
    return compare(
        it.clients,
        it.make_model,
        plan=it.plan,
        rounds=it.rounds,
        seed=it.seed,
        scale=it.scale,
        approaches=approaches,
        ordered=it.ordered,
        device=device,
    )


@remembering()
def _number_rows(study: NumberStudy) -> list[Row]:
    """Own best and lore of one seed, with every kind of range."""
    seed, setting = study.first_seed, number_setting(study, BINS, study.first_seed)
    drawn = sites(load_numbers(study.dataset), seed=seed)
    found: list[Row] = []
    for kind in RANGES:
        clients = clients_of(drawn, kind, study.trust)
        where: Row = {"dataset": study.dataset, "seed": seed, "range": kind}
        own = own_best_rows(clients, bounds_of(study), seed)
        found += [{**where, "k": NO_BINS, **row} for row in own]
        ours = number_lore_rows(clients, setting, LEVEL)
        found += [{**where, "k": BINS, **row} for row in ours]
    return found


def block_of(rows: Iterable[Row], name: str, seed: int) -> list[Row]:
    """Rows of one set and seed, of this study or of `fedlore paper regression`."""
    found = []
    for row in rows:
        if "set" in row:
            mine = row["set"] == name
        else:
            mine = row.get("dataset") == name and row.get("k") in (NO_BINS, BINS)
        if mine and row["seed"] == seed and "," not in str(row["approach"]):
            found.append(row)
    return found
