"""fedlore status: a federation or a site in the terminal, once or as it changes."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .federation import need_flower
from .screen import Grid
from .teller import Teller, teller
from .watching import PageOption, TokenOption, page_beside

if TYPE_CHECKING:
    from ..federation.watching.overview import Overview
    from ..federation.watching.sites import SiteOverview

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
    from ..federation.watching.app import as_plain
    from ..federation.watching.overview import Overview
    from ..federation.watching.serving import watch_folder

    told, shown = teller(), watch_folder(folder)
    seen = shown.state()
    if told.as_json and follow:  # one document a line
        print(json.dumps(as_plain(seen)), flush=True)
    else:
        told.give(as_plain(seen))
    _show(seen, told) if isinstance(seen, Overview) else _show_site(seen, told)
    if not follow and page == "none":
        return
    with page_beside(folder, page, token_file=token_file, told=told.say):
        while True:
            time.sleep(every)
            before, seen = seen, shown.state()
            if not follow:
                continue
            lines = changes(before, seen)
            if told.as_json and lines:
                print(json.dumps(as_plain(seen)), flush=True)
            for line in lines:
                told.say(f"{time.strftime('%H:%M:%S')} {line}")


def changes(before: Any, now: Any) -> list[str]:
    """What is different, one line for each thing."""
    from ..federation.watching.overview import Overview

    return _told(before, now) if isinstance(now, Overview) else _told_by_site(before, now)


def _told(before: "Overview", now: "Overview") -> list[str]:
    from ..federation.watching.pages import sum_up

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


def _told_by_site(before: "SiteOverview", now: "SiteOverview") -> list[str]:
    lines = [] if before.joined == now.joined else ["in" if now.joined else "not in"]
    news = len(now.events) if not before.events else 0
    news = next((i for i, e in enumerate(now.events) if before.events[:1] == (e,)), news)
    for event in reversed(now.events[:news]):
        about = event.reason or event.left
        lines.append(f"round {event.round}: {event.kind} {event.event}: {about}")
    return lines


def _show(seen: "Overview", told: Teller) -> None:
    from ..federation.watching.pages import sum_up
    from ..federation.watching.parts import say_bytes, say_seconds

    told.say(sum_up(seen))
    for line in (seen.reason, *seen.privacy):
        if line:
            told.say(line)
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
    told.show(table)


def _show_site(seen: "SiteOverview", told: Teller) -> None:
    from ..federation.watching.sitepages import describe_site

    told.say(f"site '{seen.name}' is {'in' if seen.joined else 'not in'}, at {seen.coordinator}")
    for name, value in describe_site(seen).items():
        told.say(f"{name}: {value}")
    table = Grid()
    for heading in ("time", "round", "kind", "event", "what left, or why not"):
        table.add_column(heading, overflow="fold")
    for event in reversed(seen.events[:10]):
        when = event.time[:19].replace("T", " ")
        table.add_row(when, str(event.round), event.kind, event.event, event.reason or event.left)
    told.show(table)
