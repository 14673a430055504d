"""Whoever waits is told, and a bell that is broken costs time alone."""

import socket
import threading
import time

import pytest

from fedlore.federation.bell import DoorBell, Ringer, bell_token
from fedlore.federation.flower.messages import IN_HEAD, BadReply, RunCourier, pack_parcel, read_head
from fedlore.federation.processes import free_port

from .inside import wait_until
from .test_courier import reply, server  # noqa: F401  # a fixture
from .test_gateway import PULL, Stage, signed

TOKEN = bell_token(b"a secret")


@pytest.fixture
def stage(tmp_path):
    """A gate with a bell, before a server that has tasks only once it is told to."""
    stage = Stage(tmp_path, hold=20.0)
    stage.gate.bell = DoorBell(TOKEN)
    with stage.serving(), stage.gate:
        yield stage


def asking(stage, found):
    """A site that asks for tasks from a thread of its own."""

    def ask():
        with stage.client() as client:
            answer = client.post(PULL, content=b"", headers=signed(), timeout=30.0)
            found.append((answer.status_code, time.monotonic()))

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: stage.behind.seen)
    return thread


def test_a_site_is_kept_waiting_until_there_are_tasks(stage):
    found, ringer = [], Ringer(stage.gate.bell.port, TOKEN)
    thread = asking(stage, found)
    time.sleep(0.2)
    assert not found and len(stage.behind.seen) == 1
    rang = time.monotonic()
    ringer.ring()
    thread.join(10.0)
    assert found[0][0] == 200 and found[0][1] - rang < 5.0  # long before the 20 s
    assert len(stage.behind.seen) == 2  # it looked again, for the site
    ringer.close()


def test_while_nobody_rings_the_server_is_asked_once_a_wait(tmp_path):
    """Hundreds of sites that wait would keep it busy otherwise."""
    stage = Stage(tmp_path, hold=0.1)
    stage.gate.bell = DoorBell(TOKEN)
    with stage.serving(), stage.gate, stage.client() as client:
        asked = []
        for turn in range(4):
            if turn == 3:
                stage.gate.bell.rings += 1  # while the site did not wait
            client.post(PULL, content=b"", headers=signed())
            asked.append(len(stage.behind.seen) - sum(asked))
        assert asked == [2, 1, 1, 2]  # the first time, and after a ring, also before the wait


def test_a_site_that_began_anew_is_not_robbed_by_what_it_asked_before(stage):
    """A task that went to the old request would be lost until the deadline."""
    found, ringer = [], Ringer(stage.gate.bell.port, TOKEN)
    thread = asking(stage, found)
    with stage.client() as client:
        client.post("/v1/fleet/activate-node", content=b"x", headers=signed())
    ringer.ring()
    thread.join(10.0)
    asked = [path for path, *_ in stage.behind.seen]
    assert asked == [PULL, "/v1/fleet/activate-node"]  # the old request went no further
    ringer.close()


def test_a_site_that_has_hung_up_gets_no_task(stage):
    ringer = Ringer(stage.gate.bell.port, TOKEN)
    client = stage.client()
    with pytest.raises(Exception, match="timed out"):
        client.post(PULL, content=b"", headers=signed(), timeout=0.3)
    client.close()
    time.sleep(0.1)
    ringer.ring()
    time.sleep(0.3)
    assert len(stage.behind.seen) == 1
    ringer.close()


def test_a_training_is_told_of_what_sites_push_and_a_stranger_is_not(stage):
    ringer, stranger = Ringer(stage.gate.bell.port, TOKEN), Ringer(stage.gate.bell.port, bytes(32))
    time.sleep(0.1)
    with stage.client() as client:
        client.post("/v1/fleet/push-messages", content=b"x", headers=signed())
    began = time.monotonic()
    ringer.wait(0.0)
    assert time.monotonic() - began < 0.9  # else a second goes by
    stranger.wait(0.0)
    assert stranger._line is None  # hung up on
    ringer.close()


def test_without_a_bell_one_looks_now_and_then():
    ringer = Ringer(free_port(), TOKEN)
    began = time.monotonic()
    ringer.ring()
    ringer.wait(0.05)
    assert 0.04 < time.monotonic() - began < 0.9


def test_a_bell_that_breaks_is_done_without():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ringer = Ringer(listener.getsockname()[1], TOKEN)
        listener.accept()[0].close()
    ringer.wait(0.0)
    assert ringer._line is None
    ringer.ring()


def test_a_small_message_is_its_head_and_a_large_one_has_objects(server):  # noqa: F811
    small, large = reply("x", "a"), reply("x" * (IN_HEAD + 1), "a")
    parcel = pack_parcel(small)
    assert not parcel.objects and not parcel.tree.children
    found = read_head(parcel.head, parcel.tree)
    assert found.content["reply"]["text"] == "x" and found.metadata.reply_to_message_id == "a"
    assert found.metadata.message_id == parcel.tree.object_id == small.metadata.message_id
    parcel = pack_parcel(large)
    assert parcel.objects and read_head(parcel.head, parcel.tree) is None
    assert parcel.head.ByteSize() < 1000


def test_a_reply_in_one_head_is_there_with_the_first_look(server):  # noqa: F811
    parcel = pack_parcel(reply("quick", "a"))
    server.heads["a"] = (parcel.head, parcel.tree)
    (found,) = RunCourier(server, 1).pull_messages(["a"])
    assert found.content["reply"]["text"] == "quick" and not server.confirmed


def test_a_head_of_which_nothing_can_be_made_is_one_sites_bad_reply(server):  # noqa: F811
    parcel = pack_parcel(reply("x", "a"))
    parcel.head.content.items[0].config_record.items[0].value.ClearField("string")
    server.heads["a"] = (parcel.head, parcel.tree)
    (found,) = RunCourier(server, 1).pull_messages(["a"])
    assert isinstance(found, BadReply) and found.about == "a"
