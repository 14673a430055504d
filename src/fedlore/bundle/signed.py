"""The signature of a bundle's knowledge: a member that says who stands behind its rules."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from ..errors import KnowledgeError
from ..kernel.signature import meaning_in
from ..knowledge.signing import Signature, SignedBy, holds
from .archive import Members, Refused
from .contents import Bundle
from .known import knowledge_members

SIGNATURE = "signature.json"


def pack_signature(signature: Signature, files: Members) -> bytes | None:
    """A signature as the member of a bundle; None where its knowledge is not what was signed."""
    values = asdict(signature.by) | {
        "examples": [list(row) for row in signature.examples],
        "features": signature.features,
    }
    data = (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode()
    try:
        read_signature({**files, SIGNATURE: data})
    except Refused:
        return None
    return data


def read_signature(members: Members) -> dict[str, Any] | None:
    """Whose signature stands among these members; one of other rules is refused."""
    if SIGNATURE not in members:
        return None
    wanted = {field.name for field in fields(SignedBy)}
    try:
        said = json.loads(members[SIGNATURE])
        if set(said) != wanted | {"examples", "features"}:
            raise ValueError
        if not all(isinstance(said[name], str) for name in wanted):
            raise ValueError
        found = meaning_in(knowledge_members(members), said["examples"], said["features"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise Refused(f"{SIGNATURE} is no signature") from None
    if found != said["meaning"]:
        raise Refused(f"{SIGNATURE}: the knowledge is not what {said['signer']} signed")
    return dict(said)


def check_signature(members: Members) -> dict[str, Any] | None:
    """The same, once the signature itself was found to hold."""
    said = read_signature(members)
    if said is None:
        return None
    if not holds(SignedBy(**{field.name: said[field.name] for field in fields(SignedBy)})):
        raise Refused(f"{SIGNATURE}: the signature does not hold")
    return said


def refuse_draft(bundle: Bundle, keys: Sequence[str] = (), *, needed: bool = False) -> None:
    """Refuse a bundle whose knowledge nobody signed, where it or its user wants a signature."""
    if not (needed or keys or bundle.policies.signed):
        return
    signed = check_signature(bundle.members)
    if signed is None:
        raise KnowledgeError(
            f"the knowledge of '{bundle.client}' is a draft: its bundle holds no signature of "
            "these rules, and signed knowledge is wanted here"
        )
    if keys and signed["key"] not in keys:
        raise KnowledgeError(
            f"the knowledge of '{bundle.client}' was signed by {signed['signer']} with a key that "
            "is not named here"
        )


def signer_words(signed: Mapping[str, Any]) -> str:
    """Who signed, when, and with which key."""
    words = f"{signed['signer']}, {signed['date']}, key {signed['key']}"
    return "".join(letter if letter.isprintable() else " " for letter in words)
