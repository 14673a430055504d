"""knowledge.toml edited by key, everything a person wrote around it left as it is."""

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array, Table

from ..errors import KnowledgeError

KeyStep = str | int
DEEPEST_KEY = 8  # keys below keys


def edit_toml(text: str, path: Sequence[KeyStep], value: Any) -> str:
    """A document with another value at a path of keys and places; None takes it away.

    A place behind the last one of a list appends to it.

    >>> print(edit_toml('trust = 0.3 # careful\\n', ["trust"], 0.5), end="")
    trust = 0.5 # careful
    >>> print(edit_toml('', ["range", "sources", 0, "table"], "r.csv"), end="")
    [[range.sources]]
    table = "r.csv"
    """
    if not path or len(path) > DEEPEST_KEY:
        raise KnowledgeError(f"a key has 1 to {DEEPEST_KEY} steps, got {len(path)}")
    try:
        document: Any = tomlkit.parse(text)
        _put(document, list(path), value)
        changed = tomlkit.dumps(document)
        tomllib.loads(changed)  # the reader that everything else uses must take it
        return changed
    except (TOMLKitError, KeyError, IndexError, TypeError, ValueError) as error:
        raise KnowledgeError(
            f"knowledge.toml cannot be changed at {_said(path)}: {error}"
        ) from None


def _put(at: Any, path: list[KeyStep], value: Any) -> None:
    step, rest = path[0], path[1:]
    if not rest:
        if value is None:
            del at[step]
        elif isinstance(step, int) and step == len(at):
            at.append(_apart(_item(value)))
        else:
            _replace(at, step, value)
        return
    if isinstance(at, dict) and step not in at:
        at[step] = tomlkit.aot() if isinstance(rest[0], int) else _table(rest)
    if isinstance(at, AoT | list) and isinstance(step, int) and step == len(at):
        at.append(tomlkit.table())
    _put(at[step], rest, value)
    if value is None and isinstance(at, dict) and isinstance(at[step], AoT) and not at[step]:
        del at[step]  # a list without entries says nothing


def _apart(made: Any) -> Any:
    """A new entry, with a blank line before what follows it."""
    if isinstance(made, Table):
        made.add(tomlkit.nl())
    return made


def _table(rest: Sequence[KeyStep]) -> Table:
    """A table that only holds lists of tables has no line of its own."""
    return tomlkit.table(is_super_table=len(rest) > 1 and isinstance(rest[1], int))


def _replace(at: Any, step: KeyStep, value: Any) -> None:
    """Another value, with the remark that stood behind the old one."""
    old = None if isinstance(at, dict) and step not in at else at[step]
    made = _item(value)
    trivia = getattr(old, "trivia", None)
    if trivia is not None and hasattr(made, "trivia") and not isinstance(made, Table | AoT):
        made.trivia.comment_ws, made.trivia.comment = trivia.comment_ws, trivia.comment
    at[step] = made


def _item(value: Any) -> Any:
    if isinstance(value, Mapping):
        table = tomlkit.table()
        for key, part in value.items():
            if part is not None:
                table[key] = _item(part)
        return table
    if isinstance(value, list) and value and isinstance(value[0], Mapping):
        tables = tomlkit.aot()
        for part in value:
            tables.append(_item(part))
        return tables
    made = tomlkit.item(value)
    if isinstance(made, Array):
        made.multiline(False)
    return made


def _said(path: Sequence[KeyStep]) -> str:
    return ".".join(str(step) for step in path)
