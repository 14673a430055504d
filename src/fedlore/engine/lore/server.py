"""The server half of the recipe: which training comes when, over any transport.

It sees differences and sums like any server, and one summed loss for each trial. Everything that
is done is a step with a name; given the steps that were done before, it goes on after them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from ...core.tree import Params, Payload
from ...core.wire import Task, Transport
from ...errors import FedloreError
from ...privacy.filters import SumWithheld
from ..loop import Run, federate, start_run
from ..one_shot import fit_one_shot, sum_replies
from .space import MAIN, Agreement, Candidate, Trial, rungs
from .start import NUMBER_STARTS, STARTS

STATE = "state."  # before the names of a state's bundles in a step


@dataclass(frozen=True, eq=False)
class DoneStep:
    """Something that is done, as it can be written down."""

    name: str  # gram, a trial's name, ensemble
    payload: Payload = field(default_factory=dict)
    accepted: Mapping[str, int] = field(default_factory=dict)
    withheld: str = ""  # why it was done without what it is about

    @property
    def state(self) -> Payload:
        """The server's state after a training that may still be needed."""
        found = self.payload.items()
        return {key.removeprefix(STATE): b for key, b in found if key.startswith(STATE)}

    @property
    def loss(self) -> float:
        """The mean loss of a row that was held back."""
        vote = self.payload["vote"]
        rows = float(vote["rows"])
        if not rows > 0:
            raise FedloreError("no site has rows to hold out: the recipe cannot be chosen")
        return float(vote["loss"]) / rows


@dataclass(frozen=True, eq=False)
class Outcome:
    """A federation whose recipe is chosen and trained."""

    candidate: Candidate
    trial: Trial  # the main training
    run: Run
    losses: dict[str, float]  # by trial
    one_shot: Params | None  # the posterior of the one-shot model, and its link


@dataclass
class Progress:
    """What was done before and what is done now; `running` is a training that was cut short."""

    steps: list[DoneStep] = field(default_factory=list)
    running: tuple[str, Run] | None = None
    on_step: Callable[[DoneStep], None] = lambda step: None
    on_round: Callable[[str, Run], None] = lambda name, run: None

    def find(self, name: str) -> DoneStep | None:
        return next((step for step in self.steps if step.name == name), None)

    def add(self, step: DoneStep) -> DoneStep:
        self.steps.append(step)
        self.on_step(step)
        return step


def conduct(
    transport: Transport,
    common: Agreement,
    *,
    progress: Progress | None = None,
    evaluate: int = 0,
    private: bool = False,
    salt: str | None = None,
) -> Outcome:
    """Sums, trials, votes, the main training, and the task to fit ensembles.

    With `private` a privacy budget is in force: one candidate, no trials, and noise on the sums.
    With a `salt`, where sums alone are seen, every training has a start of its own.
    """
    if private:
        common.search_space.refuse_dp()
    for recipe in map(common.recipe, common.search_space.candidates):
        # a candidate that cannot be trained is named now, not after hours of trials
        recipe.algorithm.init({n: p.detach() for n, p in recipe.model.named_parameters()})
    work = _Work(transport, common, progress or Progress(), evaluate, salt)
    one_shot = work.gram(noised=private)
    chosen, folds = (0, []) if private else work.choose()
    main = Trial(chosen, MAIN, common.rounds)
    run = work.train_main(main)
    work.fit_ensembles(main, run, folds, one_shot)
    losses = {s.name: s.loss for s in work.progress.steps if "vote" in s.payload}
    return Outcome(common.candidate(main), main, run, losses, one_shot)


@dataclass(frozen=True, eq=False)
class _Work:
    transport: Transport
    common: Agreement
    progress: Progress
    evaluate: int
    salt: str | None

    def gram(self, *, noised: bool) -> Params | None:
        """The one-shot model, where the search space has one; under noise it is not bent."""
        search_space = self.common.search_space
        one_shot = search_space.one_shot
        if one_shot is None:
            return None
        done = self.progress.find("gram")
        if done is None:
            groups = one_shot.groups(self.common.features)
            try:
                found = fit_one_shot(
                    self.transport,
                    groups,
                    links=0 if noised else len(search_space.links),
                    noised=noised,
                )
                done = DoneStep("gram", {"one_shot": found})
            except SumWithheld as error:
                done = DoneStep("gram", withheld=str(error))
            self.progress.add(done)
        return done.payload.get("one_shot")

    def choose(self) -> tuple[int, list[DoneStep]]:
        """The candidate that the votes favour, and its trainings on every fold."""
        search_space, rounds = self.common.search_space, self.common.rounds
        left = list(range(len(search_space.candidates)))
        for count, length in rungs(len(left), rounds):
            steps = {c: self.try_trial(Trial(c, 0, length)) for c in left[:count]}
            left = sorted(steps, key=lambda c: steps[c].loss)
        return left[0], [
            self.try_trial(Trial(left[0], fold, rounds)) for fold in range(search_space.folds)
        ]

    def try_trial(self, trial: Trial) -> DoneStep:
        """A training on the rows outside one fold, and the votes of the rows inside it."""
        done = self.progress.find(str(trial))
        if done is not None:
            return done
        run = self.federate_trial(trial)
        task = Task(
            "vote",
            trial.rounds,
            self.common.recipe(self.common.candidate(trial)).algorithm.send(run.state),
            self.common.seed,
            accepted=run.accepted,
            trial=str(trial),
        )
        payload: Payload = {"vote": sum_replies(self.transport, task)}
        if trial.rounds == self.common.rounds:  # its networks may be needed by ensembles
            payload |= {STATE + key: bundle for key, bundle in run.state.items()}
        return self.progress.add(DoneStep(str(trial), payload, run.accepted))

    def choose_start(self, task: Task) -> Params:
        """Where the weights of all ensembles begin, by one vote."""
        done = self.progress.find("start")
        if done is None:
            starts = STARTS if self.common.bins is None else NUMBER_STARTS
            shares = torch.tensor(starts, dtype=torch.float64)
            asked = replace(task, kind="vote", sent={**task.sent, "starts": {"shares": shares}})
            best = int(sum_replies(self.transport, asked)["loss"].argmin())
            start = {"shares": shares[best : best + 1]}
            done = self.progress.add(DoneStep("start", {"start": start}))
        return done.payload["start"]

    def train_main(self, trial: Trial) -> Run:
        """The main training, on all rows."""
        done = self.progress.find(str(trial))
        if done is not None:
            return Run(done.state, trial.rounds, dict(done.accepted))
        run = self.federate_trial(trial)
        payload = {STATE + key: bundle for key, bundle in run.state.items()}
        self.progress.add(DoneStep(str(trial), payload, run.accepted))
        return run

    def federate_trial(self, trial: Trial) -> Run:
        running = self.progress.running
        name = str(trial)
        recipe = self.common.recipe(self.common.candidate(trial))
        start = running[1] if running is not None and running[0] == name else None
        if start is None and self.salt is not None:
            start = start_run(recipe, f"{self.salt} {name}")
        return federate(
            self.transport,
            recipe,
            trial.rounds,
            sample=self.common.sample,
            evaluate=self.evaluate if trial.fold == MAIN else 0,
            start=start,
            trial=name,
            on_round=lambda run: self.progress.on_round(name, run),
        )

    def fit_ensembles(
        self,
        main: Trial,
        run: Run,
        folds: Sequence[DoneStep],
        one_shot: Params | None,
    ) -> None:
        """Tell every site to make its own model of what there is."""
        if self.progress.find("ensemble") is not None:
            return
        send = self.common.recipe(self.common.candidate(main)).algorithm.send
        sent = {f"main.{key}": bundle for key, bundle in send(run.state).items()}
        for place, step in enumerate(folds):
            sent |= {f"{place}.{key}": bundle for key, bundle in send(step.state).items()}
        task = Task(
            "ensemble",
            main.rounds + 1,
            sent,
            self.common.seed,
            accepted=run.accepted,
            trial=str(main),
        )
        if one_shot is not None:
            sent["one_shot"] = one_shot
            if folds:
                sent["start"] = self.choose_start(task)
        for _ in self.transport.exchange(task, sorted(self.transport.clients())):
            pass
        self.progress.add(DoneStep("ensemble"))
