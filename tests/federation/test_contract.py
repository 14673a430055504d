"""What fedlore counts on of Flower's server, tried on a real one, since each release moves some."""

import time
from collections.abc import Iterator

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric import ec

from fedlore.core.wire import Reply, Task
from fedlore.federation.coordinator.server import _command, healthy
from fedlore.federation.flower.names import fleet_pb2, node_pb2
from fedlore.federation.flower.node import door
from fedlore.federation.flower.parcels import IN_HEAD, pack_parcel
from fedlore.federation.flower.transport import Link, Mail, respond
from fedlore.federation.kits.certificates import raw_key
from fedlore.federation.node import ShutOut
from fedlore.federation.processes import Child, free_port
from fedlore.federation.remote import LinkLost

from .test_bell import wait_for

pytestmark = pytest.mark.slow
SECRET = bytes(range(32))


@pytest.fixture(scope="module")
def link(tmp_path_factory) -> Iterator[Link]:
    folder, port = tmp_path_factory.mktemp("superlink"), free_port()
    (folder / "runner.secret").write_bytes(SECRET)
    child = Child(_command(folder, port), log=folder / "log", env={"FLWR_HOME": str(folder)})
    try:
        wait_for(lambda: healthy(f"127.0.0.1:{port}", None) is None, 200.0)
        yield Link(f"127.0.0.1:{port}")
    finally:
        child.stop()


@pytest.fixture
def site(link):
    """Makes sites, each with a new key."""
    doors = []

    def make(link, name):
        key = ec.generate_private_key(ec.SECP384R1())
        doors.append(door(link, name, key, echo))
        return key, doors[-1]

    yield make
    for one in doors:
        one.fleet.close()


def echo(task, terms):
    return Reply("", task.round, task.sent, 7)


def test_a_key_registers_once_and_never_again_when_it_is_gone(link, site):
    key, entrance = site(link, "a")
    public = {"a": raw_key(key.public_key())}
    with pytest.raises(ShutOut):
        entrance.enter()
    assert link.enrol(public) == ([], [])
    assert link.enrol(public) == ([], [])  # known already
    number = entrance.enter()
    assert entrance.enter() == number  # a site that was killed and comes back
    assert link.online()[public["a"]]
    assert link.enrol({}) == (["a"], [])
    assert link.enrol(public) == ([], ["a"])  # the server must be started anew for it


@pytest.mark.parametrize("size", [10, IN_HEAD], ids=["in the head", "in objects"])
def test_a_message_goes_there_and_back(link, site, size):
    key, entrance = site(link, "b")
    link.enrol({"b": raw_key(key.public_key())})
    entrance.enter()
    sent = {"model": {"w": torch.arange(float(size))}}
    with link.run(SECRET) as grid:
        mail = Mail(grid, {"b": raw_key(key.public_key())}, "terms")
        assert set(mail.online()) == {"b"}
        (name,) = mail.push(Task("train", 3, sent), ["b"], 60.0)
        assert mail.pull([name]) == []
        assert entrance.turn() and not entrance.turn()
        (letter,) = mail.pull([name])
        assert torch.equal(letter.reply.upload["model"]["w"], sent["model"]["w"])
        assert (letter.reply.round, letter.reply.rows, letter.about) == (3, 7, name)


def test_nothing_to_do_is_an_empty_body_at_once(link, site):
    """The gate knows by it that a site may be kept waiting."""
    key, entrance = site(link, "c")
    link.enrol({"c": raw_key(key.public_key())})
    node = node_pb2.Node(node_id=entrance.enter())
    began = time.monotonic()
    found = entrance.fleet.PullMessages(fleet_pb2.PullMessagesRequest(node=node))
    assert found.SerializeToString() == b"" and time.monotonic() - began < 5.0


def test_a_half_pushed_reply_is_not_there_and_holds_up_nobody(link, site):
    (key_d, slow), (key_e, quick) = site(link, "d"), site(link, "e")
    keys = {"d": raw_key(key_d.public_key()), "e": raw_key(key_e.public_key())}
    link.enrol(keys)
    node = node_pb2.Node(node_id=slow.enter())
    quick.enter()
    large = {"model": {"w": torch.zeros(IN_HEAD)}}
    with link.run(SECRET) as grid:
        mail = Mail(grid, keys, "terms")
        mail.online()
        names = mail.push(Task("train", 1, large), ["d", "e"], 60.0)
        found = slow.fleet.PullMessages(fleet_pb2.PullMessagesRequest(node=node))
        run = found.messages_list[0].metadata.run_id
        message = slow._pull(found.message_object_trees[0], node, run)
        parcel = pack_parcel(respond(message, "d", echo))
        slow.fleet.PushMessages(  # the head alone, none of its objects
            fleet_pb2.PushMessagesRequest(
                node=node, messages_list=[parcel.head], message_object_trees=[parcel.tree]
            )
        )
        assert quick.turn()
        began = time.monotonic()
        assert [letter.about for letter in mail.pull(names)] == [names[1]]
        assert mail.pull(names[:1]) == [] and time.monotonic() - began < 10.0


def test_only_who_knows_the_secret_drives_a_run(link):
    with pytest.raises(LinkLost), link.run(b"a guess"):
        pass
