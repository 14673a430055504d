"""One connection from outside and the one to the server behind it, with limits for all."""

import asyncio
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Protocol

import h11

ENTER = b"/v1/fleet/activate-node"
PULL = b"/v1/fleet/pull-messages"
PUSHES = (b"/v1/fleet/push-messages", b"/v1/fleet/push-object")
HUNG_UP = (OSError, EOFError, h11.RemoteProtocolError)  # somebody has hung up
_PASSED = (b"content-type", b"accept")
_PIECE = 65_536


@dataclass(frozen=True)
class GateLimits:
    """How much anybody may take of the gate."""

    head: int = 16_384  # bytes of a request's head
    body: int = 16 << 20  # bytes of a request: Flower cuts tensors into pieces of 5 MB
    strangers: int = 128  # connections that nobody has signed on yet; the oldest makes room
    patience: float = 10.0  # seconds for a handshake and the head of a first request
    slowest: float = 20_000.0  # bytes a second, of a body
    idle: float = 120.0  # seconds between two requests of a site
    rate: float = 200.0  # requests a second of one site
    burst: float = 1000.0  # requests at once
    answer: float = 30.0  # seconds that the server may take
    hold: float = 2.0  # seconds for which a site that asks for tasks is kept waiting for one


class Strangers:
    """Connections without a signature yet, oldest first."""

    def __init__(self, most: int) -> None:
        self._most, self._here = most, dict[int, Callable[[], object]]()

    def add(self, number: int, close: Callable[[], object]) -> bool:
        """Let one in; False where another had to go for it."""
        full = len(self._here) >= self._most
        if full:
            self._here.pop(next(iter(self._here)))()
        self._here[number] = close
        return not full

    def drop(self, number: int) -> None:
        self._here.pop(number, None)

    def __len__(self) -> int:
        return len(self._here)


@dataclass
class Bucket:
    """A rate with a burst."""

    rate: float
    burst: float
    clock: Callable[[], float] = time.monotonic
    _left: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._left, self._at = self.burst, self.clock()

    def take(self) -> bool:
        """Whether one more is within the rate."""
        now = self.clock()
        self._left = min(self.burst, self._left + (now - self._at) * self.rate)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


class RefusalLog:
    """A line for every kind of refusal and from whom; the same again is counted, not repeated."""

    def __init__(
        self,
        write: Callable[[str], None],
        *,
        every: float = 10.0,
        most: int = 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write, self._every, self._most, self._clock = write, every, most, clock
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def note(self, who: str, why: str) -> None:
        now = self._clock()
        since, more = self._seen.get((who, why), (-self._every, 0))
        if now - since < self._every:
            self._seen[who, why] = (since, more + 1)
            return
        self._write(f"refused {who}: {why}" + (f" ({more} more of it before)" if more else ""))
        self._seen[who, why] = (now, 0)
        if len(self._seen) > self._most:  # a stranger with many addresses must not fill memory
            self.flush()

    def flush(self) -> None:
        """Write what was only counted so far."""
        for (who, why), (_, more) in self._seen.items():
            if more:
                self._write(f"refused {who}: {why} ({more} more of it)")
        self._seen.clear()


class Twins:
    """Notices a site that speaks from two places: somebody has a copy of its kit."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._now: dict[str, tuple[str, str]] = {}  # site -> its visit and from where
        self._before: dict[str, dict[str, str]] = {}  # visits that another took the place of
        self._named: set[str] = set()

    def seen(self, site: str, visit: str, who: str) -> bool:
        """Whether there are two: a start that another took the place of speaks again."""
        current, place = self._now.get(site, (visit, who))
        twice = False
        if visit != current:
            before = self._before.setdefault(site, {})
            twice = visit in before
            if twice and site not in self._named:
                self._named.add(site)
                self._write(
                    f"site '{site}' speaks from two places ({place} and {who}): somebody has a "
                    f"copy of its kit; fedlore federation renew {site} makes a new key"
                )
            while len(before) > 100:
                before.pop(next(iter(before)))
            before[current] = place
        self._now[site] = (visit, who)
        return twice


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


class Gate(Protocol):
    """Whoever decides about a request."""

    tls: ssl.SSLContext | None
    limits: GateLimits

    def judge(self, head: h11.Request, who: str) -> bytes | None:
        """The key of the site that may ask this, None for what anybody may ask."""
        ...

    def refuse(self, who: str, error: TurnedAway) -> VisitAnswer: ...

    def known(self, number: int, key: bytes) -> None:
        """A site has signed on this connection."""
        ...

    def carried(self, key: bytes, received: int, sent: int) -> None:
        """So many bytes of a site went on, and so many back."""
        ...

    def port(self) -> int | None:
        """Where the server is on loopback, None while there is none."""
        ...

    def open_answer(self, target: bytes) -> VisitAnswer: ...

    async def hold(self, key: bytes) -> bool:
        """Wait a little for tasks; whether this is still the request to answer with one."""
        ...

    def entered(self, key: bytes) -> None:
        """A site begins anew: what it asked for before is not waited for any more."""
        ...

    def heard(self) -> None:
        """A site has sent something."""
        ...

    def lost(self, key: bytes) -> VisitAnswer:
        """What to say to an enrolled site that the server does not let in."""
        ...


async def serve_visit(gate: Gate, line: socket.socket, who: str, number: int) -> None:
    """Serve a connection from its first byte to its last."""
    loop, patience = asyncio.get_running_loop(), gate.limits.patience
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    async with asyncio.timeout(patience):
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, line, ssl=gate.tls)
    visit = Visit(
        gate, reader, asyncio.StreamWriter(transport, protocol, reader, loop), who, number
    )
    try:
        await visit.serve()
    finally:
        await visit.close()


class Visit:
    """Requests one after the other, each judged by its head before its body is read."""

    def __init__(
        self,
        gate: Gate,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        who: str,
        number: int,
    ) -> None:
        self._gate, self._reader, self._writer = gate, reader, writer
        self._who, self._number = who, number
        self._server: tuple[int, asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._signed = False

    async def serve(self) -> None:
        limits = self._gate.limits
        talk = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.head)
        while True:
            async with asyncio.timeout(limits.idle if self._signed else limits.patience):
                head = await self._next(talk)
            if not isinstance(head, h11.Request):
                return
            try:
                key = self._gate.judge(head, self._who)
                if key is not None and not self._signed:
                    self._signed = True
                    self._gate.known(self._number, key)
                answer = await self._go_on(talk, head, key)
            except TurnedAway as error:
                answer = self._gate.refuse(self._who, error)
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
        body, limits = bytearray(), self._gate.limits
        most = limits.body if key is not None else 0
        async with asyncio.timeout(limits.patience + most / limits.slowest):
            while isinstance(event := await self._next(talk), h11.Data):
                body += event.data
                if len(body) > most:
                    raise TurnedAway(413, f"a request of more than {most} bytes")
        if key is None:
            return self._gate.open_answer(head.target)
        if head.target == ENTER:
            self._gate.entered(key)
        answer = await self._ask(head, bytes(body))
        nothing = head.target == PULL and answer.status == 200 and not answer.body
        if nothing and await self._gate.hold(key):
            if self._reader.at_eof():  # a task for one that is gone would be lost
                raise EOFError
            answer = await self._ask(head, bytes(body))
        if head.target in PUSHES and answer.status == 200:
            self._gate.heard()
        self._gate.carried(key, len(body), len(answer.body))
        refused = head.target == ENTER and 400 <= answer.status < 500
        return self._gate.lost(key) if refused else answer

    async def _ask(self, head: h11.Request, body: bytes) -> VisitAnswer:
        port = self._gate.port()
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

    async def close(self) -> None:
        """Hang up on both sides, without waiting for a peer that does not."""
        if self._server is not None:
            self._server[2].transport.abort()
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        self._writer.transport.abort()
