"""New certificates in time: of the server, and of the authority with an overlap."""

from pathlib import Path

from ...core.store import write_whole
from ...errors import FedloreError
from ..settings import read_deployed
from .certificates import (
    check_dates,
    new_authority,
    new_server,
    private_key,
    read_certificate,
    vouch,
)
from .making import hosts_of

VOUCHED = "ca.vouched"  # by which an authority says which the next one is


def renew_server(folder: Path, *, days: int = 365) -> None:
    """A new server certificate from the authority; sites need nothing new."""
    hosts = hosts_of(read_deployed(folder).host)
    try:
        check_dates(folder / "ca.crt")
    except FedloreError:
        renew_authority(folder, days=days)  # nothing that it signs would be believed
    else:
        new_server(folder, hosts, days=days)


def renew_authority(folder: Path, *, days: int = 365) -> bool:
    """A new authority beside the old one; whether sites that only know the old one can still come.

    While the old one holds, the server keeps a certificate of it, and sites fetch the new one as
    they join. Once it has expired, they need the file ca.crt by hand.
    """
    federation = read_deployed(folder)
    old = (folder / "ca.crt").read_bytes()
    before, key = read_certificate(folder / "ca.crt"), private_key(folder / "ca.key")
    try:
        left = check_dates(folder / "ca.crt")
    except FedloreError:
        new_authority(folder, federation.name, days=days)
        new_server(folder, hosts_of(federation.host), days=days)
        return False
    new_server(folder, hosts_of(federation.host), days=max(1, left.days))
    new_authority(folder, federation.name, days=days)
    vouched = vouch(before, key, read_certificate(folder / "ca.crt"))
    shown = folder / VOUCHED
    write_whole(shown, vouched + (shown.read_bytes() if shown.exists() else b""))
    write_whole(folder / "ca.crt", (folder / "ca.crt").read_bytes() + old)
    return True


def shown_authorities(folder: Path) -> bytes:
    """What is told to whoever asks: the authorities, and which of them another vouches for."""
    vouched = folder / VOUCHED
    return (folder / "ca.crt").read_bytes() + (vouched.read_bytes() if vouched.exists() else b"")
