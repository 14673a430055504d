"""Secure aggregation at the server: phases around one task, and one reply for the whole cohort."""

import json
import logging
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Sized

import numpy as np
import torch

from ...core.plain import Layout
from ...core.tree import Params
from ...core.wire import Reply, Task, Transport
from ...errors import FedloreError
from ..filters import SUMMED
from .channels import KEY, KeyPair, add_mask, commitment
from .fixedpoint import Words, encode_words, read_summands
from .pact import Agree, Pact, message, pack_message, packed_all, raw_all, raw_bytes
from .shamir import join_shares
from .site import BOX, PUBLIC, mask_key, sign

_SHARED = ("seeds", "keys")  # what shares are given of

_log = logging.getLogger("fedlore")


class _Void(FedloreError):
    """A round from which nothing can be learned."""


class Summing:
    """A transport whose replies to tasks of `SUMMED` are one mean over the survivors."""

    def __init__(self, transport: Transport, agree: Agree) -> None:
        self._transport, self._agree = transport, agree

    def clients(self) -> Sequence[str]:
        return self._transport.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        if task.kind not in SUMMED:
            yield from self._transport.exchange(task, to)
            return
        pact = self._agree(task, tuple(to), session=secrets.token_hex(16))
        try:
            reply = self._summed(task, pact)
        except _Void as reason:
            _log.warning("round %s: '%s' is void: %s", task.round, task.kind, reason)
            return
        yield reply

    def _summed(self, task: Task, pact: Pact) -> Reply:
        keys = self._keys(pact)  # U1
        boxes, promises = self._boxes(pact, keys)
        senders = sorted(boxes)  # U2
        ready = self._ask(pact, "boxes", senders, {"boxes": packed_all(boxes)})
        replies = self._heard(task, sorted(ready))
        layout, words = alike(replies, pact.round)
        survivors = sorted(words)  # U3
        _enough(pact, survivors, task.kind)
        steps = _lockstep([replies[site] for site in survivors])
        told = {"survivors": {"names": pack_message(json.dumps(survivors).encode())}}
        shares = self._ask(pact, "unmask", survivors, told)
        total = np.zeros(encode_words(layout), np.uint64)
        for part in words.values():
            np.add(total, part, out=total)
        unmask(total, pact, keys, promises, shares=shares, survivors=survivors)
        try:
            mean, weight = pact.numbers.decode(total, layout)
        except FedloreError as error:
            raise _Void(str(error)) from None
        if pact.weights == "equal" and weight != len(survivors):
            raise _Void(f"the weights of {len(survivors)} sites add up to {weight}")
        name = f"the sum of {len(survivors)} sites"
        return Reply(name, task.round, mean, weight, steps, tuple(survivors))

    def _keys(self, pact: Pact) -> dict[str, bytes]:
        """The public keys of each site, with a signature behind them where it gave one."""
        found = {}
        for site, reply in self._ask(pact, "keys", pact.cohort).items():
            value = _read_shares(reply, "keys").get("public", b"")
            if len(value) >= PUBLIC:
                found[site] = value
            else:
                _log.warning("round %s: '%s' gave no keys", pact.round, site)
        _enough(pact, found, "keys")
        return found

    def _boxes(
        self, pact: Pact, keys: Mapping[str, bytes]
    ) -> tuple[dict[str, bytes], dict[str, bytes]]:
        """What each site sealed for all others, and its promise about its own seed."""
        boxes, promises = {}, {}
        told = {"keys": packed_all(keys)}
        for site, reply in self._ask(pact, "shares", sorted(keys), told).items():
            mine = _read_shares(reply, "shares")
            if len(mine.get("boxes", b"")) == BOX * (len(keys) - 1) and "commitment" in mine:
                boxes[site], promises[site] = mine["boxes"], mine["commitment"]
            else:
                _log.warning("round %s: '%s' gave no shares for the others", pact.round, site)
        _enough(pact, boxes, "shares")
        return boxes, promises

    def _ask(
        self,
        pact: Pact,
        kind: str,
        to: Sequence[str],
        parts: Mapping[str, Params] | None = None,
    ) -> dict[str, Reply]:
        """One phase: the replies by site, at least t of them."""
        task = message(kind, pact, parts)
        found = self._heard(task, to)
        _enough(pact, found, kind)
        return found

    def _heard(self, task: Task, to: Sequence[str]) -> dict[str, Reply]:
        return {r.client: r for r in self._transport.exchange(task, to) if r.client in to}


def alike(replies: Mapping[str, Reply], round: int) -> tuple[Layout, dict[str, Words]]:
    """The layout that most sites have, and the masked words of those sites."""
    told: dict[str, bytes] = {}
    found: dict[str, Words] = {}
    for site, reply in replies.items():
        try:
            bundle = reply.upload["masked"]
            told[site] = raw_bytes(bundle["layout"])
            words = bundle["words"]
            if words.dtype != torch.int64 or words.shape != (encode_words(_layout(told[site])),):
                raise FedloreError("words that do not fit their layout")
            found[site] = words.numpy().view(np.uint64)
        except (KeyError, FedloreError) as error:
            _log.warning("round %s: '%s' sent no masked upload: %s", round, site, error)
    if not found:
        raise _Void("nobody sent a masked upload")
    usual = Counter(told[site] for site in found).most_common(1)[0][0]
    for site in [site for site in found if told[site] != usual]:
        _log.warning("round %s: '%s' has other tensors than the rest", round, site)
        del found[site]
    return _layout(usual), found


def unmask(
    total: Words,
    pact: Pact,
    keys: Mapping[str, bytes],
    promises: Mapping[str, bytes],
    *,
    shares: Mapping[str, Reply],
    survivors: Sequence[str],
) -> None:
    """Take every mask that is left away from the sum of the survivors' words, in place."""
    told = {kind: {s: _read_shares(r, kind) for s, r in shares.items()} for kind in _SHARED}
    for site in sorted(promises):
        lost = site not in survivors
        secret = _secret(pact, told["keys" if lost else "seeds"], site)
        own = KeyPair(secret)
        fits = (
            own.public == keys[site][KEY:PUBLIC] if lost else (commitment(secret) == promises[site])
        )
        if not fits:
            raise _Void(f"the shares of '{site}' do not give its secret: one was changed")
        if not lost:
            add_mask(total, secret, -1)
            continue
        for other in survivors:  # what it would have taken away is still there
            key = mask_key(pact, own, site, other, keys)
            add_mask(total, key, sign(site, other))


def _secret(pact: Pact, told: Mapping[str, Mapping[str, bytes]], site: str) -> bytes:
    """A site's secret from the shares of it that the others told."""
    found = {pact.point(s): mine[site] for s, mine in sorted(told.items()) if site in mine}
    if len(found) < pact.threshold:
        raise _Void(f"{len(found)} shares of '{site}', {pact.threshold} are needed")
    try:
        return join_shares(dict(list(found.items())[: pact.threshold]))
    except FedloreError as error:
        raise _Void(f"the shares of '{site}' cannot be used: {error}") from None


def _read_shares(reply: Reply, bundle: str) -> dict[str, bytes]:
    """The byte strings of a reply; none where they are something else."""
    try:
        return raw_all(reply.upload, bundle)
    except FedloreError:
        return {}


def _layout(told: bytes) -> Layout:
    try:
        found = json.loads(told)
    except ValueError:
        raise FedloreError("a layout that cannot be read") from None
    return read_summands(found)


def _enough(pact: Pact, sites: Sized, what: str) -> None:
    if len(sites) < pact.threshold:
        raise _Void(
            f"{len(sites)} of {len(pact.cohort)} sites came through '{what}', "
            f"{pact.threshold} are needed"
        )


def _lockstep(replies: Sequence[Reply]) -> dict[str, float]:
    """The number of steps that all took by a public coin, where the algorithm needs one."""
    steps = {r.client: r.metrics["steps"] for r in replies if "steps" in r.metrics}
    if len(set(steps.values())) > 1:
        (a, most), (b, least) = (pick(steps.items(), key=lambda s: s[1]) for pick in (max, min))
        raise FedloreError(
            f"all sites must take the same number of local steps: '{a}' took {most:g}, '{b}' took "
            f"{least:g} (do they share seed and settings?)"
        )
    return {"steps": next(iter(steps.values()))} if steps else {}
