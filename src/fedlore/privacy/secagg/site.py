"""Secure aggregation at a site: keys and masks for one round at a time."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch

from ...core.wire import Reply, Task, digest
from ...errors import FedloreError
from .channels import KEY, SEAL, KeyPair, add_mask, commitment, seal, unseal
from .fixedpoint import Words
from .pact import (
    PHASES,
    Agree,
    Identity,
    Pact,
    pack_message,
    packed_all,
    raw_all,
    read_pact,
    survivors_of,
)
from .shamir import SHARE, ByteSource, split_secret

PUBLIC = 2 * KEY  # bytes: the key for boxes, then the key for masks
BOX = 2 * SHARE + SEAL  # bytes: a share of the seed and one of the mask key, sealed


@dataclass
class _Session:
    """One round at one site. Secrets live here alone, and go with it."""

    pact: Pact
    boxes: KeyPair  # for what is told to other sites
    masks: KeyPair  # for what cancels between two sites
    seed: bytes  # b: of the mask that is this site's own
    replies: dict[str, tuple[str, Reply]] = field(default_factory=dict)  # phase -> asked, said
    others: dict[str, bytes] = field(default_factory=dict)  # U1: site -> public keys
    partners: tuple[str, ...] = ()  # U2: those whose masks count
    shares: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)  # of seeds, of mask keys
    masked: tuple[bytes, Reply] | None = None  # which words were hidden, and how


class Masking:
    """The site's half. Whatever does not fit is refused, and then nothing is given out.

    It lives through one session at a time: a new one forgets the secrets of the one before. The
    same question again gets the same answer, another question in its place gets none.
    """

    kinds: ClassVar[frozenset[str]] = frozenset(PHASES)

    def __init__(
        self, name: str, agree: Agree, *, identity: Identity | None, entropy: ByteSource
    ) -> None:
        self.name, self._agree = name, agree
        self._identity, self._entropy = identity, entropy
        self._session: _Session | None = None
        self._over: set[str] = set()  # sessions that were left

    def answer(self, task: Task) -> Reply:
        pact = read_pact(task)
        if task.kind == "keys":
            self._open(task, pact)
        session = self._current(pact, task.round)
        asked = digest(task)
        if task.kind in session.replies:
            before, reply = session.replies[task.kind]
            if before != asked:
                raise FedloreError(f"'{task.kind}' was answered once in this round already")
            return reply
        answers: Mapping[str, Callable[[_Session, Task], Reply]] = {
            "keys": self._keys,
            "shares": self._shares,
            "boxes": self._boxes,
            "unmask": self._unmask,
        }
        reply = answers[task.kind](session, task)
        session.replies[task.kind] = (asked, reply)
        return reply

    def summed(self, task: Task) -> Sequence[str] | None:
        return survivors_of(task) if task.kind == "unmask" else None

    def outbound(self, task: Task, reply: Reply) -> Reply:
        """The upload and its weight under masks; row counts stay at home."""
        session = self._session
        if session is None or (session.pact.kind, session.pact.round) != (task.kind, task.round):
            raise FedloreError(f"round {task.round}: no keys were agreed on for '{task.kind}'")
        if not session.partners:
            raise FedloreError(f"round {task.round}: '{task.kind}' came before all sealed shares")
        pact = session.pact
        weight = reply.rows if pact.weights == "size" else 1
        layout, words = pact.numbers.encode(reply.upload, weight)
        told = json.dumps(layout).encode()
        found = hashlib.sha256(told + words.tobytes()).digest()
        if session.masked is not None:
            before, hidden = session.masked
            if before != found:  # the difference of two uploads under one mask is not hidden
                raise FedloreError(f"round {task.round}: another upload was masked already")
            return hidden
        self._mask(session, words)
        upload = {
            "masked": {
                "words": torch.from_numpy(words.view(np.int64)),
                "layout": pack_message(told),
            }
        }
        hidden = replace(reply, upload=upload, rows=0)
        session.masked = (found, hidden)
        return hidden

    def _open(self, task: Task, pact: Pact) -> None:
        """Begin a session, unless it is the one that runs."""
        if self._session is not None and self._session.pact == pact:
            return
        if pact.session in self._over:
            raise FedloreError("these keys belong to a round that is over")
        about = Task(pact.kind, task.round)
        if pact != self._agree(about, pact.cohort, session=pact.session):
            raise FedloreError(
                "the parameters of this round (cohort, threshold, fixed-point bits, weights) are "
                "not those that this site works out"
            )
        if self.name not in pact.cohort or len(set(pact.cohort)) < len(pact.cohort):
            raise FedloreError("the cohort of this round does not name this site, or one twice")
        if self._session is not None:
            self._over.add(self._session.pact.session)
        draw = self._entropy
        self._session = _Session(pact, KeyPair.fresh(draw), KeyPair.fresh(draw), draw(KEY))

    def _current(self, pact: Pact, round: int) -> _Session:
        session = self._session
        if session is None or session.pact != pact or pact.round != round:
            raise FedloreError(
                f"round {round}: this site holds no keys for this session (it is over, or was "
                "begun before this site was started)"
            )
        return session

    def _keys(self, session: _Session, task: Task) -> Reply:
        public = session.boxes.public + session.masks.public
        signature = b""
        if self._identity is not None:
            signature = self._identity.sign(_sign(session.pact, self.name, public))
        return self._reply(session, {"keys": {"public": public + signature}})

    def _shares(self, session: _Session, task: Task) -> Reply:
        pact = session.pact
        told = raw_all(task.sent, "keys")
        if not set(told) <= set(pact.cohort) or len(told) < pact.threshold:
            raise FedloreError(
                f"keys of {len(told)} sites: at least {pact.threshold} of the cohort are needed"
            )
        public = {site: value[:PUBLIC] for site, value in told.items()}
        if public.get(self.name) != session.boxes.public + session.masks.public:
            raise FedloreError("the server does not pass on this site's own keys")
        every = [key for value in public.values() for key in (value[:KEY], value[KEY:])]
        if len(set(every)) < len(every) or any(len(key) != KEY for key in every):
            raise FedloreError("keys of this round are malformed, or two are the same")
        if self._identity is not None:
            for site, value in told.items():
                proof = _sign(pact, site, public[site])
                self._identity.check(site, proof, value[PUBLIC:])
        session.others = public
        points = {site: pact.point(site) for site in public}
        seeds, keys = (
            split_secret(
                secret,
                list(points.values()),
                threshold=pact.threshold,
                entropy=self._entropy,
            )
            for secret in (session.seed, session.masks.private)
        )
        own = points[self.name]
        session.shares[self.name] = (seeds[own], keys[own])
        boxes = b""
        for site in recipients(public, self.name):
            key, about = self._channel(session, self.name, site)
            both = seeds[points[site]] + keys[points[site]]
            boxes += seal(key, both, about, self._entropy)
        told = {"boxes": boxes, "commitment": commitment(session.seed)}
        return self._reply(session, {"shares": told})

    def _boxes(self, session: _Session, task: Task) -> Reply:
        pact = session.pact
        if not session.others:
            raise FedloreError("sealed shares came before the keys")
        found = raw_all(task.sent, "boxes")
        partners = set(found)
        known = partners <= set(session.others) and self.name in partners
        if not known or len(partners) < pact.threshold:
            raise FedloreError(
                f"shares of {len(partners)} sites: at least {pact.threshold} whose keys are known "
                "are needed, this site among them"
            )
        for sender in partners - {self.name}:
            key, about = self._channel(session, sender, self.name)
            place = recipients(session.others, sender).index(self.name) * BOX
            plain = unseal(key, found[sender][place : place + BOX], about)
            session.shares[sender] = (plain[:SHARE], plain[SHARE:])
        session.partners = tuple(sorted(partners))
        return self._reply(session, {})

    def _unmask(self, session: _Session, task: Task) -> Reply:
        pact = session.pact
        if session.masked is None:
            raise FedloreError("shares were asked for before this site had sent anything masked")
        survivors = set(survivors_of(task))
        if not survivors <= set(session.partners) or self.name not in survivors:
            raise FedloreError("the survivors are not among those whose shares this site holds")
        if len(survivors) < pact.threshold:
            raise FedloreError(f"{len(survivors)} survivors are below {pact.threshold}")
        seeds = {s: session.shares[s][0] for s in session.partners if s in survivors}
        keys = {s: session.shares[s][1] for s in session.partners if s not in survivors}
        # the other half of each pair is never given out, and this round's secrets have no use left
        session.shares.clear()
        session.seed, session.boxes, session.masks = b"", KeyPair(b""), KeyPair(b"")
        return self._reply(session, {"seeds": seeds, "keys": keys} if keys else {"seeds": seeds})

    def _mask(self, session: _Session, words: Words) -> None:
        """y = x + PRG(b) + Σ ± PRG(s) over partners, modulo 2^64."""
        add_mask(words, session.seed, +1)
        for other in session.partners:
            if other != self.name:
                key = mask_key(session.pact, session.masks, self.name, other, session.others)
                add_mask(words, key, sign(self.name, other))

    def _channel(self, session: _Session, sender: str, recipient: str) -> tuple[bytes, bytes]:
        """The key from one site to another, and the words that bind a box to its place."""
        other = recipient if sender == self.name else sender
        purpose = session.pact.purpose("box", sender, recipient)
        return session.boxes.agree(session.others[other][:KEY], purpose), purpose.encode()

    def _reply(self, session: _Session, parts: Mapping[str, Mapping[str, bytes]]) -> Reply:
        upload = {key: packed_all(values) for key, values in parts.items()}
        return Reply(self.name, session.pact.round, upload)


def recipients(sites: Iterable[str], sender: str) -> list[str]:
    """For whom a site seals shares, in the order of the boxes."""
    return sorted(set(sites) - {sender})


def mask_key(pact: Pact, own: KeyPair, site: str, other: str, public: Mapping[str, bytes]) -> bytes:
    """The key of the mask between two sites, the same from either end."""
    one, two = sorted((site, other))
    return own.agree(public[other][KEY:PUBLIC], pact.purpose("mask", one, two))


def sign(site: str, other: str) -> int:
    """Of two sites one adds their mask and the other takes it away."""
    return 1 if site < other else -1


def _sign(pact: Pact, site: str, public: bytes) -> bytes:
    return b"fedlore keys\0" + pact.text() + b"\0" + site.encode() + b"\0" + public
