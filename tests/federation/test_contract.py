"""What fedlore counts on of Flower's server, tried on a real one, since each release moves some."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch
from cryptography.hazmat.primitives.asymmetric import ec

from fedlore.core.wire import Reply, Task
from fedlore.federation.coordinator.server import _command, healthy
from fedlore.federation.flower import node as node_module
from fedlore.federation.flower import transport
from fedlore.federation.flower.messages import IN_HEAD, pack_parcel
from fedlore.federation.flower.names import fleet_pb2, heartbeat_pb2, node_pb2
from fedlore.federation.flower.node import door
from fedlore.federation.flower.transport import Link, Mail, respond
from fedlore.federation.kits.certificates import raw_key
from fedlore.federation.processes import Child, free_port
from fedlore.federation.remote import LinkLost, ShutOut

from .inside import wait_until

pytestmark = pytest.mark.slow
SECRET = bytes(range(32))


@pytest.fixture(scope="module")
def link(tmp_path_factory) -> Iterator[Link]:
    folder, port = tmp_path_factory.mktemp("superlink"), free_port()
    (folder / "runner.secret").write_bytes(SECRET)
    child = Child(_command(folder, port), log=folder / "log", env={"FLWR_HOME": str(folder)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transport, "SILENCE", 200.0)  # a busy machine is not what is tried here
        try:
            wait_until(lambda: healthy(f"127.0.0.1:{port}", None) is None, 200.0)
            yield Link(f"127.0.0.1:{port}")
        finally:
            child.stop()


@pytest.fixture
def site(link):
    """Makes sites, each with a new key."""
    doors = []

    def make(link, name):
        key = ec.generate_private_key(ec.SECP256R1())
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
        assert list(mail.pull([name])) == []
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
        assert list(mail.pull(names[:1])) == [] and time.monotonic() - began < 10.0


def test_only_who_knows_the_secret_drives_a_run(link):
    with pytest.raises(LinkLost), link.run(b"a guess"):
        pass


def test_a_task_that_is_too_large_is_left_and_the_next_one_answered(link, site, monkeypatch):
    monkeypatch.setattr(node_module, "LARGEST_TASK", 3 * IN_HEAD)
    key, entrance = site(link, "h")
    public = {"h": raw_key(key.public_key())}
    link.enrol(public)
    entrance.enter()
    with link.run(SECRET) as grid:
        mail = Mail(grid, public)
        mail.online()
        huge, fine = ({"model": {"w": torch.ones(n)}} for n in (2 * IN_HEAD, 10))
        mail.push(Task("train", 1, huge), ["h"], 300.0)
        assert entrance.turn()
        (name,) = mail.push(Task("train", 2, fine), ["h"], 300.0)
        wait_until(entrance.turn, 60.0)
        wait_until(lambda: [m.about for m in mail.pull([name])] == [name], 60.0)


def test_a_site_cannot_speak_for_another(link, site):
    """Each request names a node; the server holds it against the key that signed it."""
    (one, entrance), (other, theirs) = site(link, "f"), site(link, "g")
    link.enrol({"f": raw_key(one.public_key()), "g": raw_key(other.public_key())})
    entrance.enter()
    victim = node_pb2.Node(node_id=theirs.enter())
    mine = entrance.fleet
    for ask in (
        lambda: mine.PullMessages(fleet_pb2.PullMessagesRequest(node=victim)),
        lambda: mine.PushMessages(fleet_pb2.PushMessagesRequest(node=victim)),
        lambda: mine.DeactivateNode(fleet_pb2.DeactivateNodeRequest(node_id=victim.node_id)),
        lambda: mine.SendNodeHeartbeat(heartbeat_pb2.SendNodeHeartbeatRequest(node=victim)),
        lambda: mine.UnregisterNode(fleet_pb2.UnregisterNodeFleetRequest(node_id=victim.node_id)),
    ):
        with pytest.raises(httpx.HTTPStatusError) as refused:
            ask()
        assert 400 <= refused.value.response.status_code < 500
    public = raw_key(other.public_key())
    with pytest.raises(httpx.HTTPStatusError):  # nor come in under the other's key
        mine.ActivateNode(fleet_pb2.ActivateNodeRequest(public_key=public, heartbeat_interval=10))
    assert link.online()[raw_key(other.public_key())]


PROJECT = b"""[project]
name = "evil"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "evil"
[tool.flwr.app.components]
serverapp = "evil:server"
clientapp = "evil:client"
[tool.flwr.app.config]
"""


def hostile(canary: Path) -> dict[str, bytes]:
    """An app that leaves a trace as soon as it is loaded."""
    code = f"open({str(canary)!r}, 'a').write('executed')\nraise SystemExit(1)\n"
    return {"pyproject.toml": PROJECT, "evil.py": code.encode()}


def test_flower_s_own_node_would_run_the_code_of_a_run(link, tmp_path):
    """What fedlore's sites never do: so it is no accident that nothing happens there."""
    before, canary = set(link.online()), tmp_path / "canary"
    program = str(Path(sys.executable).parent / "flower-supernode")
    command = [program, "--superlink", link.address, "--insecure"]
    command += ["--port", str(free_port())]
    found = {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    found["FLWR_HOME"] = str(tmp_path / "home")
    node = Child(command, log=tmp_path / "node.log", env=found)
    try:
        wait_until(lambda: set(link.online()) - before, 300.0)
        (key,) = set(link.online()) - before
        with link.run(SECRET, app=hostile(canary)) as grid:
            mail = Mail(grid, {"theirs": key})
            wait_until(lambda: "theirs" in mail.online(), 300.0)
            # in objects: a message that is all in its head is one between nodes of ours
            mail.push(Task("moments", 0, {"w": {"w": torch.ones(IN_HEAD)}}), ["theirs"], 300.0)
            wait_until(canary.exists, 300.0)
    finally:
        node.stop()


def test_the_server_still_asks_for_a_site_s_signature(link, site):
    """The way through its middlewares is ours, the check is Flower's."""
    key, entrance = site(link, "signing")
    link.enrol({"signing": raw_key(key.public_key())})
    entrance.enter()
    ask = fleet_pb2.PullMessagesRequest(node=node_pb2.Node(node_id=entrance.node))
    url = f"http://{link.address}/v1/fleet/pull-messages"
    headers = {"content-type": "application/protobuf"}
    assert httpx.post(url, content=ask.SerializeToString(), headers=headers).status_code == 401
    _, stranger = site(link, "stranger")
    stranger.node = entrance.node  # another key under the number of the first
    with pytest.raises(LinkLost, match="401"):
        stranger.turn()
    assert entrance.turn() is False
