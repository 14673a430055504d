"""Who holds shares of whose secrets: everybody, or in large cohorts a few by a public coin.

After Bell, Bonawitz, Gascón, Lepoint, Raykova (2020), Secure Single-Server Aggregation with
(Poly)Logarithmic Overhead. Up to `DENSE` sites share with all others. Above, a coin for every pair,
drawn from a hash of all keys, makes about 10.2 log2 n neighbours: whoever chose one key at random
has made that hash random. Neighbours have masks in common, and shares of each other's secrets.

Of m sites that hold shares of a secret, t give it back (`Graph.least`). An answer about a list of
survivors can be read only if t of the m sites around its giver answer about the very same list,
and no site answers about a list in which fewer than t of those around a survivor have survived. So
a server that tells lists of its choice learns no sum over a fifth of the honest sites or fewer,
unless

    (1) some honest site has c helpers of the server around it with 2t <= m + c, or
    (2) there is a set of at most a fifth of the honest sites of which each has at most 2 (m - t)
        honest neighbours outside it.

How unlikely both are, and how seldom sites that drop out void a sum, is worked out in
tests/privacy/bounds.py. The proof stands in docs/explain/masks.md.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from ...errors import FedloreError
from .pact import Pact

DENSE = 100  # sites up to which all share with all
LASTING = 0.72  # more than this share of the sites around one must last


def degree(sites: int) -> int:
    """How many neighbours a site has on average."""
    return sites - 1 if sites <= DENSE else round(10.2 * math.log2(sites))


@dataclass(frozen=True)
class Graph:
    """The neighbours of every site of one sum."""

    pact: Pact
    edges: NDArray[np.bool_]  # (n, n), symmetric

    @property
    def whole(self) -> bool:
        return len(self.pact.cohort) <= DENSE

    @cached_property
    def _places(self) -> dict[str, int]:
        return {site: place for place, site in enumerate(self.pact.cohort)}

    @cached_property
    def _near(self) -> dict[str, list[str]]:
        return {}

    def near(self, site: str) -> list[str]:
        """The neighbours of a site, in the order of shares and boxes."""
        if site not in self._near:
            places = np.flatnonzero(self.edges[self._places[site]])
            self._near[site] = [self.pact.cohort[j] for j in places]
        return self._near[site]

    def holders(self, site: str) -> list[str]:
        """Who holds shares of a site's secrets: its neighbours, and last itself."""
        return [*self.near(site), site]

    def point(self, site: str) -> int:
        """Where a site's shares lie on the polynomials."""
        return self._places[site] + 1

    def least(self, site: str) -> int:
        """t: so many of the holders must last, or the secrets of a site are gone."""
        if self.whole:
            return self.pact.threshold
        around = len(self.holders(site))
        asked = math.ceil(self.pact.threshold / len(self.pact.cohort) * around)
        return max(threshold_of(around), asked)

    def lost(self, site: str, survivors: Sequence[str] | set[str]) -> list[int]:
        """The places among a site's neighbours of those who are not survivors."""
        return [place for place, other in enumerate(self.near(site)) if other not in survivors]


def threshold_of(around: int) -> int:
    return math.floor(LASTING * around) + 1


def share_graph(pact: Pact, keys: Mapping[str, bytes]) -> Graph:
    """The graph of a sum, as everyone who has the keys of all works it out."""
    n = len(pact.cohort)
    if n <= DENSE:
        return Graph(pact, ~np.eye(n, dtype=bool))
    found = hashlib.sha256(b"fedlore graph\0")
    for site in pact.cohort:
        found.update(hashlib.sha256(site.encode()).digest() + keys[site])
    edges = draw_edges(found.digest(), n, degree(n))
    if not _connected(edges):
        raise FedloreError("the neighbours of this sum are not all connected: draw other keys")
    return Graph(pact, edges)


def draw_edges(coin: bytes, sites: int, neighbours: float) -> NDArray[np.bool_]:
    """A coin for every pair, the same wherever it is tossed."""
    stream = Cipher(algorithms.AES(coin), modes.CTR(bytes(16))).encryptor()
    chance = min(2**32 - 1, round(neighbours / (sites - 1) * 2**32))
    edges = np.zeros((sites, sites), bool)
    for row in range(sites - 1):
        drawn = np.frombuffer(stream.update(bytes(4 * (sites - 1 - row))), "<u4")
        edges[row, row + 1 :] = drawn < chance
    return edges | edges.T


def _connected(edges: NDArray[np.bool_]) -> bool:
    reached = edges[0] | (np.arange(len(edges)) == 0)
    while True:
        more = reached | edges[reached].any(0)
        if (more == reached).all():
            return bool(reached.all())
        reached = more
