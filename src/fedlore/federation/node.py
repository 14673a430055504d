"""A site's life on the network: come in, pull a task, answer it, until told to stop."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from ..errors import FedloreError
from .remote import LinkLost

AHEAD, BEHIND = 5.0, 300.0  # seconds that a site's clock may be off, as Flower has it
BEAT = 10.0  # seconds between signs of life; after two without one a site counts as gone


class ShutOut(FedloreError):
    """The coordinator does not let this site in."""

    kind = "not-enrolled"


class Door(Protocol):
    """One site's way in to the coordinator."""

    def enter(self) -> int:
        """Say that the site is here; the number by which the coordinator knows it."""
        ...

    def beat(self) -> None: ...

    def turn(self) -> bool:
        """Pull one message and answer it; whether there was one."""
        ...

    def leave(self) -> None: ...


def attend(
    door: Door,
    stop: threading.Event,
    *,
    on_enter: Callable[[int], None] = lambda number: None,
    poll: float = 0.2,
    patience: float = 15.0,
) -> None:
    """Serve until told to stop; a coordinator that is away is waited for.

    One that has just started may need some seconds to know the keys of its sites.
    """
    refused = 0.0
    while not stop.is_set():
        try:
            on_enter(door.enter())
            refused = 0.0
            with beating(door.beat, BEAT / 2):
                while not stop.is_set():
                    asked = time.monotonic()
                    if not door.turn():  # a server that waited for a task has done the waiting
                        stop.wait(max(0.0, poll - (time.monotonic() - asked)))
        except ShutOut:
            refused = refused or time.monotonic()
            if time.monotonic() - refused > patience:
                raise
            stop.wait(1.0)
        except LinkLost:
            stop.wait(1.0)  # nothing is lost: what was answered is on disk
    with suppress(LinkLost):
        door.leave()


@contextmanager
def beating(beat: Callable[[], object], every: float) -> Iterator[None]:
    """Signs of life from a thread of their own; one that fails is left to the next."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(every):
            with suppress(Exception):  # the main thread meets the same trouble and names it
                beat()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(1.0)
