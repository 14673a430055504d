"""Secure aggregation at the server: two exchanges for one task, one reply for the whole cohort."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ...core.store import Layout
from ...core.wire import ONLY, SUMMED, Reply, Task, Transport
from ...errors import FedloreError
from ..filters import OpenedSums, RoundVoid, SumWithheld, common_steps
from .crypto import (
    COMMITMENT,
    KEY,
    SEAL,
    SECRET,
    add_mask,
    answer_key,
    cut,
    join_shares,
    promises,
    sign,
    unseal,
    xor,
)
from .fixedpoint import Words, encode_words, read_summands
from .graph import Graph, share_graph
from .pact import (
    PACT,
    Agree,
    Binding,
    Pact,
    add_directory,
    list_name,
    pack_message,
    packed_all,
    raw_all,
    raw_bytes,
)

_log = logging.getLogger("fedlore")


class SumServer:
    """A transport whose replies to tasks of `SUMMED` are one mean over the survivors.

    Every masked upload brings the key of its site for the next one, so that a sum takes two
    exchanges. Sites of which no unused key is known are asked for one before.
    """

    def __init__(
        self, transport: Transport, agree: Agree, opened: OpenedSums | None = None
    ) -> None:
        self._transport, self._agree, self._opened = transport, agree, opened
        self._keys: dict[str, bytes] = {}  # not used yet, with a signature where the site gave one

    def clients(self) -> Sequence[str]:
        return self._transport.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        if task.kind not in SUMMED:
            yield from self._transport.exchange(task, to)
            return
        self._agree(task, to)  # too few to be asked are an error of whoever asks
        try:
            reply = self._summed(task, to)
        except SumWithheld:
            raise
        except RoundVoid as reason:
            _log.warning("round %s: '%s' is void: %s", task.round, task.kind, reason)
            return
        yield reply

    def _summed(self, task: Task, to: Sequence[str]) -> Reply:
        before = () if self._opened is None else self._opened.before(task, to)
        graph, bound, uploads = self._uploads(task, before or to)
        pact, sealed, total = graph.pact, uploads.sealed, uploads.total
        survivors = sorted(sealed)  # U
        _enough(pact, survivors, task.kind)
        if self._opened is not None:
            self._opened.note(task, survivors)
        steps = common_steps([uploads.replies[site] for site in survivors])
        given = self._open(graph, bound, {site: boxes for site, (boxes, _) in sealed.items()})
        unmask(total, graph, {site: said for site, (_, said) in sealed.items()}, given)
        try:
            mean, weight = pact.numbers.decode(total, uploads.layout)
        except FedloreError as error:
            raise RoundVoid(str(error)) from None
        if pact.weights == "equal" and weight != len(survivors):
            raise RoundVoid(f"the weights of {len(survivors)} sites add up to {weight}")
        name = f"the sum of {len(survivors)} sites"
        return Reply(name, task.round, mean, weight, steps, tuple(survivors))

    def _uploads(self, task: Task, to: Sequence[str]) -> tuple[Graph, Binding, "RunningSum"]:
        """The first exchange: the task with the keys of all goes out, masked uploads come back."""
        unknown = [site for site in to if site not in self._keys]
        if unknown:
            for reply in self._heard(Task("keys", task.round), unknown).values():
                self._learn(reply)
        cohort = [site for site in to if site in self._keys]
        try:
            pact = self._agree(task, cohort)
            keys = {site: self._keys.pop(site) for site in cohort}  # each is good once
            public = {site: key[:KEY] for site, key in keys.items()}
            graph = share_graph(pact, public)
        except FedloreError as error:
            raise RoundVoid(str(error)) from None
        sums: dict[bytes, RunningSum] = {}
        for reply in self._transport.exchange(add_directory(task, pact, keys), cohort):
            if reply.client in cohort:
                self._learn(reply)
                add_upload(sums, graph, reply)
        return graph, Binding.of(pact, public), alike(sums, pact.round)

    def _open(
        self, graph: Graph, bound: Binding, boxes: Mapping[str, Sequence[bytes]]
    ) -> dict[str, dict[str, bytes]]:
        """The second exchange: each survivor is told of all, and what is sealed for it."""
        pact = graph.pact
        sent = {
            PACT: {"pact": pack_message(pact.text())},
            "survivors": {"names": pack_message(json.dumps(sorted(boxes)).encode())},
        }
        found: dict[str, dict[str, bytes]] = {site: {} for site in boxes}
        for dealer, sealed in boxes.items():
            for site, box in zip(graph.near(dealer), sealed, strict=True):
                if site in found:
                    found[site][dealer] = box
        sent |= {ONLY + site: packed_all(some) for site, some in found.items()}
        shares = self._heard(Task("unmask", pact.round, sent), sorted(boxes))
        _enough(pact, shares, "unmask")
        if graph.whole:
            return {site: _read_shares(reply, "shares") for site, reply in shares.items()}
        locked = {site: _read_shares(reply, "locked") for site, reply in shares.items()}
        return unlock(graph, bound, set(boxes), locked)

    def _learn(self, reply: Reply) -> None:
        """The key that a site gives for the next time."""
        value = _read_shares(reply, "next").get("public", b"")
        if len(value) >= KEY:
            self._keys[reply.client] = value
        else:
            _log.warning("round %s: '%s' gave no key", reply.round, reply.client)

    def _heard(self, task: Task, to: Sequence[str]) -> dict[str, Reply]:
        return {r.client: r for r in self._transport.exchange(task, to) if r.client in to}


@dataclass
class RunningSum:
    """Masked uploads of one layout, each added as it comes: modulo 2^64 their order is nothing."""

    layout: Layout
    total: Words
    sealed: dict[str, tuple[list[bytes], bytes]] = field(default_factory=dict)  # boxes, promises
    replies: dict[str, Reply] = field(default_factory=dict)  # without the uploads


def add_upload(sums: dict[bytes, RunningSum], graph: Graph, reply: Reply) -> None:
    """Add a masked upload to the sum of its layout, or say why it counts for nothing."""
    site, round = reply.client, graph.pact.round
    try:
        bundle = reply.upload["masked"]
        packed, words = raw_bytes(bundle["layout"]), bundle["words"]
        layout = _layout(packed)
        if words.dtype != torch.int64 or words.shape != (encode_words(layout),):
            raise FedloreError("words that do not fit their layout")
    except (KeyError, FedloreError) as error:
        _log.warning("round %s: '%s' sent no masked upload: %s", round, site, error)
        return
    sealed = _read_sealed(graph, site, reply)
    if sealed is None or any(site in one.sealed for one in sums.values()):
        return
    one = sums.setdefault(packed, RunningSum(layout, np.zeros(encode_words(layout), np.uint64)))
    np.add(one.total, words.numpy().view(np.uint64), out=one.total)
    one.sealed[site], one.replies[site] = sealed, replace(reply, upload={})


def alike(sums: Mapping[bytes, RunningSum], round: int) -> RunningSum:
    """The sum of the layout that most sites have."""
    if not sums:
        raise RoundVoid("nobody sent a masked upload")
    usual = max(sums.values(), key=lambda one: len(one.sealed))
    for other in sums.values():
        for site in other.sealed if other is not usual else ():
            _log.warning("round %s: '%s' has other tensors than the rest", round, site)
    return usual


def unlock(
    graph: Graph, bound: Binding, survivors: set[str], locked: Mapping[str, Mapping[str, bytes]]
) -> dict[str, dict[str, bytes]]:
    """The answers that can be read, by giver and dealer: enough neighbours agree with them."""
    about, found = list_name(survivors), {}
    pads = {
        site: dict(zip(graph.near(site), cut(some.get("pads", b""), SECRET), strict=False))
        for site, some in locked.items()
    }
    for site, some in locked.items():
        parts = dict(zip(graph.holders(site), cut(some.get("parts", b""), SECRET), strict=False))
        key = {
            s: part if s == site else xor(part, pads[s][site])
            for s, part in parts.items()
            if s == site or len(pads.get(s, {}).get(site, b"")) == len(part)
        }
        dealers = sorted(s for s in graph.holders(site) if s in survivors)
        sizes = [SECRET * (1 + len(graph.lost(s, survivors))) for s in dealers]
        purpose = bound.purpose("answer", site, about).encode()
        try:
            opened = answer_key(_joined(graph, key, site))
            answer = unseal(opened, some.get("answer", b""), purpose)
        except FedloreError as error:
            _log.warning(
                "round %s: the answer of '%s' stays shut: %s", graph.pact.round, site, error
            )
            continue
        if len(answer) == sum(sizes):
            ends = np.cumsum([0, *sizes])
            found[site] = {s: answer[ends[i] : ends[i + 1]] for i, s in enumerate(dealers)}
    return found


def unmask(
    total: Words,
    graph: Graph,
    promised: Mapping[str, bytes],
    given: Mapping[str, Mapping[str, bytes]],
) -> None:
    """Take every mask that is left away from the sum of the survivors' words, in place."""
    for site in sorted(promised):
        lost, near = graph.lost(site, set(promised)), graph.near(site)
        shares = {s: given[s][site] for s in graph.holders(site) if site in given.get(s, {})}
        secrets = cut(_joined(graph, shares, site), SECRET)
        said = cut(promised[site], COMMITMENT)
        wanted = [said[0], *(said[1 + place] for place in lost)]
        if cut(promises(b"".join(secrets)), COMMITMENT) != wanted:
            raise RoundVoid(f"the shares of '{site}' do not give its secret: one was changed")
        add_mask(total, secrets[0], -1)
        for place, pair in zip(lost, secrets[1:], strict=True):
            add_mask(total, pair, -sign(site, near[place]))  # what cancels nothing is still there


def _joined(graph: Graph, shares: Mapping[str, bytes], site: str) -> bytes:
    """Secrets of a site from the shares of them that others hold."""
    least = graph.least(site)
    if len(shares) < least:
        raise RoundVoid(f"{len(shares)} shares of '{site}', {least} are needed")
    try:
        return join_shares({graph.point(s): shares[s] for s in sorted(shares)[:least]})
    except FedloreError as error:
        raise RoundVoid(f"the shares of '{site}' cannot be used: {error}") from None


def _read_sealed(graph: Graph, site: str, reply: Reply) -> tuple[list[bytes], bytes] | None:
    """The boxes of a site and its promises about what is in them, None where they are not whole."""
    mine, n = _read_shares(reply, "sealed"), len(graph.holders(site))
    boxes, said = mine.get("boxes", b""), mine.get("promises", b"")
    size = SECRET * n + SEAL
    if len(boxes) == size * (n - 1) and len(said) == COMMITMENT * n:
        return cut(boxes, size), said
    _log.warning("round %s: '%s' gave no shares for the others", graph.pact.round, site)
    return None


def _read_shares(reply: Reply, bundle: str) -> dict[str, bytes]:
    """The byte strings of a reply; none where they are something else."""
    try:
        return raw_all(reply.upload, bundle)
    except FedloreError:
        return {}


def _layout(packed: bytes) -> Layout:
    try:
        found = json.loads(packed)
    except ValueError:
        raise FedloreError("a layout that cannot be read") from None
    return read_summands(found)


def _enough(pact: Pact, sites: Sized, what: str) -> None:
    if len(sites) < pact.threshold:
        raise RoundVoid(
            f"{len(sites)} of {len(pact.cohort)} sites came through '{what}', "
            f"{pact.threshold} are needed"
        )
