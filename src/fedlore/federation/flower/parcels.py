"""A message as Flower's server takes it: all of it in its head, or cut into objects if it is large.

Every object costs requests of its own, and each of them milliseconds of the server. A message with
a head alone is pushed and pulled by one request. Its tree then has one object, which nobody sends.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .names import (
    Message,
    message_from_proto,
    message_pb2,
    message_to_proto,
    objects,
    remove_content_from_message,
)
from .records import size_of

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
