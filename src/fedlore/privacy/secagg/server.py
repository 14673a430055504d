"""Secure aggregation at the server: two exchanges for one task, one reply for the whole cohort."""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from ...core.store import Layout, write_whole
from ...core.wire import ONLY, SUMMED, TASK_KINDS, Reply, Task, Transport, name_quantity
from ...errors import FedloreError
from ..filters import RoundVoid, SumWithheld, common_steps
from .crypto import (
    COMMITMENT,
    KEY,
    SHARE,
    add_mask,
    box_size,
    commitment,
    join_shares,
    others_of,
    sign,
)
from .fixedpoint import Words, encode_words, read_summands
from .pact import PACT, Agree, Pact, add_directory, pack_message, packed_all, raw_all, raw_bytes


class OpenedSums:
    """Over whom the sum of each round was asked for: one small file at the coordinator.

    A site that has given its shares for one list of survivors gives none for another in that
    round. Were half of the sites asked for one list and the others for the next, neither could ever
    be opened. So the coordinator writes down whom it asks before it does, and asks for no other
    after a crash. Sums of the rows alone are the same in every training: of them it asks for no
    other ever again.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._path, self._run = path, run
        self._of: dict[str, list[str]] = {}  # by place in this run
        self._ever: dict[str, list[str]] = {}  # of rows alone, by content
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = json.loads(path.read_text(encoding="utf-8"))
            self._ever = dict(found["ever"])
            self._of = dict(found["of"]) if found["run"] == run else {}

    def before(self, task: Task) -> Sequence[str]:
        """The survivors that were asked for already, nobody where none were."""
        return self._of.get(_place(task), self._ever.get(name_quantity(task), ()))

    def note(self, task: Task, survivors: Sequence[str]) -> None:
        """Write down whose sum is asked for now."""
        self._of[_place(task)] = sorted(survivors)
        if not TASK_KINDS[task.kind].trains and not task.trial:
            self._ever.setdefault(name_quantity(task), sorted(survivors))
        text = json.dumps({"run": self._run, "of": self._of, "ever": self._ever})
        write_whole(self._path, text)


def _place(task: Task) -> str:
    return f"{task.trial} {task.kind} {task.round}"


def _asked_before(missing: set[str]) -> str:
    names = ", ".join(sorted(missing))
    return f"a sum with {names} was asked for before, and sites open no other one"


_SHARED = ("seeds", "pairs")  # what shares are given of

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
        before = () if self._opened is None else self._opened.before(task)
        if not set(before) <= set(to):
            raise SumWithheld(_asked_before(set(before) - set(to)))
        pact, replies = self._uploads(task, before or to)
        layout, words = alike(replies, pact.round)
        sealed = {s: part for s in words if (part := _read_sealed(pact, s, replies[s])) is not None}
        survivors = sorted(sealed)  # U
        _enough(pact, survivors, task.kind)
        if before and survivors != list(before):
            raise SumWithheld(_asked_before(set(before) - set(survivors)))
        if self._opened is not None:
            self._opened.note(task, survivors)
        steps = common_steps([replies[site] for site in survivors])
        shares = self._open(pact, {site: boxes for site, (boxes, _) in sealed.items()})
        total = np.zeros(encode_words(layout), np.uint64)
        for site in survivors:
            np.add(total, words[site], out=total)
        unmask(total, pact, {site: said for site, (_, said) in sealed.items()}, shares)
        try:
            mean, weight = pact.numbers.decode(total, layout)
        except FedloreError as error:
            raise RoundVoid(str(error)) from None
        if pact.weights == "equal" and weight != len(survivors):
            raise RoundVoid(f"the weights of {len(survivors)} sites add up to {weight}")
        name = f"the sum of {len(survivors)} sites"
        return Reply(name, task.round, mean, weight, steps, tuple(survivors))

    def _uploads(self, task: Task, to: Sequence[str]) -> tuple[Pact, dict[str, Reply]]:
        """The first exchange: the task with the keys of all goes out, masked uploads come back."""
        unknown = [site for site in to if site not in self._keys]
        if unknown:
            for reply in self._heard(Task("keys", task.round), unknown).values():
                self._learn(reply)
        cohort = [site for site in to if site in self._keys]
        try:
            pact = self._agree(task, cohort)
        except FedloreError as error:
            raise RoundVoid(str(error)) from None
        keys = {site: self._keys.pop(site) for site in cohort}  # each is good once
        replies = self._heard(add_directory(task, pact, keys), cohort)
        for reply in replies.values():
            self._learn(reply)
        return pact, replies

    def _open(self, pact: Pact, boxes: Mapping[str, bytes]) -> dict[str, Reply]:
        """The second exchange: each survivor is told of all, and what they sealed for it."""
        size = box_size(pact)
        sent = {
            PACT: {"pact": pack_message(pact.text())},
            "survivors": {"names": pack_message(json.dumps(sorted(boxes)).encode())},
        }
        for site in boxes:
            places = {s: others_of(pact, s).index(site) * size for s in boxes if s != site}
            found = {s: boxes[s][at : at + size] for s, at in places.items()}
            sent[ONLY + site] = packed_all(found)
        shares = self._heard(Task("unmask", pact.round, sent), sorted(boxes))
        _enough(pact, shares, "unmask")
        return shares

    def _learn(self, reply: Reply) -> None:
        """The key that a site gives for the next time."""
        value = _read_shares(reply, "next").get("public", b"")
        if len(value) >= KEY:
            self._keys[reply.client] = value
        else:
            _log.warning("round %s: '%s' gave no key", reply.round, reply.client)

    def _heard(self, task: Task, to: Sequence[str]) -> dict[str, Reply]:
        return {r.client: r for r in self._transport.exchange(task, to) if r.client in to}


def alike(replies: Mapping[str, Reply], round: int) -> tuple[Layout, dict[str, Words]]:
    """The layout that most sites have, and the masked words of those sites."""
    layouts: dict[str, bytes] = {}
    found: dict[str, Words] = {}
    for site, reply in replies.items():
        try:
            bundle = reply.upload["masked"]
            layouts[site] = raw_bytes(bundle["layout"])
            words = bundle["words"]
            if words.dtype != torch.int64 or words.shape != (encode_words(_layout(layouts[site])),):
                raise FedloreError("words that do not fit their layout")
            found[site] = words.numpy().view(np.uint64)
        except (KeyError, FedloreError) as error:
            _log.warning("round %s: '%s' sent no masked upload: %s", round, site, error)
    if not found:
        raise RoundVoid("nobody sent a masked upload")
    usual = Counter(layouts[site] for site in found).most_common(1)[0][0]
    for site in [site for site in found if layouts[site] != usual]:
        _log.warning("round %s: '%s' has other tensors than the rest", round, site)
        del found[site]
    return _layout(usual), found


def unmask(
    total: Words, pact: Pact, promised: Mapping[str, bytes], shares: Mapping[str, Reply]
) -> None:
    """Take every mask that is left away from the sum of the survivors' words, in place."""
    survivors = sorted(promised)
    lost = [site for site in pact.cohort if site not in promised]
    given = {kind: {s: _read_shares(r, kind) for s, r in shares.items()} for kind in _SHARED}
    for site in survivors:
        said = _split(promised[site], COMMITMENT)
        seeds = {s: mine[site] for s, mine in given["seeds"].items() if site in mine}
        add_mask(total, _secret(pact, seeds, site, said[0]), -1)
        for place, other in enumerate(lost):  # what it would have taken away is still there
            at = place * SHARE
            pairs = {s: m[site][at : at + SHARE] for s, m in given["pairs"].items() if site in m}
            promise = said[1 + others_of(pact, site).index(other)]
            add_mask(total, _secret(pact, pairs, site, promise), -sign(site, other))


def _secret(pact: Pact, shares: Mapping[str, bytes], site: str, promise: bytes) -> bytes:
    """One secret of a site from the shares of it that others hold."""
    found = {pact.point(s): share for s, share in sorted(shares.items())}
    if len(found) < pact.threshold:
        raise RoundVoid(f"{len(found)} shares of '{site}', {pact.threshold} are needed")
    try:
        secret = join_shares(dict(list(found.items())[: pact.threshold]))
    except FedloreError as error:
        raise RoundVoid(f"the shares of '{site}' cannot be used: {error}") from None
    if commitment(secret) != promise:
        raise RoundVoid(f"the shares of '{site}' do not give its secret: one was changed")
    return secret


def _read_sealed(pact: Pact, site: str, reply: Reply) -> tuple[bytes, bytes] | None:
    """The boxes of a site and its promises about what is in them, None where they are not whole."""
    mine, n = _read_shares(reply, "sealed"), len(pact.cohort)
    boxes, said = mine.get("boxes", b""), mine.get("promises", b"")
    if len(boxes) == box_size(pact) * (n - 1) and len(said) == COMMITMENT * n:
        return boxes, said
    _log.warning("round %s: '%s' gave no shares for the others", pact.round, site)
    return None


def _split(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


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
