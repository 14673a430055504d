"""Progress: rounds, score and time left on a terminal, a line a minute without one."""

import io

import pytest
from rich.console import Console

from fedlore import fit, mlp
from fedlore.cli.progress import Gauge
from fedlore.cli.screen import Screen
from fedlore.core.history import RoundSeen, listen_to_rounds

from ..engine.federation import CLASSES, FEATURES, federation


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def gauged(*steps, quiet=False):
    clock, lines = Clock(), []
    gauge = Gauge(Screen(quiet=quiet), "approach", steps, clock=clock, line=lines.append)
    return gauge, clock, lines


def test_a_line_a_minute_tells_step_round_score_and_time_left():
    gauge, clock, lines = gauged(("ML", 1.0), ("lore", 3.0))
    with gauge:
        for round in range(1, 5):
            clock.now += 30.0
            gauge.hear(RoundSeen(round, 8, ta=0.5 + round / 100))
        assert lines == [
            "ML: approach 1 of 2, round 2/8, 52.0 % right, 15 min left",
            "ML: approach 1 of 2, round 4/8, 54.0 % right, 14 min left",
        ]


def test_time_left_counts_steps_by_how_long_they_take():
    gauge, clock, _ = gauged(("ML", 1.0), ("lore", 3.0))
    with gauge:
        clock.now = 20.0
        gauge.hear(RoundSeen(8, 8))
        gauge.advance("ML")
        assert gauge.left() == pytest.approx(60.0)


def test_what_was_finished_before_says_nothing_of_speed():
    gauge, clock, _ = gauged(("ML", 1.0), ("FL", 1.0), ("FLwKM", 1.0), ("lore", 1.0))
    with gauge:
        gauge.advance("ML")
        gauge.advance("FL")
        clock.now = 10.0
        gauge.advance("FLwKM")
        assert gauge.left() == pytest.approx(10.0)  # not 10 / 3


def test_a_trial_among_many_does_not_pretend_to_know():
    gauge, clock, _ = gauged(("lore", 1.0))
    with gauge:
        clock.now = 10.0
        gauge.hear(RoundSeen(5, 10, trial="0/0/10"))
        assert gauge.left() is None and "trial, round 5/10" in gauge.words()


def test_a_terminal_shows_a_bar_of_at_most_80_columns(monkeypatch):
    out = io.StringIO()
    shown = Console(file=out, force_terminal=True, width=80, color_system=None)
    monkeypatch.setattr(Screen, "console", lambda *_, **__: shown)
    clock = Clock()
    with Gauge(Screen(), "approach", [("FL+mask", 1.0), ("lore", 2.0)], clock=clock) as gauge:
        clock.now = 100.0
        gauge.hear(RoundSeen(12, 40, ta=0.7654))
        gauge._bar[0].refresh()
    text = out.getvalue()
    assert "approach 1 of 2, round 12/40, 76.5 % right, 15 min left" in text and "…" not in text


@pytest.mark.parametrize("room", range(0, 70, 7))
def test_what_does_not_fit_is_left_out_and_time_last(room):
    gauge, clock, _ = gauged(("lore", 1.0))
    with gauge:
        clock.now = 100.0
        gauge.hear(RoundSeen(12, 40, ta=0.7654))
        told = gauge.words(room)
        assert len(told) <= room and ("4 min left" in told or room < len("4 min left"))


def test_every_round_of_every_training_is_heard():
    seen = []
    with listen_to_rounds(seen.append):
        fit(federation(), mlp(FEATURES, CLASSES), rounds=3, evaluate=2)
    assert [(one.round, one.rounds) for one in seen] == [(1, 3), (2, 3), (3, 3)]
    assert seen[0].ta is None and 0.0 <= seen[1].ta <= 1.0
    fit(federation(), mlp(FEATURES, CLASSES), rounds=1)
    assert len(seen) == 3


@pytest.mark.parametrize("quiet", [False, True])
def test_a_step_that_is_no_round_is_shown_with_its_share_and_quiet_is_quiet(quiet):
    gauge, clock, lines = gauged(("local best", 1.0), ("lore", 1.0), quiet=quiet)
    with gauge:
        clock.now = 60.0
        gauge.hear(RoundSeen(1, 4, step="own models of plant-1"))
    line = "local best: approach 1 of 2, own models of plant-1, 7 min left"
    assert lines == [line] * (not quiet)
