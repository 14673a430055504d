"""Numbers under CKKS: cut into ciphertexts, added by anyone, read by who has the key.

Cheon, Kim, Kim, Song (2017), Homomorphic Encryption for Arithmetic of Approximate Numbers; the
implementation is SEAL's by way of TenSEAL. Encryption is symmetric: sites share one secret key.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...core.store import write_private
from ...core.tree import Params
from ...core.wire import SUMMED, TASK_KINDS
from ...errors import ConfigError, FedloreError

Vector = NDArray[np.float64]

MAGIC = b"fedlore ckks 1\n"
DEGREE = 8192  # of the polynomials: 4096 numbers in each ciphertext
MODULI = (60, 60, 60)  # bits; 180 of the 218 that 128-bit security allows, the last for keys alone
SLOTS = DEGREE // 2
PIECE = SLOTS - 1  # the first slot of each ciphertext holds the weight
_ROOM = sum(MODULI[:-1]) - 2  # bits for a number and its scale, a sign and a spare one
_LARGEST = 2 * DEGREE * (len(MODULI) - 1) * 8 + 4096  # bytes of one ciphertext, framing included
HEAD = {name: TASK_KINDS[name].bits for name in SUMMED}
FLOOD = 2.0**-36  # the spread of what a site adds to what it decrypts, see `Ckks.flood`
KEY_FILE = 2**20  # bytes at most

#: The task that is added, and what the reply holds.
ASKED = {"decrypt": "the sum of this round's ciphertexts, under a little noise"}


@dataclass(frozen=True)
class Parameters:
    """What a sum over so many sites needs; each side works it out for itself."""

    sites: int
    kind: str = "train"

    def __post_init__(self) -> None:
        if self.sites < 2:
            raise ConfigError(f"encryption needs at least 2 sites in a round, got {self.sites}")
        if self.kind not in HEAD:
            raise ConfigError(f"only {', '.join(HEAD)} are encrypted, got '{self.kind}'")

    @property
    def bound(self) -> float:
        """The largest |weight × value| of one site."""
        return 2.0 ** HEAD[self.kind]

    @property
    def bits(self) -> int:
        """log2 of the scale: all the room that the largest sum leaves."""
        return _ROOM - HEAD[self.kind] - math.ceil(math.log2(self.sites))


def pieces(values: int) -> int:
    """How many ciphertexts hold so many numbers."""
    return max(1, math.ceil(values / PIECE))


def context() -> Any:
    """A context of our parameters with a key of its own, which is enough to add."""
    ts = tenseal()
    kind = ts.ENCRYPTION_TYPE.SYMMETRIC
    return ts.context(ts.SCHEME_TYPE.CKKS, DEGREE, -1, list(MODULI), kind)


def new_key() -> bytes:
    """A secret key, as it is kept in a file."""
    found: bytes = context().serialize(
        save_public_key=False, save_secret_key=True, save_galois_keys=False, save_relin_keys=False
    )
    return MAGIC + hashlib.sha256(found).digest() + found


def key_context(key: bytes) -> Any:
    """The context that encrypts and decrypts with a key."""
    digest, body = key[len(MAGIC) : len(MAGIC) + 32], key[len(MAGIC) + 32 :]
    if not key.startswith(MAGIC) or hashlib.sha256(body).digest() != digest:
        raise FedloreError("this is no CKKS key of this version, or it is damaged")
    found = tenseal().context_from(body)
    if not found.is_private():
        raise FedloreError("this CKKS key holds no secret: it cannot decrypt")
    return found


def key_fingerprint(key: bytes) -> str:
    """A short name of a key, which tells nothing about it."""
    return hashlib.sha256(b"fedlore ckks name\0" + key).hexdigest()[:16]


def write_key(path: Path) -> str:
    """Make a key file that only its owner may read; its fingerprint."""
    if path.exists():
        raise FedloreError(f"'{path}' exists already: a new key would shut the others out")
    key = new_key()
    try:
        write_private(path, key)
    except OSError as error:
        raise FedloreError(f"cannot write '{path}': {error.strerror}") from None
    return key_fingerprint(key)


def read_key(path: Path) -> bytes:
    """A key file, checked."""
    try:
        if path.stat().st_size > KEY_FILE:
            raise FedloreError(f"'{path}' is no CKKS key: it is larger than {KEY_FILE} bytes")
        key = path.read_bytes()
    except OSError as error:
        raise FedloreError(f"cannot read the CKKS key '{path}': {error.strerror}") from None
    try:
        key_context(key)
    except FedloreError as error:
        raise FedloreError(f"'{path}': {error}") from None
    return key


def encrypt(key: Any, values: Vector, weight: float, parameters: Parameters) -> Params:
    """Numbers times their weight as ciphertexts, with the weight at the head of each."""
    wide = values * weight
    if not np.isfinite(wide).all():
        raise FedloreError("the upload holds a value that is not finite")
    if not 0 < weight < parameters.bound:
        raise FedloreError(f"a weight must lie in (0, {parameters.bound:g}), got {weight:g}")
    if wide.size and float(np.abs(wide).max()) >= parameters.bound:
        raise FedloreError(
            f"the upload holds a value beyond the range of encryption: weight times value must "
            f"stay below {parameters.bound:.4g} in '{parameters.kind}'"
        )
    ts, scale = tenseal(), 2.0**parameters.bits
    return frame_ciphers(
        ts.ckks_vector(key, np.concatenate([[weight], part]), scale).serialize()
        for part in np.array_split(wide, pieces(wide.size))
    )


def frame_ciphers(ciphers: Iterator[bytes]) -> Params:
    """Ciphertexts one after the other, and how long each is."""
    found = list(ciphers)
    data = torch.frombuffer(bytearray(b"".join(found)), dtype=torch.uint8)
    return {"cipher": data, "lengths": torch.tensor([len(c) for c in found])}


def parse_ciphers(
    context: Any, bundle: Mapping[str, Tensor], values: int, parameters: Parameters
) -> list[Any]:
    """Ciphertexts that arrived: lengths are checked before TenSEAL sees a byte of them."""
    data, lengths = bundle.get("cipher"), bundle.get("lengths")
    if data is None or lengths is None or data.dtype != torch.uint8 or data.ndim != 1:
        raise FedloreError("no ciphertext")
    if lengths.dtype != torch.int64 or lengths.shape != (pieces(values),):
        raise FedloreError(f"{lengths.numel()} ciphertexts, {pieces(values)} are needed")
    sizes = lengths.tolist()
    if not all(0 < size <= _LARGEST for size in sizes) or sum(sizes) != data.numel():
        raise FedloreError(f"ciphertexts of other lengths than up to {_LARGEST} bytes")
    ts, found, raw, place = tenseal(), [], data.numpy(), 0
    for size, wanted in zip(sizes, shares(values), strict=True):
        try:
            vector = ts.ckks_vector_from(context, raw[place : place + size].tobytes())
            (cipher,) = vector.ciphertext()
            if vector.size() != wanted + 1:
                raise FedloreError(f"a ciphertext of {vector.size()} numbers, not {wanted + 1}")
            if cipher.scale != 2.0**parameters.bits or cipher.coeff_modulus_size() != 2:
                raise FedloreError("a ciphertext of other parameters than this round's")
        except FedloreError:
            raise
        except Exception as error:  # whatever SEAL says of bytes that are no ciphertext
            line = str(error).split("\n")[0][:80]
            raise FedloreError(f"a ciphertext that cannot be read: {line}") from None
        found.append(vector)
        place += size
    return found


def shares(values: int) -> list[int]:
    """How many numbers each ciphertext holds."""
    count = pieces(values)
    return [values // count + (i < values % count) for i in range(count)]


def add_ciphers(total: Sequence[Any] | None, one: Sequence[Any]) -> list[Any]:
    """The sum of ciphertexts, which needs no key."""
    return list(one) if total is None else [a + b for a, b in zip(total, one, strict=True)]


def decrypt(vectors: Sequence[Any]) -> tuple[Vector, Vector]:
    """The weights, one for each ciphertext, and the numbers."""
    parts = [np.asarray(vector.decrypt(), np.float64) for vector in vectors]
    return np.array([p[0] for p in parts]), np.concatenate([p[1:] for p in parts])


def tenseal() -> Any:
    try:
        import tenseal
    except ImportError:
        raise FedloreError("TenSEAL is missing: pip install 'fedlore[he]'") from None
    return tenseal
