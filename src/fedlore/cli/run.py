"""fedlore new and fedlore run: a federation of one's own files, in one process."""

import json
from collections.abc import Sequence
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..core.history import Row, check_writable
from ..errors import ConfigError
from ..personal.own.best import missing_learners
from ..report import write_report
from ..report.brought import write_brought
from ..report.numbers import mean_of, write_number_report
from ..workbench.alike import write_alike
from ..workbench.brought import brought_path
from ..workbench.federations import Gathering, gather
from ..workbench.ownbest import own_best_words
from ..workbench.runs import Finished, run_federation
from ..workbench.starter import write_starter
from .screen import Grid


def new(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    like: Annotated[Path | None, typer.Option(help="Rows of your own to deal to sites.")] = None,
    label: Annotated[str | None, typer.Option(help="With --like: the column to predict.")] = None,
    sites_: Annotated[int, typer.Option("--sites", min=1, help="With --like: how many.")] = 4,
) -> None:
    """Write a federation to start from: four simulated plants, or one like your own rows."""
    console = Console()
    if like is None:
        sites = write_starter(folder)
    elif label is None:
        raise ConfigError("--like needs --label, the column to predict")
    else:
        draft = write_alike(folder, like, label=label, sites=sites_)
        sites = sorted((folder / "sites").iterdir())
        for name, why in draft.left_out.items():
            console.print(f"'{name}' is left out: {why}", highlight=False, soft_wrap=True)
    console.print(f"{len(sites)} sites written to {folder / 'sites'}", highlight=False)
    console.print(
        f"Next: fedlore run {folder / 'federation.toml'} --out {folder / 'results'}",
        highlight=False,
        soft_wrap=True,
    )


def run(
    config: Annotated[Path, typer.Argument(help="A federation.toml, or a folder of sites.")],
    out: Annotated[Path, typer.Option(help="Folder for rows, weights and report.")] = Path(
        "results"
    ),
    threads: Annotated[int, typer.Option(min=1, help="Torch threads; 1 is fastest here.")] = 1,
) -> None:
    """Train and compare approaches on your own files; a finished approach is not run again."""
    torch.set_num_threads(threads)
    console = Console()
    gathering = gather(config)
    check_writable(out / "results.jsonl")
    setting = gathering.setting
    clients = gathering.clients
    console.print(
        f"{setting.name}: {len(clients)} sites, {gathering.size[0]} features, "
        f"{gathering.learned}, {' / '.join(str(len(c.data)) for c in clients)} "
        "training rows.\n",
        highlight=False,
        soft_wrap=True,
    )
    for name in gathering.quiet:
        console.print(
            f"{name} has no knowledge.toml: it takes part as in plain federated learning",
            highlight=False,
            soft_wrap=True,
        )
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(
        TextColumn("{task.description}"), *columns, console=console, transient=True
    ) as progress:
        names = [a.name for a in gathering.approaches]
        bar = progress.add_task(f"{names[0]:8}", total=len(names))

        def on_approach(name: str, fresh: bool) -> None:
            place = names.index(name) + 1
            following = names[place] if place < len(names) else name
            progress.update(bar, completed=place, description=f"{following:8}")

        found = run_federation(gathering, out, on_approach=on_approach)
    _tell(gathering, found, out, console)


def _tell(gathering: Gathering, found: Finished, out: Path, console: Console) -> None:
    for name, reason in found.left_out.items():
        console.print(f"{name} is left out: {reason}", highlight=False, soft_wrap=True)
    if not found.rows:
        return
    console.print(_table(gathering.setting.name, found.rows))
    ours = [row for row in found.rows if row["approach"] == "lore"]
    chosen = next((row["chosen"] for row in ours if row.get("chosen")), None)
    if chosen is not None:
        console.print(f"lore chose: {chosen}", highlight=False, soft_wrap=True)
    if missing_learners() and any(row["approach"] == "own best" for row in found.rows):
        console.print(
            f"own best: {own_best_words()}", highlight=False, soft_wrap=True, markup=False
        )
    _tell_sites(gathering, out, console)
    for name, spent in {str(r["approach"]): r.get("privacy") for r in found.rows}.items():
        if spent:
            console.print(f"{name}: {spent}", highlight=False, soft_wrap=True, markup=False)
    console.print(f"Rows and personal weights written to {out}", highlight=False, soft_wrap=True)
    if find_spec("matplotlib") is None:
        console.print("For a report with plots: pip install 'fedlore[plot]'", markup=False)
        return
    title, facts = (
        gathering.setting.name,
        _facts(gathering, None if chosen is None else str(chosen)),
    )
    if gathering.bins is not None:
        report = write_number_report(found.rows, out, title=title, facts=facts, unit=gathering.unit)
    else:
        report = write_report(
            found.rows,
            out,
            title=title,
            facts=facts,
            confusion=found.confusion,
            history=found.history,
            classes=gathering.schema.classes,
        )
    console.print(f"Report written to {report}", highlight=False, soft_wrap=True)


def _tell_sites(gathering: Gathering, out: Path, console: Console) -> None:
    """What taking part brought each site, and where its private page is."""
    for client in gathering.clients:
        path = brought_path(out, client.id)
        if path.exists():
            told = json.loads(path.read_text(encoding="utf-8"))
            line = f"{client.id}: {told['sentence']} ({write_brought(path)})"
            console.print(line, highlight=False, soft_wrap=True, markup=False)


def _table(name: str, rows: Sequence[Row]) -> Grid:
    sites = list(dict.fromkeys(str(row["client"]) for row in rows))
    number = any("rmse" in row for row in rows)
    scored = "RMSE | violations in %" if number else "test accuracy | violations, %"
    table = Grid(title=f"{name}: {scored}", title_justify="left")
    for column in ("approach", *sites, "mean"):
        table.add_column(column, justify="left" if column == "approach" else "right")
    for approach in dict.fromkeys(str(row["approach"]) for row in rows):
        mine = [row for row in rows if row["approach"] == approach]
        cells = [_cell([row for row in mine if row["client"] == site]) for site in sites]
        table.add_row(approach, *cells, f"[bold]{_cell(mine)}[/bold]")
    return table


def _cell(rows: Sequence[Row]) -> str:
    error = mean_of(rows, "rmse")
    ta = 100 * (mean_of(rows, "ta") or 0.0)
    shown = f"{ta:.1f}" if error is None else f"{error:.4g}"
    known = [float(row["pov"] or 0) for row in rows if row.get("pov") is not None]
    if not known:
        return shown
    pov = 100 * sum(known) / len(known)
    return f"{shown} | {pov:.1f}" if pov else f"{shown} | 0"


def _facts(gathering: Gathering, chosen: str | None) -> dict[str, str]:
    setting, plan = gathering.setting, gathering.setting.plan
    sizes = ", ".join(
        f"{c.id} {len(c.data)} + {0 if c.test is None else len(c.test)}" for c in gathering.clients
    )
    return {
        "own best": own_best_words(),
        "data": f"{gathering.size[0]} features, {gathering.learned}; training + test rows: {sizes}",
        "training": f"{setting.rounds} rounds of {plan.epochs} epochs, batch {plan.batch}, "
        f"learning rate {plan.lr:g}, {setting.algorithm.name}",
        "lore": chosen
        or "fixed, lore 1: the network hears the expert, half of the loss is plain, "
        "λ = 0, no mixture",
        "date": date.today().isoformat(),
    }
