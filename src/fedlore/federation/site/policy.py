"""What a site demands, and what it bears: its policy wins over whatever the coordinator asks."""

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from ...algorithms import ALGORITHMS, Plan
from ...core.models import MODELS
from ...core.wire import SCORES, WORTH, Task
from ..remote import Refusal
from ..terms import Terms, describe_difference, fedlore_version

_OWN: dict[str, Collection[str]] = {"model": MODELS, "algorithm": ALGORITHMS}
_FOLDS, _CANDIDATES = 50, 500  # of a search space; each is work, and a name to keep
_BESIDE = 2  # columns that a network may hear besides features and classes


@dataclass(frozen=True)
class Policy:
    """[policy]: what this site demands, and what it is willing to report."""

    min_participants: int = 2  # fewer sites in a training are refused
    max_participants: int = 1000  # a share of noise counts on as many as are said to take part
    max_rounds: int = 1000  # of one training
    secure_aggregation: bool = False  # demands that single uploads are hidden
    steady_cohort: bool = False  # who drops out of a training makes it begin anew
    max_epsilon: float | None = None  # demands differential privacy within this budget
    max_delta: float = 1e-3  # where there is a budget
    central_noise: bool = False  # whether the coordinator may be trusted to add the noise
    models: tuple[str, ...] = ()  # kinds of model; empty: any of fedlore's own
    algorithms: tuple[str, ...] = ()  # likewise
    sources: tuple[str, ...] = ()  # kinds of knowledge of other packages that this site loads
    metrics: tuple[str, ...] = SCORES  # that may leave
    columns: tuple[str, ...] = ()  # of which others may hear what they are worth here
    filters: tuple[str, ...] = ()  # filters of other packages; empty: none of them
    moments: bool = True  # sums and squares of the features, for the common scaling
    max_parameters: int = 10_000_000  # of a model
    max_steps: int = 100_000  # of the local training, in one task
    max_questions: int = 20_000  # a day
    max_seconds: float = 1800.0  # that one task may take
    max_memory: int = 4000  # megabytes that tasks may take beyond what this site needs at rest

    def refuse(self, terms: Terms, task: Task) -> None:
        """Raise the first reason not to take part; it names nothing that is private."""
        _raise_first(self._of_run(terms, task))
        self.refuse_terms(terms)

    def scores(self, terms: Terms) -> set[str]:
        """The names of all numbers about models that may be told under these terms."""
        if not terms.privacy.scores:  # they stand on rows, and no privacy budget covers them
            return set()
        places = [place for place, n in enumerate(terms.schema.names) if n in self.columns]
        return {*self.metrics, *(one.format(place) for one in WORTH for place in places)}

    def refuse_terms(self, terms: Terms) -> None:
        """Raise where terms are not to be agreed to, whatever is asked under them."""
        _raise_first(self._of_terms(terms))
        _raise_first(self._sizes(terms))

    def refuse_parts(self, terms: Terms) -> None:
        """Raise where a model or algorithm may not be loaded here."""
        _raise_first(self._parts(terms))

    def refuse_work(self, plan: Plan, rows: int, parameters: int) -> None:
        """Raise where a training is more than this site bears."""
        steps = max(plan.local_steps(rows), plan.finish)
        if steps > self.max_steps:
            raise Refusal(f"policy: at most {self.max_steps} local steps, the plan has more")
        if parameters > self.max_parameters:
            raise Refusal(f"policy: at most {self.max_parameters} parameters, the model has more")

    def _parts(self, terms: Terms) -> Iterator[tuple[bool, str]]:
        for what, name in terms.parts():
            allowed = {"model": self.models, "algorithm": self.algorithms}[what]
            reason = f"policy: {what} '{name}' is not allowed"
            own = name in _OWN[what]
            if not own:  # code of another package: an empty list is no consent to load it
                reason += f": it is of another package and not named in {what}s"
            yield name not in allowed and (bool(allowed) or not own), reason

    def _sizes(self, terms: Terms) -> Iterator[tuple[bool, str]]:
        """What can be told of the size of the work before any of it is done."""
        search_space = terms.search_space
        candidates = () if search_space is None else search_space.candidates
        if search_space is not None:
            yield (
                search_space.folds > _FOLDS,
                f"policy: at most {_FOLDS} folds, asked for {search_space.folds}",
            )
            count = len(candidates)
            yield count > _CANDIDATES, f"policy: at most {_CANDIDATES} candidates, got {count}"
            longest = max(search_space.finishes)
            reason = f"policy: at most {self.max_steps} local steps, asked for {longest}"
            yield longest > self.max_steps, reason
        most = f"policy: at most {self.max_parameters} parameters"
        hidden = [terms.model.hidden] if terms.model.kind == "mlp" else []
        for widths in [*hidden, *(one.hidden for one in candidates if one.hidden is not None)]:
            count = _parameters(terms, widths)
            yield count > self.max_parameters, f"{most}, the model has {count}"
        if search_space is not None and search_space.one_shot is not None:
            one_shot = search_space.one_shot
            count = sum(one_shot.basis.counts(one_shot.columns(terms.features))) ** 2
            yield count > self.max_parameters, f"{most}, the sums of one round have up to {count}"

    def _of_run(self, terms: Terms, task: Task) -> Iterator[tuple[bool, str]]:
        asked, own = terms.participants, self.min_participants
        cohort = math.ceil(terms.sample * asked - 1e-9)
        yield (
            terms.version != fedlore_version(),
            describe_difference(site=fedlore_version(), coordinator=terms.version),
        )
        yield asked < own, f"policy: at least {own} participants, this federation has {asked}"
        yield (
            asked > self.max_participants,
            f"policy: at most {self.max_participants} participants, this federation says {asked}",
        )
        yield (
            terms.least > cohort,
            f"the terms count on {terms.least} answers in a round, and ask {cohort} sites",
        )
        yield (
            max(terms.rounds, task.round - 1) > self.max_rounds,
            f"policy: at most {self.max_rounds} rounds, asked for {terms.rounds}",
        )
        yield (
            task.kind == "moments" and not self.moments,
            "policy: sums of features are not given away (scale = false needs none)",
        )
        yield (
            task.kind == "gram" and not self.moments,
            "policy: sums of rows are not given away (moments = false)",
        )

    def _of_terms(self, terms: Terms) -> Iterator[tuple[bool, str]]:
        epsilon, delta = terms.privacy.epsilon, terms.privacy.delta
        yield (
            self.secure_aggregation and not terms.privacy.secure_aggregation,
            "policy: secure aggregation is demanded, and this run has none",
        )
        yield (
            self.max_epsilon is not None and (epsilon is None or epsilon > self.max_epsilon),
            "policy: differential privacy is demanded with a budget of at most "
            f"{self.max_epsilon}, this run has {epsilon}",
        )
        yield (
            delta > self.max_delta,
            f"policy: delta of at most {self.max_delta:g} is demanded, this run has {delta:g}",
        )
        yield (
            terms.privacy.noise_at == "central" and not self.central_noise,
            "policy: noise is added here, and this run leaves it to the coordinator "
            "(central_noise = true would trust it)",
        )
        yield from self._parts(terms)
        for one in terms.privacy.plugged:
            why = f"policy: filter '{one}' of another package is not allowed"
            yield one not in self.filters, why


def _raise_first(rules: Iterable[tuple[bool, str]]) -> None:
    for broken, reason in rules:
        if broken:
            raise Refusal(reason)


def _parameters(terms: Terms, hidden: tuple[int, ...]) -> int:
    """How many parameters a perceptron has at most."""
    classes = len(terms.schema.classes)
    widths = [len(terms.schema.features) + classes + _BESIDE, *hidden, classes]
    ensemble = widths[0] * classes  # a linear part beside the hidden layers
    return ensemble + sum((before + 1) * after for before, after in pairwise(widths))
