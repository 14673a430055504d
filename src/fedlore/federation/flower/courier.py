"""Messages of a run of ours: pushed whole, pulled one by one, so that none waits for another's."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .names import (
    Message,
    inflate_object_from_contents,
    message_pb2,
    node_pb2,
    objects,
    runtime_pb2,
)
from .parcels import pack_parcel, read_head

SUPERLINK = 1  # the number of the server among the nodes
_MOST = 1 << 30  # bytes of one reply


@dataclass(frozen=True)
class BadReply:
    """A reply of which no message can be made."""

    about: str
    why: str


class Courier(Protocol):
    """What carries messages to nodes and back."""

    def get_nodes(self) -> Iterable[Any]: ...

    def push_messages(self, messages: Sequence[Message]) -> Iterable[str]:
        """One name for each message, empty where it could not be sent."""
        ...

    def pull_messages(self, message_ids: Sequence[str]) -> Iterable[Message | BadReply]:
        """The replies that have arrived in full."""
        ...


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

    def __init__(self, client: Any, run: int) -> None:
        self._client, self._run = client, run
        self._node = node_pb2.Node(node_id=SUPERLINK)
        self._arriving: dict[str, _Arriving] = {}

    def get_nodes(self) -> Iterable[Any]:
        return list(self._client.GetNodes(runtime_pb2.GetNodesRequest()).nodes)

    def push_messages(self, messages: Sequence[Message]) -> Iterable[str]:
        if not messages:
            return []
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

    def pull_messages(self, message_ids: Sequence[str]) -> Iterable[Message | BadReply]:
        asked = set(message_ids)
        self._arriving = {name: one for name, one in self._arriving.items() if name in asked}
        # a head is given out once: asked again, the server would call its message lost
        open_ones = [name for name in message_ids if name not in self._arriving]
        heads = self._client.PullMessages(runtime_pb2.PullAppMessagesRequest(message_ids=open_ones))
        found: list[Message | BadReply] = []
        for head, tree in zip(heads.messages_list, heads.message_object_trees, strict=True):
            about, name = head.metadata.reply_to_message_id, head.metadata.message_id
            small = self._read(head, tree, about)
            if small is not None:
                found.append(small)
                continue
            wanted = [one.object_id for one in objects.iterate_object_tree(tree)]
            self._arriving[about] = _Arriving(about, name, wanted)
        for reply in list(self._arriving.values()):
            whole = self._pull(reply)
            if whole is not None:
                del self._arriving[reply.about]
                found.append(whole)
        return found

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
            if reply.size > _MOST:
                return BadReply(reply.about, f"more than {_MOST} bytes")
            reply.found[reply.wanted.pop()] = got.object_content
        self._client.ConfirmMessageReceived(
            message_pb2.ConfirmMessageReceivedRequest(
                node=self._node, run_id=self._run, message_object_id=reply.name
            )
        )
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
