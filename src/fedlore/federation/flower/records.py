"""Tasks and replies as Flower's records, field for field."""

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, get_type_hints

import numpy as np

from ...config import build
from ...core.plain import from_bytes, layout_of, to_bytes
from ...core.tree import Payload
from ...core.wire import Reply, Task
from .names import Array, ArrayRecord, ConfigRecord, RecordDict

_PLAIN = (str, int, float, bool)  # what a record of Flower's holds as it is


def task_record(task: Task, site: str, terms: str = "") -> RecordDict:
    """A task for one site as Flower's record: payload key for key, settings beside it."""
    return _record("task", task, accepted=task.accepted.get(site, 0), terms=terms)


def read_task(record: RecordDict, site: str) -> tuple[Task, str]:
    """The task, and the terms it is asked under."""
    values = _values("task", Task, record)
    terms, round = str(values.pop("terms")), int(values.pop("accepted"))
    return build(Task, values | {"accepted": {site: round} if round else {}}), terms


def reply_record(reply: Reply) -> RecordDict:
    """A reply as Flower's record; the coordinator knows by the key from whom it comes."""
    return _record("reply", replace(reply, client="", members=()))


def read_reply(record: RecordDict, site: str) -> Reply:
    # whom a reply stands for is never taken from the reply
    return build(Reply, _values("reply", Reply, record) | {"client": site, "members": ()})


def _record(name: str, message: Task | Reply, **instead: Any) -> RecordDict:
    """All fields of a message; what has structure is JSON, and named tensors are bytes.

    Each bundle is one array of bytes, because every array costs requests of its own.
    """
    tensors = _tensors(type(message))
    settings = {f.name: getattr(message, f.name) for f in fields(message)} | instead
    payload: Payload = settings.pop(tensors)
    settings = {k: v if isinstance(v, _PLAIN) else _json(v) for k, v in settings.items()}
    settings["layouts"] = _json({key: layout_of(bundle) for key, bundle in payload.items()})
    bundles = {
        f"{name}.{key}": ArrayRecord({"bytes": Array(np.frombuffer(to_bytes(bundle), np.uint8))})
        for key, bundle in payload.items()
    }
    return RecordDict({name: ConfigRecord(settings), **bundles})


def _values(name: str, kind: type[Task] | type[Reply], record: RecordDict) -> dict[str, Any]:
    """What `_record` wrote, for `build` to check against the fields."""
    settings: dict[str, Any] = dict(record[name].items())
    payload = {
        key: from_bytes(layout, record.array_records[f"{name}.{key}"]["bytes"].numpy().tobytes())
        for key, layout in json.loads(settings.pop("layouts")).items()
    }
    hints = get_type_hints(kind)
    for key, value in settings.items():
        if hints.get(key, str) not in _PLAIN and isinstance(value, str):
            settings[key] = json.loads(value)
    return settings | {_tensors(kind): payload}


def _tensors(kind: type[Task] | type[Reply]) -> str:
    """The one field that holds tensors."""
    (name,) = (name for name, hint in get_type_hints(kind).items() if hint == Payload)
    return str(name)


def _json(value: Any) -> str:
    return json.dumps(dict(value) if isinstance(value, Mapping) else value)


def size_of(record: RecordDict) -> int:
    """Bytes of tensors and settings."""
    arrays = sum(len(a.data) for r in record.array_records.values() for a in r.values())
    return arrays + sum(len(str(v)) for r in record.config_records.values() for v in r.values())
