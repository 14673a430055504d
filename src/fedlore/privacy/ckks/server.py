"""Homomorphic encryption at the server: add what cannot be read, and have the sum decrypted."""

import json
import logging
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ...core.plain import Layout
from ...core.tree import Params, Payload, nest
from ...core.uploads import find_bad_metric
from ...core.wire import Reply, Task, Transport
from ...errors import FedloreError
from ..filters import SUMMED
from ..secagg.fixedpoint import FLOAT_KINDS, read_summands
from ..secagg.pact import pack_message, raw_bytes
from .cipher import (
    FLOOD,
    Scheme,
    Vector,
    add_ciphers,
    context,
    frame_ciphers,
    parse_ciphers,
    pieces,
)

AGREE = 64 * FLOOD  # how far apart two sites' answers about the same sum may be

_log = logging.getLogger("fedlore")


class _Void(FedloreError):
    """A round from which nothing can be learned."""

    kind = "round-void"


class Adding:
    """A transport whose replies to tasks of `SUMMED` are one mean over all who answered."""

    def __init__(
        self,
        transport: Transport,
        scheme: Scheme,
        *,
        losses: dict[str, float],  # filled with what the sites measured
        values: list[int],  # filled with how many numbers were summed
    ) -> None:
        self._transport, self._scheme = transport, scheme
        self._losses, self._values = losses, values
        self._context = context()

    def clients(self) -> Sequence[str]:
        return self._transport.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        replies = self._transport.exchange(task, to)
        if task.kind not in SUMMED:
            yield from replies
            return
        found = {r.client: r for r in replies if r.client in to and r.round == task.round}
        if found and not any(r.upload for r in found.values()):
            yield from found.values()
            return
        try:
            reply = self._summed(task, found)
        except _Void as reason:
            _log.warning("round %s: '%s' is void: %s", task.round, task.kind, reason)
            return
        yield reply

    def _summed(self, task: Task, replies: Mapping[str, Reply]) -> Reply:
        layout, ours = self._usual(task, replies)
        values = numbers_of(layout)
        total: list[Any] | None = None
        members = []
        for site in sorted(ours):
            try:
                one = parse_ciphers(
                    self._context,
                    replies[site].upload["ckks"],
                    values,
                    self._scheme.parameters(task.kind),
                )
            except FedloreError as error:
                _log.warning("round %s: '%s' sent %s", task.round, site, error)
                continue
            total = add_ciphers(total, one)
            members.append(site)
        if total is None or len(members) < 2:
            raise _Void(f"{len(members)} ciphertexts that can be used, 2 are needed")
        if len(members) > self._scheme.sites:
            raise _Void(f"{len(members)} sites, the scale leaves room for {self._scheme.sites}")
        self._values.append(values)
        weight, flat = self._decrypted(task, total, members, values)
        name = f"the sum of {len(members)} sites"
        steps = _lockstep([replies[site] for site in members])
        mean = cut_flat(flat / weight, layout)
        return Reply(name, task.round, mean, round(weight), steps, tuple(members))

    def _usual(self, task: Task, replies: Mapping[str, Reply]) -> tuple[Layout, list[str]]:
        """The layout and the key that most sites have, and those sites."""
        told: dict[str, bytes] = {}
        for site, reply in replies.items():
            try:
                told[site] = raw_bytes(reply.upload["ckks"]["about"])
                _layout(told[site])
            except (KeyError, FedloreError):
                told.pop(site, None)
                _log.warning("round %s: '%s' sent no encrypted upload", task.round, site)
        if not told:
            raise _Void("nobody sent an encrypted upload")
        usual = Counter(told.values()).most_common(1)[0][0]
        for site in told:
            if told[site] != usual:
                _log.warning("round %s: '%s' has another key or other tensors", task.round, site)
        return _layout(usual), [site for site, about in told.items() if about == usual]

    def _decrypted(
        self, task: Task, total: Sequence[Any], members: list[str], values: int
    ) -> tuple[float, Vector]:
        """The weight of all and the sum, on which all sites that answer agree."""
        about = json.dumps({"kind": task.kind, "members": members}).encode()
        bundle = frame_ciphers(vector.serialize() for vector in total) | {
            "about": pack_message(about)
        }
        asked = Task("decrypt", task.round, {"ckks": bundle}, task.seed)
        answers = []
        for reply in self._transport.exchange(asked, members):
            answer = _answer(reply, values)
            if answer is None:
                _log.warning("round %s: '%s' decrypted nothing of use", task.round, reply.client)
                continue
            answers.append(answer)
            if "loss" in reply.metrics:
                self._losses[reply.client] = float(reply.metrics["loss"])
        if len(answers) < 2:
            raise _Void(f"{len(answers)} sites decrypted the sum, 2 are needed")
        first = answers[0]
        for other in answers[1:]:
            if not np.allclose(other, first, rtol=1e-9, atol=AGREE):
                raise _Void("the sites do not agree on the sum")
        weights, flat = np.split(first, [pieces(values)])
        weight = float(np.round(weights[0]))
        if weight < 2 or np.abs(weights - weight).max() > 1e-3:
            raise _Void(f"the weights add up to {weights[0]:g}")
        return weight, flat


def _answer(reply: Reply, values: int) -> Vector | None:
    """What one site says of the sum, its weights first."""
    found = reply.upload.get("sum", {})
    wanted = {"weights": (pieces(values),), "values": (values,)}
    if {n: tuple(t.shape) for n, t in found.items()} != wanted:
        return None
    both = torch.cat([found["weights"].double(), found["values"].double()]).numpy()
    return both if bool(np.isfinite(both).all()) else None


def encrypted_flaw(task: Task, reply: Reply, like: Payload) -> str | None:
    """Why an encrypted reply cannot be used; what is inside the server half finds out."""
    if reply.rows:
        return f"a count of {reply.rows} rows where none may be told"
    wrong = find_bad_metric(reply.metrics)
    if wrong is not None:
        return wrong
    wanted = {"ckks": {"cipher": torch.uint8, "lengths": torch.int64, "about": torch.uint8}}
    if task.kind not in SUMMED:
        wanted = {"sum": {"weights": torch.float64, "values": torch.float64}}
    elif not reply.upload and not like:
        return None
    found = {k: {n: t.dtype for n, t in b.items()} for k, b in reply.upload.items()}
    return None if found == wanted else f"something else than {' '.join(wanted)} was asked for"


def numbers_of(layout: Layout) -> int:
    """How many numbers a layout holds."""
    return sum(math.prod(shape) for _, _, shape in layout)


def cut_flat(flat: Vector, layout: Layout) -> Payload:
    """Numbers as the tensors that they were."""
    found: Params = {}
    place = 0
    for name, kind, shape in layout:
        end = place + math.prod(shape)
        part = torch.from_numpy(flat[place:end].copy()).to(FLOAT_KINDS[kind])
        found[name] = part.reshape(shape)
        place = end
    return nest(found)


def _layout(about: bytes) -> Layout:
    try:
        found = json.loads(about)["layout"]
    except (ValueError, KeyError, TypeError):
        raise FedloreError("a layout that cannot be read") from None
    return read_summands(found)


def _lockstep(replies: Sequence[Reply]) -> dict[str, float]:
    """The number of steps that all took by a public coin, where the algorithm needs one."""
    steps = {r.metrics["steps"] for r in replies if "steps" in r.metrics}
    if len(steps) > 1:
        raise FedloreError(
            f"all sites must take the same number of local steps, got {sorted(steps)} (do they "
            "share seed and settings?)"
        )
    return {"steps": steps.pop()} if steps else {}
