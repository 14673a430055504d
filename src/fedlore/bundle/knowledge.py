"""A site's knowledge as members of a bundle, and who signed it."""

import json
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields, replace
from datetime import date
from typing import Any

from ..answers import Bins, Line
from ..errors import FedloreError, KnowledgeError
from ..kernel.schema import Feature, Schema
from ..kernel.signature import meaning_in
from ..knowledge import Knowledge
from ..knowledge.content import FILE, Where, dump, files_at, toml_in
from ..knowledge.files import describe, pack_knowledge
from ..knowledge.rowtrust import trust_values
from ..knowledge.signing import Signature, SignedBy, holds
from ..knowledge.sources.catalog import forbidden_in, kind_of_model, leaves, plain, plugins_in
from ..knowledge.views import Recalibrated
from .archive import Members, Refused

#: The files of sources; those of other packages' kinds are called source-N.
_MEMBER = re.compile(
    r"knowledge\.toml|table-[0-9]+(-[A-Za-z0-9_-]+(\.tsv|\.xls[xm])?)?\.csv|model-[0-9]+\.onnx"
    r"|source-[0-9]+(-[A-Za-z0-9_-]+)?\.[a-z0-9]{1,8}"
)


def store(
    knowledge: Knowledge, schema: Schema, bins: Bins | None
) -> tuple[dict[str, bytes], Knowledge]:
    """knowledge.toml with its tables and models, as bytes, and the knowledge read from them."""
    _refuse_code(knowledge)
    try:
        line = None if bins is None else Line(bins, schema.unit)
        described = describe(replace(knowledge, schema=schema, line=line))
        files = pack_knowledge(described)
        day = None if knowledge.timeline is None else knowledge.timeline.day
        held = restore(files, plugins=plugins_in(files), as_of=day)  # loaded already
        equal = plain(describe(held)) == plain(described)
    except KnowledgeError as error:
        raise KnowledgeError(f"this knowledge cannot be stored in a bundle: {error}") from None
    if not equal:
        raise KnowledgeError(
            "this knowledge cannot be stored in a bundle: read back from its file it is not "
            "the same; write it as a knowledge.toml of tables, formulas and ONNX files"
        )
    return files, held


def restore(
    members: Members, *, plugins: Collection[str] = (), as_of: date | str | None = None
) -> Knowledge:
    """The knowledge of a bundle, where rules have dates as of a day.

    No code is run that the caller did not allow by name: functions are refused always, and kinds
    of source of other packages unless `plugins` has them, both before anything is imported.
    """
    files = knowledge_members(members)
    if FILE not in files:
        raise FedloreError(f"the bundle has no {FILE}")
    barred = forbidden_in(files, plugins)
    if barred:
        raise KnowledgeError(
            f"{FILE} has a source '{barred[0]}' of another package, whose code would run here: "
            f"allow it by name if you trust it (plugins=['{barred[0]}'], --allow-plugin "
            f"{barred[0]})"
        )
    return read_held(files, as_of=as_of)


def read_held(
    where: Where, asked: Sequence[Feature] = (), *, as_of: date | str | None = None
) -> Knowledge:
    """The knowledge of a file about classes or about a number, for use in a bundle.

    Of the features `asked` for, those that it leaves out are absent.
    """
    files, name = files_at(where)
    values = toml_in(files, name)
    if values.get("entry_points"):
        raise KnowledgeError(f"{name} allows entry points, and a bundle holds no code: {_INSTEAD}")
    return Knowledge.read(where, asked, as_of=as_of)


def knowledge_members(members: Members) -> dict[str, bytes]:
    """Those members that the knowledge is made of."""
    return {name: data for name, data in members.items() if _MEMBER.fullmatch(name)}


def with_trust(members: Members, trust: float) -> dict[str, bytes]:
    """The same knowledge with another λ, at training and at prediction.

    It takes the place of what was learned; the λ that the owner says of a region stays.
    """
    values = tomllib.loads(members[FILE].decode())
    values.pop("reliance", None)
    held = restore(members, plugins=plugins_in(members))
    row_trust = None if held.row_trust is None else held.row_trust.stay()
    values["trust"] = trust_values(float(trust), row_trust)
    return {**knowledge_members(members), FILE: dump(values).encode()}


def unwrap_confusion(knowledge: Knowledge) -> tuple[Knowledge, Any]:
    """The knowledge without the expert's confusion, (k, k), and that as rows, or None."""
    if isinstance(knowledge.prediction, Recalibrated):
        if knowledge.prediction.expert is None:
            raise KnowledgeError(
                "this knowledge cannot be stored in a bundle: the expert's rows came with the "
                "data, and new rows have none"
            )
        rows = knowledge.prediction.confusion.double().tolist()
        return replace(knowledge, prediction=knowledge.prediction.expert), rows
    return knowledge, None


_INSTEAD = "export it as an ONNX file, or write it as tables or formulas"


def _refuse_code(knowledge: Knowledge) -> None:
    for model in leaves(knowledge.prediction, knowledge.range):
        kind = kind_of_model(model)
        if kind is not None and kind.code:
            what = getattr(model, "target", type(model).__name__)
            raise KnowledgeError(
                f"the entry point '{what}' cannot be stored in a bundle, it is code: {_INSTEAD}"
            )
        if kind is None:
            what = getattr(model, "__qualname__", type(model).__name__)
            raise KnowledgeError(
                f"a {what} cannot be stored in a bundle, which holds tables, formulas and ONNX "
                f"files: {_INSTEAD}"
            )


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
        signature = json.loads(members[SIGNATURE])
        if set(signature) != wanted | {"examples", "features"}:
            raise ValueError
        if not all(isinstance(signature[name], str) for name in wanted):
            raise ValueError
        found = meaning_in(knowledge_members(members), signature["examples"], signature["features"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise Refused(f"{SIGNATURE} is not a signature") from None
    if found != signature["meaning"]:
        raise Refused(f"{SIGNATURE}: the knowledge is not what {signature['signer']} signed")
    return dict(signature)


def check_signature(members: Members) -> dict[str, Any] | None:
    """The same, once the signature itself was found to hold."""
    signature = read_signature(members)
    if signature is None:
        return None
    if not holds(SignedBy(**{field.name: signature[field.name] for field in fields(SignedBy)})):
        raise Refused(f"{SIGNATURE}: the signature does not hold")
    return signature


def signer_words(signed: Mapping[str, Any]) -> str:
    """Who signed, when, and with which key."""
    words = f"{signed['signer']}, {signed['date']}, key {signed['key']}"
    return "".join(letter if letter.isprintable() else " " for letter in words)
