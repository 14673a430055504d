"""fedlore new and fedlore up: simulated plants as files, and as a federation of processes."""

from pathlib import Path
from typing import Annotated

import typer

from fedlore.cli.federation import CoordinatorFolder, bring_up, need_flower
from fedlore.cli.screen import current_screen
from fedlore.errors import ConfigError
from fedlore.experiments import check_empty, write_alike

from ..starter import write_starter
from ..trial import make_trial_here


def new(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    like: Annotated[Path | None, typer.Option(help="Rows of your own to deal to sites.")] = None,
    label: Annotated[str | None, typer.Option(help="With --like: the column to predict.")] = None,
    sites_: Annotated[int, typer.Option("--sites", min=1, help="With --like: how many.")] = 4,
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
    sites: Annotated[int, typer.Option(help="Plants, in a folder that is made anew.")] = 4,
    rounds: Annotated[int, typer.Option(help="Rounds, in a folder that is made anew.")] = 10,
    resume: Annotated[bool, typer.Option(help="Go on after the last journalled round.")] = False,
    recipe: Annotated[
        str, typer.Option(help="lore or none, in a folder that is made anew; lore takes longer.")
    ] = "none",
) -> None:
    """A whole federation on this machine: server, sites and one training."""
    need_flower()
    if not (folder / "federation.toml").exists():
        check_empty(folder)
        make_trial_here(folder, sites=sites, rounds=rounds, recipe=recipe)
        current_screen().say(f"made '{folder}' with {sites} simulated coking plants")
    bring_up(folder, resume=resume)
