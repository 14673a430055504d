"""A federation's server and sites as children of this process, on one machine."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import FedloreError
from .coordinator.server import healthy, link_of
from .kits.certificates import raw_key
from .kits.kit import enrolled_keys
from .processes import Child, fedlore_command
from .settings import read_deployed
from .site.consent import accept_terms
from .site.folder import read_kit
from .terms import terms_of

__all__ = ["Household", "local_sites", "run_household"]

_START = 300.0  # seconds until all must be there: a busy machine takes minutes


@dataclass
class Household:
    """The processes of a federation on one machine."""

    folder: Path
    server: Child
    sites: dict[str, Child]

    def restart_server(self) -> None:
        self.server = start_server(self.folder)

    def restart_site(self, name: str) -> None:
        self.sites[name] = start_site(self.folder / "sites" / name)

    def stop(self) -> None:
        for child in self.sites.values():
            child.ask_to_end()
        for child in self.sites.values():
            child.wait(5.0)
        for child in (*self.sites.values(), self.server):
            child.stop()


@contextmanager
def run_household(folder: Path, *, say: Callable[[str], None]) -> Iterator[Household]:
    """Start the server and every site below `sites/`, and stop it all at the end."""
    began = time.monotonic()
    homes = local_sites(folder)
    (folder / "logs").mkdir(exist_ok=True)
    federation = Household(folder, start_server(folder), {})
    try:
        for home in homes:
            kit, terms = read_kit(home), terms_of(read_deployed(folder), run="", participants=0)
            if kit.file.agreed != terms.fingerprint():  # the owner of all these sites wrote them
                accept_terms(kit, terms, policy=True)
            federation.sites[home.name] = start_site(home)
        wait_for_sites(federation)
        say(f"server and {len(homes)} sites are up after {time.monotonic() - began:.1f} s")
        yield federation
    finally:
        federation.stop()


def local_sites(folder: Path) -> list[Path]:
    """The folders of the sites that live on this machine."""
    names = [name for name in enrolled_keys(folder) if (folder / "sites" / name).is_dir()]
    if not names:
        raise FedloreError(f"'{folder / 'sites'}' holds no site of this federation")
    read_deployed(folder)
    return [folder / "sites" / name for name in names]


def start_server(folder: Path) -> Child:
    return Child(fedlore_command("server", str(folder)), log=folder / "logs" / "server.log")


def start_site(home: Path) -> Child:
    command = fedlore_command("join", str(home))
    # sites share this machine's cores, and one thread each gives the same bits anywhere
    return Child(command, log=home / "join.log", env={"OMP_NUM_THREADS": "1"})


def wait_for_sites(federation: Household) -> None:
    """Until the server answers and every site is in."""
    began = time.monotonic()
    wanted = {raw_key(enrolled_keys(federation.folder)[name]) for name in federation.sites}
    while True:
        children = {"server": federation.server, **federation.sites}
        for name, child in children.items():
            if child.code() is not None:
                raise FedloreError(f"{name} ended with code {child.code()}:\n{child.tail()}")
        link = link_of(federation.folder)
        if healthy(link.address, link.ca) is None:
            here = {key for key, is_in in link.online().items() if is_in}
            if wanted <= here:
                return
        if time.monotonic() - began > _START:
            raise FedloreError(f"not all sites were in after {_START:.0f} s: see their join.log")
        time.sleep(0.5)
