"""A SuperLink and SuperNodes as somebody else runs them: Flower's own commands alone, with TLS."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedlore.federation.kits.certificates import new_authority, new_server
from fedlore.federation.processes import Child, free_port
from fedlore.federation.remote import fetch_page

BIN = Path(sys.executable).parent


def environment(home: Path, config: str = "") -> dict[str, str]:
    """What Flower needs to keep to its own folder, and to ask nobody on the network."""
    home.mkdir(parents=True, exist_ok=True)
    if config:
        (home / "config.toml").write_text(config)
    found = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": str(home)}
    found |= {"FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    found |= {"FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1"}
    if "PYTHONPATH" in os.environ:
        found["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return found


@dataclass
class StockFederation:
    """A SuperLink with its SuperNodes."""

    folder: Path
    environment: dict[str, str]
    children: list[Child] = field(default_factory=list)

    def flwr(self, *words: str, timeout: float = 560.0) -> str:
        """One of Flower's commands, to its end; what it printed."""
        command = [str(BIN / "flwr"), *words]
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, done.stdout + done.stderr + self.tails()
        return done.stdout + done.stderr

    def tails(self) -> str:
        return "\n".join(child.tail(30) for child in self.children)


@contextmanager
def stock_federation(folder: Path, sites: list[Path]) -> Iterator[StockFederation]:
    """SuperLink with TLS and node authentication, one SuperNode for each site's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    new_authority(folder, "their own", days=2)
    new_server(folder, ["localhost", "127.0.0.1"], days=2)
    port = free_port()
    address, ca = f"127.0.0.1:{port}", folder / "ca.crt"
    config = f'[superlink]\ndefault = "plant"\n[superlink.plant]\naddress = "{address}"\n'
    found = environment(folder / "home", config + f'root-certificates = "{ca}"\n')
    made = StockFederation(folder, found)
    server = [str(BIN / "flower-superlink"), "--host", "127.0.0.1", "--port", str(port)]
    server += ["--ssl-ca-certfile", str(ca), "--ssl-certfile", str(folder / "server.pem")]
    server += ["--ssl-keyfile", str(folder / "server.key"), "--enable-supernode-auth"]
    try:
        made.children.append(Child(server, log=folder / "superlink.log", env=found))
        wait_for(address, ca.read_bytes(), made)
        for site in sites:
            key = write_key(folder / f"{site.name}.key")
            made.flwr("supernode", "register", str(key), "plant", "--name", site.name)
            node = [str(BIN / "flower-supernode"), "--superlink", address, "--port"]
            node += [str(free_port()), "--root-certificates", str(ca)]
            node += ["--auth-supernode-private-key", str(folder / f"{site.name}.key")]
            node += ["--node-config", f'site="{site}"']
            own = environment(folder / f"home-{site.name}")
            made.children.append(Child(node, log=folder / f"{site.name}.log", env=own))
        yield made
    finally:
        for child in reversed(made.children):
            child.stop()


def write_key(path: Path) -> Path:
    """A SuperNode's key as Flower wants it; the public half is where it is registered by."""
    private = ec.generate_private_key(ec.SECP384R1())
    path.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
    )
    path.chmod(0o600)
    public = private.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    path.with_suffix(".pub").write_bytes(public)
    return path.with_suffix(".pub")


def wait_for(address: str, ca: bytes | None, made: StockFederation) -> None:
    end = time.monotonic() + 120
    while True:
        try:
            fetch_page(address, "/health", ca)
            return
        except (OSError, urllib.request.URLError):
            assert time.monotonic() < end, made.tails()
            time.sleep(0.5)
