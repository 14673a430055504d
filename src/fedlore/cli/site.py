"""fedlore join, accept, doctor and status: what a site's owner does and sees."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigError
from .federation import end_service, need_flower
from .options import JsonLogOption, LevelOption, PageOption, TokenOption, log_lines, page_beside
from .screen import ExitCode, Grid, Screen, current_screen

if TYPE_CHECKING:
    from ..federation.pages.coordinator import Brief


_Kit = Annotated[Path, typer.Argument(help="The site's kit: its archive or folder.")]


def join_command(
    kit: _Kit,
    page: PageOption = "none",
    token_file: TokenOption = None,
    log_level: LevelOption = "info",
    log_json: JsonLogOption = False,
) -> None:
    """Take part as a site until Ctrl-C."""
    need_flower()
    from ..federation.kits.kit import unpack
    from ..federation.processes import catch_signals
    from ..federation.site.session import join_federation as take_part

    say, form = log_lines(log_level, as_json=log_json)
    folder = unpack(kit, say)
    with catch_signals() as stop, page_beside(folder, page, token_file=token_file, say=say):
        take_part(folder, stop=stop, say=say, form=form)
    say("left")
    end_service(stop, f"this site's state is kept in {folder}; fedlore join {folder} continues")


def doctor(kit: _Kit) -> None:
    """Check a site before it joins; exit code 1 if anything must be mended."""
    need_flower()
    from ..federation.kits.kit import unpack
    from ..federation.site.doctor import examine

    screen = current_screen()
    checks = examine(unpack(kit, screen.say))
    for check in checks:
        screen.say(f"{'ok  ' if check.fine else 'FAIL'}  {check.name}: {check.detail}")
    fine = all(check.fine for check in checks)
    screen.give({"fine": fine, "checks": checks})
    raise typer.Exit(ExitCode.FINE if fine else ExitCode.NO)


def accept(
    kit: _Kit,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    policy: Annotated[
        bool, typer.Option(help="From now on demand what these terms promise.")
    ] = False,
) -> None:
    """Show the terms that a site is asked to agree to, and agree to them."""
    need_flower()
    from ..federation.kits.kit import unpack
    from ..federation.site.consent import accept_terms, describe_changes, offered_terms
    from ..federation.site.folder import read_kit

    found = read_kit(unpack(kit, current_screen().say))
    terms = offered_terms(found)
    screen, name = current_screen(), found.file.name
    given = {"site": name, "agreed": found.file.agreed, "changes": list[str]()}
    if found.file.agreed == terms.fingerprint() and not policy:
        screen.say(f"site '{name}' has agreed to these terms already ({found.file.agreed[:12]})")
        screen.give(given)
        return
    before = None if found.file.agreed is None else found.terms()
    changes = describe_changes(before, terms)
    for line in changes:
        screen.say(f"  {line}")
    if screen.as_json and not yes:
        raise ConfigError("--json asks nothing: read the terms without it, or agree with --yes")
    if not yes:
        typer.confirm(f"Does site '{name}' agree to this?", abort=True)
    agreed = accept_terms(found, terms, policy=policy)
    screen.say(f"agreed to {agreed[:12]}")
    screen.give(given | {"agreed": agreed, "changes": changes})


_Folder = Annotated[
    Path, typer.Argument(help="The coordinator's folder, or a site's kit, where its site.toml is.")
]


def status(
    folder: _Folder,
    follow: Annotated[
        bool, typer.Option("--follow", help="Keep printing a line for every change, until Ctrl-C.")
    ] = False,
    page: PageOption = "none",
    token_file: TokenOption = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two updates.")] = 1.0,
) -> None:
    """Show how far a training is and who is online; of a site, what was asked and sent."""
    need_flower()
    from ..federation.pages.app import as_plain, watch_folder

    screen, shown = current_screen(), watch_folder(folder)
    seen = shown.look()
    if screen.as_json and follow:  # one document a line
        print(json.dumps(as_plain(seen)), flush=True)
    else:
        screen.give(as_plain(seen))
    _show(shown.brief(seen), screen)
    if not follow and page == "none":
        return
    with page_beside(folder, page, token_file=token_file, say=screen.say):
        while True:
            time.sleep(every)
            before, seen = seen, shown.look()
            if not follow:
                continue
            lines = shown.changes(before, seen)
            if screen.as_json and lines:
                print(json.dumps(as_plain(seen)), flush=True)
            for line in lines:
                screen.say(f"{time.strftime('%H:%M:%S')} {line}")


def _show(brief: "Brief", screen: Screen) -> None:
    for line in brief.lines:
        screen.say(line)
    table = Grid()
    for heading in brief.head:
        table.add_column(heading, overflow="fold")
    for row in brief.rows:
        table.add_row(*row)
    screen.show(table)
