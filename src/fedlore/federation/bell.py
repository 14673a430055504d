"""Who waits is told: sites of new tasks, a training of new replies, so that nobody asks in vain.

It tells no more than that something has come. Whoever is told asks the server, as whoever is not
told does after a while: a bell that is broken costs time and nothing else.
"""

import asyncio
import hashlib
import hmac
import select
import socket
import time
from contextlib import suppress

_TOKEN = 32  # bytes
_RING = b"!"
UNRUNG = 1.0  # seconds after which a training looks although nobody has rung


def bell_token(secret: bytes) -> bytes:
    """What a training of this machine shows; it reads the same file as the server."""
    return hashlib.sha256(b"fedlore bell" + secret).digest()


class DoorBell:
    """The server's end, in its event loop."""

    def __init__(self, token: bytes) -> None:
        self._token = token
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._rung = asyncio.Event()
        self.rings = 0  # so often were there new tasks
        self._trainings: set[asyncio.StreamWriter] = set()

    async def serve(self) -> None:
        """Until it is cancelled."""
        server = await asyncio.start_server(self._attend, sock=self._listener)
        try:
            await server.serve_forever()
        finally:
            for training in self._trainings:
                training.close()

    async def wait(self, seconds: float) -> None:
        """Until there are new tasks, or so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._rung.wait()

    def ring_sites(self) -> None:
        """There are new tasks: all who wait now go on."""
        before, self._rung, self.rings = self._rung, asyncio.Event(), self.rings + 1
        before.set()

    def ring_trainings(self) -> None:
        """There are new replies."""
        for training in self._trainings:
            if training.transport.get_write_buffer_size() == 0:  # one ring is as good as many
                training.write(_RING)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5.0):
                told = await reader.readexactly(_TOKEN)
            if not hmac.compare_digest(told, self._token):
                return
            self._trainings.add(writer)
            while await reader.read(1024):
                self.ring_sites()
        except (OSError, EOFError, TimeoutError):
            pass  # it has hung up
        finally:
            self._trainings.discard(writer)
            writer.close()


class Ringer:
    """A training's end. Without a bell it looks as often as it is told to."""

    def __init__(self, port: int, token: bytes) -> None:
        self._line: socket.socket | None = None
        with suppress(OSError):
            self._line = socket.create_connection(("127.0.0.1", port), timeout=2.0)
            self._line.sendall(token)

    def ring(self) -> None:
        """Say that there are new tasks."""
        if self._line is not None:
            try:
                self._line.sendall(_RING)
            except OSError:
                self.close()

    def wait(self, seconds: float) -> None:
        """Until there may be new replies; so many seconds where nobody would ring."""
        if self._line is None:
            time.sleep(seconds)
            return
        heard, _, _ = select.select([self._line], [], [], max(seconds, UNRUNG))
        try:
            if heard and not self._line.recv(1024):
                self.close()
        except OSError:
            self.close()

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
