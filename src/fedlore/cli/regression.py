"""fedlore paper regression: the method on real numbers."""

from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..engine.history import Row, check_writable, read_rows, write_rows
from ..errors import ConfigError
from ..experiments.regression import RANGES, Study, run_regression
from ..experiments.regression_data import SOURCES
from ..experiments.regression_tables import beats, bins_of, report, rmse_table, violations


def regression(
    dataset: Annotated[str, typer.Option(help=f"{', '.join(SOURCES)}.")] = "concrete",
    bins: Annotated[str, typer.Option(help="Numbers of bins k, by comma.")] = "10,20,50,100",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; each deals rows anew.")] = 5,
    out: Annotated[
        Path, typer.Option(help="Folder for rows and tables; what is there goes on.")
    ] = Path("results"),  # fmt: skip
    threads: Annotated[int, typer.Option(min=1, help="Torch threads; 1 is fastest here.")] = 1,
) -> None:
    """Seven approaches and a network without bins on a number: the paper's appendix C."""
    torch.set_num_threads(threads)
    study = Study(dataset, bins=_numbers(bins), seeds=seeds)
    path = out / f"regression-{dataset}.jsonl"
    check_writable(path)
    done = read_rows(path) if path.exists() else []
    console = Console()
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        TextColumn("{task.description:36}"), *columns, console=console, transient=True
    ) as progress:
        total = seeds * (len(study.bins) + 1)
        bar = progress.add_task("loading", total=total)

        def on_rows(rows: list[Row], part: str) -> None:
            write_rows(rows, path)
            have = len({(row["seed"], row["k"]) for row in rows})
            progress.update(bar, completed=min(have, total), description=part)

        rows = run_regression(study, done=done, on_rows=on_rows)
    unit = SOURCES[dataset].unit
    for kind in RANGES:
        console.print(_table(rmse_table(rows, kind), f"{dataset}: RMSE in {unit}, {kind} ranges"))
    for kind in RANGES:
        won = [str(k) for k in bins_of(rows) if beats(rows, k=k, kind=kind)]
        at = f"for k = {', '.join(won)}" if won else "nowhere"
        console.print(f"{kind} ranges: lore is below P-KM, ML, MLwKM and FL {at}.")
    worst = violations(rows)
    kept = "no prediction left its set" if worst == 0 else f"up to {worst:.2%} LEFT their set"
    console.print(f"Of all approaches that carry the range {kept}.")
    page = out / f"regression-{dataset}.md"
    page.write_text(report(rows, unit=unit), encoding="utf-8")
    console.print(f"Rows: {path}, tables: {page}", highlight=False, soft_wrap=True)


def _numbers(bins: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in bins.split(","))
    except ValueError:
        raise ConfigError(f"bins must be whole numbers by comma, got '{bins}'") from None


def _table(cells: list[list[str]], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(cells[0]):
        table.add_column(name, justify="right" if i else "left")
    for row in cells[1:]:
        table.add_row(*(_bold(cell) for cell in row))
    return table


def _bold(cell: str) -> str:
    return f"[bold]{cell.strip('*')}[/bold]" if cell.startswith("**") else cell
