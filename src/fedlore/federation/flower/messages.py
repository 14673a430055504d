"""Tasks and replies as messages of Flower: as records, packed for its server, pushed and pulled."""

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Protocol, get_type_hints

import numpy as np

from ...config import build
from ...core.store import bytes_of_layout, from_bytes, layout_of, read_layout, to_bytes
from ...core.tree import Payload
from ...core.wire import Reply, Task
from .names import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    RecordDict,
    inflate_object_from_contents,
    message_from_proto,
    message_pb2,
    message_to_proto,
    node_pb2,
    objects,
    remove_content_from_message,
    runtime_pb2,
)

_PLAIN = (str, int, float, bool)  # what a record of Flower's holds as it is
_PACKED = "tensors"  # all bundles in one value, in the order of their layouts
_INLINE = 2_000_000  # bytes up to which they are: every array costs requests of its own
_AT_ONCE = 32  # messages that are pushed together
_IN_SIGHT = 128  # heads of replies that are fetched together


Packed = dict[str, tuple[str, bytes]]  # by the name of a bundle, its layout and its bytes


def task_record(task: Task, site: str, terms: str = "", packed: Packed | None = None) -> RecordDict:
    """A task for one site as Flower's record: payload key for key, settings beside it.

    `packed` keeps what was made of the bundles: of one task they are the same for all sites.
    """
    record = _record("task", task.for_client(site), packed, accepted=0, terms=terms)
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


def _record(
    name: str, message: Task | Reply, packed: Packed | None = None, **instead: Any
) -> RecordDict:
    """All fields of a message; what has structure is JSON, and named tensors are bytes.

    All of it is one object of Flower's where that is small enough: each costs requests of its own.
    """
    tensors = _tensors(type(message))
    settings = {f.name: getattr(message, f.name) for f in fields(message)} | instead
    payload: Payload = settings.pop(tensors)
    hints = get_type_hints(type(message))
    settings = {k: v if hints.get(k, str) in _PLAIN else _json(v) for k, v in settings.items()}
    known = {} if packed is None else packed
    for key, bundle in payload.items():
        if key not in known:
            known[key] = (_json(layout_of(bundle)), to_bytes(bundle))
    pairs = ", ".join(f"{_json(key)}: {known[key][0]}" for key in payload)
    settings["layouts"] = f"{{{pairs}}}"
    data = {key: known[key][1] for key in payload}
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
    return json.dumps(value, default=dict)  # of mappings that are no dict


def size_of(record: RecordDict) -> int:
    """Bytes of tensors and settings."""
    arrays = sum(len(a.data) for r in record.array_records.values() for a in r.values())
    values = [v for record in record.config_records.values() for v in record.values()]
    return arrays + sum(len(v if isinstance(v, bytes) else str(v)) for v in values)


IN_HEAD = 400_000  # bytes of tensors and settings that go into the head


@dataclass(frozen=True)
class Parcel:
    """What is pushed of a message: its head, the names of its objects, and those objects."""

    head: Any
    tree: Any
    objects: Mapping[str, Any] = field(default_factory=dict)


def pack_parcel(message: Message) -> Parcel:
    """A message for the server; it has a name from here on."""
    small = message.has_error() or size_of(message.content) <= IN_HEAD
    name = secrets.token_hex(32) if small else message.object_id
    message.metadata.__dict__["_message_id"] = name
    if small:
        return Parcel(message_to_proto(message), message_pb2.ObjectTree(object_id=name))
    with objects.no_object_id_recompute():
        head = message_to_proto(remove_content_from_message(message))
        return Parcel(
            head, objects.get_object_tree(message), objects.get_all_nested_objects(message)
        )


def read_head(head: Any, tree: Any) -> Message | None:
    """The message where its head is all of it, None where it has objects."""
    return None if tree.children else message_from_proto(head)


SUPERLINK = 1  # the number of the server among the nodes


@dataclass(frozen=True)
class BadReply:
    """A reply of which no message can be made."""

    about: str
    why: str


class Courier(Protocol):
    """What carries messages to nodes and back."""

    most: int  # bytes of one reply

    def get_nodes(self) -> Iterable[Any]: ...

    def push_messages(self, messages: Sequence[Message]) -> Iterable[str]:
        """One name for each message, empty where it could not be sent."""

    def pull_messages(self, message_ids: Sequence[str]) -> Iterable[Message | BadReply]:
        """The replies that have arrived in full; what is here in half and not asked for goes.

        Each is let go of before more are fetched.
        """


@dataclass
class _Arriving:
    """A reply some of whose objects are still on their way."""

    about: str
    name: str
    wanted: list[str]
    found: dict[str, bytes] = field(default_factory=dict)
    size: int = 0


class RunCourier:
    """Over the runtime interface of a SuperLink.

    The head of a reply can be had before its objects. One that is never finished is looked at
    again with every pull, until nobody asks for it any more; others do not wait for it.
    """

    most = 64 << 20  # bytes of one reply, also where it names the same object many times

    def __init__(self, client: Any, run: int) -> None:
        self._client, self._run = client, run
        self._node = node_pb2.Node(node_id=SUPERLINK)
        self._arriving: dict[str, _Arriving] = {}

    def get_nodes(self) -> Iterable[Any]:
        return list(self._client.GetNodes(runtime_pb2.GetNodesRequest()).nodes)

    def push_messages(self, messages: Sequence[Message]) -> Iterable[str]:
        names: list[str] = []
        for first in range(0, len(messages), _AT_ONCE):  # the server answers nobody else meanwhile
            names += self._push(messages[first : first + _AT_ONCE])
        return names

    def _push(self, messages: Sequence[Message]) -> Sequence[str]:
        parcels = [pack_parcel(message) for message in messages]
        parts = {name: part for one in parcels for name, part in one.objects.items()}
        opened = self._client.PushMessages(
            runtime_pb2.PushAppMessagesRequest(
                messages_list=[one.head for one in parcels],
                message_object_trees=[one.tree for one in parcels],
            )
        )
        with objects.no_object_id_recompute():
            for name in opened.objects_to_push if parts else ():
                self._client.PushObject(
                    message_pb2.PushObjectRequest(
                        node=self._node,
                        run_id=self._run,
                        object_id=name,
                        object_content=parts[name].deflate(),
                        session_id=opened.session_id,
                    )
                )
        return list(opened.message_ids)

    def pull_messages(self, message_ids: Sequence[str]) -> Iterator[Message | BadReply]:
        asked = set(message_ids)
        for reply in [one for name, one in self._arriving.items() if name not in asked]:
            self._drop(reply)  # in half, and nobody waits for the rest
        # a head is given out once: asked again, the server would call its message lost
        open_ones = [name for name in message_ids if name not in self._arriving]
        for first in range(0, len(open_ones), _IN_SIGHT):
            ids = open_ones[first : first + _IN_SIGHT]
            heads = self._client.PullMessages(runtime_pb2.PullAppMessagesRequest(message_ids=ids))
            for head, tree in zip(heads.messages_list, heads.message_object_trees, strict=True):
                about, name = head.metadata.reply_to_message_id, head.metadata.message_id
                small = self._read(head, tree, about)
                if small is not None:
                    yield small
                    continue
                wanted = [one.object_id for one in objects.iterate_object_tree(tree)]
                self._arriving[about] = _Arriving(about, name, wanted)
        for reply in list(self._arriving.values()):
            whole = self._pull(reply)
            if whole is not None:
                self._drop(reply)
                yield whole

    def _drop(self, reply: _Arriving) -> None:
        """Let the server forget what it holds of a reply, read or rejected."""
        del self._arriving[reply.about]
        self._client.ConfirmMessageReceived(
            message_pb2.ConfirmMessageReceivedRequest(
                node=self._node, run_id=self._run, message_object_id=reply.name
            )
        )

    def _read(self, head: Any, tree: Any, about: str) -> Message | BadReply | None:
        """A reply whose head is all of it."""
        try:
            return read_head(head, tree)
        except Exception as error:  # whatever a site has put together
            return BadReply(about, type(error).__name__)

    def _pull(self, reply: _Arriving) -> Message | BadReply | None:
        """The message once all of it is here."""
        while reply.wanted:
            got = self._client.PullObject(
                message_pb2.PullObjectRequest(
                    node=self._node, run_id=self._run, object_id=reply.wanted[-1]
                )
            )
            if not got.object_found:
                return BadReply(reply.about, "a part of it was never sent")
            if not got.object_available:
                return None
            reply.size += len(got.object_content)
            if reply.size > self.most:
                return BadReply(reply.about, f"more than {self.most} bytes")
            reply.found[reply.wanted.pop()] = got.object_content
        try:
            message = inflate_object_from_contents(reply.name, reply.found)
        except Exception as error:  # whatever a site has put together: it is one site's reply
            return BadReply(reply.about, type(error).__name__)
        if not isinstance(message, Message):
            return BadReply(reply.about, "no message")
        if message.metadata.reply_to_message_id != reply.about:
            return BadReply(reply.about, "it says that it answers something else")
        message.metadata.__dict__["_message_id"] = reply.name
        return message
