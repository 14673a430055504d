"""What a site has agreed to: terms whose hash stands in its own file. Others are not answered."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from ...core.store import write_whole
from ...errors import FedloreError
from ..remote import Refusal
from ..terms import Terms, read_terms
from .folder import Kit, read_kit

TERMS, OFFERED = "terms.json", "terms.offered.json"
_LARGEST = 1_000_000  # characters of terms that are kept for the owner to look at


def refuse_other_terms(kit: Kit, terms: Terms, text: str) -> None:
    """Raise where these are not the terms agreed to; they are kept, for the owner to look at."""
    asked = terms.fingerprint()
    agreed = read_kit(kit.folder).file.agreed  # the owner may have changed his mind meanwhile
    if agreed == asked:
        return
    if len(text) <= _LARGEST:
        write_whole(kit.path(OFFERED), text, private=True)
    of = "none" if agreed is None else agreed[:12]
    raise Refusal(
        f"these terms ({asked[:12]}) are not those that this site agreed to ({of}): its owner "
        "looks at them and accepts them with fedlore accept"
    )


def offered_terms(kit: Kit) -> Terms:
    """The terms that were asked for and refused, else those of the kit."""
    path = kit.path(OFFERED)
    return read_terms(path.read_text(encoding="utf-8")) if path.exists() else kit.terms()


def accept_terms(kit: Kit, terms: Terms, *, policy: bool = False) -> str:
    """Agree to terms from now on; their hash.

    With `policy` the site also demands from now on what they promise, and nothing else.
    """
    agreed = terms.fingerprint()
    write_whole(kit.path(TERMS), terms.text(), private=True)
    path = kit.path("site.toml")
    text = path.read_text(encoding="utf-8")
    table = re.search(r"(?m)^\[", text)
    top = len(text) if table is None else table.start()
    head = _set(text[:top], "agreed", agreed)
    rest = text[top:]
    if policy:
        for what in ("model", "algorithm"):
            rest = _set(rest, f"{what}s", [name for kind, name in terms.parts() if kind == what])
        rest = _set(rest, "secure_aggregation", terms.privacy.secure_aggregation)
    write_whole(path, head + rest, private=True)
    if read_kit(kit.folder).file.agreed != agreed:
        raise FedloreError(f"'{path}' could not be changed: write into it agreed = \"{agreed}\"")
    kit.path(OFFERED).unlink(missing_ok=True)
    return agreed


def _set(text: str, key: str, value: object) -> str:
    """TOML with one key set on its line, or added; the comment behind it stays."""
    line = f"{key} = {json.dumps(value)}"
    found = re.search(rf"(?m)^{key}[ \t]*=[^#\n]*", text)
    if found is None:
        return f"{text.rstrip()}\n{line}\n\n"
    gap = " " * (len(found[0]) - len(found[0].rstrip()))
    return f"{text[: found.start()]}{line}{gap}{text[found.end() :]}"


def describe_changes(before: Terms | None, after: Terms) -> list[str]:
    """What is new in terms, one line for each value."""
    old = {} if before is None else dict(_flat(asdict(before.agreement())))
    new = dict(_flat(asdict(after.agreement())))
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if before is None:
        return [f"{name} = {json.dumps(new[name])}" for name in names]
    blank = "nothing"
    return [
        f"{name}: {json.dumps(old.get(name, blank))} -> {json.dumps(new.get(name, blank))}"
        for name in names
    ]


def _flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, Mapping) and inner:
            yield from _flat(inner, f"{above}{name}.")
        else:
            yield above + name, inner
