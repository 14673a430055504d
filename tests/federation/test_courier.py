"""Replies as they arrive: one that is never finished, forged or broken holds up nobody."""

from types import SimpleNamespace

import pytest
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree
from flwr.supercore.task_identity import TaskIdentity

from fedlore.federation.flower.messages import BadReply, RunCourier


class Server:
    """The runtime interface of a server, as far as replies go; a head is given out once."""

    def __init__(self):
        self.heads, self.store, self.confirmed, self.asked = {}, {}, [], []

    def put(self, message, *, about, without=()):
        name = message.object_id
        parts = {key: part.deflate() for key, part in get_all_nested_objects(message).items()}
        kinds = {key: part.split(b" ")[0].decode() for key, part in parts.items()}
        self.store |= {k: b"" if kinds[k] in without else v for k, v in parts.items()}
        metadata = SimpleNamespace(reply_to_message_id=about, message_id=name)
        self.heads[about] = (SimpleNamespace(metadata=metadata), get_object_tree(message))
        self.parts = parts

    def PushMessages(self, request):
        self.asked.append(len(request.messages_list))
        names = [head.metadata.message_id for head in request.messages_list]
        return SimpleNamespace(message_ids=names, objects_to_push=[], session_id="")

    def PullMessages(self, request):
        self.asked.append(list(request.message_ids))
        found = [self.heads.pop(name) for name in request.message_ids if name in self.heads]
        return SimpleNamespace(
            messages_list=[head for head, _ in found],
            message_object_trees=[tree for _, tree in found],
        )

    def PullObject(self, request):
        content = self.store.get(request.object_id)
        return SimpleNamespace(
            object_found=content is not None,
            object_available=content != b"",
            object_content=content,
        )

    def ConfirmMessageReceived(self, request):
        self.confirmed.append(request.message_object_id)


@pytest.fixture
def server():
    TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1
    return Server()


def reply(text, about):
    """A reply to the message with this name."""
    asked = Message(RecordDict({}), 7, "train", ttl=60.0)
    asked.metadata.__dict__["_message_id"] = about
    return Message(RecordDict({"reply": ConfigRecord({"text": text})}), reply_to=asked)


def test_many_messages_go_in_parts_so_that_the_server_can_answer_others_in_between(server):
    messages = [Message(RecordDict({}), node, "train", ttl=60.0) for node in range(2, 72)]
    names = RunCourier(server, 1).push_messages(messages)
    assert server.asked == [32, 32, 6]
    assert names == [message.metadata.message_id for message in messages]
    assert RunCourier(server, 1).push_messages([]) == [] and len(server.asked) == 3


def test_a_half_pushed_reply_holds_up_nobody_and_comes_when_it_is_whole(server):
    server.put(reply("slow", "a"), about="a", without=("ConfigRecord",))
    late = server.parts
    server.put(reply("quick", "b"), about="b")
    courier = RunCourier(server, 1)
    (found,) = courier.pull_messages(["a", "b"])
    assert found.content["reply"]["text"] == "quick"
    asked = len(server.asked)
    assert (
        list(courier.pull_messages(["a"])) == [] and len(server.asked) == asked
    )  # its head is here
    server.store |= late
    (found,) = courier.pull_messages(["a"])
    assert found.content["reply"]["text"] == "slow" and len(server.confirmed) == 2


def test_nobody_waits_for_what_is_not_asked_for_any_more(server):
    server.put(reply("slow", "a"), about="a", without=("ConfigRecord",))
    courier = RunCourier(server, 1)
    assert list(courier.pull_messages(["a"])) == [] and server.confirmed == []
    assert list(courier.pull_messages([])) == [] and courier._arriving == {}
    assert len(server.confirmed) == 1  # which makes the server forget what it holds of it


def test_a_part_that_was_never_sent_ends_the_reply(server):
    server.put(reply("x", "a"), about="a")
    server.store.clear()
    (found,) = RunCourier(server, 1).pull_messages(["a"])
    assert found == BadReply("a", "a part of it was never sent")


def test_a_reply_that_names_another_message_is_not_that_ones(server):
    server.put(reply("forged", "b"), about="a")
    (found,) = RunCourier(server, 1).pull_messages(["a"])
    assert found == BadReply("a", "it says that it answers something else")


def test_what_cannot_be_put_together_is_one_sites_bad_reply(server):
    server.put(reply("x", "a"), about="a")
    server.store = {name: b"ConfigRecord  3\x00abc" for name in server.store}
    (found,) = RunCourier(server, 1).pull_messages(["a"])
    assert isinstance(found, BadReply) and found.about == "a"


def test_a_reply_without_end_is_cut_off(server):
    server.put(reply("x" * 1000, "a"), about="a")
    courier = RunCourier(server, 1)
    courier.most = 100
    (found,) = courier.pull_messages(["a"])
    assert found == BadReply("a", "more than 100 bytes") and len(server.confirmed) == 1
