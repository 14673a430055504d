"""What a service accepts, and from whom."""

import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import ConfigError, FedloreError

SHORTEST = 16  # characters of a token


@dataclass(frozen=True)
class ServeLimits:
    """How much one request may ask for."""

    body: int = 1_000_000  # bytes
    rows: int = 1_000
    patience: float = 10.0  # seconds until a body must have arrived

    def __post_init__(self) -> None:
        for name in ("body", "rows"):
            if getattr(self, name) < 1:
                raise ConfigError(f"max-{name} must be at least 1, got {getattr(self, name)}")


def bytes_of(text: str) -> int:
    """A size such as 1MB, 512KB or 100000.

    >>> bytes_of("1MB"), bytes_of("64 kb"), bytes_of("900")
    (1000000, 64000, 900)
    """
    said = text.strip().lower().removesuffix("b")
    for letter, factor in (("k", 1_000), ("m", 1_000_000), ("g", 1_000_000_000)):
        if said.endswith(letter):
            said, times = said[:-1], factor
            break
    else:
        times = 1
    if not said.strip().isdecimal():
        raise ConfigError(f"a size must be a whole number with B, KB, MB or GB, got '{text}'")
    return int(said) * times


def read_token(file: Path | None, environment: str | None) -> str | None:
    """The bearer token of a file, else of the environment, None where there is neither."""
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise FedloreError(f"cannot read the token file '{file}': {error}") from None
    elif environment is not None:
        token = environment.strip()
    else:
        return None
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"a token must have at least {SHORTEST} ASCII characters without blanks, this one has "
            f"{len(token)}"
        )
    return token


def is_loopback(host: str) -> bool:
    """Whether every address of a host name is reachable from this machine only."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise FedloreError(f"the host '{host}' has no address: {error.strerror}") from None
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)


def check_host(host: str, *, token: str | None, insecure: bool) -> None:
    """Refuse to show a site's model to a network unless it is guarded, or asked for in words."""
    if token is None and not insecure and not is_loopback(host):
        raise FedloreError(
            f"'{host}' can be reached from other machines: set a token (--token-file, or "
            "FEDLORE_TOKEN), or say --insecure"
        )


def names_of(host: str, *, token: str | None, insecure: bool) -> Sequence[str] | None:
    """The names a request may use for this service; None for any.

    Without a token, a web page of somebody else could point its own name at the loopback address
    and so ask on behalf of the person who looks at it.
    """
    if token is not None or insecure:
        return None
    return ("localhost", "127.0.0.1", "::1", host)
