"""fedlore join, accept, doctor: what the owner of a site does."""

from pathlib import Path
from typing import Annotated

import typer

from .federation import need_flower, say

_Kit = Annotated[Path, typer.Argument(help="A kit, as archive or folder.")]


def join_command(kit: _Kit) -> None:
    """Take part as a site until Ctrl-C."""
    need_flower()
    from ..federation.kits.making import unpack
    from ..federation.processes import stopping
    from ..federation.site.joining import join_federation as take_part

    with stopping() as stop:
        take_part(unpack(kit), stop=stop, told=say)
    say("left")


def doctor(kit: _Kit) -> None:
    """Check a site before it joins; exit code 1 if anything must be mended."""
    need_flower()
    from ..federation.kits.making import unpack
    from ..federation.site.doctor import examine

    checks = examine(unpack(kit))
    for check in checks:
        say(f"{'ok  ' if check.fine else 'FAIL'}  {check.name}: {check.detail}")
    raise typer.Exit(0 if all(check.fine for check in checks) else 1)


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
    if found.file.agreed == terms.fingerprint():
        say(
            f"site '{found.file.name}' has agreed to these terms already ({found.file.agreed[:12]})"
        )
        return
    before = None if found.file.agreed is None else found.terms()
    for line in describe_changes(before, terms):
        say(f"  {line}")
    if not yes:
        typer.confirm(f"Does site '{found.file.name}' agree to this?", abort=True)
    say(f"agreed to {accept_terms(found, terms, policy=policy)[:12]}")
