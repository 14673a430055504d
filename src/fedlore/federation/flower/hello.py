"""Who is who on a grid that somebody else runs: a node has a number, and says which site it is."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from ...errors import FedloreError
from ...version import __version__
from ..remote import plain_text
from .messages import BadReply
from .names import ConfigRecord, Message, RecordDict

_HELLO = "fedlore.hello"
_LOOK = 0.5  # seconds between two looks


@dataclass
class StockGrid:
    """The grid that a ServerApp is given, as `Mail` takes one; a node's number stands for a key."""

    grid: Any
    most: int = 0  # of a reply; the grid has limits of its own

    def get_nodes(self) -> Iterable[Any]:
        for node in self.grid.get_nodes():
            since = str(getattr(node, "last_activated_at", ""))
            yield SimpleNamespace(
                node_id=node.node_id, public_key=node_key(node.node_id), last_activated_at=since
            )

    def push_messages(self, messages: Sequence[Message]) -> Iterable[str]:
        return [str(name or "") for name in self.grid.push_messages(list(messages))]

    def pull_messages(self, message_ids: Sequence[str]) -> Iterable[Message | BadReply]:
        return list(self.grid.pull_messages(list(message_ids))) if message_ids else []


def node_key(node: int) -> bytes:
    """A node's number where fedlore's own server has a site's public key."""
    return f"node {node}".encode()


def is_hello(message: Message) -> bool:
    """Whether a node is asked which site it is."""
    return message.has_content() and _HELLO in message.content


def greet(message: Message, name: str) -> Message:
    """The answer to it."""
    told = ConfigRecord({"name": name, "version": __version__})
    return Message(RecordDict({_HELLO: told}), reply_to=message)


def meet_sites(
    grid: Any, count: int, *, patience: float, say: Callable[[str], None]
) -> dict[str, bytes]:
    """The sites behind the nodes of a grid, once so many are here, each with its node's key."""
    end = time.monotonic() + patience
    nodes: list[int] = []
    while len(nodes := sorted(node.node_id for node in grid.get_nodes())) < count:
        if time.monotonic() > end:
            raise FedloreError(
                f"{len(nodes)} of {count} SuperNodes are here after {patience:g} s: start the "
                f"others, or submit the run with --run-config 'sites={max(1, len(nodes))}'",
                code="quorum",
            )
        time.sleep(_LOOK)
    say(f"{len(nodes)} SuperNodes are here: each is asked which site it is")
    asked = ConfigRecord({"version": __version__})
    letters = [
        Message(RecordDict({_HELLO: asked}), node, "query", ttl=2 * patience) for node in nodes
    ]
    waiting = dict(zip(grid.push_messages(letters), nodes, strict=True))
    found: dict[str, bytes] = {}
    while waiting:
        for message in grid.pull_messages(list(waiting)):
            node = waiting.pop(message.metadata.reply_to_message_id)
            name = _read_name(message, node)
            if name in found:
                raise FedloreError(
                    f"two SuperNodes say that they are site '{name}': give each a folder of its "
                    "own in --node-config, and a name of its own in site.toml"
                )
            found[name] = node_key(node)
        if waiting and time.monotonic() > end:
            raise FedloreError(
                f"{len(waiting)} of {len(nodes)} SuperNodes did not say which site they are within "
                f"{patience:g} s, such as node {min(waiting.values())}: look at their logs",
                code="quorum",
            )
        if waiting:
            time.sleep(_LOOK)
    say(f"the sites are {', '.join(sorted(found))}")
    return found


def _read_name(message: Message, node: int) -> str:
    if message.has_error():
        reason = plain_text(message.error.reason or "its own log says why")
        raise FedloreError(f"SuperNode {node} cannot take part: {reason}", code="site-refused")
    try:
        told = message.content[_HELLO]
        name, version = str(told["name"]), str(told["version"])
    except (KeyError, TypeError):
        raise FedloreError(f"SuperNode {node} did not say which site it is") from None
    if version != __version__:
        raise FedloreError(
            f"site '{plain_text(name)}' runs fedlore {plain_text(version)}, the ServerApp "
            f"{__version__}: install the same version on both sides",
            code="terms",
        )
    return name
