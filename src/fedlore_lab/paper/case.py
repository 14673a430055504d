"""The coking case: four simulated plants, and beside them real cokes where their file is at hand.

The paper's own case is private: its numbers can stand beside these, not be reproduced by them.
"""

from collections.abc import Callable
from pathlib import Path

from fedlore.core.history import Row
from fedlore.experiments import (
    APPROACHES,
    ResultCell,
    ResultLedger,
    package_versions,
    settings_fingerprint,
    trust_of,
)
from fedlore_coke.demo import Demo, run_demo

from .realcoke import RealCase, run_real

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
