"""Real cokes from four public sources, compared as the simulated ones are.

They are few, so every row is tested by models that have not seen it (cross-validation), and
intervals are those of the number of rows, not of seeds. Every site knows the rank effect: an arch
of CSR over reflectance where it measures that, else a line over volatile matter, with the numbers
of its own training rows and a band as wide as nine of ten of them need.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn

from fedlore import Examples
from fedlore.algorithms import Plan
from fedlore.core.history import Row
from fedlore.core.nets import mlp
from fedlore.data import iid
from fedlore.engine import Client
from fedlore.experiments import (
    APPROACHES,
    Drawing,
    MeanInterval,
    ResultCell,
    ResultLedger,
    compare,
    package_versions,
    settings_fingerprint,
    trust_of,
)
from fedlore.knowledge import GradedFormula, GradeEdges, Knowledge, RangeKind, count, quantile
from fedlore_coke.coal import ALWAYS, SOMETIMES, MeasuredCokes, real_cokes
from fedlore_coke.demo import Demo, run_demo

OnDone = Callable[[str], None]
VOLATILE = ALWAYS.index("Vdaf")
RO = len(ALWAYS) + list(SOMETIMES).index("Ro")
RO_MEASURED = RO + len(SOMETIMES)


@dataclass(frozen=True)
class RealCase:
    """How the real cokes are compared; training is that of the demo."""

    edges: tuple[float, ...] = (30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0, 65.0)  # CSR
    folds: int = 10
    level: float = 0.9  # what the ranges promise
    trust: float = 0.3  # λ
    rounds: int = 40
    hidden: tuple[int, ...] = (64, 64)
    plan: Plan = field(default_factory=lambda: Plan(epochs=5, batch=32, lr=0.05, schedule="cosine"))


@dataclass(frozen=True)
class Rank:
    """CSR = a + b·r (+ c·r²), the effect of the rank r of a coal, with the numbers of one site."""

    column: int  # of reflectance or volatile matter
    numbers: tuple[float, ...]  # a, b and for an arch c

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, d) -> (n,)."""
        return self.powers(x) @ torch.tensor(self.numbers, dtype=torch.float64)

    def powers(self, x: Tensor) -> Tensor:
        """1, r, r², as many as there are numbers, (n, numbers)."""
        r = x[:, self.column].double()
        return torch.stack([r**i for i in range(len(self.numbers))], 1)


@dataclass(frozen=True)
class CsrBand:
    """R-KM: every grade within `half` points of the rank effect; measured, so statistical."""

    kind: ClassVar[RangeKind] = "statistical"

    rank: Rank
    half: float
    edges: tuple[float, ...]

    def __call__(self, x: Tensor, /) -> Tensor:
        centre, grading = self.rank(x), GradeEdges(self.edges)
        low, high = grading(centre - self.half), grading(centre + self.half)
        grades = torch.arange(grading.classes)
        return (grades >= low.unsqueeze(1)) & (grades <= high.unsqueeze(1))


def refit_equation(x: Tensor, csr: Tensor) -> tuple[Rank, Tensor]:
    """A site's rank effect by least squares, and how far each row lies from that of the others.

    The second are leave-one-out residuals: the residual divided by one minus the leverage.
    """
    measured = bool((x[:, RO_MEASURED] == 1).all())
    form = Rank(RO, (0.0,) * 3) if measured else Rank(VOLATILE, (0.0,) * 2)
    design = form.powers(x)  # (n, numbers)
    inverse = torch.linalg.pinv(design)  # (numbers, n)
    rank = replace(form, numbers=tuple((inverse @ csr).tolist()))
    leverage = (design * inverse.t()).sum(1)
    return rank, (csr - rank(x)) / (1 - leverage).clamp(min=1e-9)


def site(name: str, rows: MeasuredCokes, out: Tensor, case: RealCase) -> Client:
    """One source with the rows `out` kept for the test; its expert knows only the others."""
    grading = GradeEdges(case.edges)
    tested = torch.zeros(len(rows.csr), dtype=torch.bool)
    tested[out] = True
    rank, apart = refit_equation(rows.x[~tested], rows.csr[~tested])
    half = quantile(apart.abs(), round(1 - case.level, 6))
    train, test = (Examples(rows.x[w], grading(rows.csr[w])) for w in (~tested, tested))
    knowledge = Knowledge(
        GradedFormula(rank, case.edges),
        CsrBand(rank, half, case.edges),
        case.trust,
        outside="widen",
    )
    return Client(name, train, knowledge, test=test)


def run_real(
    case: RealCase, *, seed: int, folder: str | Path | None = None, on_done: OnDone | None = None
) -> list[Row]:
    """All approaches on the real cokes, every row tested once: a row per approach and source."""
    cokes = real_cokes(folder)
    parts = {name: iid(len(r.csr), case.folds, seed=seed) for name, r in cokes.sites.items()}
    found: list[Row] = []
    for fold in range(case.folds):
        clients = [site(n, rows, parts[n][fold], case) for n, rows in cokes.sites.items()]
        width = clients[0].data.x.shape[1]

        def make_model(hears: bool, width: int = width) -> nn.Module:
            classes = len(case.edges) + 1
            return mlp(width, classes, hidden=case.hidden, hears=hears, seed=seed)

        ranges = {client.id: _ranges(client) for client in clients}
        scored = compare(Drawing(clients, make_model, case.plan, case.rounds, seed, ordered=True))
        found += [{**row, **ranges[str(row["client"])]} for row in scored]
        if on_done is not None:
            on_done(f"fold {fold + 1} of {case.folds}")
    return _pool(found)


def _ranges(client: Client) -> dict[str, float]:
    """How often the ranges of one fold's test rows hold the label, and how wide they are."""
    assert client.test is not None
    audit = count(client.test)
    held = 1 - audit.outside / audit.rows
    return {"coverage": held, "width": audit.width or 0.0, "test_rows": audit.rows}


def _pool(found: Sequence[Row]) -> list[Row]:
    """The folds together: what was a share of a fold's rows becomes one of all rows."""
    groups: dict[tuple[object, object], list[Row]] = {}
    for row in found:
        groups.setdefault((row["approach"], row["client"]), []).append(row)
    rows: list[Row] = []
    for own in groups.values():
        total = sum(int(row["test_rows"] or 0) for row in own)
        shares = {
            name: math.fsum(float(row[name] or 0.0) * int(row["test_rows"] or 0) for row in own)
            / total
            for name in ("ta", "pov", "abstained", "coverage", "width")
            if name in own[0]
        }
        rows.append({**own[0], **shares, "test_rows": total})
    return rows


def over_rows(rows: Sequence[Row]) -> MeanInterval:
    """Mean TA over sites and seeds, with the 95 % interval that so few rows allow.

    A site's TA is a share of its rows: variance p(1 - p)/n, however many seeds there are.
    """
    by_site: dict[str, list[Row]] = {}
    for row in rows:
        by_site.setdefault(str(row["client"]), []).append(row)
    means, variance = [], 0.0
    for own in by_site.values():
        p = sum(float(row["ta"] or 0.0) for row in own) / len(own)
        means.append(p)
        variance += p * (1 - p) / int(own[0]["test_rows"] or 1)
    return MeanInterval(sum(means) / len(means), 1.96 * math.sqrt(variance) / len(means))


OnSeed = Callable[[str, int], None]  # which case, the seed just finished


def run_simulated(
    seeds: int, out: Path, *, demo: Demo | None = None, on_seed: OnSeed | None = None
) -> list[Row]:
    """The demo's plants over several seeds, in case-coke.jsonl."""
    setting = demo or Demo()

    def compute(seed: int) -> list[Row]:
        return run_demo(setting, seed=seed)

    return _each_seed("coke", "expert", setting, seeds, out, compute, on_seed)


def run_measured(
    seeds: int, out: Path, *, case: RealCase | None = None, on_seed: OnSeed | None = None
) -> list[Row]:
    """The real cokes over several drawings of the folds, in case-coke-real.jsonl."""
    setting = case or RealCase()

    def compute(seed: int) -> list[Row]:
        return run_real(setting, seed=seed)

    kind = f"conformal{round(100 * setting.level)}"
    return _each_seed("coke-real", kind, setting, seeds, out, compute, on_seed)


def _each_seed(
    dataset: str,
    kind: str,
    setting: Demo | RealCase,
    seeds: int,
    out: Path,
    compute: Callable[[int], list[Row]],
    on_seed: OnSeed | None,
) -> list[Row]:
    """All approaches of a seed at once, unless they are finished."""
    ledger = ResultLedger(out / f"case-{dataset}.jsonl")
    rows: list[Row] = []
    for seed in range(seeds):
        wanted = {}
        for approach in APPROACHES:
            trust = trust_of(approach, setting.trust)
            cell = ResultCell(dataset, "fair", kind, approach.name, seed, 1.0, trust)
            wanted[cell] = settings_fingerprint(setting, repr(approach))
        found = {cell: ledger.find(cell, config) for cell, config in wanted.items()}
        if not all(found.values()):
            fresh = compute(seed)
            for cell, config in wanted.items():
                own = {"config": config, "versions": package_versions()}
                mine = [row for row in fresh if row["approach"] == cell.approach]
                found[cell] = [{**cell.tags, **row, **own} for row in mine]
                ledger.add(cell, found[cell])
        rows += [row for cell in wanted for row in found[cell]]
        if on_seed is not None:
            on_seed(dataset, seed)
    return rows
