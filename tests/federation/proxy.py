"""A small forward proxy on loopback: CONNECT alone, with names that only it can resolve."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress


class ForwardProxy:
    """What was asked of it, and how many bytes went through."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        self.hosts, self.asked, self.carried = hosts, list[str](), 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with line, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                piece = line.recv(4096)
                if not piece:
                    return
                head += piece
            method, target = head.split(b" ", 2)[:2]
            self.asked.append(f"{method.decode()} {target.decode()}")
            host, _, port = target.decode().rpartition(":")
            if method != b"CONNECT" or host not in self.hosts:
                line.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
                return
            with socket.create_connection((self.hosts[host], int(port))) as other:
                line.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                back = threading.Thread(target=self._carry, args=(other, line), daemon=True)
                back.start()
                self._carry(line, other)
                back.join()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65_536):
                self.carried += len(data)
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()


@contextmanager
def forward_proxy(hosts: Mapping[str, str]) -> Iterator[ForwardProxy]:
    """A proxy that reaches these names at these addresses, and nothing else."""
    proxy = ForwardProxy(hosts)
    try:
        yield proxy
    finally:
        proxy.close()
