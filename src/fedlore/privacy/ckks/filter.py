"""Homomorphic encryption: the server adds uploads that it cannot read.

The sites share a secret key that the server never has. Each encrypts its upload, the server adds
the ciphertexts, and the sites decrypt the sum for it, one sum in each round:

    train    (or moments, gram) each site uploads ciphertexts of weight × values, and of the weight
    decrypt  each site decrypts the sum, and the answers must agree

The model is a server that is curious and follows the protocol, and sites that do not help it: one
that gives it the key gives it every upload.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from ...core.tree import Payload
from ...core.wire import Reply, Task, Transport
from ...errors import FedloreError
from ..defence import Around, Standing
from ..dp.noise import Entropy
from ..filters import Filter, Half
from .cipher import (
    ASKED,
    DEGREE,
    MODULI,
    Parameters,
    Scheme,
    new_key,
    pieces,
    read_key,
    tenseal,
    write_key,
)
from .server import Adding, encrypted_flaw
from .site import Encrypting

_KEY_FILE = "ckks.key"  # where a site keeps the key, unless its owner names another file


@dataclass(frozen=True)
class Encryption:
    """What is asked for: the coordinator adds numbers that it cannot read."""

    name: ClassVar[str] = "encryption"
    hides: ClassVar[bool] = True
    kinds: ClassVar[Mapping[str, str]] = ASKED

    def make(self, around: Around, place: Standing) -> Filter:
        Parameters(around.cohort)  # its checks, before a key is made
        key = None  # the coordinator has none
        if place.role == "process":
            key = new_key()
        elif place.role == "site":
            key = read_key(place.path("ckks", _KEY_FILE))
        return Ckks(around.cohort, around.weights, key)

    def share(self, place: Standing) -> tuple[Path, str]:
        path = place.path("ckks", _KEY_FILE)
        return path, write_key(path)


@dataclass(frozen=True)
class Ckks:
    """The filter: ciphertexts at the sites, their sum at the server."""

    sites: int  # how many may be in a round: the scale leaves room for their sum
    weights: str = "equal"  # or size: then the sum is weighted by rows, which stay hidden too
    key: bytes | None = field(default=None, repr=False)  # what the sites share, the server has none
    entropy: Entropy = os.urandom  # anything else is for tests
    losses: dict[str, float] = field(default_factory=dict, compare=False)  # measured, by site
    values: list[int] = field(default_factory=list, compare=False)  # how many were encrypted

    name: ClassVar[str] = "ckks"
    hides: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.scheme  # noqa: B018  # its checks

    @property
    def scheme(self) -> Scheme:
        return Scheme(self.sites, self.weights, self.entropy)

    def site(self, name: str) -> Half:
        tenseal()
        if self.key is None:
            raise FedloreError(
                f"site '{name}' has no CKKS key: one site makes it (fedlore federation key) and "
                "hands it to the others, never to the coordinator"
            )
        return Encrypting(name, self.scheme, self.key)

    def over(self, transport: Transport) -> Transport:
        tenseal()
        return Adding(transport, self.scheme, losses=self.losses, values=self.values)

    def flaw(self, task: Task, reply: Reply, like: Payload) -> str | None:
        return encrypted_flaw(task, reply, like)

    def parameters(self, kind: str) -> Parameters:
        return self.scheme.parameters(kind)

    def lines(self, *, rounds: int, sample: float, bare: bool) -> Sequence[str]:
        """What the run's report says of precision."""
        loss = f"{max(self.losses.values()):.1e}" if self.losses else "not"
        count = pieces(self.values[-1]) if self.values else 0
        size = f", {count} ciphertext{'s' * (count > 1)} a site" if count else ""
        return [
            f"CKKS: degree {DEGREE}, moduli of {'+'.join(map(str, MODULI))} bits, scale "
            f"2^{self.parameters('train').bits}{size}, relative error {loss} measured"
        ]
