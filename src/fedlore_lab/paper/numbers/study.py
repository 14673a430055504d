"""fedlore paper regression: own best, seven approaches and a network without bins on numbers.

Fan et al. (2022), appendix C, says how to carry the method to regression and shows no experiment;
this is one. Five clients per data set, unlike by one column; the P-KM is a linear model on a third
of the columns (coal: Dulong's formula), made from rows that neither train nor test a network; the
R-KM is an oracle, as in the paper's tables, or honest: a split-conformal interval (coal: the
formula's band). All networks start alike and take the same local steps.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import Tensor

from fedlore import Bins
from fedlore.answers import Line, all_scores, region_scores, rmse
from fedlore.core.history import Row
from fedlore.core.rng import stream
from fedlore.engine import NumberClient
from fedlore.experiments import (
    FL,
    FL_MASK,
    FLWKM,
    LORE,
    ML,
    MLWKM,
    OWN_BEST,
    PKM,
    Approach,
    Drawing,
    Outcome,
    Runner,
    Trained,
    trust_of,
)

from .direct import Direct, train_direct
from .sets import NumberSite, load_numbers, sites
from .settings import NO_BINS, RANGES, RATES, NumberStudy, bounds_of, draw_numbers


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
    yield NO_BINS, OWN_BEST.name, partial(_compared, (OWN_BEST,))
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
