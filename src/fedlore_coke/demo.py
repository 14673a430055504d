"""fedlore demo, new and up: four simulated coking plants compared, as files, as processes."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import nn

from fedlore import __version__
from fedlore.algorithms import Plan
from fedlore.cli.federation import CoordinatorFolder, bring_up, need_flower
from fedlore.cli.progress import Gauge
from fedlore.cli.screen import current_screen, explain_stop, show_report
from fedlore.config import build, read_toml
from fedlore.core.history import Row, check_writable, write_rows
from fedlore.core.nets import mlp
from fedlore.engine import Client
from fedlore.errors import ConfigError
from fedlore.experiments import (
    APPROACHES,
    Approach,
    Drawing,
    MeanInterval,
    RowSink,
    check_empty,
    compare,
    effort,
    interval,
    local_best_words,
    pair_interval,
    read_sites,
    write_alike,
)
from fedlore.models.own import missing_learners
from fedlore.report import overview, tables, write_report

from .experts import COKE
from .plants import coking_plants
from .starter import make_trial_here, write_starter


@dataclass(frozen=True)
class Demo:
    """What the demo runs. All approaches get the same start and the same local steps."""

    rounds: int = 40
    hidden: tuple[int, ...] = (64, 64)
    plan: Plan = field(default_factory=lambda: Plan(epochs=5, batch=32, lr=0.05, schedule="cosine"))
    rows: tuple[int, ...] = (40, 60, 80, 110)  # training rows of the four plants
    test_rows: int = 400
    trust: float = 0.3  # λ of every plant
    unseen: float = 3.6  # how much of CSR the experts cannot see, points
    blur: float = 0.0  # extra error of the experts, points of CSR
    slack: float = 1.0  # factor on the width of the ranges
    measured: bool = False  # whether plants learn from the measured CSR, not its grade alone


def plants_of(demo: Demo, seed: int) -> list[Client]:
    """The four simulated plants as clients."""
    plants = coking_plants(
        seed,
        rows=demo.rows,
        test_rows=demo.test_rows,
        trust=demo.trust,
        unseen=demo.unseen,
        blur=demo.blur,
        slack=demo.slack,
    )
    return [
        Client(p.id, p.measured_train, replace(p.knowledge, measured="CSR"), test=p.test)
        if demo.measured
        else Client(p.id, p.train, p.knowledge, test=p.test)
        for p in plants
    ]


def run_demo(
    demo: Demo,
    *,
    seed: int,
    clients: Sequence[Client] | None = None,
    approaches: Sequence[Approach] = APPROACHES,
    on_done: Callable[[str], None] | None = None,
    on_history: RowSink | None = None,
    on_confusion: RowSink | None = None,
) -> list[Row]:
    """Compare all approaches, one row per approach and plant: on simulated plants, or on others."""
    name = "coke" if clients is None else "sites"
    ordered = COKE.ordered if clients is None else None  # of other sites their schemas tell
    clients = plants_of(demo, seed) if clients is None else clients
    features = clients[0].data.x.shape[1]
    classes = clients[0].audit.classes or len(COKE.classes)

    def make_model(hears: bool) -> nn.Module:
        return mlp(features, classes, hidden=demo.hidden, hears=hears, seed=seed)

    drawing = Drawing(clients, make_model, demo.plan, demo.rounds, seed, ordered=ordered)
    rows = compare(
        drawing, approaches, on_done=on_done, on_history=on_history, on_confusion=on_confusion
    )
    return [{"dataset": name, "range": "expert", **row} for row in rows]


def means(rows: Iterable[Row], metric: str) -> dict[str, list[float]]:
    """Per approach, the mean of a metric over clients, one value for each seed in order."""
    cells: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        by_seed = cells.setdefault(str(row["approach"]), {})
        by_seed.setdefault(int(row["seed"] or 0), []).append(float(row[metric] or 0.0))
    return {
        name: [sum(values) / len(values) for _, values in sorted(by_seed.items())]
        for name, by_seed in cells.items()
    }


def margins(rows: Sequence[Row], of: str = "lore") -> dict[str, MeanInterval]:
    """TA of one approach minus every other's, paired by seed."""
    by_approach = means(rows, "ta")
    ours = by_approach[of]
    return {name: pair_interval(ours, theirs) for name, theirs in by_approach.items() if name != of}


def verdict(rows: Sequence[Row]) -> str:
    """What a site has on its own, and what knowledge and federation each add, win or lose."""
    ta = {name: 100 * interval(values).mean for name, values in means(rows, "ta").items()}
    pov = {name: 100 * interval(values).mean for name, values in means(rows, "pov").items()}
    alone, shared = ta["ML"], ta["FL"]
    changes = {"MLwKM": ta["MLwKM"] - alone}
    changes |= {name: ta[name] - shared for name in ("FLwKM", "FL+mask", "lore")}
    helped = [f"{name} ({gain:+.1f})" for name, gain in changes.items() if gain > 0]
    failed = [f"{name} ({gain:+.1f})" for name, gain in changes.items() if gain <= 0]
    parts = [
        f"Federation of the same network moved accuracy by {shared - alone:+.1f} points "
        f"(ML {alone:.1f} %, FL {shared:.1f} %)"
    ]
    if helped:
        parts.append(f"knowledge helped {_list_names(helped)}")
    if failed:
        parts.append(f"knowledge did not help {_list_names(failed)}")
    sentence = "; ".join(parts) + " against the same training without it"
    kept = all(pov[a.name] == 0.0 for a in APPROACHES if a.guarded)
    broke = f"without it {pov['ML']:.1f} % (ML) and {pov['FL']:.1f} % (FL) did"
    bound = "no prediction left the range" if kept else "predictions LEFT the range"
    return f"{_baseline(rows, ta)} {sentence}; with the range {bound}, {broke}."


def _baseline(rows: Sequence[Row], ta: dict[str, float]) -> str:
    """The honest baseline first: what each site gets alone, who is below it, and lore's place."""
    own, ours = ta["local best"], ta["lore"]
    gap = margins(rows)["local best"]
    chance = "" if math.isnan(gap.half) else f", {100 * gap.low:+.1f} to {100 * gap.high:+.1f}"
    below = [name for name, value in ta.items() if value < own]
    said = [
        f"On its own, a site's best model is right on {own:.1f} % of its test rows; with the "
        f"federation (lore) {ours:.1f} % ({ours - own:+.1f}{chance})"
    ]
    if below:
        verb = "does" if len(below) == 1 else "do"
        said.append(f"{_list_names(below)} {verb} worse than a site on its own")
    return "; ".join(said) + "."


def _list_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def demo(
    out: Annotated[Path, typer.Option(help="Folder for rows and report.")] = Path("demo-results"),
    seed: Annotated[int, typer.Option(help="First seed; same seed, same numbers.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; above 1 adds intervals.")] = 1,
    config: Annotated[Path | None, typer.Option(help="TOML file with changed settings.")] = None,
    sites: Annotated[Path | None, typer.Option(help="Use these site folders instead.")] = None,
    threads: Annotated[int, typer.Option(min=1, help="Torch threads; 1 is fastest here.")] = 1,
) -> None:
    """Compare eight approaches on four simulated coking plants, in half a minute."""
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
    if like is None and label is not None:
        raise ConfigError("--label needs --like, your own rows: fedlore new FOLDER --like ROWS.csv")
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
