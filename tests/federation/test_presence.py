"""Who is here, as the gate sees it: dead is told from slow."""

import json
import time

from fedlore.federation.coordinator import status
from fedlore.federation.coordinator.status import Presence, Sighting, read_presence
from fedlore.federation.remote import BEAT, Notice

from .inside import wait_until
from .test_gateway import OTHER, PULL, signed, staged

LEAVE = "/v1/fleet/deactivate-node"


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def connected_sites(*names):
    """Sites that are connected and have signed, and the clock they are seen by."""
    clock = Clock()
    presence = Presence(clock)
    for number, name in enumerate(names, 1):
        presence.connect(number, name)
        presence.hear(name)
    return clock, presence


def test_a_slow_site_is_here_for_as_long_as_it_beats():
    clock = Clock()
    presence = Presence(clock)
    presence.connect(1, "north")
    for _ in range(100):
        clock.now += BEAT / 2
        presence.hear("north")
        assert presence.sites["north"].here(clock.now) == "here"


def test_who_hangs_up_is_lost_at_once_and_who_falls_silent_after_a_beat():
    clock, presence = connected_sites("dead", "stopped")
    presence.disconnect(1)
    clock.now += 2.1
    assert [presence.sites[name].here(clock.now) for name in ("dead", "stopped")] == [
        "lost",
        "here",
    ]
    clock.now += BEAT
    assert presence.sites["stopped"].here(clock.now) == "lost"
    assert Sighting().here(clock.now) == "absent"


def test_a_connection_that_is_replaced_loses_nobody():
    clock, presence = connected_sites("north")
    presence.connect(2, "north")
    presence.disconnect(1)
    clock.now += 5.0
    assert presence.sites["north"].here(clock.now) == "here"
    presence.disconnect(7)  # a stranger's, on which nobody has signed


def test_the_gate_sees_who_comes_hangs_up_and_says_goodbye(tmp_path):
    with staged(tmp_path) as stage:
        seen = stage.gate.presence.sites
        with stage.client() as client:
            client.post(PULL, content=b"x" * 50, headers=signed())
            assert (seen["north"].lines, seen["north"].requests) == (1, 1)
            assert (seen["north"].received, seen["north"].sent) == (50, 50)
            client.post(LEAVE, content=b"", headers=signed())
            assert seen["north"].here(time.time()) == "left"
            client.post(PULL, content=b"", headers=signed())
            assert seen["north"].here(time.time()) == "here"
            client.post(PULL, content=b"", headers=signed(OTHER))
        wait_until(lambda: not seen["north"].lines, 5.0)
        assert stage.gate.presence.refused == 1 and list(seen) == ["north"]


def test_what_is_written_is_read_and_an_old_file_means_that_nobody_writes(tmp_path):
    clock, presence = connected_sites("north")
    presence.write(tmp_path / "presence.json", ready=True)
    server, sites, gate = read_presence(tmp_path, clock.now + 1)
    assert (server, sites, gate["refused"]) == ("up", presence.sites, 0)
    assert read_presence(tmp_path, clock.now + 6)[0] == "down"
    presence.write(tmp_path / "presence.json", ready=False)
    assert read_presence(tmp_path, clock.now)[0] == "starting"
    (tmp_path / "presence.json").write_text(json.dumps({"sites": 3}))
    assert read_presence(tmp_path, clock.now) == ("down", {}, {})


def test_many_answers_are_written_together_and_none_is_left_out(tmp_path, monkeypatch):
    """Written whole at each answer, the file of 200 sites took two fifths of a training's time."""
    written = []
    whole = status.write_whole
    count = lambda path, text, sync: (written.append(text), whole(path, text, sync=sync))  # noqa: E731
    monkeypatch.setattr(status, "write_whole", count)
    sites = [f"site-{number:03d}" for number in range(200)]
    kept = status.Status(tmp_path / "status.json", sites, run="1", rounds=1)
    for name in sites:
        kept.notice(Notice("reply", name, 1, "train", seconds=0.5, size=10))
    wait_until(lambda: (tmp_path / "status.json").exists())
    told = status.read_status(tmp_path)
    assert {one["counts"]["reply"] for one in told["sites"].values()} == {1}
    assert len(written) <= 3
    kept.notice(Notice("silent", sites[0], 2, "train", detail="it says nothing"))
    kept.write(state="finished")  # at once, with what had not been written yet
    told = status.read_status(tmp_path)
    assert told["state"] == "finished" and "it says nothing" in told["sites"][sites[0]]["note"]
    few = status.Status(tmp_path / "status.json", sites[:4], run="2", rounds=1)
    few.notice(Notice("reply", sites[0], 1, "train"))  # of few every one at once
    assert status.read_status(tmp_path)["sites"][sites[0]]["counts"]["reply"] == 1
