"""What is watched, put on the page, beside other work; for a folder of either kind."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...bundle.serve.limits import check_host, names_of
from ...bundle.serve.server import showing
from ...errors import ConfigError
from .app import Shown, make_watch
from .measures import measure
from .overview import Watcher
from .pages import show_overview
from .sitepages import measure_site, show_site
from .sites import SiteWatcher


@dataclass(frozen=True)
class PagePlace:
    """Where a page is shown: host:port, a port alone for loopback."""

    host: str
    port: int
    asked: bool = True  # False: another port will do as well

    @staticmethod
    def read(text: str) -> "PagePlace":
        """
        >>> PagePlace.read("9464"), PagePlace.read("[::1]:80").host
        (PagePlace(host='127.0.0.1', port=9464, asked=True), '::1')
        """
        host, colon, port = text.rpartition(":")
        if not port.isdigit() or int(port) > 65535:
            raise ConfigError(f"a page is shown at a port or at host:port, got '{text}'")
        return PagePlace(host.strip("[]") if colon else "127.0.0.1", int(port))


USUAL_PAGE = PagePlace("127.0.0.1", 8764, asked=False)


def watch_folder(folder: Path) -> Shown:
    """What there is to show of a coordinator's folder, or of a site's."""
    if (folder / "federation.toml").exists():
        watcher = Watcher(folder)
        return Shown(
            watcher.look().name,
            lambda: show_overview(watcher.look()),
            lambda: measure(watcher.look()),
            watcher.look,
            lambda: watcher.look().server == "up",
        )
    if (folder / "site.toml").exists():
        site = SiteWatcher(folder)
        return Shown(
            site.look().name,
            lambda: show_site(site.look()),
            lambda: measure_site(site.look()),
            site.look,
            lambda: site.look().joined,
        )
    raise ConfigError(f"'{folder}' holds neither a federation.toml nor a site.toml")


@contextmanager
def showing_folder(
    folder: Path, place: PagePlace, *, token: str | None, told: Callable[[str], None]
) -> Iterator[str]:
    """The page of a folder while something else is done; its address."""
    check_host(place.host, token=token, insecure=False)
    names = names_of(place.host, token=token, insecure=False)
    app = make_watch(watch_folder(folder), token=token, hosts=names)
    port = place.port if place.asked or _is_free(place) else 0
    with showing(app, host=place.host, port=port) as address:
        told(f"watch it at {address}/")
        yield address


def _is_free(place: PagePlace) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((place.host, place.port)) != 0
