"""What a site deals out of its secrets of one round, sealed for each of the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import FedloreError
from .channels import SEAL, KeyPair, commitment, seal, unseal
from .pact import Binding, Pact
from .shamir import SHARE, ByteSource, split_secret


@dataclass(frozen=True)
class Secrets:
    """A site's own seed and the seeds that it has with each other site."""

    seed: bytes  # b: of the mask that is this site's own
    pairs: Mapping[str, bytes]  # h: of the masks that cancel between two sites


@dataclass(frozen=True)
class Dealt:
    """Shares of one site's secrets, as one other site holds them."""

    seed: bytes
    pairs: Mapping[str, bytes]

    def pack(self, others: Sequence[str]) -> bytes:
        return self.seed + b"".join(self.pairs[site] for site in others)

    @staticmethod
    def read(packed: bytes, others: Sequence[str]) -> "Dealt":
        parts = [packed[at : at + SHARE] for at in range(0, len(packed), SHARE)]
        if len(packed) != SHARE * (1 + len(others)):
            raise FedloreError("sealed shares have another length than they must have")
        return Dealt(parts[0], dict(zip(others, parts[1:], strict=True)))


def pair_seeds(
    pact: Pact, bound: Binding, own: KeyPair, site: str, keys: Mapping[str, bytes]
) -> dict[str, bytes]:
    """The seed that a site has with each other, the same from either end."""
    found = {}
    for other in others_of(pact, site):
        one, two = sorted((site, other))
        found[other] = own.agree(keys[other], bound.purpose("mask", one, two))
    return found


def deal(pact: Pact, secrets: Secrets, site: str, entropy: ByteSource) -> dict[str, Dealt]:
    """Shares of all secrets of a site for every site, its own among them."""
    points = {name: pact.point(name) for name in pact.cohort}

    def split(secret: bytes) -> dict[int, bytes]:
        threshold = pact.threshold
        return split_secret(secret, list(points.values()), threshold=threshold, entropy=entropy)

    seed = split(secrets.seed)
    pairs = {other: split(secret) for other, secret in secrets.pairs.items()}
    return {
        name: Dealt(seed[at], {other: shares[at] for other, shares in pairs.items()})
        for name, at in points.items()
    }


def promises(pact: Pact, secrets: Secrets, site: str) -> bytes:
    """What ties a site to its secrets without telling them, in the order of the shares."""
    all_of = [secrets.seed, *(secrets.pairs[other] for other in others_of(pact, site))]
    return b"".join(commitment(secret) for secret in all_of)


def seal_for(
    bound: Binding,
    own: KeyPair,
    sender: str,
    recipient: tuple[str, bytes],
    message: bytes,
    entropy: ByteSource,
) -> bytes:
    """A box from one site to another."""  # fmt: skip
    name, key = recipient
    purpose = bound.purpose("box", sender, name)
    return seal(own.agree(key, purpose), message, purpose.encode(), entropy)


def open_from(
    bound: Binding, own: KeyPair, recipient: str, sender: tuple[str, bytes], box: bytes
) -> bytes:
    """What a box from another site holds; of another round or place it does not open."""
    name, key = sender
    purpose = bound.purpose("box", name, recipient)
    return unseal(own.agree(key, purpose), box, purpose.encode())


def others_of(pact: Pact, site: str) -> list[str]:
    """The other sites of a cohort, in the order of shares and boxes."""
    return [name for name in pact.cohort if name != site]


def box_size(pact: Pact) -> int:
    """Bytes of a box."""
    return SHARE * len(pact.cohort) + SEAL


def sign(site: str, other: str) -> int:
    """Of two sites one adds their mask and the other takes it away."""
    return 1 if site < other else -1
