"""fedlore paper regression: the method on real numbers."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from fedlore.cli.progress import Gauge
from fedlore.cli.screen import current_screen, explain_stop
from fedlore.core.history import Row, check_writable, read_rows, write_rows
from fedlore.core.store import write_whole
from fedlore.errors import ConfigError
from fedlore.look.page import Section, page

from ..paper.numbers.sets import SOURCES
from ..paper.numbers.study import RANGES, NumberStudy, run_regression
from ..paper.numbers.tables import (
    beats,
    bins_of,
    detail_table,
    report,
    rmse_table,
    shown_bins,
    worst_violation,
)

_TERMS = {
    "RMSE": "root of the mean squared error of the decoded numbers; mean over clients",
    "POV": "share of decoded numbers outside the expert's set S(x), without tolerance",
    "P-KM": "the expert's number alone",
    "ML, FL": "networks over bins without knowledge, each client alone or all together",
    "MLwKM, FLwKM": "the paper's method, knowledge in the loss and at prediction, λ = 0.3",
    "FL+mask": "FL, with the range put on at prediction",
    "local best": "a site on its own: the best by cross-validation on its own rows of ridge, "
    "quadratic ridge, extra trees and boosted trees, with and without the expert's number, moved "
    "into S(x)",
    "lore": "a shared model chosen by trials, and at each site an ensemble of it with the site's "
    "own models and the expert, weights private",
    "direct": "a network without bins, squared loss, moved to the nearest number of S(x)",
}
CAVEATS = {
    "oracle": "Oracle ranges are made from the labels, test labels included: they show what a "
    "perfect range would bring, not what one has.",
    "honest": "Honest ranges are split-conformal intervals around the P-KM (coal: Dulong's formula "
    "± 1.2 MJ/kg) and never look at a test label.",
}


def regression(
    dataset: Annotated[str, typer.Option(help=f"{', '.join(SOURCES)}.")] = "concrete",
    bins: Annotated[str, typer.Option(help="Numbers of bins k, by comma.")] = "10,20,50,100",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; each deals rows anew.")] = 5,
    out: Annotated[
        Path, typer.Option(help="Folder for rows and tables; what is there goes on.")
    ] = Path("results"),  # fmt: skip
    threads: Annotated[int, typer.Option(min=1, help="Torch threads; 1 is fastest here.")] = 1,
) -> None:
    """Local best, seven approaches and a network without bins on a number: appendix C."""
    torch.set_num_threads(threads)
    study = NumberStudy(dataset, bins=_numbers(bins), seeds=seeds)
    path = out / f"regression-{dataset}.jsonl"
    check_writable(path)
    done = read_rows(path) if path.exists() else []
    screen = current_screen()
    kept = f"finished parts are kept in {path}; the same command goes on"
    with explain_stop(kept), Gauge(screen, "part") as gauge:
        total = seeds * 2 * (len(study.bins) + 1)
        gauge.step("loading", 0, total)

        def on_rows(rows: list[Row], part: str) -> None:
            write_rows(rows, path)
            stands = ("local best", "direct FL", "FLwKM", "lore")  # one for each part
            have = len(
                {(r["seed"], r["k"], r["approach"]) for r in rows if r["approach"] in stands}
            )
            gauge.step(part, min(have, total), total)

        rows = run_regression(study, done=done, on_rows=on_rows)
    unit = SOURCES[dataset].unit
    for kind in RANGES:
        table = rmse_table(rows, kind, unit)
        screen.show(replace(table, title=f"{dataset}: {table.title}"))
    for kind in RANGES:
        won = [str(k) for k in bins_of(rows) if beats(rows, k=k, kind=kind)]
        at = f"for k = {', '.join(won)}" if won else "nowhere"
        screen.say(f"{kind} ranges: lore is below local best, P-KM, ML, MLwKM and FL {at}.")
    worst = worst_violation(rows)
    inside = "no prediction left its set" if worst == 0 else f"up to {worst:.2%} LEFT their set"
    screen.say(f"Of all approaches that carry the range {inside}.")
    tables = path.with_suffix(".md")
    write_whole(tables, report(rows, unit=unit))
    html = path.with_suffix(".html")
    write_whole(html, _page(rows, study, unit))
    screen.remark(f"Rows: {path}, tables: {tables}, page: {html}")
    screen.give({"dataset": dataset, "unit": unit, "rows": rows, "worst": worst, "page": html})


def _page(rows: list[Row], study: NumberStudy, unit: str) -> str:
    """The same as one HTML page that needs nothing else."""
    k = shown_bins(rows)
    sections = [
        Section(
            f"{kind} ranges",
            (CAVEATS[kind],),
            (
                rmse_table(rows, kind, unit),
                detail_table(rows, kind, k),
            ),
        )
        for kind in RANGES
    ]
    facts = {
        "data": study.dataset,
        "seeds": str(len({row["seed"] for row in rows})),
        "rounds": str(study.rounds),
        "plan": str(study.plan),
        "hidden layers": str(study.hidden),
    }
    reading = ("± is half of the 95 % interval over seeds. The best of a column is marked.",)
    title = f"Regression: {study.dataset}"
    return page(title, facts=facts, reading=reading, terms=_TERMS, sections=sections)


def _numbers(bins: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in bins.split(","))
    except ValueError:
        raise ConfigError(f"bins must be whole numbers by comma, got '{bins}'") from None
