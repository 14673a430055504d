"""Whose word the knowledge is: a signature over what it means, established without fedlore."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from typing import Any

from ..errors import KnowledgeError

KIND = "fedlore knowledge 1"
_BESIDE = ("card", "trust", "reliance", "floor")  # chosen on data, not signed
_AGREED = ("missing", "other")  # of a feature: a federation may decide them
_WORDS = ("signer", "date", "meaning", "key", "signature")
_P = 2**255 - 19  # of the field of Ed25519
_EIGHT = 2707385501144840649318225287225658788936804267575313519463743609750303402022
_SMALL = {0, 1, _P - 1, _EIGHT, _P - _EIGHT}  # second coordinates of the points of small order


def signature_faults(said: Any, texts: Mapping[str, bytes], key: str | None = None) -> list[str]:
    """What is wrong with a signature under the knowledge in `texts`; `key`: the one expected."""
    if not isinstance(said, dict) or set(said) != {*_WORDS, "examples", "features"}:
        return ["it is no signature"]
    if not all(isinstance(said[word], str) for word in _WORDS):
        return ["it is no signature"]
    if key is not None and said["key"] != key.lower():
        return [f"it was made with the key {said['key']}, not with the one expected"]
    told = {word: said[word] for word in ("meaning", "signer", "date")} | {"kind": KIND}
    message = json.dumps(told, sort_keys=True, ensure_ascii=False).encode()
    if not verify(_bytes(said["key"]), message, _bytes(said["signature"])):
        return ["it does not hold"]
    if meaning(texts, said["examples"], said["features"]) != said["meaning"]:
        return [f"the rules or examples are not those that {said['signer']} signed"]
    return []


def meaning(texts: Mapping[str, bytes], examples: Any, features: Any) -> str:
    """A hash of what packed knowledge says, without λ and calibration."""
    values = tomllib.loads(texts["knowledge.toml"].decode())
    kept = {key: value for key, value in values.items() if key not in _BESIDE}
    odd = [keys for keys in features.values() if not set(keys) <= set(_AGREED)]
    if odd:
        raise KnowledgeError(f"the signature speaks of a feature's {', '.join(odd[0])}")
    kept["features"] = [
        {k: v for k, v in one.items() if k not in _AGREED} | features.get(one["name"], {})
        for one in kept["features"]
    ]
    for side in ("predict", "range"):
        found = _covered(kept.pop(side, {}), "target" in values)
        if found:
            kept[side] = _filled(found, texts)
    text = json.dumps([kept, examples], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _covered(side: Mapping[str, Any], number: bool) -> dict[str, Any]:
    """Without weights, and without calibrated ranges that can only narrow what others allow."""
    said = {key: value for key, value in side.items() if key != "weights"}
    sources = said.get("sources", [])
    soft = [one for one in sources if "confidence" in one]
    kept = [one for one in sources if "conformal" not in one and one not in soft]
    if len(kept) + len(soft) == len(sources):
        return said
    empty = said.get("empty", "error")
    harmless = empty == "error"
    if empty == "first":
        harmless = len(kept) == 1 and "conformal" not in sources[0]
    if kept and not (harmless and said.get("combine", "all") == "all"):
        return said
    del said["sources"]
    if len(kept) < 2:
        said.pop("combine", None)
        if not number:
            said.pop("empty", None)
    if kept or soft:
        said["sources"] = [*kept, *soft]
    return said


def _filled(value: Any, texts: Mapping[str, bytes]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(one, texts) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, texts) for one in value]
    if isinstance(value, str) and value in texts:
        data = _without_blank_lines(texts[value]) if value.endswith(".csv") else texts[value]
        return {"sha256": hashlib.sha256(data).hexdigest()}
    return value


def _without_blank_lines(table: bytes) -> bytes:
    """Blank lines outside of quotes say nothing: they keep rules in the rows of another file."""
    kept, inside = list[bytes](), False
    for line in table.split(b"\n"):
        if inside or line not in (b"", b"\r"):
            kept.append(line)
        if line.count(b'"') % 2:
            inside = not inside
    return b"\n".join(kept)


def _bytes(text: str) -> bytes:
    """Lower-case hexadecimal digits as bytes; a second way of writing them is refused."""
    data = bytes.fromhex(text) if text.isascii() else b""
    return data if data.hex() == text else b""


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
