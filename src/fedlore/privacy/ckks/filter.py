"""Homomorphic encryption: the server adds uploads that it cannot read.

The sites share a secret key that the server never has. Each encrypts its upload, the server adds
the ciphertexts, and the sites decrypt the sum for it, one sum in each round:

    train    (or moments, gram) each site uploads ciphertexts of weight × values, and of the weight
    decrypt  each site decrypts the sum, and the answers must agree

The model is a server that is curious and follows the protocol, and sites that do not help it: one
that gives it the key gives it every upload.
"""

import hashlib
import json
import logging
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from ...core.store import Layout
from ...core.tree import Params, Payload, nest
from ...core.wire import SUMMED, Reply, Task, Transport, digest, find_bad_metric
from ...errors import ConfigError, FedloreError
from ..dp.noise import Entropy, gaussian
from ..filters import (
    Filter,
    FilterContext,
    Half,
    OpenedSums,
    Placement,
    RoundVoid,
    SumWithheld,
    common_steps,
)
from ..secagg.fixedpoint import FLOAT_KINDS, read_summands, summands
from ..secagg.pact import pack_message, raw_bytes
from .cipher import (
    ASKED,
    DEGREE,
    FLOOD,
    MODULI,
    Parameters,
    Vector,
    add_ciphers,
    context,
    decrypt,
    encrypt,
    frame_ciphers,
    key_context,
    key_fingerprint,
    new_key,
    parse_ciphers,
    pieces,
    read_key,
    shares,
    tenseal,
    write_key,
)

AGREE = 64 * FLOOD  # how far apart two sites' answers about the same sum may be
_KEY_FILE = "ckks.key"  # where a site keeps the key, unless its owner names another file

_log = logging.getLogger("fedlore")


@dataclass(frozen=True)
class Encryption:
    """What is asked for: the coordinator adds numbers that it cannot read."""

    name: ClassVar[str] = "encryption"
    hides: ClassVar[bool] = True
    kinds: ClassVar[Mapping[str, str]] = ASKED

    def make(self, around: FilterContext, place: Placement) -> Filter:
        Parameters(around.cohort)  # its checks, before a key is made
        key = None  # the coordinator has none
        if place.role == "process":
            key = new_key()
        elif place.role == "site":
            key = read_key(place.path("ckks", _KEY_FILE))
        return Ckks(around.cohort, around.weights, key, OpenedSums.of(place))

    def share(self, place: Placement) -> tuple[Path, str]:
        path = place.path("ckks", _KEY_FILE)
        return path, write_key(path)


@dataclass(frozen=True)
class Ckks:
    """The filter: ciphertexts at the sites, their sum at the server."""

    sites: int  # how many may be in a round: the scale leaves room for their sum
    weights: str = "equal"  # or size: then the sum is weighted by rows, which stay hidden too
    key: bytes | None = field(default=None, repr=False)  # what the sites share, the server has none
    opened: OpenedSums | None = None  # at a coordinator that may be started anew
    entropy: Entropy = os.urandom  # anything else is for tests
    losses: dict[str, float] = field(default_factory=dict, compare=False)  # measured, by site
    values: list[int] = field(default_factory=list, compare=False)  # how many were encrypted

    name: ClassVar[str] = "ckks"
    hides: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Parameters(self.sites)  # its checks
        if self.weights not in ("equal", "size"):
            raise ConfigError(f"weights must be equal or size, got '{self.weights}'")

    def site(self, name: str) -> Half:
        tenseal()
        if self.key is None:
            raise FedloreError(
                f"site '{name}' has no CKKS key: one site makes it (fedlore federation key) and "
                "hands it to the others, never to the coordinator"
            )
        return CkksSite(name, self, self.key)

    def over(self, transport: Transport) -> Transport:
        tenseal()
        return CkksServer(transport, self)

    def flaw(self, task: Task, reply: Reply, like: Payload) -> str | None:
        """Why an encrypted reply cannot be used; what is inside the server half finds out."""
        if reply.rows:
            return f"a count of {reply.rows} rows where none may be shown"
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

    def parameters(self, kind: str) -> Parameters:
        return Parameters(self.sites, kind)

    def by_rows(self, kind: str) -> bool:
        """Whether answers to such a task are weighted by rows."""
        return self.weights == "size" and kind == "train"

    def flood(self, values: Vector) -> Vector:
        """What was decrypted, under noise that is far above that of the ciphertext.

        Li and Micciancio (2021), On the Security of Homomorphic Encryption on Approximate Numbers:
        the exact result of a decryption holds the ciphertext's noise, from which whoever has the
        ciphertext works out the secret key. Under 2^45 times as much noise it holds none of it.
        """
        noise: Vector = gaussian(values.size, self.entropy).numpy()
        return values + FLOOD * noise

    def lines(self, *, rounds: int, sample: float, bare: bool) -> Sequence[str]:
        """What the run's report says of precision."""
        loss = f"{max(self.losses.values()):.1e}" if self.losses else "not"
        count = pieces(self.values[-1]) if self.values else 0
        size = f", {count} ciphertext{'s' * (count > 1)} a site" if count else ""
        return [
            f"CKKS: degree {DEGREE}, moduli of {'+'.join(map(str, MODULI))} bits, scale "
            f"2^{self.parameters('train').bits}{size}, relative error {loss} measured"
        ]


@dataclass
class _Upload:
    """What this site last sent, and the one sum that it decrypted for it."""

    kind: str
    round: int
    packed: bytes  # the layout
    values: int
    weight: float
    digest: bytes  # of the numbers
    reply: Reply
    loss: float
    asked: str = ""  # the sum that was decrypted, by its hash
    answer: Reply | None = None


class CkksSite:
    """The site's half. A sum is decrypted once for each upload, and only if it looks like a sum."""

    kinds: ClassVar[frozenset[str]] = frozenset(ASKED)

    def __init__(self, name: str, ckks: Ckks, key: bytes) -> None:
        self.name, self._ckks = name, ckks
        self._key, self._named = key_context(key), key_fingerprint(key)
        self._last: _Upload | None = None

    def outbound(self, task: Task, reply: Reply) -> Reply:
        if not reply.upload:
            return replace(reply, rows=0)
        layout, flat = summands(reply.upload)
        packed = json.dumps(layout).encode()
        values = _join(flat)
        weight = float(reply.rows) if self._ckks.by_rows(task.kind) else 1.0
        found = hashlib.sha256(packed + values.tobytes() + str(weight).encode()).digest()
        last = self._last
        this = (task.kind, task.round, found)
        if last is not None and (last.kind, last.round, last.digest) == this:
            return last.reply  # the same ciphertext, so that the sum is the same one too
        parameters = self._ckks.parameters(task.kind)
        bundle = encrypt(self._key, values, weight, parameters)
        about = json.dumps({"layout": layout, "key": self._named}).encode()
        hidden = replace(reply, upload={"ckks": {**bundle, "about": pack_message(about)}}, rows=0)
        loss = self._loss(values, weight, parameters)
        self._last = _Upload(
            task.kind, task.round, packed, values.size, weight, found, hidden, loss
        )
        return hidden

    def summed(self, task: Task) -> Sequence[str] | None:
        return members_of(task)[1] if task.kind in ASKED else None

    def answer(self, task: Task) -> Reply:
        kind, members = members_of(task)
        mine = self._last
        if mine is None or (mine.kind, mine.round) != (kind, task.round):
            raise FedloreError(
                f"round {task.round}: this site has sent nothing that is in this sum"
            )
        if len(set(members)) < 2 or self.name not in members:
            raise FedloreError(
                f"a sum of {len(set(members))} sites is not decrypted: at least 2 are needed, this "
                "site among them"
            )
        asked = digest(task)
        if mine.answer is not None:
            if mine.asked != asked:
                raise FedloreError(f"round {task.round}: another sum was decrypted already")
            return mine.answer
        parameters = self._ckks.parameters(kind)
        weights, total = decrypt(
            parse_ciphers(self._key, task.sent["ckks"], mine.values, parameters)
        )
        self._check(weights, total, members, mine, parameters)
        upload = {
            "sum": {
                "weights": torch.from_numpy(self._ckks.flood(weights)),
                "values": torch.from_numpy(self._ckks.flood(total)),
            }
        }
        mine.asked = asked
        mine.answer = Reply(self.name, task.round, upload, metrics={"loss": mine.loss})
        return mine.answer

    def _check(
        self,
        weights: Vector,
        total: Vector,
        members: list[str],
        mine: _Upload,
        parameters: Parameters,
    ) -> None:
        """Refuse what is no sum of so many uploads: a wrong key, a changed or single ciphertext."""
        count = len(set(members))
        alike = np.abs(weights - weights[0]).max() < 1e-3
        if self._ckks.by_rows(mine.kind):
            plausible = weights[0] > mine.weight + 0.5
        else:
            plausible = abs(weights[0] - count) < 1e-3
        inside = not total.size or np.abs(total).max() < count * parameters.bound
        if not (alike and plausible and inside):  # NaN is none of it
            raise FedloreError(
                f"round {mine.round}: what was to be decrypted is not the sum of {count} uploads "
                "under this site's key"
            )

    def _loss(self, values: Vector, weight: float, parameters: Parameters) -> float:
        """The relative error of the first piece of this upload, encrypted and decrypted."""
        piece = values[: shares(values.size)[0]]
        size = float(np.linalg.norm(piece)) * weight
        if size == 0.0:
            return 0.0
        bundle = encrypt(self._key, piece, weight, parameters)
        _, back = decrypt(parse_ciphers(self._key, bundle, piece.size, parameters))
        wrong = self._ckks.flood(back) - weight * piece
        return float(np.linalg.norm(wrong)) / size


def _join(flat: Params) -> Vector:
    parts = [t.detach().cpu().double().reshape(-1) for t in flat.values()]
    found: Vector = torch.cat(parts).numpy()
    return found


def members_of(task: Task) -> tuple[str, list[str]]:
    """Which upload a sum is of, and whose, as the server says."""
    try:
        found: Any = json.loads(raw_bytes(task.sent["ckks"]["about"]))
        kind, members = found["kind"], found["members"]
        if isinstance(kind, str) and all(isinstance(m, str) for m in members):
            return kind, list(members)
    except (KeyError, TypeError, ValueError):
        pass
    raise FedloreError("'decrypt' came without the names of those in the sum")


class CkksServer:
    """A transport whose replies to tasks of `SUMMED` are one mean over all who answered."""

    def __init__(self, transport: Transport, ckks: Ckks) -> None:
        self._transport, self._ckks, self._context = transport, ckks, context()

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
        except SumWithheld:
            raise
        except RoundVoid as reason:
            _log.warning("round %s: '%s' is void: %s", task.round, task.kind, reason)
            return
        yield reply

    def _summed(self, task: Task, replies: Mapping[str, Reply]) -> Reply:
        opened = self._ckks.opened
        before = () if opened is None else opened.before(task, replies)
        layout, ours = self._usual(task, {s: replies[s] for s in before or replies})
        values = numbers_of(layout)
        total: list[Any] | None = None
        members = []
        for site in sorted(ours):
            try:
                one = parse_ciphers(
                    self._context,
                    replies[site].upload["ckks"],
                    values,
                    self._ckks.parameters(task.kind),
                )
            except FedloreError as error:
                _log.warning("round %s: '%s' sent %s", task.round, site, error)
                continue
            total = add_ciphers(total, one)
            members.append(site)
        if total is None or len(members) < 2:
            raise RoundVoid(f"{len(members)} ciphertexts that can be used, 2 are needed")
        if len(members) > self._ckks.sites:
            raise RoundVoid(f"{len(members)} sites, the scale leaves room for {self._ckks.sites}")
        if opened is not None:
            opened.note(task, members)
        self._ckks.values.append(values)
        weight, flat = self._decrypted(task, total, members, values)
        name = f"the sum of {len(members)} sites"
        steps = common_steps([replies[site] for site in members])
        mean = cut_flat(flat / weight, layout)
        return Reply(name, task.round, mean, round(weight), steps, tuple(members))

    def _usual(self, task: Task, replies: Mapping[str, Reply]) -> tuple[Layout, list[str]]:
        """The layout and the key that most sites have, and those sites."""
        headers: dict[str, bytes] = {}
        for site, reply in replies.items():
            try:
                headers[site] = raw_bytes(reply.upload["ckks"]["about"])
                _layout(headers[site])
            except (KeyError, FedloreError):
                headers.pop(site, None)
                _log.warning("round %s: '%s' sent no encrypted upload", task.round, site)
        if not headers:
            raise RoundVoid("nobody sent an encrypted upload")
        usual = Counter(headers.values()).most_common(1)[0][0]
        for site in headers:
            if headers[site] != usual:
                _log.warning("round %s: '%s' has another key or other tensors", task.round, site)
        return _layout(usual), [site for site, about in headers.items() if about == usual]

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
                self._ckks.losses[reply.client] = float(reply.metrics["loss"])
        if len(answers) < 2:
            raise RoundVoid(f"{len(answers)} sites decrypted the sum, 2 are needed")
        first = answers[0]
        for other in answers[1:]:
            if not np.allclose(other, first, rtol=1e-9, atol=AGREE):
                raise RoundVoid("the sites do not agree on the sum")
        weights, flat = np.split(first, [pieces(values)])
        weight = float(np.round(weights[0]))
        if weight < 2 or np.abs(weights - weight).max() > 1e-3:
            raise RoundVoid(f"the weights add up to {weights[0]:g}")
        return weight, flat


def _answer(reply: Reply, values: int) -> Vector | None:
    """What one site says of the sum, its weights first."""
    found = reply.upload.get("sum", {})
    wanted = {"weights": (pieces(values),), "values": (values,)}
    if {n: tuple(t.shape) for n, t in found.items()} != wanted:
        return None
    both = torch.cat([found["weights"].double(), found["values"].double()]).numpy()
    return both if bool(np.isfinite(both).all()) else None


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
