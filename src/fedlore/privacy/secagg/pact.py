"""What one round of secure aggregation is held under, and how its messages travel."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from ...core.tree import Params, Payload
from ...core.wire import Task
from ...errors import FedloreError
from .fixedpoint import FixedPoint

LEAST = 3  # of a sum over two sites each could read off the other's upload


@dataclass(frozen=True)
class Pact:
    """The parameters of a round; every site works them out for itself and compares."""

    session: str  # made up by the server for every attempt
    kind: str  # of the task that is summed
    round: int
    cohort: tuple[str, ...]  # everyone who was asked, in order
    threshold: int  # t: so many must last until the end, or nothing is learned
    bits: int
    weights: str

    def text(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()

    def point(self, site: str) -> int:
        """Where a site's shares lie on the polynomials."""
        return self.cohort.index(site) + 1

    @property
    def numbers(self) -> FixedPoint:
        return FixedPoint(len(self.cohort))

    def purpose(self, what: str, one: str, other: str) -> str:
        """Words that bind a key to this round, its use and the two sites."""
        return json.dumps([what, self.session, one, other])


def made(
    task: Task, cohort: Sequence[str], *, session: str, threshold: float, weights: str
) -> Pact:
    """The pact for a task: more than the share `threshold` of the cohort must last."""
    if len(cohort) < LEAST:
        raise FedloreError(
            f"secure aggregation needs at least {LEAST} sites in a round, got {len(cohort)}: the "
            "sum of fewer tells what each one sent"
        )
    return Pact(
        session,
        task.kind,
        task.round,
        tuple(sorted(cohort)),
        least(len(cohort), threshold),
        FixedPoint(len(cohort)).bits,
        weights if task.kind == "train" else "equal",
    )


def least(cohort: int, threshold: float) -> int:
    """t: the smallest number above this share of the cohort, and never below `LEAST`.

    Sites that see different lists of survivors could be made to give out shares of both masks of
    one site. That takes 2t shares, and each of n sites gives one: with t above n/2 they do not
    suffice, and above 2n/3 not even if less than a third of the sites help the server.
    """
    return min(cohort, max(LEAST, math.floor(threshold * cohort + 1e-9) + 1))


def read_pact(task: Task) -> Pact:
    """The pact that comes with a task of the protocol."""
    try:
        found: dict[str, Any] = json.loads(raw(task.sent["about"]["pact"]))
        pact = Pact(**(found | {"cohort": tuple(found["cohort"])}))
        whole = [pact.round, pact.threshold, pact.bits]
        words = [pact.session, pact.kind, pact.weights, *pact.cohort]
        legal = all(type(n) is int for n in whole) and all(type(w) is str for w in words)
    except (KeyError, TypeError, ValueError, AttributeError):
        legal = False
    if not legal:
        raise FedloreError(f"'{task.kind}' came without a readable pact")
    return pact


def message(kind: str, pact: Pact, parts: Mapping[str, Params] | None = None) -> Task:
    """A task of the protocol."""
    about: Params = {"pact": packed(pact.text())}
    return Task(kind, pact.round, {"about": about, **(parts or {})})


def packed(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0).byte()


def raw(t: Tensor) -> bytes:
    if t.dtype != torch.uint8 or t.ndim != 1:
        raise FedloreError("a message of secure aggregation must be bytes")
    return t.numpy().tobytes()


def packed_all(values: Mapping[str, bytes]) -> Params:
    return {name: packed(value) for name, value in values.items()}


def raw_all(payload: Payload, bundle: str) -> dict[str, bytes]:
    """The byte strings of a bundle by name; a bundle that is not there is empty."""
    return {name: raw(t) for name, t in payload.get(bundle, {}).items()}


def survivors_of(task: Task) -> tuple[str, ...]:
    """Those who uploaded, as the server names them."""
    try:
        found = json.loads(raw(task.sent["survivors"]["names"]))
        if isinstance(found, list) and all(isinstance(n, str) for n in found):
            return tuple(found)
    except (KeyError, ValueError):
        pass
    raise FedloreError(f"'{task.kind}' came without a list of survivors")
