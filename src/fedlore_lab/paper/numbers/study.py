"""fedlore paper regression: own best, seven approaches and a network without bins on numbers.

Fan et al. (2022), appendix C, says how to carry the method to regression and shows no experiment;
this is one. Five clients per data set, unlike by one column; the P-KM is a linear model on a third
of the columns (coal: Dulong's formula), made from rows that neither train nor test a network; the
R-KM is an oracle, as in the paper's tables, or honest: a split-conformal interval (coal: the
formula's band). All networks start alike and take the same local steps.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from fedlore import Bins, PersonalRegressor
from fedlore.algorithms import Alone, FedAvg
from fedlore.core.history import Row
from fedlore.core.rng import stream
from fedlore.engine import Fitted, NumberClient
from fedlore.knowledge.numbers import Told, all_scores, region_scores, rmse
from fedlore.personal import LEVEL, Distribution

from .direct import Direct, train_direct
from .mixed import LORE, OWN_BEST, number_lore_rows, own_best_rows
from .sets import NumberSite, load_numbers, sites
from .settings import (
    NO_BINS,
    RANGES,
    RATES,
    NumberSetting,
    NumberStudy,
    bounds_of,
    clients_of,
    number_setting,
    widths,
)


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


def _parts_of(study: NumberStudy) -> Iterator[tuple[int, str, _Make]]:
    """What is computed at once, by the number of bins and an approach that stands for it."""
    yield NO_BINS, OWN_BEST, _own_best
    yield NO_BINS, "direct FL", _direct
    for k in study.bins:
        yield k, "FLwKM", _cell
        yield k, LORE, _lore


@dataclass(frozen=True, eq=False)
class _Entry:
    """A trained approach and how it predicts."""

    name: str
    model: str  # whose weights are scored; for lore what was chosen
    fitted: Fitted[PersonalRegressor]
    guarded: bool = True  # knowledge at prediction
    reliance: float | None = None  # λ there; None is the client's own


def _cell(study: NumberStudy, own: list[NumberSite], k: int, seed: int) -> list[Row]:
    """Everything for one number of bins and one seed."""
    setting = number_setting(study, k, seed)
    bins = setting.bins
    bare = [c.bare() for c in clients_of(own, "honest", study.trust)]  # any kind: it is not used
    plain = setting.train(bare, Alone()), setting.train(bare, FedAvg())
    found: list[Row] = []
    for kind in RANGES:
        where: Row = {"dataset": study.dataset, "k": k, "seed": seed, "range": kind}
        clients = clients_of(own, kind, study.trust)
        told = [c.knowledge.examine(c.test, bins, training=False) for c in clients if c.test]
        rows = list(_expert(clients, told))
        for entry in _entries(setting, clients, plain):
            rows += _score(entry, clients, told)
        if k in study.parts and kind == "honest":
            for entry in _parts(setting, clients):
                rows += _score(entry, clients, told)
        found += [{**where, **row} for row in rows]
    return found


def _entries(
    setting: NumberSetting,
    clients: list[NumberClient],
    plain: tuple[Fitted[PersonalRegressor], Fitted[PersonalRegressor]],
) -> Iterator[_Entry]:
    """The approaches that learn; `plain` are ML and FL, which know nothing of the range."""
    ml, fl = plain
    yield _Entry("ML", "own", ml, guarded=False)
    yield _Entry("MLwKM", "own", setting.train(clients, Alone()))
    yield _Entry("FL", "shared", fl, guarded=False)
    yield _Entry("FLwKM", "shared", setting.train(clients, FedAvg()))
    yield _Entry("FL+mask", "shared", fl, reliance=0.0)


def _lore(study: NumberStudy, own: list[NumberSite], k: int, seed: int) -> list[Row]:
    """The recipe, with every kind of range."""
    setting = number_setting(study, k, seed)
    found: list[Row] = []
    for kind in RANGES:
        where: Row = {"dataset": study.dataset, "k": k, "seed": seed, "range": kind}
        rows = number_lore_rows(clients_of(own, kind, study.trust), setting, LEVEL)
        found += [{**where, **row} for row in rows]
    return found


def _own_best(study: NumberStudy, own: list[NumberSite], k: int, seed: int) -> list[Row]:
    """What each site gets without anybody, with every kind of range."""
    found: list[Row] = []
    for kind in RANGES:
        where: Row = {"dataset": study.dataset, "k": k, "seed": seed, "range": kind}
        rows = own_best_rows(clients_of(own, kind, study.trust), bounds_of(study), seed)
        found += [{**where, **row} for row in rows]
    return found


def _parts(setting: NumberSetting, clients: list[NumberClient]) -> Iterator[_Entry]:
    """What the ordinal loss, the soft prior and hearing bring, one at a time."""
    narrow, wide = widths(setting.bins.k)
    silent = [replace(c, knowledge=replace(c.knowledge, trust=0.0)) for c in clients]
    bare = [c.bare() for c in clients]
    soft = [replace(c, knowledge=replace(c.knowledge, spread=_missed_share(c))) for c in clients]
    yield _Entry("FLwKM, ordinal", "shared", setting.train(clients, FedAvg(), ordinal=narrow))
    yield _Entry("FLwKM, soft prior", "shared", setting.train(soft, FedAvg()))
    for name, ordinal in (("narrow", narrow), ("wide", wide)):
        fitted = setting.train(bare, FedAvg(), ordinal=ordinal)
        yield _Entry(f"FL+mask, ordinal {name}", "shared", fitted, reliance=0.0)
    for name, ordinal in (("", 0.0), (", ordinal narrow", narrow)):
        fitted = setting.train(silent, FedAvg(), hears=True, plain=1.0, ordinal=ordinal)
        yield _Entry(f"FL+mask, hearing{name}", "shared", fitted, reliance=0.0)


def _missed_share(client: NumberClient) -> float:
    """What the P-KM misses on the client's own training rows, root mean square."""
    point = client.knowledge.prediction
    assert point is not None
    return max(rmse(point(client.data.x), client.data.numbers()), 1e-6)


def _score(entry: _Entry, clients: list[NumberClient], told: list[Told]) -> Iterator[Row]:
    """Test scores of one approach at every client; knowledge was evaluated once, in `told`."""
    for client, known in zip(clients, told, strict=True):
        regressor, seen = entry.fitted.model(client.id), replace(known, said=None, sets=None)
        if entry.guarded:
            spread = regressor.knowledge.spread
            numbers = replace(client.knowledge, reliance=entry.reliance, spread=spread)
            regressor, seen = regressor.with_knowledge(numbers), replace(known, spread=spread)
        yield {
            "approach": entry.name,
            "model": entry.model,
            "client": client.id,
            "trust": regressor.knowledge.trust_at_prediction,
            **_numbers(regressor.distribution(seen), known),
        }


def _numbers(found: Distribution, known: Told) -> dict[str, float]:
    assert known.y is not None
    scores = all_scores(found.mean(), known.y, known.sets)
    return {**scores, **region_scores(found.region(LEVEL), known.y)}


def _expert(clients: list[NumberClient], told: list[Told]) -> Iterator[Row]:
    """The P-KM by itself, and how good the range is: how often it holds the label, how wide."""
    for client, known in zip(clients, told, strict=True):
        assert known.said is not None and known.y is not None and known.sets is not None
        yield {
            "approach": "P-KM",
            "model": "expert",
            "client": client.id,
            "trust": 1.0,
            **all_scores(known.said, known.y, known.sets),
            **region_scores(known.sets, known.y),
        }


def _direct(study: NumberStudy, own: list[NumberSite], k: int, seed: int) -> list[Row]:
    """The networks without bins, clipped to each kind of range."""
    bins = bounds_of(study)
    found: list[Row] = []
    for name, alone in (("direct ML", True), ("direct FL", False)):
        rate, models = _best_direct(study, own, bins, seed, alone)
        for kind in RANGES:
            for site, model in zip(own, models, strict=True):
                known = site.knowledge[kind].examine(site.test, bins, training=False)
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
