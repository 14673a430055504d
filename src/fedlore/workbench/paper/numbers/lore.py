"""lore for numbers: what is common is chosen by trials, what is private by each site.

Every site keeps a quarter of its training rows for validation. Each candidate is trained on the
rest; the sites report one validation RMSE each and the mean decides. Then the winner is trained on
all training rows. λ at prediction is each site's own choice, by the same rows. No test row is
looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....algorithms import Algorithm, Ditto, FedAvg, Plan
from ....core.nets import mlp
from ....core.rng import stream
from ....engine import Fitted, NumberClient, fit
from ....knowledge.numbers.bins import Bins
from ....knowledge.numbers.measured import Measured
from ....knowledge.numbers.told import HEARD
from ....personal.regressor import PersonalRegressor
from ....personal.reliance import best_reliance


@dataclass(frozen=True)
class NumberCandidate:
    """One way to train; the range guards the prediction in all of them."""

    name: str
    algorithm: Algorithm
    hears: bool = False  # the network is told where the expert points
    ordinal: float = 0.0  # σ of the loss in bins; 0 is the paper's cross-entropy
    plain: float = 1.0  # α: share of the loss that does not see the range

    @property
    def uses_knowledge(self) -> bool:
        """Whether training sees any of it; prediction always does."""
        return self.hears or self.plain < 1.0


@dataclass(frozen=True)
class Chosen:
    """What the trials decided."""

    candidate: NumberCandidate
    reliance: dict[str, float]  # λ at prediction, each site's own
    trials: dict[str, float]  # mean validation RMSE of every candidate


def candidates(k: int) -> tuple[NumberCandidate, ...]:
    """The few that are tried: the shared model as the paper trains it, and own models.

    Own ones are Ditto's, a private model beside the shared one with a weak pull; their loss is
    ordinal, narrow or wide, and they hear the expert (then half of the loss sees the range) or not.
    """
    narrow, wide = widths(k)
    own = Ditto(pull=0.05)
    return (
        NumberCandidate("shared", FedAvg()),
        NumberCandidate("own, narrow", own, ordinal=narrow),
        NumberCandidate("own, wide", own, ordinal=wide),
        NumberCandidate("own, narrow, hearing", own, hears=True, ordinal=narrow, plain=0.5),
        NumberCandidate("own, wide, hearing", own, hears=True, ordinal=wide, plain=0.5),
    )


def widths(k: int) -> tuple[float, float]:
    """A narrow ordinal loss, 3/4 of a bin, and a wide one, a twentieth of the bounds; in bins."""
    return 0.75, max(1.0, 0.05 * k)


@dataclass(frozen=True)
class NumberSetting:
    """What all trainings of one comparison share."""

    bins: Bins
    plan: Plan
    rounds: int
    hidden: tuple[int, ...]
    seed: int

    def train(
        self,
        clients: Sequence[NumberClient],
        algorithm: Algorithm,
        *,
        hears: bool = False,
        ordinal: float = 0.0,
        plain: float = 0.0,
    ) -> Fitted[PersonalRegressor]:
        """Train with the same start and the same local steps as everything else."""
        inputs = clients[0].data.x.shape[1] + HEARD * hears
        return fit(
            clients,
            mlp(inputs, self.bins.k, hidden=self.hidden, seed=self.seed),
            task="regression",
            bins=self.bins,
            ordinal=ordinal,
            hears=hears,
            algorithm=algorithm,
            plan=replace(self.plan, plain=plain),
            rounds=self.rounds,
            seed=self.seed,
            workers=1,
        )

    def candidate(
        self, clients: Sequence[NumberClient], one: NumberCandidate
    ) -> Fitted[PersonalRegressor]:
        """Train one candidate, with λ = 0: the P-KM is heard or not, but not mixed in."""
        silent = [replace(c, knowledge=replace(c.knowledge, trust=0.0)) for c in clients]
        if not one.uses_knowledge:
            return self.train([c.bare() for c in silent], one.algorithm, ordinal=one.ordinal)
        return self.train(
            silent, one.algorithm, hears=one.hears, ordinal=one.ordinal, plain=one.plain
        )


Cache = dict[str, Fitted[PersonalRegressor]]  # trainings that do not depend on the kind of range


def choose_number_candidate(
    clients: Sequence[NumberClient],
    setting: NumberSetting,
    options: Sequence[NumberCandidate],
    cache: Cache,
) -> Chosen:
    """Try all candidates on part of the training rows, and let the sites' mean error decide."""
    parts = [_split(client, setting.seed) for client in clients]
    fewer = [replace(c, data=kept) for c, (kept, _) in zip(clients, parts, strict=True)]
    errors: dict[str, float] = {}
    reliances: dict[str, dict[str, float]] = {}
    for one in options:
        fitted = _train(cache, "trial", one, fewer, setting)
        best = {
            c.id: best_reliance(fitted.model(c.id).with_knowledge(c.knowledge), held)
            for c, (_, held) in zip(clients, parts, strict=True)
        }
        errors[one.name] = sum(error for _, error in best.values()) / len(clients)
        reliances[one.name] = {name: value for name, (value, _) in best.items()}
    winner = min(options, key=lambda one: errors[one.name])
    return Chosen(winner, reliances[winner.name], errors)


def train_chosen(
    chosen: Chosen, clients: Sequence[NumberClient], setting: NumberSetting, cache: Cache
) -> Fitted[PersonalRegressor]:
    """The winner on all training rows."""
    return _train(cache, "final", chosen.candidate, clients, setting)


def _train(
    cache: Cache,
    what: str,
    one: NumberCandidate,
    clients: Sequence[NumberClient],
    setting: NumberSetting,
) -> Fitted[PersonalRegressor]:
    """A candidate trained, or found again where the kind of range makes no difference."""
    if one.uses_knowledge:
        return setting.candidate(clients, one)
    key = f"{what} {one.name}"
    if key not in cache:
        cache[key] = setting.candidate(clients, one)
    return cache[key]


def _split(client: NumberClient, seed: int) -> tuple[Measured, Measured]:
    """Three quarters of the training rows, and the rest for validation."""
    return client.data.split(0.75, stream(seed, "validation", client.id))
