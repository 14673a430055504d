"""Flower without a network: a grid that carries every message as bytes to sites in this process."""

from dataclasses import dataclass, field
from types import SimpleNamespace

from flwr.app import Message
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.task_identity import TaskIdentity

from fedlore.algorithms import FlatParams
from fedlore.engine import Memory, answer, ready
from fedlore.federation.flower.transport import Mail, respond
from fedlore.federation.remote import Remote


def carried(message: Message, wire: list[bytes]) -> Message:
    """The message as it arrives: taken apart into bytes and put together again."""
    name = message.object_id
    contents = {key: part.deflate() for key, part in get_all_nested_objects(message).items()}
    wire.extend(contents.values())
    arrived = inflate_object_from_contents(name, contents)
    arrived.metadata.__dict__["_message_id"] = name
    return arrived


@dataclass
class Loopback(Grid):
    """A grid over answerers, by site."""

    answerers: dict
    wire: list[bytes] = field(default_factory=list)  # all that was carried
    replies: dict = field(default_factory=dict)
    absent: set = field(default_factory=set)
    keys: dict = field(default_factory=dict)  # public keys, where a site's name will not do

    def __post_init__(self):
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
        self.names = sorted(self.answerers)

    def get_nodes(self):
        return [
            SimpleNamespace(
                node_id=10 + i,
                public_key=self.keys.get(name, name.encode()),
                last_activated_at="now",
            )
            for i, name in enumerate(self.names)
            if name not in self.absent
        ]

    def push_messages(self, messages):
        ids = []
        for message in messages:
            site = self.names[message.metadata.dst_node_id - 10]
            arrived = carried(message, self.wire)
            reply = respond(arrived, site, self.answerers[site])
            ids.append(arrived.metadata.message_id)
            self.replies[ids[-1]] = carried(reply, self.wire)
        return ids

    def pull_messages(self, message_ids):
        return [self.replies.pop(key) for key in list(message_ids) if key in self.replies]

    def run(self): ...
    def set_run(self, run): ...
    def create_message(self, *args): ...
    def get_node_ids(self): ...
    def send_and_receive(self, messages, *, timeout=None): ...


class Site:
    """A site in memory, with the very `answer` of every engine."""

    def __init__(self, client, recipe, memories):
        self.site, self.recipe = ready(client, recipe.model, recipe.scaler), recipe
        self.buffer, self.memories = FlatParams(recipe.model), memories

    def __call__(self, task, terms):
        memory = self.memories[self.site.id]
        settled = memory.settle(task.accepted.get(self.site.id, 0))
        reply, new = answer(self.site, self.recipe, task, settled, self.buffer)
        if task.kind in ("train", "finish"):
            self.memories[self.site.id] = Memory(task.round, before=settled, after=new)
        return reply


class FlowerInProcess:
    """An engine for the laws: clients and a recipe, all tasks through Flower's messages."""

    def __init__(self, clients, recipe, **settings):
        self.memories = {c.id: Memory() for c in clients}
        self.grid = Loopback({c.id: Site(c, recipe, self.memories) for c in clients})
        mail = Mail(self.grid, {c.id: c.id.encode() for c in clients}, "the terms")
        settings = {"poll": 0.001, "deadline": 5.0, "grace": 0.01} | settings
        self.remote = Remote(mail, [c.id for c in clients], **settings)

    def clients(self):
        return self.remote.clients()

    def exchange(self, task, to):
        return self.remote.exchange(task, to)
