"""fedlore demo, new and up: four simulated coking plants compared, as files, as processes."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated

import torch
import typer

from fedlore import __version__
from fedlore.cli.federation import CoordinatorFolder, bring_up, need_flower
from fedlore.cli.progress import Gauge
from fedlore.cli.screen import current_screen, explain_stop, show_report
from fedlore.config import build, read_toml
from fedlore.core.history import Row, check_writable, write_rows
from fedlore.engine import Client
from fedlore.errors import ConfigError
from fedlore.experiments import (
    APPROACHES,
    check_empty,
    effort,
    local_best_words,
    read_sites,
    write_alike,
)
from fedlore.models.own import missing_learners
from fedlore.report import overview, tables, write_report

from ..demo import Demo, run_demo, verdict
from ..starter import make_trial_here, write_starter


def demo(
    out: Annotated[Path, typer.Option(help="Folder for rows and report.")] = Path("demo-results"),
    seed: Annotated[int, typer.Option(help="First seed; same seed, same numbers.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; above 1 adds intervals.")] = 1,
    config: Annotated[Path | None, typer.Option(help="TOML file with changed settings.")] = None,
    sites: Annotated[Path | None, typer.Option(help="Use these site folders instead.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Torch threads; 1 is fastest here.")] = 1,
) -> None:
    """Compare eight approaches on four simulated coking plants, in about a minute."""
    setting = Demo() if config is None else build(Demo, read_toml(config))
    results = out / "results.jsonl"
    check_writable(results)
    torch.set_num_threads(threads)
    screen = current_screen()
    clients = None if sites is None else read_sites(sites)
    data = _data(setting, clients, sites)
    screen.remark(f"{data[0].upper()}{data[1:]}.\n")
    rows: list[Row] = []
    history: list[Row] = []
    confusion: list[Row] = []
    kept = "nothing was kept, the demo writes at its end; fedlore run goes on where it was stopped"
    steps = [(approach.name, effort(approach)) for approach in APPROACHES] * seeds
    with explain_stop(kept), Gauge(screen, "approach", steps) as gauge:
        for one in range(seed, seed + seeds):
            rows += run_demo(
                setting,
                seed=one,
                clients=clients,
                on_done=gauge.advance,
                on_history=history.extend,
                on_confusion=confusion.extend,
            )
        write_rows(rows, results)
    what = "Simulated coke" if clients is None else "Sites"
    over = f", mean of {seeds} seeds" if seeds > 1 else ""
    screen.show(overview(f"{what}{over}", rows))
    if seeds > 1:
        screen.show(*(table for table in tables(rows) if "minus" in table.title))
    screen.say(f"\n{verdict(rows)}")
    if missing_learners():
        screen.remark(f"local best: {local_best_words()}")
    screen.remark(f"Rows written to {results}")
    named = "four simulated coking plants" if sites is None else sites.name
    report = show_report(
        screen,
        lambda: write_report(
            rows,
            out,
            title=f"fedlore demo: {named}",
            facts=_facts(setting, rows, data),
            confusion=confusion,
            history=history,
        ),
    )
    screen.give({"rows": rows, "verdict": verdict(rows), "results": results, "report": report})


def _data(setting: Demo, clients: Sequence[Client] | None, sites: Path | None) -> str:
    if clients is not None:
        sizes = " / ".join(str(len(client.data)) for client in clients)
        return f"{len(clients)} sites of {sites}, {sizes} training rows"
    return (
        "four coking plants, 17 coal features, 20 coke grades, "
        f"{' / '.join(map(str, setting.rows))} training rows; all data are simulated"
    )


def _facts(setting: Demo, rows: Sequence[Row], data: str) -> dict[str, str]:
    plan = setting.plan
    chosen = {row["seed"]: str(row["chosen"]) for row in rows if row["approach"] == "lore"}
    return {
        "in short": verdict(rows),
        "local best": local_best_words(),
        "data": data,
        "training": f"{setting.rounds} rounds of {plan.epochs} epochs, batch {plan.batch}, "
        f"learning rate {plan.lr:g}, the same for every approach",
        "trust λ": f"{setting.trust:g}",
        "lore": f"chosen by trials on training rows: {'; '.join(dict.fromkeys(chosen.values()))}",
        "date": date.today().isoformat(),
        "versions": f"fedlore {__version__}, torch {torch.__version__}",
    }


def new(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    like: Annotated[Path | None, typer.Option(help="Your own rows, dealt to sites.")] = None,
    label: Annotated[str | None, typer.Option(help="With --like: the column to predict.")] = None,
    sites_: Annotated[int, typer.Option("--sites", min=1, help="With --like: how many sites.")] = 4,
) -> None:
    """Write a federation to start from: four simulated plants, or one like your own rows."""
    screen, left_out = current_screen(), dict[str, str]()
    if like is None:
        sites = write_starter(folder)
    elif label is None:
        raise ConfigError("--like needs --label, the column to predict")
    else:
        draft = write_alike(folder, like, label=label, sites=sites_)
        sites = sorted((folder / "sites").iterdir())
        left_out = dict(draft.left_out)
        for name, why in left_out.items():
            screen.say(f"'{name}' is left out: {why}")
    screen.say(f"{len(sites)} sites written to {folder / 'sites'}")
    screen.remark(f"Next: fedlore run {folder / 'federation.toml'} --out {folder / 'results'}")
    screen.give({"folder": folder, "sites": [s.name for s in sites], "left_out": left_out})


def up(
    folder: CoordinatorFolder,
    sites: Annotated[int, typer.Option(help="Plants in a new folder.")] = 4,
    rounds: Annotated[int, typer.Option(help="Rounds in a new folder.")] = 10,
    resume: Annotated[bool, typer.Option(help="Resume after the last journalled round.")] = False,
    recipe: Annotated[
        str, typer.Option(help="lore or none, in a new folder; lore takes longer.")
    ] = "none",
) -> None:
    """Run a whole federation on this machine: server, sites and one training."""
    need_flower()
    if not (folder / "federation.toml").exists():
        check_empty(folder)
        make_trial_here(folder, sites=sites, rounds=rounds, recipe=recipe)
        current_screen().say(f"made '{folder}' with {sites} simulated coking plants")
    bring_up(folder, resume=resume)
