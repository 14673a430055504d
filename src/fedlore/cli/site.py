"""fedlore join, accept, doctor: what the owner of a site does."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from .codes import ExitCode
from .federation import end_service, need_flower
from .teller import teller
from .watching import (
    JsonLogOption,
    LevelOption,
    PageOption,
    TokenOption,
    page_beside,
    telling,
)

_Kit = Annotated[Path, typer.Argument(help="A kit, as archive or folder.")]


def join_command(
    kit: _Kit,
    page: PageOption = "none",
    token_file: TokenOption = None,
    log_level: LevelOption = "info",
    log_json: JsonLogOption = False,
) -> None:
    """Take part as a site until Ctrl-C."""
    need_flower()
    from ..federation.kits.making import unpack
    from ..federation.processes import stopping
    from ..federation.site.joining import join_federation as take_part

    told, form = telling(log_level, as_json=log_json)
    folder = unpack(kit)
    with stopping() as stop, page_beside(folder, page, token_file=token_file, told=told):
        take_part(folder, stop=stop, told=told, form=form)
    told("left")
    end_service(stop, f"what this site holds is kept in {folder}; fedlore join {folder} goes on")


def doctor(kit: _Kit) -> None:
    """Check a site before it joins; exit code 1 if anything must be mended."""
    need_flower()
    from ..federation.kits.making import unpack
    from ..federation.site.doctor import examine

    checks = examine(unpack(kit))
    told = teller()
    for check in checks:
        told.say(f"{'ok  ' if check.fine else 'FAIL'}  {check.name}: {check.detail}")
    fine = all(check.fine for check in checks)
    told.give({"fine": fine, "checks": checks})
    raise typer.Exit(ExitCode.FINE if fine else ExitCode.NO)


def accept(
    kit: _Kit,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    policy: Annotated[
        bool, typer.Option(help="Demand from now on what these terms promise.")
    ] = False,
) -> None:
    """Show the terms that a site is asked to agree to, and agree to them."""
    need_flower()
    from ..federation.kits.making import unpack
    from ..federation.site.agreeing import accept_terms, describe_changes, offered_terms
    from ..federation.site.folder import read_kit

    found = read_kit(unpack(kit))
    terms = offered_terms(found)
    told, name = teller(), found.file.name
    given = {"site": name, "agreed": found.file.agreed, "changes": list[str]()}
    if found.file.agreed == terms.fingerprint():
        told.say(f"site '{name}' has agreed to these terms already ({found.file.agreed[:12]})")
        told.give(given)
        return
    before = None if found.file.agreed is None else found.terms()
    changes = describe_changes(before, terms)
    for line in changes:
        told.say(f"  {line}")
    if told.as_json and not yes:
        raise ConfigError("--json asks nothing: read the terms without it, or agree with --yes")
    if not yes:
        typer.confirm(f"Does site '{name}' agree to this?", abort=True)
    agreed = accept_terms(found, terms, policy=policy)
    told.say(f"agreed to {agreed[:12]}")
    told.give(given | {"agreed": agreed, "changes": changes})
