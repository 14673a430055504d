"""fedlore track: a finished folder into a tracker that people have."""

from pathlib import Path
from typing import Annotated

import typer

from ..experiments.trackers import STORE, Tracked, track_folder
from ..federation.settings import TRACKERS
from .screen import Screen, current_screen

__all__ = ["tell_tracker"]


def track(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, a coordinator or a site.")],
    to: Annotated[str, typer.Option(help=f"{' or '.join(TRACKERS)}.")],
    into: Annotated[
        Path | None, typer.Option(help=f"The store's folder; by default FOLDER/{STORE}.")
    ] = None,
) -> None:
    """Record a finished run in MLflow or TensorBoard: parameters, rounds, scores, files."""
    screen = current_screen()
    told = track_folder(folder, to, into)
    tell_tracker(told, to, screen)
    screen.give({"fresh": told.fresh, "known": told.known, "store": told.store})


def tell_tracker(told: Tracked, tracker: str, screen: Screen) -> None:
    """What was written, and how to look at it."""
    were = "was" if told.known == 1 else "were"
    known = f"; {told.known} {were} there already" if told.known else ""
    runs = "1 run" if told.fresh == 1 else f"{told.fresh} runs"
    screen.say(f"Added {runs} to {tracker}'s store {told.store}{known}")
    screen.remark(f"Look at them: {told.hint}")
