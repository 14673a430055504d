"""What of a knowledge file a signature covers: rules, schema and examples, by their meaning.

It is read off the packed form (`pack_knowledge`), which does not depend on how a person spelled it
and which a bundle holds, so that whoever has a bundle can tell without fedlore what was signed.
λ, the weights of an average and calibrated ranges lie beside it: they are chosen on data, after
the expert has spoken. So does what a federation says of missing values (`Unsaid`).
"""

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from .content import FILE, Where, files_at, toml_in
from .files import describe, pack_knowledge
from .models import Knowledge
from .tables.sheets import parse_sheet

Example = Sequence[str]  # the cells of a row
Unsaid = Mapping[str, Mapping[str, Any]]  # by feature: `missing` and `other` as the expert has them

_BESIDE = ("card", "trust", "reliance", "floor")
AGREED = ("missing", "other")  # keys of a feature that a federation may decide


def meaning_of(where: Where) -> str:
    """A hash of what a knowledge file says, its examples included, without λ and calibration."""
    members = packed(where)
    return meaning_in(members, examples_in(where), features_in(members))


def meaning_in(members: Mapping[str, bytes], examples: Sequence[Example], unsaid: Unsaid) -> str:
    """The same of packed knowledge, such as the members of a bundle."""
    values = tomllib.loads(members[FILE].decode())
    kept = {key: value for key, value in values.items() if key not in _BESIDE}
    kept["features"] = [
        {k: v for k, v in one.items() if k not in AGREED} | dict(unsaid.get(one["name"], {}))
        for one in kept["features"]
    ]
    for side in ("predict", "range"):
        found = _covered(kept.pop(side, {}), number="target" in values)
        kept |= {side: _filled(found, members)} if found else {}
    text = json.dumps([kept, [list(row) for row in examples]], sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def packed(where: Where) -> dict[str, bytes]:
    """A knowledge file with its tables and models, written as fedlore writes them."""
    return pack_knowledge(describe(Knowledge.read(where)))


def features_in(members: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """What packed knowledge says of missing values and other levels, by feature."""
    features = tomllib.loads(members[FILE].decode())["features"]
    said = {one["name"]: {key: one[key] for key in AGREED if key in one} for one in features}
    return {name: keys for name, keys in said.items() if keys}


def examples_in(where: Where) -> list[list[str]]:
    """The rows with the answer that is expected, cell by cell; none where none are named."""
    files, name = files_at(where)
    named = toml_in(files, name).get("examples")
    if not isinstance(named, str):
        return []
    rows = [
        [str(cell).strip() for cell in row] for _, row in parse_sheet(files.read(named), named).rows
    ]
    return [row for row in rows if any(row)]


def _covered(side: Mapping[str, Any], *, number: bool) -> dict[str, Any]:
    """One side of a file without the weights of an average, and without calibrated ranges.

    A calibrated range is left out only where it can do nothing but narrow what the others allow.
    """
    said = {key: value for key, value in side.items() if key != "weights"}
    sources = said.get("sources", [])
    soft = [one for one in sources if "confidence" in one]  # combined with nothing
    kept = [one for one in sources if "conformal" not in one and one not in soft]
    if len(kept) + len(soft) == len(sources):
        return said
    empty = said.get("empty", "error")
    last_word = empty == "first" and len(kept) == 1 and sources[0] == kept[0]
    narrows = said.get("combine", "all") == "all" and (empty == "error" or last_word)
    if kept and not narrows:
        return said  # it could let in what the expert excludes
    if len(kept) < 2:  # one alone is combined with nothing
        said = {k: v for k, v in said.items() if k != "combine" and (number or k != "empty")}
    said = {key: value for key, value in said.items() if key != "sources"}
    return said | ({"sources": [*kept, *soft]} if kept or soft else {})


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
