"""A site's knowledge as members of a bundle, and back: what cannot be stored is refused by name."""

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import FedloreError, KnowledgeError
from ..knowledge import Knowledge
from ..knowledge.confusion import Recalibrated
from ..knowledge.entrypoint import EntryPoint
from ..knowledge.files import describe
from ..knowledge.numbers.bins import Bins
from ..knowledge.numbers.files import read_numbers
from ..knowledge.numbers.numbers import Numbers
from ..knowledge.schema import Schema
from ..knowledge.tables.rulesheets import table_cells
from ..knowledge.tables.table import Table
from ..knowledge.toml import dump
from .archive import Members, laid_out
from .numbers import said_of, written_numbers

FILE = "knowledge.toml"


@dataclass(frozen=True)
class Held:
    """Knowledge as it was read from a bundle or from a file of the site's own."""

    knowledge: Knowledge | Numbers
    schema: Schema
    bins: Bins | None = None  # of a number


def stored(knowledge: Knowledge | Numbers, schema: Schema, bins: Bins | None) -> dict[str, bytes]:
    """knowledge.toml with its tables and models, as bytes; reading them gives equal knowledge."""
    if isinstance(knowledge, Knowledge):
        _refuse_code(knowledge.pkm, knowledge.rkm)
        known = replace(knowledge, schema=schema)
    else:
        _refuse_code(knowledge.point, knowledge.range)
    with TemporaryDirectory(prefix="fedlore-") as name:
        folder = Path(name)
        try:
            if isinstance(knowledge, Knowledge):
                known.write(folder / FILE)
                equal = _said(describe(Knowledge.read(folder / FILE))) == _said(describe(known))
            else:
                assert bins is not None  # a regressor has some
                written_numbers(knowledge, schema, bins, folder / FILE)
                again = read_numbers(folder / FILE)
                there = said_of(again.knowledge, again.schema, again.bins)
                equal = there == said_of(knowledge, schema, bins)
        except KnowledgeError as error:
            raise KnowledgeError(f"this knowledge cannot be stored in a bundle: {error}") from None
        if not equal:
            raise KnowledgeError(
                "this knowledge cannot be stored in a bundle: read back from its file it is not "
                "the same; write it as a knowledge.toml of tables, formulas and ONNX files"
            )
        return {place.name: place.read_bytes() for place in sorted(folder.iterdir())}


def restored(members: Members) -> Held:
    """The knowledge of a bundle. Code is never run: entry points are refused before they load."""
    files = knowledge_members(members)
    if FILE not in files:
        raise FedloreError(f"the bundle has no {FILE}")
    with laid_out(files) as folder:
        for name in _named_files(toml_of(folder / FILE)):
            if name not in files:
                raise KnowledgeError(
                    f"{FILE} names the file {name[:100]!r}, which is no member of the bundle"
                )
        return read_held(folder / FILE)


def _named_files(values: Any) -> Iterator[str]:
    """The tables and models that a knowledge file names, wherever they stand in it."""
    if isinstance(values, list):
        for value in values:
            yield from _named_files(value)
    elif isinstance(values, dict):
        for key, value in values.items():
            if key in ("table", "onnx") and isinstance(value, str):
                yield value
            else:
                yield from _named_files(value)


def read_held(path: str | Path) -> Held:
    """The knowledge of a file about classes or about a number, for use in a bundle."""
    path = Path(path)
    values = toml_of(path)
    if values.get("entry_points"):
        raise KnowledgeError(
            f"{path.name} allows entry points, and a bundle holds no code: {_INSTEAD}"
        )
    if "target" in values:
        found = read_numbers(path)
        return Held(found.knowledge, found.schema, found.bins)
    known = Knowledge.read(path)
    assert known.schema is not None  # a knowledge file always has one
    return Held(known, known.schema)


def knowledge_members(members: Members) -> dict[str, bytes]:
    """Those members that the knowledge is made of."""
    chosen = re.compile(r"knowledge\.toml|table-[0-9]+(-[A-Za-z0-9_-]+)?\.csv|model-[0-9]+\.onnx")
    return {name: data for name, data in members.items() if chosen.fullmatch(name)}


def with_trust(members: Members, trust: float) -> dict[str, bytes]:
    """The same knowledge with another λ, at training and at prediction."""
    values = tomllib.loads(members[FILE].decode())
    values.pop("rely", None)
    values["trust"] = float(trust)
    return {**knowledge_members(members), FILE: dump(values).encode()}


def toml_of(path: Path) -> dict[str, Any]:
    """A TOML file as plain values."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise KnowledgeError(f"cannot read '{path}': {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise KnowledgeError(f"'{path}' is not valid TOML: {error}") from None


def unwrapped(knowledge: Knowledge | Numbers) -> tuple[Knowledge | Numbers, Any]:
    """The knowledge without the expert's confusion, (k, k), and that as rows, or None."""
    if isinstance(knowledge, Knowledge) and isinstance(knowledge.pkm, Recalibrated):
        if knowledge.pkm.expert is None:
            raise KnowledgeError(
                "this knowledge cannot be stored in a bundle: the expert's rows came with the "
                "data, there is nobody to ask about new ones"
            )
        rows = knowledge.pkm.confusion.double().tolist()
        return replace(knowledge, pkm=knowledge.pkm.expert), rows
    return knowledge, None


_INSTEAD = "export it as an ONNX file, or write it as tables or formulas"


def _said(values: Any) -> Any:
    """Described knowledge to be compared: 0 and 0.0 are one number, lists and tuples one list."""
    if isinstance(values, Mapping):
        return {key: _said(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [_said(value) for value in values]
    if isinstance(values, Table):
        return table_cells(values)
    return values


def _refuse_code(*models: Any) -> None:
    for model in _inside(models):
        if isinstance(model, EntryPoint):
            raise KnowledgeError(
                f"the entry point '{model.target}' cannot be stored in a bundle, it is code: "
                f"{_INSTEAD}"
            )
        if type(model).__name__ in ("SklearnModel", "TorchModel", "Lookup", "Written", "function"):
            what = getattr(model, "__qualname__", type(model).__name__)
            raise KnowledgeError(
                f"a {what} cannot be stored in a bundle, which holds tables, formulas and ONNX "
                f"files: {_INSTEAD}"
            )


def _inside(models: Any) -> Iterator[Any]:
    """All models, those inside others included."""
    for model in models:
        if model is None or isinstance(model, str | bytes | float | int):
            continue
        yield model
        for value in vars(model).values() if hasattr(model, "__dict__") else ():
            if isinstance(value, tuple):
                yield from _inside(v for v in value if callable(v))
            elif callable(value):
                yield from _inside((value,))


def plain_number(value: float) -> float | None:
    """A number for JSON; none where it is infinite."""
    return float(value) if math.isfinite(value) else None


def schema_values(schema: Schema) -> dict[str, Any]:
    """A schema for JSON; a scope without an end has null there."""
    return {
        "features": [
            {
                "name": f.name,
                "unit": f.unit,
                "low": plain_number(f.low),
                "high": plain_number(f.high),
                "levels": list(f.levels),
            }
            for f in schema.features
        ],
        "classes": list(schema.classes),
        "label": schema.label,
    }


def same_schema(said: Mapping[str, Any], schema: Schema) -> bool:
    """Whether the schema in bundle.json is the one of the knowledge file."""
    return dict(said) == schema_values(schema)
