"""The coordinator's server: Flower's SuperLink on loopback, watched over, and a gate before it."""

import json
import os
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ...core.store import hold_lock, write_whole
from ...errors import ConfigError, FedloreError
from ..bell import DoorBell, Ringer, bell_token
from ..flower import superlink
from ..flower.transport import Link
from ..kits.certificates import check_dates, raw_key
from ..kits.kit import enrolled_keys, shown_authorities
from ..logs import LogForm, cut_log, write_log
from ..processes import Child, free_port
from ..remote import LinkLost, fetch_page
from ..settings import Federation, read_deployed
from .gateway import Gateway
from .limits import GateLimits
from .status import PRESENCE_FILE

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_START = 90.0  # seconds that a loaded machine may need to start it
LOOK = 10.0  # seconds between looks at the server's keys: its control interface has no login
REFRESH = 1.0  # seconds between looks at the keys and certificates that other commands write
SILENT = 8.0  # seconds without an answer after which the server counts as stopped
EACH = 0.2  # seconds more for each site: many that answer at once keep it busy
_DAY = 86_400.0  # seconds between two warnings of a certificate that ends soon
_SOON = 30  # days
_RESTARTS = 5  # ends of the server within five minutes that are borne
#: For glibc: pieces of large answers go back to the system once they are forgotten.
_RETURNED = {"MALLOC_MMAP_THRESHOLD_": "1000000", "MALLOC_ARENA_MAX": "2"}


def serve_federation(
    folder: Path,
    *,
    insecure: bool,
    stop: threading.Event,
    say: Callable[[str], None],
    form: LogForm | None = None,
) -> None:
    """Run until told to stop; a server that dies or falls silent is started again."""
    os.umask(0o077)
    federation = read_deployed(folder)
    if insecure and federation.host not in LOOPBACK:
        raise ConfigError(
            f"--insecure is for trials on one machine: the address is {federation.address}, "
            "not a loopback one"
        )
    if not insecure:
        check_dates(folder / "ca.crt")
        check_dates(folder / "server.pem")
    (folder / "logs").mkdir(mode=0o700, exist_ok=True)
    with hold_lock(folder / "server.lock", "a server for this federation"):
        tls = None if insecure else ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        bell = DoorBell(bell_token((folder / "runner.secret").read_bytes()))
        keeper = Keeper(folder, federation, tls, stop, say, bell.port)
        with write_log(folder / "logs" / "gateway.log", form) as log:

            def alarm(line: str) -> None:
                log(line)
                say(line)

            gate = Gateway(
                federation.host if federation.host in LOOPBACK else "0.0.0.0",
                federation.port,
                tls,
                keeper.keys,
                lambda: keeper.port,
                lambda: shown_authorities(folder),
                log,
                keeper.lose,
                GateLimits.for_sites(len(keeper.keys()), reply=federation.largest_answer << 20),
                alarm=alarm,
                report=lambda seen: seen.write(folder / PRESENCE_FILE, ready=bool(keeper.port)),
                bell=bell,
            )
            with gate:
                keeper.keep()


def _port_of(folder: Path, what: str) -> int:
    try:
        return int(json.loads((folder / "server.json").read_text(encoding="utf-8"))[what])
    except (OSError, ValueError, KeyError):
        return 9  # nobody is there: the server has never been started


def link_of(folder: Path) -> Link:
    """How to reach the server of a folder, which only its own machine can."""
    return Link(f"127.0.0.1:{_port_of(folder, 'port')}")


def bell_of(folder: Path) -> Ringer:
    """A line to the bell of the server of a folder."""
    return Ringer(_port_of(folder, "bell"), bell_token((folder / "runner.secret").read_bytes()))


def healthy(address: str, ca: bytes | None, *, timeout: float = 5.0) -> str | None:
    """None when the server answers, or what went wrong."""
    try:
        fetch_page(address, "/health", ca, timeout=timeout)
    except OSError as error:
        return str(getattr(error, "reason", error))
    return None


class Keeper:
    """Keeps the SuperLink running, with the keys of the enrolment folder and no others."""

    def __init__(
        self,
        folder: Path,
        federation: Federation,
        tls: ssl.SSLContext | None,
        stop: threading.Event,
        say: Callable[[str], None],
        bell: int,
    ) -> None:
        self._bell = bell
        self._folder, self._federation, self._stop, self._say = folder, federation, stop, say
        self._tls, self._certified = tls, 0.0
        self._warned = -_DAY
        self.port: int | None = None  # where it listens on loopback, once it answers
        self._lost: set[str] = set()  # sites that it does not know any more
        self._enrolled: dict[str, bytes] = {}
        self._files: list[tuple[str, int]] = []  # in the enrolment folder, when they were read
        self._names: dict[bytes, str] = {}
        self._refresh()

    def keys(self) -> Mapping[bytes, str]:
        return self._names

    def lose(self, site: str) -> None:
        """Take note of a site that is enrolled and yet was not let in."""
        self._lost.add(site)

    def keep(self) -> None:
        """Until told to stop."""
        ends: list[float] = []
        while not self._stop.is_set():
            port = free_port()
            child = Child(
                _command(self._folder, port),
                log=self._folder / "logs" / "superlink.log",
                env={"FLWR_HOME": str(self._folder / "flower"), **_RETURNED},
            )
            write_whole(
                self._folder / "server.json",
                json.dumps({"port": port, "bell": self._bell}),
                private=True,
            )
            try:
                reason = self._wait_for(child, port)
            finally:
                self.port = None
                child.stop()
            if self._stop.is_set():
                return
            if not reason:
                ends = [t for t in ends if t > time.monotonic() - 300] + [time.monotonic()]
                if len(ends) > _RESTARTS:
                    raise FedloreError(f"the server keeps ending: see '{child.log}'")
                reason = f"the server ended with code {child.code()}"
            self._say(f"{reason}: starting it again")

    def _wait_for(self, child: Child, port: int) -> str:
        """Until the server ends, or must be started again for a reason, or we are told to stop."""
        link, began = Link(f"127.0.0.1:{port}"), time.monotonic()
        heard = looked = refreshed = began
        let_in: dict[str, bytes] | None = None
        while not self._stop.wait(0.3) and child.code() is None:
            now = time.monotonic()
            if let_in is None or now - refreshed > REFRESH:
                refreshed = now
                self._refresh()
            if let_in is None or now - heard > 2.0:
                trouble = healthy(link.address, None, timeout=2.0)
                if trouble is None:
                    heard = time.monotonic()
                elif let_in is None and now - began > _START:
                    raise FedloreError(f"the server does not answer: {trouble}; see '{child.log}'")
                elif let_in is not None and now - heard > SILENT + EACH * len(self._enrolled):
                    return f"the server has not answered for {now - heard:.0f} s"
                if trouble is not None:
                    continue
            if let_in == self._enrolled and now - looked < LOOK and not self._lost:
                continue
            looked = now
            cut_log(child.log)
            self._lost.clear()
            try:
                shut_out, lost = link.enrol(self._enrolled)
            except LinkLost:
                continue
            for name in shut_out:
                self._say(f"shut out: {name}")
            if lost:
                return (
                    f"somebody has unregistered {', '.join(lost)} at the server, which would never "
                    "take the key again"
                )
            if let_in is None:
                self._say(
                    f"listening on {self._federation.address}, {len(self._enrolled)} sites enrolled"
                )
            let_in, self.port = dict(self._enrolled), port
        return ""

    def _refresh(self) -> None:
        """The keys in the enrolment folder and the certificate, which other commands write."""
        written = (self._folder / "server.pem").stat().st_mtime
        if self._tls is not None and written != self._certified:
            self._tls.load_cert_chain(self._folder / "server.pem", self._folder / "server.key")
            self._certified = written
        if self._tls is not None and time.monotonic() - self._warned >= _DAY:
            self._warned = time.monotonic()
            for line in ending_soon(self._folder):
                self._say(line)
        keys = sorted((self._folder / "enrolled").glob("*.pub"))
        files = [(path.name, path.stat().st_mtime_ns) for path in keys]
        if files == self._files:
            return
        self._files = files
        found = {name: raw_key(key) for name, key in enrolled_keys(self._folder).items()}
        self._enrolled, self._names = found, {key: name for name, key in found.items()}


def ending_soon(folder: Path) -> list[str]:
    """A sentence for each certificate that has to be renewed within a month."""
    found = []
    for name, how in (("ca.crt", " --authority"), ("server.pem", "")):
        try:
            days = check_dates(folder / name).days
        except FedloreError as error:
            found.append(str(error))
            continue
        if days < _SOON:
            found.append(
                f"'{name}' holds for another {days} days: fedlore federation renew{how} --dir "
                f"'{folder}'"
            )
    return found


def _command(folder: Path, port: int) -> list[str]:
    # loopback and process isolation: nobody outside reaches it, and it starts nothing that was
    # submitted to it
    command = [sys.executable, "-m", superlink.__name__, "--host", "127.0.0.1", "--port", str(port)]
    command += ["--isolation", "process", "--insecure"]
    return [*command, "--superexec-auth-secret-file", str(folder / "runner.secret")]
