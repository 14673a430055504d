"""What one round of secure aggregation is held under, and how its messages travel."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ...core.tree import Params, Payload
from ...core.uploads import MISFIT
from ...core.wire import Reply, Task
from ...errors import FedloreError
from ..filters import SUMMED
from .fixedpoint import FixedPoint, encode_words, summands

#: The tasks of the protocol, and what the replies hold.
PHASES = {
    "keys": "public keys of this round",
    "shares": "shares of this round's secrets, sealed for the other sites",
    "boxes": "nothing: what the others sealed could be opened",
    "unmask": "shares of seeds of those who uploaded, of mask keys of those who did not",
}
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


class Agree(Protocol):
    """How a round's pact is worked out, by the server and by each site for itself."""

    def __call__(self, task: Task, cohort: tuple[str, ...], *, session: str) -> Pact: ...


class Identity(Protocol):
    """A site's lasting key, and the keys of the others that it knows from elsewhere."""

    def sign(self, message: bytes) -> bytes: ...

    def check(self, site: str, message: bytes, signature: bytes) -> None:
        """Raise where this is not that site's signature."""
        ...


def make_pact(
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
        found: dict[str, Any] = json.loads(raw_bytes(task.sent["about"]["pact"]))
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
    about: Params = {"pact": pack_message(pact.text())}
    return Task(kind, pact.round, {"about": about, **(parts or {})})


def pack_message(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0).byte()


def raw_bytes(t: Tensor) -> bytes:
    if t.dtype != torch.uint8 or t.ndim != 1:
        raise FedloreError("a message of secure aggregation must be bytes")
    return t.numpy().tobytes()


def packed_all(values: Mapping[str, bytes]) -> Params:
    return {name: pack_message(value) for name, value in values.items()}


def raw_all(payload: Payload, bundle: str) -> dict[str, bytes]:
    """The byte strings of a bundle by name; a bundle that is not there is empty."""
    return {name: raw_bytes(t) for name, t in payload.get(bundle, {}).items()}


def survivors_of(task: Task) -> tuple[str, ...]:
    """Those who uploaded, as the server names them."""
    try:
        found = json.loads(raw_bytes(task.sent["survivors"]["names"]))
        if isinstance(found, list) and all(isinstance(n, str) for n in found):
            return tuple(found)
    except (KeyError, ValueError):
        pass
    raise FedloreError(f"'{task.kind}' came without a list of survivors")


def masked_flaw(task: Task, reply: Reply, like: Payload) -> str | None:
    """Why a reply of the protocol cannot be used: all that can be seen of a single one."""
    if reply.rows:
        return f"a count of {reply.rows} rows where none may be told"
    if task.kind not in SUMMED:
        kinds = {t.dtype for bundle in reply.upload.values() for t in bundle.values()}
        return "tensors where bytes were asked for" if kinds - {torch.uint8} else None
    layout, _ = summands(like)
    bundle = reply.upload.get("masked", {})
    if set(reply.upload) != {"masked"} or set(bundle) != {"words", "layout"}:
        return "an upload without masks"
    words, told = bundle["words"], bundle["layout"]
    if not torch.equal(told, pack_message(json.dumps(layout).encode())):
        return MISFIT
    if words.dtype != torch.int64 or words.shape != (encode_words(layout),):
        return "masked words of another kind or number than asked for"
    return None
