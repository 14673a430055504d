"""What one round of secure aggregation is held under, and how its messages travel."""

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from ...core.tree import Params, Payload
from ...core.wire import ASIDE, MISFIT, SUMMED, Reply, Task, name_content
from ...errors import FedloreError
from .fixedpoint import FixedPoint, encode_words, summands

#: The tasks of the protocol, and what the replies hold.
PHASES = {
    "keys": "a public key for the next sum that this site takes part in",
    "unmask": "shares of the seeds of those who uploaded, also of those with sites that did not",
}
PACT, KEYS = ASIDE + "pact", ASIDE + "keys"  # what a task to be summed brings
LEAST = 3  # of a sum over two sites each could read off the other's upload


@dataclass(frozen=True)
class Pact:
    """The parameters of a round; every site works them out for itself and compares."""

    run: str
    trial: str
    kind: str  # of the task that is summed
    round: int
    cohort: tuple[str, ...]  # everyone whose key is in the directory, in order
    threshold: int  # t: so many must last until the end, or nothing is learned
    bits: int
    weights: str
    content: str  # what is asked: sites that were sent other weights share no masks

    def text(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode()

    @property
    def numbers(self) -> FixedPoint:
        return FixedPoint(len(self.cohort))


@dataclass(frozen=True)
class Binding:
    """A hash of the pact and of all keys: whatever is derived in a round is derived from it.

    Sites that were told different things have different bindings, so that their masks do not cancel
    and their boxes do not open.
    """

    digest: bytes

    @staticmethod
    def of(pact: Pact, keys: Mapping[str, bytes]) -> "Binding":
        found = hashlib.sha256(b"fedlore round\0" + pact.text())
        for site in pact.cohort:
            found.update(hashlib.sha256(keys[site]).digest())
        return Binding(found.digest())

    def purpose(self, what: str, one: str, other: str) -> str:
        """Words that bind a key to this round, its use and the two sites."""
        return json.dumps([what, self.digest.hex(), one, other])


class Agree(Protocol):
    """How a round's pact is worked out, by the server and by each site for itself."""

    def __call__(self, task: Task, cohort: Sequence[str]) -> Pact: ...


class Identity(Protocol):
    """A site's lasting key, and the keys of the others that it knows from elsewhere."""

    def sign(self, message: bytes) -> bytes: ...

    def check(self, site: str, message: bytes, signature: bytes) -> None:
        """Raise where this is not that site's signature."""


def make_pact(
    task: Task, cohort: Sequence[str], *, run: str, asked: int, threshold: float, weights: str
) -> Pact:
    """The pact for a task: more than the share `threshold` of those who are asked must last.

    A cohort that is smaller than agreed lowers nothing: else a server could leave out so many that
    those who help it are a third of the rest.
    """
    here = len(cohort)
    if here < LEAST:
        raise FedloreError(
            f"secure aggregation needs at least {LEAST} sites in a round, got {here}: the sum of "
            "fewer tells what each one sent"
        )
    needed = least(max(here, asked), threshold)
    if needed > here:
        raise FedloreError(f"{here} of {asked} sites have a key, {needed} are needed")
    return Pact(
        run,
        task.trial,
        task.kind,
        task.round,
        tuple(sorted(cohort)),
        needed,
        FixedPoint(here).bits,
        weights if task.kind == "train" else "equal",
        name_content(task),
    )


def least(cohort: int, threshold: float) -> int:
    """t: the smallest number above this share of the cohort, and never below `LEAST`.

    Sites that see different lists of survivors could be made to give out shares of what hides one
    site from all others. That takes 2t shares, and each of n sites gives one: above 2n/3 they do
    not suffice, even if less than a third of the sites help the server (docs/explain/masks.md).
    """
    return min(cohort, max(LEAST, math.floor(threshold * cohort + 1e-9) + 1))


def read_pact(task: Task) -> Pact:
    """The pact that comes with a task."""
    try:
        found: dict[str, Any] = json.loads(raw_bytes(task.sent[PACT]["pact"]))
        pact = Pact(**(found | {"cohort": tuple(found["cohort"])}))
        whole = [pact.round, pact.threshold, pact.bits]
        words = [pact.run, pact.trial, pact.kind, pact.weights, pact.content, *pact.cohort]
        legal = all(type(n) is int for n in whole) and all(type(w) is str for w in words)
    except (KeyError, TypeError, ValueError, AttributeError):
        legal = False
    if not legal:
        raise FedloreError(f"round {task.round}: '{task.kind}' came without a readable pact")
    return pact


def add_directory(task: Task, pact: Pact, keys: Mapping[str, bytes]) -> Task:
    """A task to be summed, with the pact and the keys of all."""
    ensemble = {PACT: {"pact": pack_message(pact.text())}, KEYS: packed_all(keys)}
    return replace(task, sent=task.sent | ensemble)


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


def list_name(survivors: Collection[str]) -> str:
    """One name for one list of survivors."""
    return hashlib.sha256(json.dumps(sorted(survivors)).encode()).hexdigest()


def masked_flaw(task: Task, reply: Reply, like: Payload) -> str | None:
    """Why a reply of the protocol cannot be used: all that can be seen of a single one."""
    if reply.rows:
        return f"a count of {reply.rows} rows where none may be shown"
    kinds = {t.dtype for key, b in reply.upload.items() if key != "masked" for t in b.values()}
    if task.kind not in SUMMED:
        return "tensors where bytes were asked for" if kinds - {torch.uint8} else None
    layout, _ = summands(like)
    bundle = reply.upload.get("masked", {})
    bare = set(reply.upload) != {"masked", "sealed", "next"} or set(bundle) != {"words", "layout"}
    if bare or kinds - {torch.uint8}:
        return "an upload without masks"
    words, packed = bundle["words"], bundle["layout"]
    if not torch.equal(packed, pack_message(json.dumps(layout).encode())):
        return MISFIT
    if words.dtype != torch.int64 or words.shape != (encode_words(layout),):
        return "masked words of another kind or number than asked for"
    return None
