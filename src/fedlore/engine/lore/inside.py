"""The recipe in one process: a transport that keeps an engine for the training that runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

from ...core.exact import Posterior
from ...core.tree import Params, Payload
from ...core.wire import Reply, Task
from ...errors import ConfigError
from ..exact import exact_rows
from ..loop import Local, Recipe, own_params, recall
from ..stacked import Stacked
from ..training import engine_for
from .agreement import Agreement
from .private import Private
from .seat import Seat
from .site import settle, vote
from .trial import MAIN, Trial


class Inside:
    """All sites in this process. Close it, or use it in a with statement."""

    def __init__(
        self,
        seats: Sequence[Seat],
        common: Agreement,
        *,
        engine: str = "auto",
        workers: int | None = None,
    ) -> None:
        self._seats = {seat.id: seat for seat in seats}
        self._common, self._engine, self._workers = common, engine, workers
        self._stack = ExitStack()
        self._running: tuple[Trial, Local | Stacked] | None = None
        self.memories: dict[tuple[Trial, str], Payload] = {}  # of trainings that are over
        self.private: dict[str, Private] = {}

    def clients(self) -> Sequence[str]:
        return list(self._seats)

    @property
    def sums(self) -> bool:
        """Whether a reply may stand for many clients; the engine of a trial says the rest."""
        return True

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        if task.kind == "gram":
            yield from (Reply(name, task.round, {"gram": self._gram(name)}) for name in to)
            return
        trial = Trial.read(task.trial)
        if task.kind == "vote":
            self._end(trial, task)
            for name in to:
                params = self._own(trial, name, task.sent)
                yield Reply(name, task.round, {"vote": vote(self._seats[name], trial, params)})
        elif task.kind == "settle":
            self._end(trial, task)
            for name in to:
                self.private[name] = self._settled(trial, name, task.sent)
                yield Reply(name, task.round)
        else:
            yield from self._at(trial).exchange(task, to)

    def close(self) -> None:
        """End the training that runs, if there is one."""
        self._running = None
        self._stack.close()

    def __enter__(self) -> "Inside":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def _gram(self, name: str) -> Params:
        common, seat = self._common, self._seats[name]
        if common.menu.exact is None:
            raise ConfigError("sums of rows were asked for, and the menu has no model of one round")
        client = seat.plain
        return exact_rows(client, common.menu.exact, common.scaler, classes=common.classes).sums()

    def _recipe(self, trial: Trial) -> Recipe:
        return self._common.recipe(self._common.candidate(trial))

    def _at(self, trial: Trial) -> Local | Stacked:
        """The engine of a training, made when its first task comes."""
        if self._running is None or self._running[0] != trial:
            self.close()
            rounds = self._common.rounds
            self.memories = {k: m for k, m in self.memories.items() if k[0].rounds == rounds}
            candidate = self._common.candidate(trial)
            clients = [seat.part(candidate, trial.fold)[0] for seat in self._seats.values()]
            chosen = engine_for(
                clients, self._recipe(trial), engine=self._engine, workers=self._workers
            )
            self._running = (trial, self._stack.enter_context(chosen)[0])
        return self._running[1]

    def _end(self, trial: Trial, task: Task) -> None:
        """Commit what the clients remember of a training, and free its engine."""
        if self._running is not None and self._running[0] == trial:
            for name, memory in self._running[1].memories.items():
                self.memories[trial, name] = memory.settle(task.accepted.get(name, 0))
            self.close()

    def _own(self, trial: Trial, name: str, sent: Payload) -> Params:
        """The network that a site has after a training."""
        recipe = self._recipe(trial)
        memory = recall(recipe, sent, self.memories.get((trial, name), {}))
        return own_params(recipe.algorithm, sent, memory)

    def _settled(self, trial: Trial, name: str, sent: Payload) -> Private:
        folds = []
        for fold in range(self._common.menu.folds):
            part = part_of(sent, str(fold))
            if part:
                folds.append(self._own(Trial(trial.candidate, fold, trial.rounds), name, part))
        return settle(
            self._seats[name],
            trial,
            self._own(trial, name, part_of(sent, "main")),
            folds=folds,
            posterior=Posterior.of(sent["exact"]) if "exact" in sent else None,
        )

    def finished(self, trial: Trial) -> Mapping[str, Payload]:
        """What each site remembers after the main training, its last steps included."""
        assert trial.fold == MAIN
        found = {}
        for name, seat in self._seats.items():
            memory = self.memories.get((trial, name), {})
            private = self.private.get(seat.id)
            last = None if private is None else private.finished
            found[name] = memory if last is None else memory | {"finished": last}
        return found


def part_of(sent: Payload, name: str) -> Payload:
    """What the word to settle says of one training: `main`, or the number of a fold."""
    prefix = f"{name}."
    return {k.removeprefix(prefix): b for k, b in sent.items() if k.startswith(prefix)}
