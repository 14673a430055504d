"""Tasks and replies as Flower's records, field for field."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, get_type_hints

import numpy as np

from ...config import build
from ...core.plain import bytes_of_layout, from_bytes, layout_of, read_layout, to_bytes
from ...core.tree import Payload
from ...core.wire import Reply, Task
from .names import Array, ArrayRecord, ConfigRecord, RecordDict

_PLAIN = (str, int, float, bool)  # what a record of Flower's holds as it is
_PACKED = "tensors"  # all bundles in one value, in the order of their layouts
_INLINE = 2_000_000  # bytes up to which they are: every array costs requests of its own


def task_record(task: Task, site: str, terms: str = "") -> RecordDict:
    """A task for one site as Flower's record: payload key for key, settings beside it."""
    record = _record("task", task.told_to(site), accepted=0, terms=terms)
    # apart, so that all else is the same for all sites and is sent to the server once
    record["site"] = ConfigRecord({"accepted": task.accepted.get(site, 0)})
    return record


def read_task(record: RecordDict, site: str) -> tuple[Task, str]:
    """The task, and the terms it is asked under."""
    values = _values("task", Task, record)
    terms, round = str(values.pop("terms")), int(values.pop("accepted"))
    if "site" in record:
        round = int(str(record.config_records["site"]["accepted"]))
    return build(Task, values | {"accepted": {site: round} if round else {}}), terms


def reply_record(reply: Reply) -> RecordDict:
    """A reply as Flower's record; the coordinator knows by the key from whom it comes."""
    return _record("reply", replace(reply, client="", members=()))


def read_reply(record: RecordDict, site: str) -> Reply:
    # whom a reply stands for is never taken from the reply
    return build(Reply, _values("reply", Reply, record) | {"client": site, "members": ()})


def _record(name: str, message: Task | Reply, **instead: Any) -> RecordDict:
    """All fields of a message; what has structure is JSON, and named tensors are bytes.

    All of it is one object of Flower's where that is small enough: each costs requests of its own.
    """
    tensors = _tensors(type(message))
    settings = {f.name: getattr(message, f.name) for f in fields(message)} | instead
    payload: Payload = settings.pop(tensors)
    settings = {k: v if isinstance(v, _PLAIN) else _json(v) for k, v in settings.items()}
    settings["layouts"] = _json({key: layout_of(bundle) for key, bundle in payload.items()})
    data = {key: to_bytes(bundle) for key, bundle in payload.items()}
    arrays = {}
    if sum(map(len, data.values())) <= _INLINE:
        settings |= {_PACKED: b"".join(data.values())} if data else {}
    else:  # Flower cuts large arrays into pieces
        arrays = {
            f"{name}.{key}": ArrayRecord({"bytes": Array(np.frombuffer(piece, np.uint8))})
            for key, piece in data.items()
        }
    return RecordDict({name: ConfigRecord(settings), **arrays})


def _values(name: str, kind: type[Task] | type[Reply], record: RecordDict) -> dict[str, Any]:
    """What `_record` wrote, for `build` to check against the fields."""
    settings: dict[str, Any] = dict(record[name].items())
    layouts = json.loads(settings.pop("layouts"))
    packed = settings.pop(_PACKED, None)
    if packed is None:
        data = {
            key: record.array_records[f"{name}.{key}"]["bytes"].numpy().tobytes() for key in layouts
        }
    else:
        data = _cut(packed, layouts)
    payload = {key: from_bytes(layout, data[key]) for key, layout in layouts.items()}
    hints = get_type_hints(kind)
    for key, value in settings.items():
        if hints.get(key, str) not in _PLAIN and isinstance(value, str):
            settings[key] = json.loads(value)
    return settings | {_tensors(kind): payload}


def _cut(packed: bytes, layouts: Mapping[str, Any]) -> dict[str, bytes]:
    """The bytes of each bundle."""
    found, place = {}, 0
    for key, layout in layouts.items():
        end = place + bytes_of_layout(read_layout(layout))
        found[key] = packed[place:end]
        place = end
    if place != len(packed):
        raise ValueError(f"{len(packed)} bytes of tensors where their layouts have {place}")
    return found


def _tensors(kind: type[Task] | type[Reply]) -> str:
    """The one field that holds tensors."""
    (name,) = (name for name, hint in get_type_hints(kind).items() if hint == Payload)
    return str(name)


def _json(value: Any) -> str:
    return json.dumps(dict(value) if isinstance(value, Mapping) else value)


def size_of(record: RecordDict) -> int:
    """Bytes of tensors and settings."""
    arrays = sum(len(a.data) for r in record.array_records.values() for a in r.values())
    values = [v for record in record.config_records.values() for v in record.values()]
    return arrays + sum(len(v if isinstance(v, bytes) else str(v)) for v in values)
