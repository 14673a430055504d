"""The coordinator's server: Flower's SuperLink under our supervision, TLS and keys on."""

import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from ...errors import ConfigError, FedloreError
from ..flower.transport import Link
from ..kits.certificates import check_dates, raw_key
from ..kits.making import enrolled_keys
from ..processes import Child, alone, script
from ..remote import LinkLost
from ..settings import Federation, read_deployed

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_START = 90.0  # seconds that a loaded machine may need to start it
LOOK = 10.0  # seconds between looks at the server's keys: its control interface has no login


def serve_federation(
    folder: Path, *, insecure: bool, stop: threading.Event, told: Callable[[str], None]
) -> None:
    """Run until told to stop; a server that dies is started again."""
    federation = read_deployed(folder)
    if insecure and federation.host not in LOOPBACK:
        raise ConfigError(
            f"--insecure is for trials on one machine: the address is {federation.address}, "
            "not a loopback one"
        )
    if not insecure:
        check_dates(folder / "ca.crt")
        check_dates(folder / "server.pem")
    (folder / "logs").mkdir(exist_ok=True)
    with alone(folder / "server.lock", "a server for this federation"):
        (folder / "server.json").write_text(json.dumps({"insecure": insecure}))
        deaths: list[float] = []
        while not stop.is_set():
            child = Child(
                _command(folder, federation, insecure),
                log=folder / "logs" / "superlink.log",
                env={"FLWR_HOME": str(folder / "flower")},
            )
            try:
                _watch(child, folder, federation, stop, told)
            finally:
                child.stop()
            if not stop.is_set():
                deaths = [t for t in deaths if t > time.monotonic() - 300] + [time.monotonic()]
                if len(deaths) > 5:
                    raise FedloreError(f"the server keeps ending: see '{child.log}'")
                told(f"the server ended with code {child.code()}: starting it again")


def link_of(folder: Path) -> Link:
    """How to reach the server of a folder from its own machine."""
    federation = read_deployed(folder)
    try:
        insecure = bool(json.loads((folder / "server.json").read_text())["insecure"])
    except (OSError, ValueError, KeyError):
        insecure = False
    ca = None if insecure else (folder / "ca.crt").read_bytes()
    return Link(f"127.0.0.1:{federation.port}", ca)


def healthy(address: str, ca: bytes | None, *, timeout: float = 5.0) -> str | None:
    """None when the server answers, or what went wrong."""
    context = None if ca is None else ssl.create_default_context(cadata=ca.decode())
    url = f"{'http' if ca is None else 'https'}://{address}/health"
    try:
        with urllib.request.urlopen(url, context=context, timeout=timeout):
            return None
    except (urllib.error.URLError, OSError) as error:
        return str(getattr(error, "reason", error))


def _command(folder: Path, federation: Federation, insecure: bool) -> list[str]:
    bind = federation.host if federation.host in LOOPBACK else "0.0.0.0"
    command = [script("flower-superlink"), "--host", bind, "--port", str(federation.port)]
    # process isolation: it never starts anything that was submitted to it
    command += ["--isolation", "process"]
    command += ["--superexec-auth-secret-file", str(folder / "runner.secret")]
    if insecure:
        return [*command, "--insecure"]
    for option, name in (("ca-certfile", "ca.crt"), ("certfile", "server.pem")):
        command += [f"--ssl-{option}", str(folder / name)]
    return [*command, "--ssl-keyfile", str(folder / "server.key"), "--enable-supernode-auth"]


def _watch(
    child: Child,
    folder: Path,
    federation: Federation,
    stop: threading.Event,
    told: Callable[[str], None],
) -> None:
    """Until the server ends or we are told to: keep its keys those of the enrolment folder."""
    link, began, let_in = link_of(folder), time.monotonic(), dict[str, bytes]()
    ready, looked = False, began
    while not stop.wait(0.3) and child.code() is None:
        if not ready:
            trouble = healthy(link.address, link.ca, timeout=2.0)
            if trouble is not None:
                if time.monotonic() - began > _START:
                    raise FedloreError(f"the server does not answer: {trouble}; see '{child.log}'")
                continue
        if time.monotonic() - looked > LOOK:
            looked, let_in = time.monotonic(), {}
        try:
            let_in = _enrol(link, folder, let_in, told)
        except LinkLost:
            continue
        if not ready:
            told(f"listening on {federation.address}, {len(let_in)} sites enrolled")
            ready = True


def _enrol(
    link: Link, folder: Path, let_in: dict[str, bytes], told: Callable[[str], None]
) -> dict[str, bytes]:
    keys = enrolled_keys(folder)
    wanted = {name: raw_key(key) for name, key in keys.items()}
    if wanted == let_in:
        return let_in
    for name in link.keep_only(list(keys.values())):
        told(f"shut out: {name}")
    for name, key in keys.items():
        link.register(name, key)
    return wanted
