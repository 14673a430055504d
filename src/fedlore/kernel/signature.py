"""What a signature under knowledge covers, and whether it is the one of its key.

A meaning is read off the packed form of a knowledge file, which does not depend on how a person
spelled it and which a bundle holds. λ, the weights of an average, calibrated ranges and estimated
turns lie beside it: they are chosen on data, after the expert has spoken. So does what a federation
says of missing values (`Unsaid`).
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import KnowledgeError

Example = Sequence[str]  # the cells of a row
Unsaid = Mapping[str, Mapping[str, Any]]  # by feature: `missing` and `other` as the expert has them

KIND = "fedlore knowledge 1"
AGREED = ("missing", "other")  # keys of a feature that a federation may decide
_BESIDE = ("card", "trust", "reliance", "floor")
_P = 2**255 - 19  # of the field of Ed25519
_EIGHT = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL = {0, 1, _P - 1, _EIGHT, _P - _EIGHT}  # second coordinates of the points of small order


def meaning_in(members: Mapping[str, bytes], examples: Sequence[Example], unsaid: Unsaid) -> str:
    """A hash of what packed knowledge says, its examples included, without λ and calibration."""
    values = tomllib.loads(members["knowledge.toml"].decode())
    odd = [keys for keys in unsaid.values() if not set(keys) <= set(AGREED)]
    if odd:
        raise KnowledgeError(f"the signature covers unknown keys of a feature: {', '.join(odd[0])}")
    kept = {key: value for key, value in values.items() if key not in _BESIDE}
    kept["features"] = [
        {k: v for k, v in one.items() if k not in AGREED} | dict(unsaid.get(one["name"], {}))
        for one in kept["features"]
    ]
    for one in kept.get("shape", {}).get("sources", []):
        if one.pop("estimated", False):  # the rows of a site said where it turns
            one.pop("turns_at", None)
    for side in ("predict", "range"):
        found = _covered(kept.pop(side, {}), number="target" in values)
        kept |= {side: _filled(found, members)} if found else {}
    text = json.dumps([kept, [list(row) for row in examples]], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def statement(signature: Mapping[str, str]) -> bytes:
    """The bytes that are signed: who signed which meaning, when."""
    words = {word: signature[word] for word in ("meaning", "signer", "date")} | {"kind": KIND}
    return json.dumps(words, sort_keys=True, ensure_ascii=False).encode()


def holds(signature: Mapping[str, str]) -> bool:
    """Whether a signature is the one of its key under what it says."""
    return verify(_bytes(signature["key"]), statement(signature), _bytes(signature["signature"]))


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether an Ed25519 signature is the one of this key under a message, strictly.

    A key or first half that is not written in its one way is refused, and so is one of small order:
    for such a key signatures of any message can be made.
    """
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if len(key) != 32 or len(signature) != 64:
        return False
    for point in (key, signature[:32]):
        place = int.from_bytes(point, "little") & (1 << 255) - 1
        if place >= _P or place in _SMALL:
            return False
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def _covered(side: Mapping[str, Any], *, number: bool) -> dict[str, Any]:
    """One side of a file without the weights of an average, and without calibrated ranges.

    A calibrated range is left out only where it can do nothing but narrow what the others allow.
    """
    rest = {key: value for key, value in side.items() if key != "weights"}
    sources = rest.get("sources", [])
    soft = [one for one in sources if "confidence" in one]  # combined with nothing
    kept = [one for one in sources if "conformal" not in one and one not in soft]
    if len(kept) + len(soft) == len(sources):
        return rest
    empty = rest.get("empty", "error")
    last_word = empty == "first" and len(kept) == 1 and sources[0] == kept[0]
    narrows = rest.get("combine", "all") == "all" and (empty == "error" or last_word)
    if kept and not narrows:
        return rest  # it could let in what the expert excludes
    if len(kept) < 2:  # one alone is combined with nothing
        rest = {k: v for k, v in rest.items() if k != "combine" and (number or k != "empty")}
    rest = {key: value for key, value in rest.items() if key != "sources"}
    return rest | ({"sources": [*kept, *soft]} if kept or soft else {})


def _filled(value: Any, members: Mapping[str, bytes]) -> Any:
    """The same with the hash of each file in place of its name."""
    if isinstance(value, Mapping):
        return {key: _filled(one, members) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, members) for one in value]
    if isinstance(value, str) and value in members:
        data = _unspaced(members[value]) if value.endswith(".csv") else members[value]
        return {"sha256": hashlib.sha256(data).hexdigest()}
    return value


def _unspaced(table: bytes) -> bytes:
    """A table without blank lines: they only keep each rule in the row of its expert's file."""
    kept, quoted = [], False
    for line in table.split(b"\n"):
        if quoted or line.strip(b"\r"):
            kept.append(line)
        quoted ^= line.count(b'"') % 2 == 1
    return b"\n".join(kept)


def _bytes(text: str) -> bytes:
    """Lower-case hexadecimal digits as bytes; a second way of writing them is refused."""
    data = bytes.fromhex(text) if text.isascii() else b""
    return data if data.hex() == text else b""
