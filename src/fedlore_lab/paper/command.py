"""fedlore paper: the paper's tables on real data, and the same for numbers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from fedlore.cli.progress import Gauge
from fedlore.cli.screen import Screen, current_screen, explain_stop, show_report
from fedlore.core.history import Row, check_writable, read_rows, write_rows
from fedlore.core.store import write_whole
from fedlore.errors import ConfigError, FedloreError
from fedlore.experiments import ResultCell
from fedlore.look.page import Section, page
from fedlore.look.tables import markdown

from .number_sets import SOURCES
from .number_study import (
    RANGES,
    NumberStudy,
    beats,
    bins_of,
    detail_table,
    report,
    rmse_table,
    run_regression,
    shown_bins,
    worst_violation,
)
from .realcoke import run_measured, run_simulated
from .study import Study, case_page, paper_tables, run_study, study_page

_TERMS = {
    "RMSE": "root of the mean squared error of the decoded numbers; mean over clients",
    "POV": "share of decoded numbers outside the expert's set S(x), without tolerance",
    "P-KM": "the expert's number alone",
    "ML, FL": "networks over bins without knowledge, each client alone or all together",
    "MLwKM, FLwKM": "the paper's method, knowledge in the loss and at prediction, λ = 0.3",
    "FL+mask": "FL, with the range put on at prediction",
    "local best": "a site on its own: ridge, quadratic ridge, Gaussian process, extra trees and "
    "boosted trees, with and without the expert's number, weighed by rows they had not seen, moved "
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
    bins: Annotated[str, typer.Option(help="Numbers of bins, by commas.")] = "10,20,50,100",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; each deals rows anew.")] = 5,
    out: Annotated[
        Path, typer.Option(help="Folder for rows and tables; finished parts are kept.")
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
    kept = f"finished parts are kept in {path}; run the same command to continue"
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
            (rmse_table(rows, kind, unit), detail_table(rows, kind, k)),
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


paper_app = typer.Typer(help="Run the paper's experiments again.", no_args_is_help=True)

Dataset = Annotated[str, typer.Option(help="covtype or fmnist.")]
_Protocol = Annotated[str, typer.Option(help="paper, fair, or the path of a TOML.")]
_Range = Annotated[
    str, typer.Option(help="oracle, conformal95, conformal99, several separated by commas, or all.")
]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds; each draws clients anew.")]
Out = Annotated[Path, typer.Option(help="Folder for rows and tables; finished parts are kept.")]
Threads = Annotated[int, typer.Option(min=1, help="Torch threads; 1 is fastest here.")]
OUT = Path("results")

paper_app.command()(regression)


def _add_study(name: str, about: str, ranges: str) -> None:
    """A command for a table of the paper, or its figure, with the ranges it is run with."""

    @paper_app.command(name, help=about)
    def study(
        dataset: Dataset = "covtype",
        protocol: _Protocol = "fair",
        range: _Range = ranges,
        seeds: Seeds = 5,
        out: Out = OUT,
        threads: Threads = 1,
    ) -> None:
        kinds = () if range == "all" else tuple(range.split(","))
        _run(Study(name, dataset, protocol, kinds, seeds), out, threads)


_add_study(
    "approaches",
    "Eight approaches per client at 1 % of the training rows: the paper's table 3, and more.",
    "all",
)
_add_study(
    "data", "FLwKM at 1, 5, 10 and 30 % of the training rows: the paper's table 2.", "oracle"
)
_add_study("lambda", "FLwKM and FL+mask with trust λ from 0 to 0.5: the paper's figure.", "all")


@paper_app.command()
def case(seeds: Seeds = 5, out: Out = OUT, threads: Threads = 1) -> None:
    """The coking case: simulated plants, and real cokes where their file is at hand."""
    torch.set_num_threads(threads)
    screen = current_screen()

    def over_seeds(
        run: Callable[..., list[Row]], what: str, name: str, data: str
    ) -> dict[str, object]:
        with explain_stop(_kept(out)), Gauge(screen, "seed") as gauge:
            gauge.step(what, 0, seeds)
            rows = run(seeds, out, on_seed=lambda _, seed: gauge.step(what, seed + 1, seeds))
        _show(rows, name, out, screen)
        return {"rows": rows, "page": show_report(screen, lambda: case_page(rows, name, out, data))}

    plants = "four coking plants, simulated"
    given = {"simulated": over_seeds(run_simulated, "simulated plants", "case-coke", plants)}
    try:
        cokes = "public cokes, graded by CSR"
        given["measured"] = over_seeds(run_measured, "real cokes", "case-coke-real", cokes)
    except FedloreError as error:
        screen.remark(f"The real cokes are left out: {error}")
    screen.give(given)


def _run(study: Study, out: Path, threads: int) -> None:
    torch.set_num_threads(threads)
    screen = current_screen()
    with explain_stop(_kept(out)), Gauge(screen, "cell") as gauge:

        def on_cell(cell: ResultCell, done: int, total: int) -> None:
            gauge.step(f"seed {cell.seed}, {cell.range}, {cell.approach}", done, total)

        rows = run_study(study, out, on_cell=on_cell)
    _show(rows, study.name, out, screen)
    page = show_report(screen, lambda: study_page(study, out))
    screen.give({"name": study.name, "rows": rows, "page": page})


def _kept(out: Path) -> str:
    return f"finished cells are kept in {out}; run the same command to continue"


def _show(rows: Sequence[Row], name: str, out: Path, screen: Screen) -> None:
    """Write the tables of these rows as NAME.md beside NAME.jsonl, and show them."""
    made = paper_tables(rows, name)
    write_whole(out / f"{name}.md", markdown(made))
    for table in made:
        screen.show(table)
        for note in table.notes:
            screen.say(note)
        screen.say("")
    screen.remark(f"Rows and tables: {out / name}.jsonl and {out / name}.md")
