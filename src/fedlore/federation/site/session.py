"""A site on the network, from its kit."""

import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from ...core.store import hold_lock, write_whole
from ...errors import FedloreError
from ..flower.node import door
from ..flower.transport import Link
from ..kits.certificates import add_authorities, check_dates, read_site_key
from ..logs import LogForm, log_handler
from ..processes import limit_memory
from ..remote import NotTrusted, attend, beating, fetch_page, plain_text
from .folder import Kit, read_kit
from .worker import Worker

LEARN = 3600.0  # seconds between two looks for a renewed authority


def join_federation(
    folder: Path, *, stop: threading.Event, say: Callable[[str], None], form: LogForm | None = None
) -> None:
    """Take part until told to stop. What cannot work is said before anything is sent."""
    os.umask(0o077)  # all that a site writes is its owner's alone
    kit = read_kit(folder)
    key = read_site_key(folder / "site.key")
    if not kit.file.insecure:
        check_dates(folder / "ca.crt")
    if kit.file.agreed is None:
        raise FedloreError(
            f"site '{kit.file.name}' has not accepted any terms yet: read and accept them with "
            f"fedlore accept '{folder}'"
        )
    if not kit.file.address:
        raise FedloreError(
            f"site.toml of '{kit.file.name}' has no address: it says where the coordinator is, as "
            "host:port"
        )
    kit.client(kit.terms().schema, kit.terms().bins)
    learn_authority(kit, say)
    limit_memory(kit.file.policy.max_memory)
    with hold_lock(kit.state / "lock", f"site '{kit.file.name}'"):
        log = _log_to(folder / "site.log", form or LogForm())

        def tell(line: str) -> None:
            log.info(line)
            say(line)

        node = kit.state / "node"

        def entered(number: int) -> None:
            with suppress(OSError):  # without it the next start takes some seconds longer
                write_whole(node, str(number), private=True)
            tell(f"site '{kit.file.name}' is in, at {kit.file.address}")

        def lost(reason: str) -> None:
            tell(f"no connection to {kit.file.address} ({plain_text(reason)}): trying again")

        tell(f"site '{kit.file.name}' is ready")
        worker = Worker(kit, tell)
        with beating(partial(learn_authority, kit, tell), LEARN):
            while True:
                link = Link(kit.file.address, kit.authority())
                try:
                    before = 0  # by which the server knew a site that could not say goodbye
                    with suppress(OSError, ValueError):
                        before = int(node.read_text(encoding="utf-8"))
                    way_in = door(link, kit.file.name, key, worker, before=before)
                    attend(way_in, stop, on_enter=entered, on_lost=lost)
                    break
                except NotTrusted:
                    if kit.authority() == link.ca:  # else a new authority has come meanwhile
                        raise
        node.unlink(missing_ok=True)


def learn_authority(kit: Kit, say: Callable[[str], None]) -> None:
    """Take over a renewed authority from a server that the old one still vouches for."""
    known = kit.authority()
    if known is None:
        return
    try:
        found = add_authorities(known, fetch_page(kit.file.address, "/authority", known)[0])
    except (OSError, FedloreError):
        return  # away, or not to be trusted: joining itself will say so
    if found != known:
        write_whole(kit.path("ca.crt"), found, private=True)
        say("the coordinator has a new authority, which the one before vouches for")


def _log_to(path: Path, form: LogForm) -> logging.Logger:
    """The site's own log, with what may not leave it."""
    logger = logging.getLogger("fedlore.site")
    logger.addHandler(log_handler(path, form))
    logger.setLevel(form.level.upper())
    logger.propagate = False
    return logger
