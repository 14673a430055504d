"""What the checker says of each value of a bundle changed, and of a certificate's claims.

`python -m tests.golden.checked` writes it anew; do so only for a change that is meant.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fedlore.checker.bundles import ensemble_faults, header_faults, read_weights, weight_faults
from fedlore.checker.forms import Header
from fedlore.checker.verdict import bundle_facts, read_confused, try_definition
from fedlore.config import build

from ..bundle.certificate.fuzzer import Base, bases
from ..bundle.certificate.judges import texts_of
from ..bundle.certificate.test_refused import GONE, MORE, changed, places
from .cases import HERE

CHECKED = HERE / "checked.json"
ODD = {"null": None, "x": "x", "-1": -1, "0": 0, "2.5": 2.5, "1e39": 1e39, "true": True, "[]": [],
       "gone": GONE, "more": MORE}  # fmt: skip
BASES = ("mixture", "number-shape", "holes-first-intersect", "number-formulas")
_FREE = {"client", "versions", "metrics", "created", "schema", "policies"}


def all_places(header: dict[str, Any]) -> Iterator[tuple[str | int, ...]]:
    """Every value of a header; of a list the first two, of members all."""
    yield from places(header)
    members = (header.get("ensemble") or {}).get("members", ())
    for i in range(2, len(members)):
        yield from (("ensemble", "members", i, *path) for path in places(members[i]) if path)


def tensors_changed(tensors: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """One tensor in another precision, a row short, or with another first number."""
    for name, values in tensors.items():
        yield f"{name} wide", {**tensors, name: values.astype(np.float64)}
        if values.ndim:
            yield f"{name} short", {**tensors, name: values[1:]}
        for at in {0, values.size - 1} if values.size else ():
            for one in (-1, 0, 1e6, np.nan, np.inf) if values.dtype.kind == "f" else range(-2, 24):
                made = values.copy()
                made.flat[at] = one
                yield f"{name}[{at}] = {one}", {**tensors, name: made}


def answered(ask: Callable[[], list[str]]) -> str:
    try:
        return "; ".join(ask())
    except Exception as error:  # the checker says that it is not readable
        return type(error).__name__


def look(base: Base) -> dict[str, Any]:
    members = base.site.members
    header, texts = json.loads(members["bundle.json"]), texts_of(members)
    known = read_confused(texts, header["confusion"])
    weights = read_weights(members["weights.safetensors"])
    own = read_weights(members["ensemble.safetensors"]) if header.get("ensemble") else {}

    def ask(header: Any, weights: Any = weights, own: Any = own) -> list[str]:
        found = header_faults(header, known, texts, weights) + weight_faults(weights)
        if not found and header.get("ensemble"):
            found = ensemble_faults(build(Header, header), own, known)
        return found

    said = {"as it is": answered(lambda: ask(header))}
    for path in all_places(header):
        if path and path[0] not in _FREE:
            for word, odd in ODD.items():
                made = changed(header, path, odd)
                where = " ".join(map(str, path))
                said[f"{where} = {word}"] = answered(lambda made=made: ask(made))
    for where, made in tensors_changed(weights):
        said[where] = answered(lambda made=made: ask(header, made))
    for where, made in tensors_changed(own):
        said[where] = answered(lambda made=made: ask(header, own=made))
    facts = bundle_facts(members)
    derived = facts.derive()
    kept = {key: derived[key] for key in ("claims", "verdict", "scope", "expert")}
    sorts = sorted({*said.values()})
    by_fault = {one: [where for where in said if said[where] == one] for one in sorts}
    return {"faults": by_fault, **kept, "tried": try_definition(known), "numbers": facts.count}


def looked(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        (base,) = bases(Path(folder), [name])
        return json.loads(json.dumps(look(base)))


if __name__ == "__main__":
    found = {name: looked(name) for name in BASES}
    CHECKED.write_text(json.dumps(found, indent=0, ensure_ascii=False) + "\n")
