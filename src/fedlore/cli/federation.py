"""fedlore server, train, status, up: sites on several machines."""

import importlib.util
import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import FedloreError
from .screen import Grid
from .teller import keeping, teller

if TYPE_CHECKING:
    from ..federation.coordinator.reports import Reports
    from ..federation.processes import Stop

CoordinatorFolder = Annotated[Path, typer.Argument(help="The coordinator's folder.")]


def need_flower() -> None:
    """flwr takes seconds to load and is not in the core: only these commands touch it."""
    missing = [name for name in ("flwr", "cryptography") if not importlib.util.find_spec(name)]
    if missing:
        raise FedloreError(f"{missing[0]} is missing: pip install 'fedlore[flower]'")


def end_service(stop: "Stop", kept: str) -> None:
    """Nothing more to say after SIGTERM; after Ctrl-C a sentence, and its exit code."""
    if stop.typed:
        with keeping(kept):
            raise KeyboardInterrupt


def server_command(
    folder: CoordinatorFolder,
    insecure: Annotated[bool, typer.Option(help="No TLS; loopback addresses only.")] = False,
) -> None:
    """Run the coordinator's server until Ctrl-C."""
    need_flower()
    from ..federation.coordinator.server import serve_federation
    from ..federation.processes import stopping

    told = teller()
    with stopping() as stop:
        serve_federation(folder, insecure=insecure, stop=stop, told=told.say)
    told.say("server stopped")
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

    signal.signal(signal.SIGTERM, _interrupt)
    with keeping(lambda: _kept(folder, "train")):
        run = run_all(folder, resume=resume, reports=_reports(folder))
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


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _reports(folder: Path) -> "Reports":
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

    return Reports(say, notice, round)


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


def status(folder: CoordinatorFolder) -> None:
    """Where a training stands, and which sites are here."""
    need_flower()
    from ..federation.coordinator.server import link_of
    from ..federation.coordinator.status import read_status
    from ..federation.kits.certificates import raw_key
    from ..federation.kits.making import enrolled_keys
    from ..federation.remote import LinkLost

    found = dict(read_status(folder))
    try:
        here = link_of(folder).online()
        online = {
            name: here.get(raw_key(key), False) for name, key in enrolled_keys(folder).items()
        }
    except LinkLost:
        online = {}
    found |= {"server": bool(online), "online": sorted(n for n, is_in in online.items() if is_in)}
    told = teller()
    told.give(found)
    where = "is up" if online else "does not answer"
    told.say(f"{found['state']}: round {found['round']} of {found['rounds']}; the server {where}")
    if "reason" in found:
        told.say(str(found["reason"]))
    for line in found.get("privacy", ()):
        told.say(line)
    table = Grid()
    for heading in (
        "site",
        "here",
        "last round",
        "answers",
        "rejected",
        "refused",
        "silent",
        "note",
    ):
        table.add_column(heading, overflow="fold")
    for name, site in found["sites"].items():
        counts = site["counts"]
        said = [counts[key] for key in ("reply", "rejected", "refused", "silent")]
        is_here = "yes" if online.get(name) else "no"
        table.add_row(name, is_here, str(site["round"]), *map(str, said), site["note"])
    told.show(table)


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
    from ..coke.together import together
    from ..federation.coordinator.training import train_federation as run_all

    signal.signal(signal.SIGTERM, _interrupt)
    with (
        keeping(lambda: _kept(folder, "up")),
        together(folder, sites=sites, rounds=rounds, told=teller().say, recipe=recipe),
    ):
        run = run_all(folder, resume=resume, reports=_reports(folder))
    _say_finished(folder, run.round)
