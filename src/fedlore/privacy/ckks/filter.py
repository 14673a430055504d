"""Homomorphic encryption: the server adds uploads that it cannot read.

The sites share a secret key that the server never has. Each encrypts its upload, the server adds
the ciphertexts, and the sites decrypt the sum for it, one sum in each round:

    train    (or moments, gram) each site uploads ciphertexts of weight × values, and of the weight
    decrypt  each site decrypts the sum, and the answers must agree

The model is a server that is curious and follows the protocol, and sites that do not help it: one
that gives it the key gives it every upload.
"""

import os
from dataclasses import dataclass, field
from typing import ClassVar

from ...core.wire import Transport
from ...errors import ConfigError, FedloreError
from ..dp.noise import Entropy
from ..filters import Half
from .cipher import DEGREE, MODULI, Parameters, pieces, tenseal

KINDS = frozenset({"decrypt"})


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
        Parameters(self.sites)
        if self.weights not in ("equal", "size"):
            raise ConfigError(f"weights must be equal or size, got '{self.weights}'")

    def site(self, name: str) -> Half:
        tenseal()
        if self.key is None:
            raise FedloreError(
                f"site '{name}' has no CKKS key: one site makes it (fedlore federation key) and "
                "hands it to the others, never to the coordinator"
            )
        from .site import Encrypting

        return Encrypting(name, self, self.key)

    def over(self, transport: Transport) -> Transport:
        tenseal()
        from .server import Adding

        return Adding(transport, self)

    def parameters(self, kind: str) -> Parameters:
        return Parameters(self.sites, kind)

    def line(self) -> str:
        """What the run's report says of precision."""
        loss = f"{max(self.losses.values()):.1e}" if self.losses else "not"
        count = pieces(self.values[-1]) if self.values else 0
        size = f", {count} ciphertext{'s' * (count > 1)} a site" if count else ""
        return (
            f"CKKS: degree {DEGREE}, moduli of {'+'.join(map(str, MODULI))} bits, scale "
            f"2^{self.parameters('train').bits}{size}, relative error {loss} measured"
        )
