"""fedlore server, train, up: sites on several machines."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import FedloreError
from .screen import Grid
from .teller import keeping, teller
from .watching import (
    JsonLogOption,
    LevelOption,
    PageOption,
    TokenOption,
    page_beside,
    telling,
)

if TYPE_CHECKING:
    from ..federation.coordinator.reports import Reports
    from ..federation.processes import Stop

__all__ = ["CoordinatorFolder", "bring_up", "need_flower"]

CoordinatorFolder = Annotated[Path, typer.Argument(help="The coordinator's folder.")]


def need_flower() -> None:
    """flwr takes seconds to load and is not in the core: only these commands touch it."""
    missing = [name for name in ("flwr", "cryptography") if not importlib.util.find_spec(name)]
    if missing:
        raise FedloreError(f"{missing[0]} is missing: pip install 'fedlore[flower]'")
    from ..federation.processes import spare_loopback

    spare_loopback()


def end_service(stop: "Stop", kept: str) -> None:
    """Nothing more to say after SIGTERM; after Ctrl-C a sentence, and its exit code."""
    if stop.typed:
        with keeping(kept):
            raise KeyboardInterrupt


def server_command(
    folder: CoordinatorFolder,
    insecure: Annotated[bool, typer.Option(help="No TLS; loopback addresses only.")] = False,
    page: PageOption = "auto",
    token_file: TokenOption = None,
    log_level: LevelOption = "info",
    log_json: JsonLogOption = False,
) -> None:
    """Run the coordinator's server, and a page to watch it by, until Ctrl-C."""
    need_flower()
    from ..federation.coordinator.server import serve_federation
    from ..federation.processes import stopping

    told, form = telling(log_level, as_json=log_json)
    with stopping() as stop, page_beside(folder, page, token_file=token_file, told=told):
        serve_federation(folder, insecure=insecure, stop=stop, told=told, form=form)
    told("server stopped")
    end_service(
        stop,
        f"enrolment and journal are kept in {folder}; fedlore server {folder} starts it again, "
        f"fedlore train {folder} --resume goes on with a training",
    )


def train_command(
    folder: CoordinatorFolder,
    resume: Annotated[bool, typer.Option(help="Go on after the last journalled round.")] = False,
) -> None:
    """Train, with a line per round and for every site in trouble."""
    need_flower()
    from ..federation.coordinator.training import train_federation as run_all
    from ..federation.processes import interrupting

    with keeping(lambda: _kept(folder, "train")), interrupting() as stop:
        run = run_all(folder, resume=resume, reports=_reports(folder, stop))
    _say_finished(folder, run.round)


def _kept(folder: Path, command: str) -> str:
    """Up to which round a training is journalled."""
    from ..federation.coordinator.status import read_status

    try:
        done = read_status(folder)["round"]
    except FedloreError:
        done = 0
    if not done:
        return f"no round was finished; fedlore {command} {folder} begins anew"
    return f"round {done} is journalled in {folder}; fedlore {command} {folder} --resume goes on"


def _reports(folder: Path, stop: "Stop") -> "Reports":
    from ..federation.coordinator.reports import Reports
    from ..federation.settings import read_deployed

    rounds, say = read_deployed(folder).rounds, teller().say
    answers: list[tuple[str, float]] = []

    def notice(found: object) -> None:
        from ..federation.remote import Notice

        assert isinstance(found, Notice)
        if found.what != "reply":
            reason = f": {found.detail}" if found.detail else ""
            say(f"  {found.site}: {found.kind} of round {found.round} {found.what}{reason}")
        elif found.kind == "train":
            answers.append((found.site, found.seconds))

    def round(run: object, seconds: float) -> None:
        from ..engine import Run

        assert isinstance(run, Run)
        row = next(r for r in reversed(run.rows) if "merged" in r)
        times = ", ".join(f"{site} {took:.1f} s" for site, took in sorted(answers))
        answers.clear()
        say(
            f"round {run.round}/{rounds}: {row['merged']} of {row['asked']} sites merged in "
            f"{seconds:.1f} s ({times})"
        )

    return Reports(say, notice, round, stop)


def _say_finished(folder: Path, rounds: int) -> None:
    from ..federation.coordinator.status import read_status

    table = Grid(title=f"Scores after round {rounds}, as the sites report them")
    rows = read_status(folder)["scores"]
    names = list(dict.fromkeys(key for row in rows for key in row if key != "round"))
    for key in names:
        table.add_column(key, justify="left" if key == "client" else "right")
    for row in rows:
        table.add_row(*(_cell(row.get(key)) for key in names))
    told = teller()
    told.show(table)
    found = read_status(folder)
    for line in found.get("privacy", ()):
        told.say(line)
    shared = folder / "shared.weights"
    told.remark(f"Shared weights: {shared}; each site holds its own personal.weights.")
    told.give({**found, "shared": shared})


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else str(value)


def bring_up(folder: Path, *, resume: bool = False) -> None:
    """Start the server and all sites of a folder on this machine, train once, show the scores."""
    need_flower()
    from ..federation.coordinator.training import train_federation as run_all
    from ..federation.household import run_household
    from ..federation.processes import interrupting

    with (
        keeping(lambda: _kept(folder, "up")),
        interrupting() as stop,
        run_household(folder, say=teller().say),
    ):
        run = run_all(folder, resume=resume, reports=_reports(folder, stop))
    _say_finished(folder, run.round)
