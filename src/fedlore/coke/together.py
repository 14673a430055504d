"""Server and sites as children of this process, for trials and tests."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import FedloreError
from ..federation.coordinator.server import healthy, link_of
from ..federation.kits.certificates import raw_key
from ..federation.kits.making import enrolled_keys
from ..federation.processes import Child, fedlore_command, free_port
from ..federation.settings import read_deployed
from ..federation.site.agreeing import accept_terms
from ..federation.site.folder import read_kit
from ..federation.terms import terms_of
from .trial import make_trial, trial_sites

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
def together(
    folder: Path,
    *,
    sites: int,
    rounds: int,
    told: Callable[[str], None],
    recipe: str = "none",
) -> Iterator[Household]:
    """Make the folder where there is none, start everything, and stop it all at the end."""
    if not (folder / "federation.toml").exists():
        address = f"127.0.0.1:{free_port()}"
        make_trial(folder, sites=sites, address=address, rounds=rounds, recipe=recipe)
        told(f"made '{folder}' with {sites} simulated coking plants")
    began = time.monotonic()
    homes = trial_sites(folder)
    (folder / "logs").mkdir(exist_ok=True)
    federation = Household(folder, start_server(folder), {})
    try:
        for home in homes:
            _agree(folder, home)
            federation.sites[home.name] = start_site(home)
        wait_for_sites(federation)
        told(f"server and {len(homes)} sites are up after {time.monotonic() - began:.1f} s")
        yield federation
    finally:
        federation.stop()


def _agree(folder: Path, home: Path) -> None:
    """All these sites have one owner, who has written the federation's file."""
    kit, terms = read_kit(home), terms_of(read_deployed(folder), run="", participants=0)
    if kit.file.agreed != terms.fingerprint():
        accept_terms(kit, terms, policy=True)


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
