"""fedlore join, accept, doctor and status: what a site's owner does and sees."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import ConfigError
from .federation import end_service, need_flower
from .screen import ExitCode, Grid, Screen, current_screen
from .services import JsonLogOption, LevelOption, PageOption, TokenOption, log_lines, page_beside

if TYPE_CHECKING:
    from ..federation.pages.overview import Overview
    from ..federation.pages.site import SiteOverview


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
    from ..federation.kits.kit import unpack
    from ..federation.processes import stopping
    from ..federation.site.session import join_federation as take_part

    say, form = log_lines(log_level, as_json=log_json)
    folder = unpack(kit)
    with stopping() as stop, page_beside(folder, page, token_file=token_file, say=say):
        take_part(folder, stop=stop, say=say, form=form)
    say("left")
    end_service(stop, f"what this site holds is kept in {folder}; fedlore join {folder} goes on")


def doctor(kit: _Kit) -> None:
    """Check a site before it joins; exit code 1 if anything must be mended."""
    need_flower()
    from ..federation.kits.kit import unpack
    from ..federation.site.doctor import examine

    checks = examine(unpack(kit))
    screen = current_screen()
    for check in checks:
        screen.say(f"{'ok  ' if check.fine else 'FAIL'}  {check.name}: {check.detail}")
    fine = all(check.fine for check in checks)
    screen.give({"fine": fine, "checks": checks})
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
    from ..federation.kits.kit import unpack
    from ..federation.site.consent import accept_terms, describe_changes, offered_terms
    from ..federation.site.folder import read_kit

    found = read_kit(unpack(kit))
    terms = offered_terms(found)
    screen, name = current_screen(), found.file.name
    given = {"site": name, "agreed": found.file.agreed, "changes": list[str]()}
    if found.file.agreed == terms.fingerprint():
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


_Folder = Annotated[Path, typer.Argument(help="The coordinator's folder, or a site's.")]


def status(
    folder: _Folder,
    follow: Annotated[
        bool, typer.Option("--follow", help="Then a line for every change, until Ctrl-C.")
    ] = False,
    page: PageOption = "none",
    token_file: TokenOption = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
) -> None:
    """Where a training stands and which sites are here; of a site, what was asked and sent."""
    need_flower()
    from ..federation.pages.app import as_plain, watch_folder
    from ..federation.pages.overview import Overview

    screen, shown = current_screen(), watch_folder(folder)
    seen = shown.state()
    if screen.as_json and follow:  # one document a line
        print(json.dumps(as_plain(seen)), flush=True)
    else:
        screen.give(as_plain(seen))
    _show(seen, screen) if isinstance(seen, Overview) else _show_site(seen, screen)
    if not follow and page == "none":
        return
    with page_beside(folder, page, token_file=token_file, say=screen.say):
        while True:
            time.sleep(every)
            before, seen = seen, shown.state()
            if not follow:
                continue
            lines = changes(before, seen)
            if screen.as_json and lines:
                print(json.dumps(as_plain(seen)), flush=True)
            for line in lines:
                screen.say(f"{time.strftime('%H:%M:%S')} {line}")


def changes(before: Any, now: Any) -> list[str]:
    """What is different, one line for each thing."""
    from ..federation.pages.overview import Overview

    return _changes(before, now) if isinstance(now, Overview) else _site_changes(before, now)


def _changes(before: "Overview", now: "Overview") -> list[str]:
    from ..federation.pages.coordinator import sum_up

    lines = [] if sum_up(before) == sum_up(now) else [sum_up(now)]
    known = {site.name: site for site in before.sites}
    for site in now.sites:
        old = known.get(site.name)
        if old is None or old.state != site.state:
            was = "" if old is None else f"{old.state} -> "
            about = f" ({site.task})" if site.state in ("training", "late", "lost") else ""
            lines.append(f"  {site.name}: {was}{site.state}{about if site.task else ''}")
        if old is not None and site.note != old.note:
            lines.append(f"  {site.name}: {site.note}")
    return lines


def _site_changes(before: "SiteOverview", now: "SiteOverview") -> list[str]:
    lines = [] if before.joined == now.joined else ["in" if now.joined else "not in"]
    news = len(now.events) if not before.events else 0
    news = next((i for i, e in enumerate(now.events) if before.events[:1] == (e,)), news)
    for event in reversed(now.events[:news]):
        about = event.reason or event.left
        lines.append(f"round {event.round}: {event.kind} {event.event}: {about}")
    return lines


def _show(seen: "Overview", screen: Screen) -> None:
    from ..federation.pages.coordinator import say_bytes, say_seconds, sum_up

    screen.say(sum_up(seen))
    for line in (seen.reason, *seen.privacy):
        if line:
            screen.say(line)
    table = Grid()
    for heading in (
        *("site", "state", "last heard", "last round", "answers", "rejected", "refused"),
        *("silent", "from it", "to it", "note"),
    ):
        table.add_column(heading, overflow="fold")
    for site in seen.sites:
        heard = "" if site.heard is None else f"{say_seconds(site.heard)} ago"
        counts = [str(site.counts[key]) for key in ("reply", "rejected", "refused", "silent")]
        size = [say_bytes(site.received), say_bytes(site.sent)]
        table.add_row(
            site.name, site.state, heard, str(site.round or ""), *counts, *size, site.note
        )
    screen.show(table)


def _show_site(seen: "SiteOverview", screen: Screen) -> None:
    from ..federation.pages.site import describe_site

    screen.say(f"site '{seen.name}' is {'in' if seen.joined else 'not in'}, at {seen.coordinator}")
    for name, value in describe_site(seen).items():
        screen.say(f"{name}: {value}")
    table = Grid()
    for heading in ("time", "round", "kind", "event", "what left, or why not"):
        table.add_column(heading, overflow="fold")
    for event in reversed(seen.events[:10]):
        when = event.time[:19].replace("T", " ")
        table.add_row(when, str(event.round), event.kind, event.event, event.reason or event.left)
    screen.show(table)
