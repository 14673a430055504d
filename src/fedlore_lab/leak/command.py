"""fedlore leak: what a curious coordinator could read from the uploads, with a number on it."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import torch
import typer

from fedlore.cli.progress import Gauge
from fedlore.cli.screen import current_screen, explain_stop
from fedlore.core.history import Row
from fedlore.errors import ConfigError
from fedlore.experiments import package_versions
from fedlore.look.tables import TextTable

from .attacks import ATTACKS
from .audit import CASES, audit, draw_case, of_sites
from .page import LeakLine, leak_verdict, lines, write_leaks
from .settings import DEFAULT, SETTINGS, LeakSetting, settings_named

SHORT = {"own union": "own", "frequency": "freq", "trust": "λ"}


def leak_command(
    case: Annotated[str, typer.Option(help=f"{' or '.join(CASES)}.")] = "coke",
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds; better 3 or more.")] = 5,
    seed: Annotated[int, typer.Option(help="First seed.")] = 0,
    settings: Annotated[
        str, typer.Option(help=f"Separated by semicolons: {'; '.join(s.name for s in SETTINGS)}.")
    ] = "",
    sites: Annotated[
        Path | None, typer.Option(help="Audit these site folders, or a federation.toml.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for rows, tables and page; finished parts are kept.")
    ] = Path("leak-results"),  # fmt: skip
    threads: Annotated[int, typer.Option(min=1, help="Torch threads; 1 is fastest here.")] = 1,
) -> None:
    """Attack what the coordinator sees of a training run, setting by setting."""
    torch.set_num_threads(threads)
    named = [name.strip() for name in settings.split(";") if name.strip()]
    chosen = settings_named(named)
    if sites is None:
        draw, name = draw_case(case), case
    elif sites.exists():
        draw, name = of_sites(sites), "sites"
    else:
        raise ConfigError(f"there is no '{sites}'")
    screen = current_screen()
    if not named and find_spec("cryptography") is None:
        chosen = [one for one in chosen if not one.masked]
        screen.remark(f"Without '{DEFAULT}', which needs: pip install 'fedlore[secagg]'")
    done = 0
    with explain_stop(lambda: _kept(done, out)), Gauge(screen, "setting") as gauge:
        gauge.step("drawing", 0, seeds * len(chosen))

        def on_cell(what: str, at: int) -> None:
            nonlocal done
            done += 1
            gauge.step(f"{what}, seed {at}", done, seeds * len(chosen))

        rows = audit(
            name, draw, settings=chosen, seeds=range(seed, seed + seeds), out=out, on_cell=on_cell
        )
    found = lines(rows)
    screen.show(_table(found, name, seeds))
    screen.say(
        "Leaks: 0 is chance, 1 exact; * at chance (95 % interval reaches 0); - nothing to find."
    )
    screen.say(leak_verdict(found))
    screen.remark(f"Rows: {out / f'leak-{name}.jsonl'}")
    page = None
    if find_spec("matplotlib") is None:
        screen.remark("For a page with plots: pip install 'fedlore[plot]'")
    else:
        title = f"Leak audit: {name}"
        page = write_leaks(rows, out, title=title, facts=_facts(rows, found, chosen))
        screen.remark(f"Page: {page}")
    screen.give({"verdict": leak_verdict(found), "lines": found, "rows": rows, "page": page})


def _kept(done: int, out: Path) -> str:
    seen = f"{done} settings were looked at and are kept in {out / 'cells'}"
    return f"{seen}; run the same command to continue"


def _table(found: Sequence[LeakLine], name: str, seeds: int) -> TextTable:
    rows = []
    for line in found:
        leaks = [line.leaks[attack] for attack in ATTACKS]
        cells = ["-" if o is None else f"{o.score:.2f}{'*' if o.at_chance else ' '}" for o in leaks]
        shown = [cell.replace("-0.00", "0.00") for cell in cells]
        rows.append([line.setting.name, f"{100 * line.ta.mean:.1f}", *shown])
    head = ("setting", "TA %", *(SHORT.get(attack, attack) for attack in ATTACKS))
    return TextTable.of(f"{name}: leaks and accuracy, {seeds} seeds", head, rows)


def _facts(
    rows: Sequence[Row], found: Sequence[LeakLine], chosen: Sequence[LeakSetting]
) -> dict[str, str]:
    seeds = list(dict.fromkeys(str(row["seed"]) for row in rows))
    sites = list(dict.fromkeys(str(row["site"]) for row in rows))
    return {
        "in short": leak_verdict(found),
        "sites": ", ".join(sites),
        "seeds": ", ".join(seeds),
        "settings": str(len(chosen)),
        "versions": package_versions(),
    }
