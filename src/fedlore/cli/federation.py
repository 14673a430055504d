"""fedlore federation, server, join, train, status, doctor, up: sites on several machines."""

import importlib.util
import json
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from ..errors import FedloreError
from .screen import Grid

if TYPE_CHECKING:
    from ..federation.coordinator.training import Reports

federation_app = typer.Typer(help="Set up a federation of sites and hand out their kits.")

_Folder = Annotated[Path, typer.Argument(help="The coordinator's folder.")]
Dir = Annotated[Path, typer.Option("--dir", help="The coordinator's folder.")]


def need_flower() -> None:
    """flwr takes seconds to load and is not in the core: only these commands touch it."""
    missing = [name for name in ("flwr", "cryptography") if not importlib.util.find_spec(name)]
    if missing:
        raise FedloreError(f"{missing[0]} is missing: pip install 'fedlore[flower]'")


def say(line: str) -> None:
    Console(highlight=False, soft_wrap=True).print(line, markup=False)
    sys.stdout.flush()


@federation_app.command("init")
def init_(
    folder: _Folder,
    address: Annotated[str, typer.Option(help="host:port where sites reach it.")],
    schema: Annotated[Path, typer.Option(help="A knowledge.toml with features and classes.")],
    name: Annotated[str, typer.Option(help="The federation's name.")] = "federation",
    days: Annotated[int, typer.Option(help="How long its certificates hold.")] = 365,
) -> None:
    """Make a coordinator's folder: federation.toml, an authority, a server certificate."""
    need_flower()
    from ..federation.kits.making import init
    from ..knowledge.either import is_number_file
    from ..knowledge.files import read_document
    from ..knowledge.numbers.files import read_number_document

    if is_number_file(schema):
        told = read_number_document(schema)
        init(folder, name=name, address=address, schema=told.schema, target=told.target, days=days)
    else:
        init(folder, name=name, address=address, schema=read_document(schema).schema, days=days)
    say(f"Wrote {folder / 'federation.toml'}: look it over, then add sites.")


@federation_app.command("add-site")
def add_site_(name: str, folder: Dir = Path(".")) -> None:
    """Enrol a site and make its kit."""
    need_flower()
    from ..federation.kits.making import add_site

    _kit_made(name, add_site(folder, name))


@federation_app.command("remove-site")
def remove_site_(name: str, folder: Dir = Path(".")) -> None:
    """Shut a site out; a running server notices within seconds."""
    need_flower()
    from ..federation.kits.making import remove_site

    remove_site(folder, name)
    say(f"Site {name} is shut out.")


@federation_app.command("renew")
def renew_(
    name: Annotated[str | None, typer.Argument(help="A site; none: the server.")] = None,
    folder: Dir = Path("."),
    days: Annotated[int, typer.Option(help="How long the new certificates hold.")] = 365,
    authority: Annotated[bool, typer.Option(help="A new authority, too.")] = False,
) -> None:
    """A new key for a site, or a new certificate for the server, or a new authority."""
    need_flower()
    from ..federation.kits.certificates import check_dates
    from ..federation.kits.making import renew_site
    from ..federation.kits.renewing import renew_authority, renew_server

    if name is not None:
        _kit_made(name, renew_site(folder, name))
        return
    try:
        check_dates(folder / "ca.crt")
    except FedloreError as error:
        say(str(error).partition(":")[0])
        authority = True
    if not authority:
        renew_server(folder, days=days)
        say("The server has a new certificate; a running one takes it by itself.")
    elif renew_authority(folder, days=days):
        say("There is a new authority beside the old one. Sites learn of it when they next start;")
        say("when all have, and before the old one ends: fedlore federation renew")
    else:
        say("There is a new authority, and the server has a certificate of it.")
        say(f"Hand {folder / 'ca.crt'} to the sites, each puts it into its folder; all else stays.")


@federation_app.command("key")
def key_(
    kit: Annotated[Path, typer.Argument(help="A kit, as archive or folder.")],
    filter: Annotated[str, typer.Option(help="The filter whose key it is.")] = "ckks",
) -> None:
    """Make the key that all sites share under encryption = "ckks", at one of them."""
    need_flower()
    from ..federation.kits.making import unpack
    from ..federation.site.folder import read_kit
    from ..privacy.settings import share_secret

    path, name = share_secret(filter, read_kit(unpack(kit)).place())
    say(f"Wrote {path}, key {name}.")
    say("Hand it to the other sites by a safe way, into their kits, and never to the coordinator.")


def _kit_made(name: str, kit: Path) -> None:
    say(f"Wrote {kit}: it holds the private key of {name}.")
    say("Hand it over by a safe way and delete it here; there: fedlore join " + kit.name)


def server_command(
    folder: _Folder,
    insecure: Annotated[bool, typer.Option(help="No TLS; loopback addresses only.")] = False,
) -> None:
    """Run the coordinator's server until Ctrl-C."""
    need_flower()
    from ..federation.coordinator.server import serve_federation
    from ..federation.processes import stopping

    with stopping() as stop:
        serve_federation(folder, insecure=insecure, stop=stop, told=say)
    say("server stopped")


def train_command(
    folder: _Folder,
    resume: Annotated[bool, typer.Option(help="Go on after the last journalled round.")] = False,
) -> None:
    """Train, with a line per round and for every site in trouble."""
    need_flower()
    from ..federation.coordinator.training import train_federation as run_all

    signal.signal(signal.SIGTERM, _interrupt)
    run = run_all(folder, resume=resume, reports=_reports(folder))
    _say_finished(folder, run.round)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _reports(folder: Path) -> "Reports":
    from ..federation.coordinator.training import Reports
    from ..federation.settings import read_deployed

    rounds = read_deployed(folder).rounds
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
    Console().print(table)
    for line in read_status(folder).get("privacy", ()):
        say(line)
    say(f"Shared weights: {folder / 'shared.weights'}; each site holds its own personal.weights.")


def _cell(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else "" if value is None else str(value)


def status(
    folder: _Folder,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
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
    if as_json:
        print(json.dumps(found, indent=2))
        return
    where = "is up" if online else "does not answer"
    say(f"{found['state']}: round {found['round']} of {found['rounds']}; the server {where}")
    if "reason" in found:
        say(str(found["reason"]))
    for line in found.get("privacy", ()):
        say(line)
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
        told = [counts[key] for key in ("reply", "rejected", "refused", "silent")]
        is_here = "yes" if online.get(name) else "no"
        table.add_row(name, is_here, str(site["round"]), *map(str, told), site["note"])
    Console().print(table)


def up(
    folder: _Folder,
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
    with together(folder, sites=sites, rounds=rounds, told=say, recipe=recipe):
        run = run_all(folder, resume=resume, reports=_reports(folder))
    _say_finished(folder, run.round)
