"""Progress: a bar with round, score and time left on a terminal, a line a minute without one."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from ..core.history import RoundSeen, listen_to_rounds
from .screen import Screen

__all__ = ["Gauge"]


MINUTE = 60.0
_BAR = 12  # columns
_INSTANT = 0.05  # seconds: a step that took less was finished before, and tells nothing of speed


class Gauge:
    """What is done of a command's steps; inside its block it hears of every round.

    A step that has a training of known length counts by its rounds. Steps that are known before
    have a name and how long they take, in any unit, and are gone through by `advance`; of others
    `step` says where the command stands.
    """

    def __init__(
        self,
        screen: Screen,
        unit: str,
        steps: Sequence[tuple[str, float]] = (),
        *,
        clock: Callable[[], float] = time.monotonic,
        line: Callable[[str], None] | None = None,
    ) -> None:
        self._screen, self._unit, self._clock = screen, unit, clock
        self._steps = steps
        self._line = line or screen.aside
        self._stack = ExitStack()
        self._bar: tuple[Progress, TaskID] | None = None
        self._what, self._done, self._total = "", 0, 0
        self._share, self._next, self._part = 0.0, 0.0, 0.0  # before this step, after it, within
        self._round, self._score = "", ""
        self._began = self._stepped = self._spoke = clock()
        self._base = 0.0  # what was finished before this command began

    def __enter__(self) -> "Gauge":
        console = self._screen.console(stderr=True)
        if console.is_terminal and not self._screen.quiet:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(_BAR),
                TextColumn("{task.fields[words]}"),
            )
            bar = self._stack.enter_context(Progress(*columns, console=console, transient=True))
            self._bar = bar, bar.add_task("", total=1.0, words="")
        elif not self._screen.quiet:
            self._stack.enter_context(self._heartbeat())
        self._stack.enter_context(listen_to_rounds(self.hear))
        if self._steps:
            self._at(0)
        return self

    def __exit__(self, *problem: object) -> None:
        self._stack.close()

    @contextmanager
    def _heartbeat(self) -> Iterator[None]:
        """A line a minute, also while one step takes longer."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(MINUTE / 4):
                self._show()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def step(
        self, what: str, done: int, total: int, *, between: tuple[float, float] | None = None
    ) -> None:
        """What comes now, how many steps are done, of how many.

        `between` are the parts of all the work before and after this step, where steps are unlike.
        """
        now = self._clock()
        even = (done / max(total, 1), (done + 1) / max(total, 1))
        self._share, self._next = even if between is None else between
        if now - self._stepped < _INSTANT and not self._round:
            self._base, self._began = self._share, now
        self._what, self._done, self._total = what, done, total
        self._round, self._part, self._stepped = "", 0.0, now
        self._show()

    def advance(self, finished: str) -> None:
        """The step of this name is over; those before it are, too."""
        names = [name for name, _ in self._steps]
        self._at(names.index(finished, self._done) + 1)

    def _at(self, place: int) -> None:
        efforts = [effort for _, effort in self._steps]
        shares = (sum(efforts[:count]) / sum(efforts) for count in (place, place + 1))
        name = self._steps[min(place, len(efforts) - 1)][0]
        self.step(name, place, len(efforts), between=(next(shares), next(shares)))

    def hear(self, seen: RoundSeen) -> None:
        """A round of some training is over, or a step of other work."""
        if seen.step:
            self._round, self._score = seen.step, ""
            if seen.rounds:
                self._part = seen.round / seen.rounds
            self._show()
            return
        self._round = f"{'trial, ' if seen.trial else ''}round {seen.round}/{seen.rounds}"
        # short trainings come in numbers that only the training itself knows
        self._part = 0.0 if seen.trial else seen.round / seen.rounds
        if seen.ta is not None:
            self._score = f"{100 * seen.ta:.1f} % right"
        elif seen.rmse is not None:
            self._score = f"RMSE {seen.rmse:.4g}"
        self._show()

    def words(self, room: int = 1000) -> str:
        """Steps, round, score and time left, in words; where there is less room, less of them."""
        count = f"{self._unit} {min(self._done + 1, self._total)} of {self._total}"
        left = say_left(self.left())
        parts = (count if self._total else "", self._round, self._score, left)
        for some in (parts, (*parts[1:],), (parts[1], left), (left,)):
            text = ", ".join(part for part in some if part)
            if len(text) <= room:
                return text
        return ""

    def left(self) -> float | None:
        """Seconds to go if the rest goes on as what was done here."""
        at = self._share + self._part * (self._next - self._share)
        gone = self._clock() - self._began
        return gone * (1.0 - at) / (at - self._base) if at > self._base and gone > 1.0 else None

    def _show(self) -> None:
        if self._bar is not None:
            bar, task = self._bar
            at = self._share + self._part * (self._next - self._share)
            room = bar.console.width - len(self._what) - _BAR - 2
            bar.update(task, description=self._what, completed=at, words=self.words(room))
        elif not self._screen.quiet and self._clock() - self._spoke >= MINUTE:
            self._spoke = self._clock()
            self._line(f"{self._what}: {self.words()}" if self._what else self.words())


def say_left(seconds: float | None) -> str:
    """How long it still takes, as one would say it.

    >>> say_left(42), say_left(200), say_left(9000)
    ('42 s left', '4 min left', '2.5 h left')
    """
    if seconds is None:
        return ""
    if seconds < 100:
        return f"{seconds:.0f} s left"
    minutes = math.ceil(seconds / 60 - 0.01)
    return f"{minutes} min left" if minutes < 90 else f"{seconds / 3600:.1f} h left"
