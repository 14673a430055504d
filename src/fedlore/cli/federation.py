"""fedlore federation, server and train: sites on several machines."""

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import FedloreError
from .options import JsonLogOption, LevelOption, PageOption, TokenOption, log_lines, page_beside
from .screen import Grid, current_screen, explain_stop

if TYPE_CHECKING:
    from ..federation.processes import Stop

__all__ = ["CoordinatorFolder", "bring_up", "need_flower"]

CoordinatorFolder = Annotated[Path, typer.Argument(help="The coordinator's folder.")]


federation_app = typer.Typer(help="Set up a federation of sites and hand out their kits.")

_Dir = Annotated[Path, typer.Option("--dir", help="The coordinator's folder.")]


@federation_app.command("init")
def init_(
    folder: CoordinatorFolder,
    address: Annotated[str, typer.Option(help="host:port where sites reach it.")],
    schema: Annotated[Path, typer.Option(help="A knowledge.toml with features and classes.")],
    name: Annotated[str, typer.Option(help="The federation's name.")] = "federation",
    days: Annotated[int, typer.Option(help="Days for which its certificates are valid.")] = 365,
) -> None:
    """Make a coordinator's folder: federation.toml, an authority, a server certificate."""
    need_flower()
    from ..federation.kits.kit import init
    from ..knowledge.files import read_document

    found = read_document(schema)
    init(folder, name=name, address=address, schema=found.schema, target=found.target, days=days)
    screen = current_screen()
    screen.say(f"Wrote {folder / 'federation.toml'}: look it over, then add sites.")
    screen.give({"federation": folder / "federation.toml"})


@federation_app.command("add-site")
def add_site_(name: str, folder: _Dir = Path(".")) -> None:
    """Make a site's kit, which holds no secret: the site makes its key itself."""
    need_flower()
    from ..federation.kits.kit import add_site

    _kit_made(name, add_site(folder, name))


@federation_app.command("enrol")
def enrol_(
    name: str,
    key: Annotated[Path, typer.Argument(help="The site's site.pub.")],
    folder: _Dir = Path("."),
) -> None:
    """Let a site in by the public half of its key; a running server notices within seconds."""
    need_flower()
    from ..federation.kits.kit import enrol

    renewed = enrol(folder, name, key)
    screen = current_screen()
    gone = ", and its old key is revoked" if renewed else ""
    screen.say(f"Site {name} is enrolled{gone}.")
    screen.give({"enrolled": name, "renewed": renewed})


@federation_app.command("remove-site")
def remove_site_(name: str, folder: _Dir = Path(".")) -> None:
    """Shut a site out; a running server notices within seconds."""
    need_flower()
    from ..federation.kits.kit import remove_site

    remove_site(folder, name)
    screen = current_screen()
    screen.say(f"Site {name} is removed; its key is revoked.")
    screen.give({"removed": name})


@federation_app.command("renew")
def renew_(
    name: Annotated[str | None, typer.Argument(help="The site; without it the server.")] = None,
    folder: _Dir = Path("."),
    days: Annotated[int, typer.Option(help="Days for which the new certificates are valid.")] = 365,
    authority: Annotated[bool, typer.Option(help="Renew the authority as well.")] = False,
) -> None:
    """A new key for a site, or a new certificate for the server, or a new authority."""
    need_flower()
    from ..federation.kits.certificates import check_dates
    from ..federation.kits.kit import renew_authority, renew_server, renew_site

    if name is not None:
        _kit_made(name, renew_site(folder, name))
        return
    screen = current_screen()
    try:
        check_dates(folder / "ca.crt")
    except FedloreError as error:
        screen.say(str(error).partition(":")[0])
        authority = True
    if not authority:
        renew_server(folder, days=days)
        said = ["The server has a new certificate; a running one picks it up."]
    elif renew_authority(folder, days=days):
        said = [
            "A new authority stands beside the old one. Sites pick it up at their next start;",
            "once all have, and before the old one expires, run: fedlore federation renew",
        ]
    else:
        said = [
            "There is a new authority, and the server has a certificate of it.",
            f"Hand {folder / 'ca.crt'} to the sites, for their folders; nothing else changes.",
        ]
    for line in said:
        screen.say(line)
    screen.give({"authority": authority, "said": " ".join(said)})


@federation_app.command("key")
def key_(
    kit: Annotated[Path, typer.Argument(help="The site's kit: its archive or folder.")],
    filter: Annotated[str, typer.Option(help="The filter whose key it is.")] = "ckks",
) -> None:
    """Make the key that all sites share under encryption = "ckks", at one of them."""
    need_flower()
    from ..federation.kits.kit import unpack
    from ..federation.site.folder import read_kit
    from ..privacy.settings import share_secret

    path, name = share_secret(filter, read_kit(unpack(kit, current_screen().say)).place())
    screen = current_screen()
    screen.say(f"Wrote {path}, key {name}.")
    screen.remark(
        "Send it over a secure channel to the other sites, for their kits; never to the "
        "coordinator."
    )
    screen.give({"path": path, "key": name})


def _kit_made(name: str, kit: Path) -> None:
    screen = current_screen()
    screen.say(f"Wrote {kit}: it contains no secret.")
    screen.remark(f"Hand it over. There: fedlore doctor {kit.name} makes the key of {name}; here,")
    screen.remark(f"with the file site.pub that it made: fedlore federation enrol {name} site.pub")
    screen.give({"site": name, "kit": kit})


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
        with explain_stop(kept):
            raise KeyboardInterrupt


def server_command(
    folder: CoordinatorFolder,
    insecure: Annotated[bool, typer.Option(help="No TLS; loopback addresses only.")] = False,
    page: PageOption = "auto",
    token_file: TokenOption = None,
    log_level: LevelOption = "info",
    log_json: JsonLogOption = False,
) -> None:
    """Run the coordinator's server and its status page until Ctrl-C."""
    need_flower()
    from ..federation.coordinator.server import serve_federation
    from ..federation.processes import catch_signals

    say, form = log_lines(log_level, as_json=log_json)
    with catch_signals() as stop, page_beside(folder, page, token_file=token_file, say=say):
        serve_federation(folder, insecure=insecure, stop=stop, say=say, form=form)
    say("server stopped")
    end_service(
        stop,
        f"enrolment and journal are kept in {folder}; fedlore server {folder} starts it again, "
        f"fedlore train {folder} --resume continues a training",
    )


def train_command(
    folder: CoordinatorFolder,
    resume: Annotated[bool, typer.Option(help="Resume after the last journalled round.")] = False,
) -> None:
    """Run a training, with a line per round and for every site in trouble."""
    need_flower()
    from ..federation.processes import catch_signals

    with explain_stop(lambda: _kept(folder, "train")), catch_signals(interrupt=True) as stop:
        rounds = _train(folder, stop, resume)
    _say_finished(folder, rounds)


def _kept(folder: Path, command: str) -> str:
    """Up to which round a training is journalled."""
    from ..federation.coordinator.status import read_status

    try:
        done = read_status(folder)["round"]
    except FedloreError:
        done = 0
    if not done:
        return f"no round was finished; fedlore {command} {folder} --resume continues"
    return f"round {done} is journalled in {folder}; fedlore {command} {folder} --resume continues"


def _train(folder: Path, stop: "Stop", resume: bool) -> int:
    """Train with a line for each round; the last of them."""
    from ..federation.coordinator.status import line_reports
    from ..federation.coordinator.training import train_federation
    from ..federation.settings import read_deployed

    rounds, say = read_deployed(folder).rounds, current_screen().say
    reports = line_reports(rounds, say, stop=stop)
    return train_federation(folder, resume=resume, reports=reports).round


def _say_finished(folder: Path, rounds: int) -> None:
    from ..federation.coordinator.status import read_status, score_text

    table = Grid(title=f"Scores after round {rounds}, as the sites report them")
    rows = read_status(folder)["scores"]
    names = list(dict.fromkeys(key for row in rows for key in row if key != "round"))
    for key in names:
        table.add_column(key, justify="left" if key == "client" else "right")
    for row in rows:
        table.add_row(*(score_text(row.get(key)) for key in names))
    screen = current_screen()
    screen.show(table)
    found = read_status(folder)
    for line in found.get("privacy", ()):
        screen.say(line)
    shared = folder / "shared.weights"
    screen.remark(f"Shared weights: {shared}; each site holds its own personal.weights.")
    screen.give({**found, "shared": shared})


def bring_up(folder: Path, *, resume: bool = False) -> None:
    """Start the server and all sites of a folder on this machine, train once, show the scores."""
    need_flower()
    from ..federation.household import run_household
    from ..federation.processes import catch_signals

    with (
        explain_stop(lambda: _kept(folder, "up")),
        catch_signals(interrupt=True) as stop,
        run_household(folder, say=current_screen().say),
    ):
        rounds = _train(folder, stop, resume)
    _say_finished(folder, rounds)


flower_app = typer.Typer(help="Train with knowledge on a Flower grid that you already run.")


@flower_app.callback()
def _group() -> None:
    """Keeps the name of the one command below it."""


@flower_app.command("init")
def init_app(
    folder: Annotated[Path, typer.Argument(help="The app's folder, which is not there yet.")],
    schema: Annotated[Path, typer.Option(help="A knowledge.toml with features and classes.")],
    name: Annotated[str, typer.Option(help="The app's name.")] = "knowing",
    sites: Annotated[int, typer.Option(min=1, help="SuperNodes that a run waits for.")] = 3,
) -> None:
    """Write an app for flwr run: pyproject.toml, a ServerApp, a ClientApp, federation.toml."""
    from ..federation.kits.app import write_app
    from ..knowledge.files import read_document

    found = read_document(schema)
    written = write_app(folder, name=name, schema=found.schema, target=found.target, sites=sites)
    screen = current_screen()
    for path in written:
        screen.say(f"Wrote {path}")
    screen.remark(f"Look federation.toml over, then: flwr run {folder}")
    screen.give({"written": written})
