"""fedlore paper: the paper's tables on real data, beside the paper's own numbers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import torch
import typer

from fedlore.cli.progress import Gauge
from fedlore.cli.screen import Screen, current_screen, explain_stop, show_report
from fedlore.core.history import Row
from fedlore.core.store import write_whole
from fedlore.errors import FedloreError
from fedlore.experiments import ResultCell
from fedlore.look.tables import markdown

from ..paper.case import run_measured, run_simulated
from ..paper.report import case_page, paper_tables, study_page
from ..paper.study import Study, run_study
from .regression import regression

paper_app = typer.Typer(help="Run the paper's experiments again.", no_args_is_help=True)

Dataset = Annotated[str, typer.Option(help="covtype or fmnist.")]
_Protocol = Annotated[str, typer.Option(help="paper, fair, or the path of a TOML.")]
_Range = Annotated[
    str, typer.Option(help="oracle, conformal95, conformal99, several by comma, all.")
]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds; each draws clients anew.")]
Out = Annotated[Path, typer.Option(help="Folder for rows and tables; what is there goes on.")]
Threads = Annotated[int, typer.Option(min=1, help="Torch threads; 1 is fastest here.")]
OUT = Path("results")

paper_app.command()(regression)


@paper_app.command()
def approaches(
    dataset: Dataset = "covtype",
    protocol: _Protocol = "fair",
    range: _Range = "all",
    seeds: Seeds = 5,
    out: Out = OUT,
    threads: Threads = 1,
) -> None:
    """Eight approaches per client at 1 % of the training rows: the paper's table 3, and more."""
    _run(Study("approaches", dataset, protocol, _kinds(range), seeds), out, threads)


@paper_app.command()
def data(
    dataset: Dataset = "covtype",
    protocol: _Protocol = "fair",
    range: _Range = "oracle",
    seeds: Seeds = 5,
    out: Out = OUT,
    threads: Threads = 1,
) -> None:
    """FLwKM at 1, 5, 10 and 30 % of the training rows: the paper's table 2."""
    _run(Study("data", dataset, protocol, _kinds(range), seeds), out, threads)


@paper_app.command("lambda")
def trust(
    dataset: Dataset = "covtype",
    protocol: _Protocol = "fair",
    range: _Range = "all",
    seeds: Seeds = 5,
    out: Out = OUT,
    threads: Threads = 1,
) -> None:
    """FLwKM and FL+mask with trust λ from 0 to 0.5: the paper's figure."""
    _run(Study("lambda", dataset, protocol, _kinds(range), seeds), out, threads)


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
    return f"finished cells are kept in {out}; the same command goes on"


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


def _kinds(range: str) -> tuple[str, ...]:
    return () if range == "all" else tuple(range.split(","))
