"""Homomorphic encryption at a site: encrypt the upload, then decrypt one sum and no second one."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch

from ...core.tree import Params
from ...core.wire import Reply, Task, digest
from ...errors import FedloreError
from ..dp.noise import gaussian
from ..secagg.fixedpoint import summands
from ..secagg.pact import pack_message, raw_bytes
from .cipher import (
    ASKED,
    FLOOD,
    Parameters,
    Scheme,
    Vector,
    decrypt,
    encrypt,
    key_context,
    key_fingerprint,
    parse_ciphers,
    shares,
)


@dataclass
class _Upload:
    """What this site last sent, and the one sum that it decrypted for it."""

    kind: str
    round: int
    told: bytes  # the layout
    values: int
    weight: float
    digest: bytes  # of the numbers
    reply: Reply
    loss: float
    asked: str = ""  # the sum that was decrypted, by its hash
    answer: Reply | None = None


class Encrypting:
    """The site's half. A sum is decrypted once for each upload, and only if it looks like a sum."""

    kinds: ClassVar[frozenset[str]] = frozenset(ASKED)

    def __init__(self, name: str, scheme: Scheme, key: bytes) -> None:
        self.name, self._scheme = name, scheme
        self._key, self._named = key_context(key), key_fingerprint(key)
        self._last: _Upload | None = None

    def outbound(self, task: Task, reply: Reply) -> Reply:
        if not reply.upload:
            return replace(reply, rows=0)
        layout, flat = summands(reply.upload)
        told = json.dumps(layout).encode()
        values = _join(flat)
        by_size = self._scheme.weights == "size" and task.kind == "train"
        weight = float(reply.rows) if by_size else 1.0
        found = hashlib.sha256(told + values.tobytes() + str(weight).encode()).digest()
        last = self._last
        if last is not None and (last.kind, last.round, last.digest) == (
            task.kind,
            task.round,
            found,
        ):
            return last.reply  # the same ciphertext, so that the sum is the same one too
        parameters = self._scheme.parameters(task.kind)
        bundle = encrypt(self._key, values, weight, parameters)
        about = json.dumps({"layout": layout, "key": self._named}).encode()
        hidden = replace(reply, upload={"ckks": {**bundle, "about": pack_message(about)}}, rows=0)
        loss = self._loss(values, weight, parameters)
        self._last = _Upload(task.kind, task.round, told, values.size, weight, found, hidden, loss)
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
        parameters = self._scheme.parameters(kind)
        weights, total = decrypt(
            parse_ciphers(self._key, task.sent["ckks"], mine.values, parameters)
        )
        self._check(weights, total, members, mine, parameters)
        upload = {
            "sum": {
                "weights": torch.from_numpy(flood(weights, self._scheme)),
                "values": torch.from_numpy(flood(total, self._scheme)),
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
        if self._scheme.weights == "size" and mine.kind == "train":
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
        wrong = flood(back, self._scheme) - weight * piece
        return float(np.linalg.norm(wrong)) / size


def flood(values: Vector, scheme: Scheme) -> Vector:
    """What was decrypted, under noise that is far above that of the ciphertext.

    Li and Micciancio (2021), On the Security of Homomorphic Encryption on Approximate Numbers: the
    exact result of a decryption holds the ciphertext's noise, from which whoever has the ciphertext
    works out the secret key. Under 2^45 times as much noise it holds none of it.
    """
    noise: Vector = gaussian(values.size, scheme.entropy).numpy()
    return values + FLOOD * noise


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
