"""Secure aggregation: the server learns the sum of the uploads and nothing else.

After Ma, Woods, Angel, Polychroniadou, Rabin (2023), Flamingo: Multi-Round Single-Server Secure
Aggregation with Applications to Private Federated Learning, with the double masks of Bonawitz et
al. (2017), shares in place of threshold encryption, and every site among those who decrypt.

Every upload is hidden by two kinds of masks. Those between two neighbours cancel in the sum; should
one of the two drop out, shares of the seed that they have in common give back what does not cancel.
A mask of the site's own keeps the upload hidden even if it was thought lost and arrives late. Who
are neighbours, and what holds where not all are: graph.py.

    train   (or another sum) brings the keys of all. Each site uploads its words plus masks,
            shares of its seeds sealed for every neighbour, and a fresh key for the next time
    unmask  brings the list U of those who uploaded, and the boxes. Each site answers once: shares
            of the own seeds of U, and of the seeds that U has with those who are not in U
    keys    asks those for a key of whom none is known: at the start, and after a restart

All seeds are bound to a hash of the run, the round, the cohort, the threshold and all keys. Never a
single upload is told to a server that lies, for t > 2n/3 and less than n/3 sites that help it.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...core.tree import Payload
from ...core.wire import Reply, Task, Transport
from ...errors import ConfigError, FedloreError
from ..filters import Filter, FilterContext, Half, OpenedSums, Placement
from .pact import LEAST, PHASES, Identity, Pact, least, make_pact, masked_flaw

THRESHOLD = 2 / 3  # see pact.least


@dataclass(frozen=True)
class Masks:
    """What is asked for: the coordinator sees sums alone."""

    threshold: float = THRESHOLD  # more than this share of a cohort must last until the end

    name: ClassVar[str] = "secure aggregation"
    hides: ClassVar[bool] = True
    kinds: ClassVar[Mapping[str, str]] = PHASES

    def __post_init__(self) -> None:
        if not THRESHOLD <= self.threshold <= 1.0:
            raise ConfigError(
                f"threshold must lie in [2/3, 1], got {self.threshold}: below, a server that lies "
                "about who dropped out could see single uploads with the help of one site"
            )

    def make(self, around: FilterContext, place: Placement) -> Filter:
        if around.cohort < LEAST:
            raise ConfigError(
                f"secure_aggregation needs at least {LEAST} sites in a round, got {around.cohort} "
                f"of {around.sites}: the sum of fewer tells what each one sent"
            )
        identity = None
        if place.role == "site" and place.folder is not None:
            _need_cryptography()
            from .identity import Peers

            identity = Peers(place.folder, place.site)
        asked, opened = around.cohort, OpenedSums.of(place)
        return SecureAggregation(self.threshold, around.weights, identity, asked, place.run, opened)

    def least(self, cohort: int) -> int:
        return least(cohort, self.threshold)

    def remark(self, place: Placement) -> str:
        from .identity import known_peers

        if place.folder is None or known_peers(place.folder):
            return ""
        return "peers/ is empty, so which keys are whose is the coordinator's word"


@dataclass(frozen=True)
class SecureAggregation:
    """The filter: masks at the sites, one sum at the server."""

    threshold: float = THRESHOLD  # more than this share of a cohort must last until the end
    weights: str = "equal"  # or size: then the sum is weighted by rows, which stay hidden too
    identity: Identity | None = None  # signs this site's keys, where sites know each other
    asked: int = 0  # sites in a round as agreed: fewer do not lower the threshold
    run: str = ""  # a name for one training
    opened: OpenedSums | None = None  # at a coordinator that may be started anew
    entropy: Callable[[int], bytes] = os.urandom  # anything else is for tests

    name: ClassVar[str] = "secure aggregation"
    hides: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Masks(self.threshold)  # its checks
        if self.weights not in ("equal", "size"):
            raise ConfigError(f"weights must be equal or size, got '{self.weights}'")

    def site(self, name: str) -> Half:
        _need_cryptography()
        from .site import MaskSite

        identity, entropy = self.identity, self.entropy
        return MaskSite(name, self.pact, run=self.run, identity=identity, entropy=entropy)

    def over(self, transport: Transport) -> Transport:
        _need_cryptography()
        from .server import SumServer

        return SumServer(transport, self.pact, self.opened)

    def flaw(self, task: Task, reply: Reply, like: Payload) -> str | None:
        return masked_flaw(task, reply, like)

    def lines(self, *, rounds: int, sample: float, bare: bool) -> Sequence[str]:
        return ()

    def pact(self, task: Task, cohort: Sequence[str]) -> Pact:
        """What a round with this cohort is held under."""
        return make_pact(
            task,
            cohort,
            run=self.run,
            asked=self.asked,
            threshold=self.threshold,
            weights=self.weights,
        )


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise FedloreError(
            "cryptography is missing: pip install 'fedlore[secagg]' for secure aggregation"
        ) from None
