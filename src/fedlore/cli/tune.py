"""fedlore tune: every site finds out for itself how far its expert can be trusted."""

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from ..core.store import write_whole
from ..engine.tuning import Trust, Tuning, tune
from ..errors import FedloreError
from ..experiments.sites import gather, site_folders
from ..look.tables import TextTable
from ..models.client import Member
from .progress import Gauge
from .screen import current_screen, explain_stop


def tune_sites(
    config: Annotated[Path, typer.Argument(help="A federation.toml, or a folder of sites.")],
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 3,
    write: Annotated[
        bool, typer.Option("--write", help="Put each λ into the site's knowledge.toml.")
    ] = False,
    threads: Annotated[int, typer.Option(min=1, help="Torch threads; 1 is fastest here.")] = 1,
) -> None:
    """Let each site choose its trust λ on its own rows; nothing about them leaves the site."""
    torch.set_num_threads(threads)
    gathering = gather(config)
    setting = gathering.setting
    screen = current_screen()
    kept = "nothing was kept or written; run the same command to start again"
    with explain_stop(kept), Gauge(screen, "training") as gauge:

        def on_training(done: int, total: int) -> None:
            gauge.step("λ", done, total)

        clients: Sequence[Member[Any]] = gathering.clients
        found = tune(
            clients,
            gathering.train,
            tuning=Tuning(folds=folds),
            seed=setting.seed,
            on_training=on_training,
        )
    screen.show(_table([c.id for c in gathering.clients], found, gathering.bins is not None))
    if any(approach.chosen for approach in gathering.approaches):
        screen.remark("These λ are for FLwKM and the like; lore weighs the expert by itself, with")
        screen.remark("at least the least_trust of a knowledge.toml.")
    if write:
        for folder in site_folders(config):
            if folder.name in found:
                write_trust(folder / "knowledge.toml", found[folder.name])
        screen.say(f"Written to the knowledge.toml of {len(found)} sites.")
    else:
        screen.remark("Nothing was written; --write puts them into each knowledge.toml.")
    screen.give({"sites": found, "written": write})


def write_trust(path: Path, chosen: Trust) -> None:
    """Both λ in a knowledge.toml, everything else as it stands."""
    try:
        text = path.read_text(encoding="utf-8")
        rows = isinstance(tomllib.loads(text).get("trust"), dict)
        write_whole(path, _with_row_trust(text, chosen) if rows else _with_trust(text, chosen))
    except OSError as error:
        raise FedloreError(f"cannot write to '{path}': {error.strerror}") from None


def _with_trust(text: str, chosen: Trust) -> str:
    """A document with other values of trust and reliance at its top.

    >>> print(_with_trust('trust = 0.3 # old\\nlabel = "y"\\n', Trust(0.0, 0.15, 0.9, 40)), end="")
    trust = 0.0  # old
    reliance = 0.15
    label = "y"
    """
    table = re.search(r"^\s*\[", text, re.MULTILINE)  # keys below the first table are others
    top, rest = (text, "") if table is None else (text[: table.start()], text[table.start() :])
    notes: dict[str, str] = {}  # what a person wrote behind the numbers

    def drop(line: re.Match[str]) -> str:
        if line[2]:
            notes["trust" if line[1] == "trust" else "reliance"] = f"  {line[2]}"
        return ""

    wanted = r"^[ \t]*(trust|reliance)[ \t]*=[^#\n]*(#.*)?\n?"
    top = re.sub(wanted, drop, top, flags=re.MULTILINE)
    lines = "".join(
        f"{name} = {round(value, 4)!r}{notes.get(name, '')}\n"
        for name, value in (("trust", chosen.trust), ("reliance", chosen.reliance))
    )
    return f"{lines}{top}{rest}"


def _with_row_trust(text: str, chosen: Trust) -> str:
    """A document with another one number, and what was learned of single rows, in its [trust].

    >>> text = '[trust]\\nvalue = 0.3\\nfeatures = ["ash"]\\n'
    >>> print(_with_row_trust(text, Trust(0.0, 0.15)), end="")
    reliance = 0.15
    [trust]
    value = 0.0
    features = ["ash"]
    """
    if re.search(r"^[ \t]*\[trust\]", text, re.MULTILINE) is None:
        text = re.sub(r"^([ \t]*\[\[trust\.)", r"[trust]\n\1", text, count=1, flags=re.MULTILINE)
    whole = re.compile(r"^([ \t]*\[trust\][^\n]*\n)((?:(?![ \t]*\[).*\n?)*)", re.MULTILINE)
    learned = f"formula = {json.dumps(chosen.formula)}\n" if chosen.formula else ""

    def fill(table: re.Match[str]) -> str:
        kept = re.sub(r"^[ \t]*(value|formula)[ \t]*=[^\n]*\n?", "", table[2], flags=re.MULTILINE)
        return f"{table[1]}value = {round(chosen.trust, 4)!r}\n{learned}{kept}"

    changed = whole.sub(fill, text, count=1)
    top = re.match(r"(?:(?!\s*\[).*\n?)*", changed)
    before = top[0] if top is not None else ""
    rest = changed[len(before) :]
    before = re.sub(r"^[ \t]*reliance[ \t]*=[^\n]*\n?", "", before, flags=re.MULTILINE)
    changed = f"reliance = {round(chosen.reliance, 4)!r}\n{before}{rest}"
    said = tomllib.loads(changed)
    if said["trust"].get("formula", "") != chosen.formula or "value" not in said["trust"]:
        raise FedloreError("λ of single rows is written below a line [trust], which is not there")
    return changed


def _table(clients: Sequence[str], found: dict[str, Trust], number: bool) -> TextTable:
    scored = "RMSE on held-out rows" if number else "right on held-out rows"
    rows = []
    for client in clients:
        mine = found.get(client)
        if mine is None:
            rows.append((client, "kept", "kept", "no expert, or too few rows", ""))
        else:
            at = "row by row" if mine.formula else f"{mine.reliance:.2f}"
            score = f"{100 * mine.ta:.1f} %" if mine.rmse is None else f"{mine.rmse:.4g}"
            rows.append((client, f"{mine.trust:.2f}", at, score, str(mine.rows)))
    head = ("site", "in training", "at prediction", scored, "rows")
    return TextTable.of("λ that each site chose for itself", head, rows)
