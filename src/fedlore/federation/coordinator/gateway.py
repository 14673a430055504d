"""The one door to the network: TLS ends here, and only what a site may ask goes on to Flower.

Flower's SuperLink answers all of its interfaces on one port, and that of control has no login. So
it listens on loopback alone. What comes from outside is read here first: the head of a request,
whose signature must be an enrolled site's, then a body of bounded size. A request of our own is
made of it, so that nothing of a stranger's framing reaches the server.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field

import h11

from ...errors import FedloreError
from ..bell import DoorBell
from ..flower.node import VISIT, UnknownKey, Unsigned, read_signer
from .connection import (
    HUNG_UP,
    Bucket,
    GateLimits,
    RefusalLog,
    Strangers,
    TurnedAway,
    Twins,
    VisitAnswer,
    serve_visit,
)
from .status import EVERY, Presence

FLEET = "/v1/fleet/"
LEAVE = FLEET + "deactivate-node"
ROUTES = frozenset(
    FLEET + name
    for name in (
        "activate-node",
        "deactivate-node",
        "send-node-heartbeat",
        "pull-messages",
        "push-messages",
        "push-object",
        "pull-object",
        "confirm-message-received",
    )
)
HEALTH, AUTHORITY = "/health", "/authority"  # what anybody may ask


@dataclass
class Gateway:
    """Listens for sites, in a thread of its own."""

    host: str
    door: int  # the port
    tls: ssl.SSLContext | None
    keys: Callable[[], Mapping[bytes, str]]  # the enrolled keys, and whose they are
    upstream: Callable[[], int | None]  # the server's port on loopback, None while there is none
    authority: Callable[[], bytes]  # the certificates that sites may trust
    log: Callable[[str], None]
    vanished: Callable[[str], None] = lambda site: None  # enrolled, and unknown to the server
    limits: GateLimits = field(default_factory=GateLimits)
    report: Callable[[Presence], None] = lambda presence: None  # told who is here, each second
    presence: Presence = field(default_factory=Presence)
    bell: DoorBell | None = None  # rings for those who wait
    alarm: Callable[[str], None] = lambda line: None  # what the operator should hear of

    def __post_init__(self) -> None:
        self._refusals = RefusalLog(self.log)
        self._strangers = Strangers(self.limits.strangers)
        self._twins = Twins(self.alarm)
        self._rates: dict[bytes, Bucket] = {}
        self._waiting: dict[bytes, object] = {}  # the last request for tasks of each site
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: socket.socket
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "Gateway":
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            self._listener = socket.create_server((self.host, self.door), family=family)
        except OSError as error:
            self._loop.close()
            raise FedloreError(
                f"cannot listen on {self.host}:{self.door} ({error.strerror}): does another "
                "federation, or another program, use this port?"
            ) from None
        self._listener.setblocking(False)
        self._thread.start()
        for work in (self._accept(), self._report()):
            self._loop.call_soon_threadsafe(self._start, work)
        if self.bell is not None:
            self._loop.call_soon_threadsafe(self._start, self.bell.serve())
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop).result(10.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()
        self._listener.close()
        self._refusals.flush()

    async def _hang_up(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self) -> None:
        while True:
            try:
                line, address = await self._loop.sock_accept(self._listener)
            except OSError as error:  # too many open files, for example
                self._refusals.note("everybody", error.strerror or str(error))
                await asyncio.sleep(0.1)
                continue
            self._start(self._serve(line, str(address[0])))

    async def _report(self) -> None:
        while True:
            self.report(self.presence)
            await asyncio.sleep(EVERY)

    async def _serve(self, line: socket.socket, who: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        number = id(task)
        if not self._strangers.add(number, task.cancel):
            self._refusals.note("strangers", "too many connections that nobody has signed on")
        try:
            with line:
                await serve_visit(self, line, who, number)
        except TimeoutError:
            self._refusals.note(who, "too slow")
        except ssl.SSLError as error:
            self._refusals.note(who, f"no TLS ({error.reason or 'handshake'})")
        except h11.RemoteProtocolError as error:
            self._refusals.note(who, f"no HTTP ({error})")
        except HUNG_UP:
            pass  # hung up
        finally:
            self._strangers.drop(number)
            self.presence.disconnect(number)

    def judge(self, head: h11.Request, who: str) -> bytes | None:
        """The key of the site that may ask this, None for what anybody may ask."""
        path = head.target.decode("ascii", "replace")
        if path in (HEALTH, AUTHORITY) and head.method in (b"GET", b"HEAD"):
            return None
        if path not in ROUTES or head.method != b"POST":
            raise TurnedAway(404, f"{head.method.decode()} {path[:60]} is not for the network")
        headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
        if {"content-length", "transfer-encoding"} <= set(headers):
            raise TurnedAway(400, "a request with two lengths")
        keys = self.keys()
        try:
            key = read_signer(headers, keys)
        except UnknownKey as error:
            raise TurnedAway(403, str(error)) from None
        except Unsigned as error:
            raise TurnedAway(401, str(error)) from None
        bucket = self._rates.setdefault(key, Bucket(self.limits.rate, self.limits.burst))
        if not bucket.take():
            raise TurnedAway(
                429, f"site '{keys[key]}' asks more than {self.limits.rate:g} a second"
            )
        twice = self._twins.seen(keys[key], headers.get(VISIT, ""), who)
        self.presence.hear(keys[key], leaving=path == LEAVE, twice=twice)
        if int(headers.get("content-length", 0)) > self.limits.body:
            raise TurnedAway(413, f"a request of {headers['content-length']} bytes")
        return key

    def refuse(self, who: str, error: TurnedAway) -> VisitAnswer:
        self._refusals.note(who, str(error))
        self.presence.refused += 1
        return VisitAnswer(error.status, str(error).encode())

    def known(self, number: int, key: bytes) -> None:
        """A connection on which a site has signed."""
        self._strangers.drop(number)
        self.presence.connect(number, self.keys().get(key, "?"))

    def carried(self, key: bytes, received: int, sent: int) -> None:
        self.presence.carry(self.keys().get(key, "?"), received, sent)

    def port(self) -> int | None:
        return self.upstream()

    def open_answer(self, target: bytes) -> VisitAnswer:
        if target == AUTHORITY.encode():
            return VisitAnswer(200, self.authority(), "application/x-pem-file")
        if self.upstream() is None:
            return VisitAnswer(503, b"the server is being started")
        return VisitAnswer(200, b"ok")

    async def hold(self, key: bytes) -> bool:
        if self.bell is None:
            return False
        self._waiting[key] = turn = object()
        await self.bell.wait(self.limits.hold)
        return self._waiting.get(key) is turn

    def entered(self, key: bytes) -> None:
        self._waiting.pop(key, None)

    def heard(self) -> None:
        if self.bell is not None:
            self.bell.ring_trainings()

    def lost(self, key: bytes) -> VisitAnswer:
        self.vanished(self.keys().get(key, "?"))
        return VisitAnswer(503, b"the server has lost this site and takes it in again")
