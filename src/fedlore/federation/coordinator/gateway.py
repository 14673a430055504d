"""The one door to the network: TLS ends here, and only what a site may ask goes on to Flower.

Flower's SuperLink answers all of its interfaces on one port, and that of control has no login. So
it listens on loopback alone. What comes from outside is read here first: the head of a request,
whose signature must be an enrolled site's, then a body of bounded size. A request of our own is
made of it, so that nothing of a stranger's framing reaches the server.
"""

import asyncio
import math
import socket
import ssl
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial

import h11

from ...errors import FedloreError
from ..bell import DoorBell
from ..flower.node import VISIT, UnknownKey, Unsigned, read_signer
from .limits import Bucket, GateLimits, Lines, RefusalLog, Twins
from .status import EVERY, Presence

FLEET = "/v1/fleet/"
ENTER, LEAVE, PULL = (FLEET + n for n in ("activate-node", "deactivate-node", "pull-messages"))
PUSHES = (FLEET + "push-messages", FLEET + "push-object")
_MORE = ("send-node-heartbeat", "pull-object", "confirm-message-received")
ROUTES = frozenset([ENTER, LEAVE, PULL, *PUSHES, *(FLEET + name for name in _MORE)])
HEALTH, AUTHORITY = "/health", "/authority"  # what anybody may ask
HUNG_UP = (OSError, EOFError, h11.RemoteProtocolError)  # somebody has hung up
_PASSED = (b"content-type", b"accept")
_PIECE = 65_536


def _hang_up(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


class TurnedAway(Exception):
    """A request that goes no further, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True)
class VisitAnswer:
    """What is said to a request."""

    status: int
    body: bytes
    kind: str = "text/plain; charset=utf-8"


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
        self._strangers = Lines(self.limits.strangers, self.limits.address)
        self._signed = Lines(sys.maxsize, self.limits.lines)
        self._twins = Twins(self.alarm)
        self._rates: dict[bytes, Bucket] = {}
        self._left: dict[bytes, int] = {}  # bytes that each site may send until its next task
        self._held: Counter[bytes] = Counter()  # of parts of answers that are on their way here
        self._cut: dict[bytes, float] = {}  # when it last tried to send more
        self._waiting: dict[bytes, object] = {}  # the last request for tasks of each site
        self._asked: dict[bytes, int] = {}  # rings before the server was last asked for a site
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
            await asyncio.sleep(0)  # accepting does not wait for anything while a flood lasts

    async def _report(self) -> None:
        while True:
            self.report(self.presence)
            await asyncio.sleep(EVERY)

    async def _serve(self, line: socket.socket, who: str) -> None:
        task = asyncio.current_task()
        assert task is not None
        number = id(task)
        # not by cancelling the task: a handshake that has not begun would keep a closed socket's
        # number, and whoever gets that number next would be hung up on
        crowd = self._strangers.add(number, who, partial(_hang_up, line))
        if crowd:
            self._refusals.note(crowd, "too many connections that nobody has signed on")
        try:
            with line:
                await self._visit(line, who, number)
        except TimeoutError:
            self._refusals.note(who, "too slow")
        except ssl.SSLError as error:
            self._refusals.note(who, f"no TLS ({error.reason or 'handshake'})")
        except h11.RemoteProtocolError as error:
            self._refusals.note(who, f"no HTTP ({error})")
        except HUNG_UP:
            pass  # hung up
        finally:
            self._strangers.drop(number, who)
            self.presence.disconnect(number)

    async def _visit(self, line: socket.socket, who: str, number: int) -> None:
        """Serve a connection from its first byte to its last."""
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            async with asyncio.timeout(self.limits.patience):
                transport, _ = await self._loop.connect_accepted_socket(
                    lambda: protocol, line, ssl=self.tls
                )
        except OSError as error:
            # asyncio's frames hold their own error, so each failed handshake would keep its
            # buffer of 256 KB until the garbage collector comes by
            traceback.clear_frames(error.__traceback__)
            raise
        writer = asyncio.StreamWriter(transport, protocol, reader, self._loop)
        visit = Visit(self, reader, writer, who, number)
        try:
            await visit.serve()
        finally:
            self._signed.drop(number, visit.site)
            await visit.close()

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
        if int(headers.get("content-length", 0)) > self.largest(key, path):
            raise self.too_large(key)
        return key

    def largest(self, key: bytes | None, path: str) -> int:
        """How many bytes a request may have: all pushes for one task together are bounded."""
        if key is None:
            return 0
        if path not in PUSHES:
            return self.limits.ask
        left = self._left.get(key, self.limits.reply) - self._held[key]
        return min(self.limits.body, left)

    def hold_bytes(self, key: bytes | None, path: str, count: int) -> None:
        """So many bytes more, or less, of parts of answers of a site are in memory."""
        if key is not None and path in PUSHES:
            self._held[key] += count

    def too_large(self, key: bytes | None) -> TurnedAway:
        who = "a stranger"
        if key is not None:
            self._cut[key], who = time.monotonic(), self.keys().get(key, "?")
        return TurnedAway(
            413,
            f"{who} sends more than {self.limits.body >> 20} MB at once or "
            f"{self.limits.reply >> 20} MB for one task (largest_answer in federation.toml)",
        )

    def refuse(self, who: str, error: TurnedAway) -> VisitAnswer:
        self._refusals.note(who, str(error))
        self.presence.refused += 1
        return VisitAnswer(error.status, str(error).encode())

    def known(self, visit: "Visit", key: bytes) -> None:
        """A connection on which a site has signed."""
        visit.site = self.keys().get(key, "?")
        self._strangers.drop(visit.number, visit.who)
        self.presence.connect(visit.number, visit.site)
        if self._signed.add(visit.number, visit.site, visit.hang_up):
            self._refusals.note(visit.who, f"too many connections of site '{visit.site}'")

    def carried(self, key: bytes, path: str, received: int, sent: int) -> None:
        """So many bytes of a site went on, and so many back."""
        self.presence.carry(self.keys().get(key, "?"), received, sent)
        paused = time.monotonic() - self._cut.get(key, -math.inf) < self.limits.pause
        if path in PUSHES:
            self._left[key] = self._left.get(key, self.limits.reply) - received
        elif path == PULL and sent and not paused:  # a task
            self._left[key] = self.limits.reply

    def open_answer(self, target: bytes) -> VisitAnswer:
        if target == AUTHORITY.encode():
            return VisitAnswer(200, self.authority(), "application/x-pem-file")
        if self.upstream() is None:
            return VisitAnswer(503, b"the server is being started")
        return VisitAnswer(200, b"ok")

    async def hold(self, key: bytes) -> bool:
        """Wait a little for tasks; whether this is still the request to answer with one."""
        if self.bell is None:
            return False
        self._waiting[key] = turn = object()
        most = min(self.limits.hold_each * len(self._waiting), self.limits.hold_most)
        if self.is_up_to_date(key):  # else somebody rang while the server was asked
            await self.bell.wait(max(self.limits.hold, most))
        return self._waiting.get(key) is turn

    def is_up_to_date(self, key: bytes) -> bool:
        """Whether nothing has come since the server was asked for this site.

        A second task that was there then is found after the wait.
        """
        return self.bell is not None and self._asked.get(key) == self.bell.rings

    def asks(self, key: bytes) -> None:
        """The server is asked for tasks of a site."""
        if self.bell is not None:
            self._asked[key] = self.bell.rings

    def entered(self, key: bytes) -> None:
        """A site begins anew: what it asked for before is not waited for any more."""
        self._waiting.pop(key, None)
        self._asked.pop(key, None)

    def heard(self) -> None:
        if self.bell is not None:
            self.bell.ring_trainings()

    def lost(self, key: bytes) -> VisitAnswer:
        """What to say to an enrolled site that the server does not let in."""
        self.vanished(self.keys().get(key, "?"))
        return VisitAnswer(503, b"the server has lost this site and takes it in again")


class Visit:
    """Requests one after the other, each judged by its head before its body is read."""

    def __init__(
        self,
        gate: Gateway,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        who: str,
        number: int,
    ) -> None:
        self._gate, self._reader, self._writer = gate, reader, writer
        self.who, self.number, self.site = who, number, ""
        self._server: tuple[int, asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def serve(self) -> None:
        limits = self._gate.limits
        talk = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head)
        while True:
            async with asyncio.timeout(limits.idle if self.site else limits.patience):
                head = await self._next(talk)
            if not isinstance(head, h11.Request):
                return
            try:
                key = self._gate.judge(head, self.who)
                if key is not None and not self.site:
                    self._gate.known(self, key)
                answer = await self._go_on(talk, head, key)
            except TurnedAway as error:
                answer = self._gate.refuse(self.who, error)
                await self._tell(talk, head, answer, last=True)
                return
            await self._tell(talk, head, answer, last=False)
            if talk.our_state is h11.MUST_CLOSE:
                return
            talk.start_next_cycle()

    async def _next(self, talk: h11.Connection) -> object:
        while (event := talk.next_event()) is h11.NEED_DATA:
            talk.receive_data(await self._reader.read(_PIECE))
        return event

    async def _go_on(
        self, talk: h11.Connection, head: h11.Request, key: bytes | None
    ) -> VisitAnswer:
        body, path = bytearray(), head.target.decode("ascii")
        try:
            await self._read(talk, body, key, path)
            if key is None:
                return self._gate.open_answer(head.target)
            return await self._pass_on(head, bytes(body), key, path)
        finally:
            self._gate.hold_bytes(key, path, -len(body))

    async def _read(
        self, talk: h11.Connection, body: bytearray, key: bytes | None, path: str
    ) -> None:
        """All of a body, unless it is larger than there is room for."""
        gate, limits = self._gate, self._gate.limits
        most = gate.largest(key, path)
        async with asyncio.timeout(limits.patience + most / limits.slowest):
            while isinstance(event := await self._next(talk), h11.Data):
                if len(event.data) > min(most - len(body), gate.largest(key, path)):
                    raise gate.too_large(key)
                body += event.data
                gate.hold_bytes(key, path, len(event.data))

    async def _pass_on(self, head: h11.Request, body: bytes, key: bytes, path: str) -> VisitAnswer:
        if path == ENTER:
            self._gate.entered(key)
        if path == PULL:
            answer = await self._pull(head, body, key)
        else:
            answer = await self._ask(head, body)
        if path in PUSHES and answer.status == 200:
            self._gate.heard()
        self._gate.carried(key, path, len(body), len(answer.body))
        refused = path == ENTER and 400 <= answer.status < 500
        return self._gate.lost(key) if refused else answer

    async def _pull(self, head: h11.Request, body: bytes, key: bytes) -> VisitAnswer:
        """A task, waited for a little; the server is not asked where it can have none."""
        gate, answer = self._gate, VisitAnswer(200, b"")
        if not gate.is_up_to_date(key):
            gate.asks(key)
            answer = await self._ask(head, body)
        if answer.status == 200 and not answer.body and await gate.hold(key):
            if self._reader.at_eof():  # a task for one that is gone would be lost
                raise EOFError
            gate.asks(key)
            answer = await self._ask(head, body)
        return answer

    async def _ask(self, head: h11.Request, body: bytes) -> VisitAnswer:
        port = self._gate.upstream()
        if port is None:
            return VisitAnswer(503, b"the server is being started")
        fresh = self._server is None or self._server[0] != port
        try:
            async with asyncio.timeout(self._gate.limits.answer):
                try:
                    return await self._exchange(port, head, body)
                except HUNG_UP:
                    self._drop_server()
                    if fresh:
                        raise
                    return await self._exchange(port, head, body)  # it had been idle for too long
        except (*HUNG_UP, TimeoutError):
            self._drop_server()
            return VisitAnswer(503, b"the server does not answer")

    async def _exchange(self, port: int, head: h11.Request, body: bytes) -> VisitAnswer:
        if self._server is None or self._server[0] != port:
            self._drop_server()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            self._server = (port, reader, writer)
        _, reader, writer = self._server
        passed = [
            (name, value)
            for name, value in head.headers
            if name in _PASSED or name.startswith(b"flwr-")
        ]
        own = [(b"host", b"127.0.0.1"), (b"content-length", str(len(body)).encode())]
        talk = h11.Connection(h11.CLIENT)
        request = h11.Request(method=head.method, target=head.target, headers=own + passed)
        parts = [request, h11.Data(data=body), h11.EndOfMessage()]
        writer.write(b"".join(talk.send(part) or b"" for part in parts))
        await writer.drain()
        status, kind, found = 0, "", bytearray()
        while not isinstance(event := talk.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                piece = await reader.read(_PIECE)
                if not piece and not status:
                    raise EOFError
                talk.receive_data(piece)
            elif isinstance(event, h11.Response):
                status = event.status_code
                told = {name: value for name, value in event.headers}
                kind = told.get(b"content-type", b"application/octet-stream").decode("latin-1")
            elif isinstance(event, h11.Data):
                found += event.data
        if talk.their_state is h11.MUST_CLOSE or talk.our_state is h11.MUST_CLOSE:
            self._drop_server()
        return VisitAnswer(status, bytes(found), kind)

    async def _tell(
        self, talk: h11.Connection, head: h11.Request, answer: VisitAnswer, *, last: bool
    ) -> None:
        headers = [("content-type", answer.kind), ("content-length", str(len(answer.body)))]
        headers += [("date", formatdate(usegmt=True))]
        headers += [("connection", "close")] if last else []
        parts: list[h11.Event] = [h11.Response(status_code=answer.status, headers=headers)]
        parts += [h11.Data(data=answer.body)] if head.method != b"HEAD" else []
        parts += [h11.EndOfMessage()]
        self._writer.write(b"".join(talk.send(part) or b"" for part in parts))
        async with asyncio.timeout(self._gate.limits.answer):
            await self._writer.drain()

    def _drop_server(self) -> None:
        if self._server is not None:
            self._server[2].close()
            self._server = None

    def hang_up(self) -> None:
        self._writer.transport.abort()

    async def close(self) -> None:
        """Hang up on both sides, without waiting for a peer that does not."""
        if self._server is not None:
            self._server[2].transport.abort()
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        self._writer.transport.abort()
