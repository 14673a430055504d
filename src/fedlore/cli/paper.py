"""fedlore paper: the paper's tables on real data, beside the paper's own numbers."""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..core.history import Row
from ..errors import FedloreError
from ..look.markdown import markdown
from ..report.paper import case_page, study_page
from ..report.papertables import paper_tables
from ..workbench.cells import ResultCell
from ..workbench.paper.case import run_measured, run_simulated
from ..workbench.paper.study import Study, run_study
from .regression import regression
from .screen import grid_of

paper_app = typer.Typer(help="Run the paper's experiments again.", no_args_is_help=True)

Dataset = Annotated[str, typer.Option(help="covtype or fmnist.")]
_Protocol = Annotated[str, typer.Option(help="paper, fair, or the path of a TOML.")]
_Range = Annotated[
    str, typer.Option(help="oracle, conformal95, conformal99, several by comma, all.")
]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds; each draws clients anew.")]
_Recipe = Annotated[str, typer.Option(help="lore chosen by trials, or fixed: lore 1.")]
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
    recipe: _Recipe = "chosen",
    out: Out = OUT,
    threads: Threads = 1,
) -> None:
    """Eight approaches per client at 1 % of the training rows: the paper's table 3, and more."""
    _run(Study("approaches", dataset, protocol, _kinds(range), seeds, recipe), out, threads)


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
    console = Console()
    with _progress(console) as progress:
        bar = progress.add_task("simulated plants", total=seeds)
        rows = run_simulated(seeds, out, on_seed=lambda *_: progress.advance(bar))
    _show_case(rows, "case-coke", out, "four coking plants, simulated", console)
    try:
        with _progress(console) as progress:
            bar = progress.add_task("real cokes", total=seeds)
            rows = run_measured(seeds, out, on_seed=lambda *_: progress.advance(bar))
    except FedloreError as error:
        console.print(f"The real cokes are left out: {error}", highlight=False, soft_wrap=True)
        return
    _show_case(rows, "case-coke-real", out, "public cokes, graded by CSR", console)


def _run(study: Study, out: Path, threads: int) -> None:
    torch.set_num_threads(threads)
    console = Console()
    with _progress(console) as progress:
        bar = progress.add_task("loading", total=None)

        def on_cell(cell: ResultCell, done: int, total: int) -> None:
            at = f"seed {cell.seed}, {cell.range}, {cell.approach}"
            progress.update(bar, completed=done, total=total, description=f"{at:36}")

        rows = run_study(study, out, on_cell=on_cell)
    _show(rows, study.name, out, console)
    _write_page(lambda: study_page(study, out), console)


def _show_case(rows: Sequence[Row], name: str, out: Path, data: str, console: Console) -> None:
    _show(rows, name, out, console)
    _write_page(lambda: case_page(rows, name, out, data), console)


def _show(rows: Sequence[Row], name: str, out: Path, console: Console) -> None:
    """Write the tables of these rows as NAME.md beside NAME.jsonl, and show them."""
    made = paper_tables(rows, name)
    (out / f"{name}.md").write_text(markdown(made), encoding="utf-8")
    for table in made:
        console.print(grid_of(table))
        for note in table.notes:
            console.print(note, markup=False, highlight=False, soft_wrap=True)
        console.print()
    written = f"{out / name}.jsonl and {out / name}.md"
    console.print(f"Rows and tables: {written}", highlight=False, soft_wrap=True)


def _write_page(write: Callable[[], Path], console: Console) -> None:
    if find_spec("matplotlib") is None:
        console.print("For a report with plots: pip install 'fedlore[plot]'", markup=False)
        return
    with console.status("drawing the report"):
        page = write()
    console.print(f"Report written to {page}", highlight=False, soft_wrap=True)


def _progress(console: Console) -> Progress:
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(TextColumn("{task.description}"), *columns, console=console, transient=True)


def _kinds(range: str) -> tuple[str, ...]:
    return () if range == "all" else tuple(range.split(","))
