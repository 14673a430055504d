"""fedlore federation: a coordinator's folder, its sites and their keys."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import FedloreError
from .federation import CoordinatorFolder, need_flower
from .teller import teller

federation_app = typer.Typer(help="Set up a federation of sites and hand out their kits.")

_Dir = Annotated[Path, typer.Option("--dir", help="The coordinator's folder.")]


@federation_app.command("init")
def init_(
    folder: CoordinatorFolder,
    address: Annotated[str, typer.Option(help="host:port where sites reach it.")],
    schema: Annotated[Path, typer.Option(help="A knowledge.toml with features and classes.")],
    name: Annotated[str, typer.Option(help="The federation's name.")] = "federation",
    days: Annotated[int, typer.Option(help="How long its certificates hold.")] = 365,
) -> None:
    """Make a coordinator's folder: federation.toml, an authority, a server certificate."""
    need_flower()
    from ..federation.kits.making import init
    from ..knowledge.files import read_document

    found = read_document(schema)
    init(folder, name=name, address=address, schema=found.schema, target=found.target, days=days)
    told = teller()
    told.say(f"Wrote {folder / 'federation.toml'}: look it over, then add sites.")
    told.give({"federation": folder / "federation.toml"})


@federation_app.command("add-site")
def add_site_(name: str, folder: _Dir = Path(".")) -> None:
    """Enrol a site and make its kit."""
    need_flower()
    from ..federation.kits.making import add_site

    _kit_made(name, add_site(folder, name))


@federation_app.command("remove-site")
def remove_site_(name: str, folder: _Dir = Path(".")) -> None:
    """Shut a site out; a running server notices within seconds."""
    need_flower()
    from ..federation.kits.making import remove_site

    remove_site(folder, name)
    told = teller()
    told.say(f"Site {name} is shut out.")
    told.give({"removed": name})


@federation_app.command("renew")
def renew_(
    name: Annotated[str | None, typer.Argument(help="A site; none: the server.")] = None,
    folder: _Dir = Path("."),
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
    told = teller()
    try:
        check_dates(folder / "ca.crt")
    except FedloreError as error:
        told.say(str(error).partition(":")[0])
        authority = True
    if not authority:
        renew_server(folder, days=days)
        said = ["The server has a new certificate; a running one takes it by itself."]
    elif renew_authority(folder, days=days):
        said = [
            "There is a new authority beside the old one. Sites learn of it when they next start;",
            "when all have, and before the old one ends: fedlore federation renew",
        ]
    else:
        said = [
            "There is a new authority, and the server has a certificate of it.",
            f"Hand {folder / 'ca.crt'} to the sites, each puts it into its folder; all else stays.",
        ]
    for line in said:
        told.say(line)
    told.give({"authority": authority, "said": " ".join(said)})


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
    told = teller()
    told.say(f"Wrote {path}, key {name}.")
    told.remark(
        "Hand it to the other sites by a safe way, into their kits, and never to the coordinator."
    )
    told.give({"path": path, "key": name})


def _kit_made(name: str, kit: Path) -> None:
    told = teller()
    told.say(f"Wrote {kit}: it holds the private key of {name}.")
    told.remark("Hand it over by a safe way and delete it here; there: fedlore join " + kit.name)
    told.give({"site": name, "kit": kit})
