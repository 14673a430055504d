"""Secure aggregation at a site: one key, one upload and one answer for each sum."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch

from ...core.store import pack_payload, unpack_payload
from ...core.tree import Payload
from ...core.wire import ONLY, Reply, Task, digest
from ...errors import FedloreError
from .crypto import (
    DRAWN,
    KEY,
    SECRET,
    ByteSource,
    KeyPair,
    add_mask,
    answer_key,
    cut,
    list_pad,
    make_secret,
    open_from,
    pair_seeds,
    promises,
    seal,
    seal_for,
    sign,
    split_secrets,
    xor,
)
from .graph import Graph, share_graph
from .pact import (
    KEYS,
    PHASES,
    Agree,
    Binding,
    Identity,
    Pact,
    list_name,
    pack_message,
    packed_all,
    raw_all,
    read_pact,
    survivors_of,
)


@dataclass
class _Session:
    """One sum at one site. Secrets live here alone, and go with it."""

    pact: Pact
    graph: Graph
    bound: Binding
    keys: Mapping[str, bytes]  # of all, without signatures
    own: KeyPair
    masked: tuple[bytes, Reply]  # which words were hidden, and how
    shares: dict[str, bytes] = field(default_factory=dict)  # this site's share of its own secrets
    opened: tuple[str, Reply] | None = None  # asked, said


class MaskSite:
    """The site's half. Whatever does not fit is refused, and then nothing is given out.

    A key is good for one sum. A site that was started anew holds another than the server knows,
    refuses, and is asked for its key. The same question again gets the same answer, another in its
    place gets none.
    """

    kinds: ClassVar[frozenset[str]] = frozenset(PHASES)

    def __init__(
        self, name: str, agree: Agree, *, run: str, identity: Identity | None, entropy: ByteSource
    ) -> None:
        self.name, self._agree, self._run = name, agree, run
        self._identity, self._entropy = identity, entropy
        self._next = KeyPair.fresh(entropy)
        self._session: _Session | None = None

    def answer(self, task: Task) -> Reply:
        if task.kind == "keys":
            return Reply(self.name, task.round, {"next": self._announce()})
        session = self._session
        pact = read_pact(task)
        if session is None or session.pact != pact or pact.round != task.round:
            raise FedloreError(
                f"round {task.round}: this site has sent nothing masked for this sum, or has begun "
                "another one since"
            )
        asked = digest(task)
        if session.opened is not None:
            before, reply = session.opened
            if before != asked:
                raise FedloreError(f"'{task.kind}' was answered once in this round already")
            return reply
        reply = self._unmask(session, task)
        session.opened = (asked, reply)
        return reply

    def summed(self, task: Task) -> Sequence[str] | None:
        return survivors_of(task) if task.kind == "unmask" else None

    def remember(self) -> bytes:
        """The running sum with its secrets, for a process that ends between two exchanges."""
        kept: Payload = {"next": packed_all({"private": self._next.private})}
        about: dict[str, Any] = {}
        if self._session is not None:
            found, hidden = self._session.masked
            secrets = {"private": self._session.own.private, "found": found}
            kept |= {"keys": packed_all(self._session.keys), "own": packed_all(secrets)}
            kept |= {"shares": packed_all(self._session.shares)}
            about = {"pact": asdict(self._session.pact), "hidden": _keep("hidden", hidden, kept)}
            if self._session.opened is not None:
                asked, said = self._session.opened
                about["opened"] = [asked, _keep("opened", said, kept)]
        return pack_payload(kept, about)

    def recall(self, data: bytes) -> None:
        """Go on with what `remember` gave."""
        about, kept = unpack_payload(data)
        self._next = KeyPair(raw_all(kept, "next")["private"])
        if "pact" not in about:
            return
        pact = Pact(**(about["pact"] | {"cohort": tuple(about["pact"]["cohort"])}))
        keys, own = raw_all(kept, "keys"), raw_all(kept, "own")
        self._session = _Session(
            pact,
            share_graph(pact, keys),
            Binding.of(pact, keys),
            keys,
            KeyPair(own["private"]),
            (own["found"], self._kept("hidden", about["hidden"], kept)),
            raw_all(kept, "shares"),
        )
        if "opened" in about:
            asked, said = about["opened"]
            self._session.opened = (asked, self._kept("opened", said, kept))

    def _kept(self, name: str, about: Mapping[str, Any], kept: Payload) -> Reply:
        upload = {
            k.removeprefix(f"{name} "): b for k, b in kept.items() if k.startswith(f"{name} ")
        }
        return Reply(self.name, about["round"], upload, metrics=about["metrics"])

    def outbound(self, task: Task, reply: Reply) -> Reply:
        """The upload and its weight under masks; row counts stay at home."""
        pact, keys = self._read(task)
        bound = Binding.of(pact, keys)
        weight = reply.rows if pact.weights == "size" else 1
        layout, words = pact.numbers.encode(reply.upload, weight)
        packed = json.dumps(layout).encode()
        found = hashlib.sha256(packed + words.tobytes()).digest()
        if self._session is not None and self._session.bound == bound:
            before, hidden = self._session.masked
            if before != found:  # the difference of two uploads under one mask is not hidden
                raise FedloreError(f"round {task.round}: another upload was masked already")
            return hidden
        if keys[self.name] != self._next.public:
            raise FedloreError(
                f"round {task.round}: the key of this site in the directory is not the one that it "
                "holds (it was used, or this site was started anew): ask for its key"
            )
        graph = share_graph(pact, keys)
        own, self._next = self._next, KeyPair.fresh(self._entropy)
        near = {site: keys[site] for site in graph.near(self.name)}
        seed, pairs = make_secret(self._entropy(DRAWN)), pair_seeds(bound, own, self.name, near)
        add_mask(words, seed, +1)  # y = x + PRG(b) + Σ ± PRG(h), modulo 2^64
        for other, pair in pairs.items():
            add_mask(words, pair, sign(self.name, other))
        secrets = seed + b"".join(pairs.values())
        dealt = self._split(graph, secrets)
        boxes = b"".join(
            seal_for(bound, own, self.name, recipient, dealt[recipient[0]], self._entropy)
            for recipient in near.items()
        )
        sealed = {"boxes": boxes, "promises": promises(secrets)}
        masked = torch.from_numpy(words.view(np.int64))
        upload = {
            "masked": {"words": masked, "layout": pack_message(packed)},
            "sealed": packed_all(sealed),
            "next": self._announce(),
        }
        hidden = replace(reply, upload=upload, rows=0)
        shares = {self.name: dealt[self.name]}
        self._session = _Session(pact, graph, bound, keys, own, (found, hidden), shares)
        return hidden

    def _read(self, task: Task) -> tuple[Pact, dict[str, bytes]]:
        """The pact and the keys that a task brings, if they are what they must be."""
        pact, signed = read_pact(task), raw_all(task.sent, KEYS)
        if len(set(pact.cohort)) < len(pact.cohort) or self.name not in pact.cohort:
            raise FedloreError("the cohort of this round does not name this site, or one twice")
        if pact != self._agree(task, pact.cohort):
            raise FedloreError(
                "the parameters of this round (cohort, threshold, fixed-point bits, weights) are "
                "not those that this site works out"
            )
        keys = {site: value[:KEY] for site, value in signed.items()}
        every = list(keys.values())
        if len(set(every)) < len(every) or any(len(key) != KEY for key in every):
            raise FedloreError("keys of this round are malformed, or two are the same")
        if set(keys) != set(pact.cohort):
            raise FedloreError("the directory of keys is not that of the cohort of this round")
        if self._identity is not None:
            for site, value in signed.items():
                self._identity.check(site, key_text(self._run, site, keys[site]), value[KEY:])
        return pact, keys

    def _announce(self) -> dict[str, torch.Tensor]:
        """The key for the next sum, signed where sites know each other."""
        public, signature = self._next.public, b""
        if self._identity is not None:
            signature = self._identity.sign(key_text(self._run, self.name, public))
        return packed_all({"public": public + signature})

    def _unmask(self, session: _Session, task: Task) -> Reply:
        pact = session.pact
        survivors = set(survivors_of(task))
        if not survivors <= set(pact.cohort) or self.name not in survivors:
            raise FedloreError("the survivors are not of the cohort, or this site is none of them")
        if len(survivors) < pact.threshold:
            raise FedloreError(f"{len(survivors)} survivors are below {pact.threshold}")
        graph, held = session.graph, dict(session.shares)
        boxes = raw_all(task.sent, ONLY + self.name)
        for dealer in [site for site in graph.holders(self.name) if site in survivors]:
            if len(survivors.intersection(graph.holders(dealer))) < graph.least(dealer):
                raise FedloreError(f"the survivors around '{dealer}' are below its threshold")
            if dealer != self.name:
                of, box = (dealer, session.keys[dealer]), boxes.get(dealer, b"")
                held[dealer] = open_from(session.bound, session.own, self.name, of, box)
            if len(held[dealer]) != SECRET * len(graph.holders(dealer)):
                raise FedloreError("sealed shares have another length than they must have")
        shares = {}
        for dealer in sorted(held):
            seed, *pairs = cut(held[dealer], SECRET)
            shares[dealer] = seed + b"".join(pairs[at] for at in graph.lost(dealer, survivors))
        upload = {"shares": packed_all(shares)}
        if not graph.whole:
            upload = {"locked": packed_all(self._lock(session, shares, list_name(survivors)))}
        # nothing else of this round is ever given out, and its secrets have no use left
        session.shares.clear()
        session.own = KeyPair(b"")
        return Reply(self.name, pact.round, upload)

    def _split(self, graph: Graph, secrets: bytes) -> dict[str, bytes]:
        """A share of these secrets for everyone around this site, itself included."""
        points = {site: graph.point(site) for site in graph.holders(self.name)}
        least, entropy = graph.least(self.name), self._entropy
        dealt = split_secrets(secrets, list(points.values()), threshold=least, entropy=entropy)
        return {site: dealt[point] for site, point in points.items()}

    def _lock(self, session: _Session, shares: Mapping[str, bytes], about: str) -> dict[str, bytes]:
        """An answer that can be read once enough neighbours answer about the very same list.

        Its key is shared among them. Each part is hidden by a pad that this site and one neighbour
        know for each list, and that the neighbour gives out for the list that it was told.
        """
        bound, own, name = session.bound, session.own, self.name
        key, near = make_secret(self._entropy(DRAWN)), session.graph.near(self.name)
        parts, keys = self._split(session.graph, key), session.keys
        hidden = [xor(parts[s], list_pad(bound, own, keys[s], name, s, about)) for s in near]
        answer, purpose = b"".join(shares.values()), bound.purpose("answer", name, about).encode()
        return {
            "answer": seal(answer_key(key), answer, purpose, self._entropy),
            "parts": b"".join([*hidden, parts[name]]),
            "pads": b"".join(list_pad(bound, own, keys[s], s, name, about) for s in near),
        }


def _keep(name: str, reply: Reply, kept: Payload) -> dict[str, Any]:
    """Put the tensors of a reply among those that are kept; the rest of it. Rows never leave."""
    kept |= {f"{name} {key}": bundle for key, bundle in reply.upload.items()}
    return {"round": reply.round, "metrics": dict(reply.metrics)}


def key_text(run: str, site: str, public: bytes) -> bytes:
    """What a site signs of its key."""
    return b"fedlore key\0" + run.encode() + b"\0" + site.encode() + b"\0" + public
