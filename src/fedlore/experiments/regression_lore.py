"""lore for numbers: what is common is chosen by short trials, what is private by each site.

Every site keeps a quarter of its training rows for validation. Each candidate is trained for half
the rounds on the rest; the sites report one validation RMSE each and the mean decides. Then the
winner is trained on all training rows. λ at prediction is each site's own choice, by the same rows.
No test row is looked at.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..algorithms import Algorithm, Ditto, FedAvg, Plan
from ..engine import FittedNumbers, NumberClient, fit
from ..nets import mlp
from ..regression import HEARD, Bins, Measured, best_reliance
from ..rng import stream


@dataclass(frozen=True)
class Candidate:
    """One way to train; the range guards the prediction in all of them."""

    name: str
    algorithm: Algorithm
    hears: bool = False  # the network is told where the expert points
    ordinal: float = 0.0  # σ of the loss in bins; 0 is the paper's cross-entropy
    plain: float = 1.0  # α: share of the loss that does not see the range


@dataclass(frozen=True)
class Chosen:
    """What the trials decided."""

    candidate: Candidate
    reliance: dict[str, float]  # λ at prediction, each site's own
    trials: dict[str, float]  # mean validation RMSE of every candidate


def candidates(k: int) -> tuple[Candidate, ...]:
    """The few that are tried first: the shared model, and own ones by two ordinal losses.

    Ditto keeps a private model beside the shared one; its pull is weak.
    """
    narrow, wide = 0.75, max(1.0, 0.05 * k)  # the latter: a twentieth of the bounds
    return (
        Candidate("shared", FedAvg()),
        Candidate("own, narrow", Ditto(pull=0.05), ordinal=narrow),
        Candidate("own, wide", Ditto(pull=0.05), ordinal=wide),
    )


def hearing(one: Candidate) -> Candidate:
    """The same with a network that hears the expert, and the range in half of its loss."""
    return replace(one, name=f"{one.name}, hearing", hears=True, plain=0.5)


@dataclass(frozen=True)
class Setting:
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
        rounds: int | None = None,
    ) -> FittedNumbers:
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
            rounds=rounds or self.rounds,
            seed=self.seed,
            workers=1,
        )

    def candidate(
        self, clients: Sequence[NumberClient], one: Candidate, rounds: int | None = None
    ) -> FittedNumbers:
        """Train one candidate; one that neither hears nor learns from the range trains bare."""
        silent = [replace(c, knowledge=replace(c.knowledge, trust=0.0)) for c in clients]
        if not one.hears and one.plain == 1.0:
            return self.train(
                [c.bare() for c in silent], one.algorithm, ordinal=one.ordinal, rounds=rounds
            )
        return self.train(
            silent,
            one.algorithm,
            hears=one.hears,
            ordinal=one.ordinal,
            plain=one.plain,
            rounds=rounds,
        )


Cache = dict[str, FittedNumbers]  # trainings that do not depend on the kind of range


def choose(
    clients: Sequence[NumberClient],
    setting: Setting,
    options: Sequence[Candidate],
    cache: Cache,
) -> Chosen:
    """Try candidates on part of the training rows, and let the sites' mean error decide.

    The best of them is tried once more with a network that hears.
    """
    parts = [_split(client, setting.seed) for client in clients]
    fewer = [replace(c, data=kept) for c, (kept, _) in zip(clients, parts, strict=True)]
    held = {c.id: rows for c, (_, rows) in zip(clients, parts, strict=True)}
    errors: dict[str, float] = {}
    reliances: dict[str, dict[str, float]] = {}

    def attempt(one: Candidate) -> None:
        fitted = _cached(
            cache,
            f"trial {one.name}",
            one,
            lambda: setting.candidate(fewer, one, setting.rounds // 2),
        )
        best = {
            c.id: best_reliance(fitted.model(c.id).with_knowledge(c.knowledge), held[c.id])
            for c in clients
        }
        errors[one.name] = sum(error for _, error in best.values()) / len(clients)
        reliances[one.name] = {name: value for name, (value, _) in best.items()}

    for one in options:
        attempt(one)
    best_deaf = min(options, key=lambda one: errors[one.name])
    attempt(hearing(best_deaf))
    winner = min((best_deaf, hearing(best_deaf)), key=lambda one: errors[one.name])
    return Chosen(winner, reliances[winner.name], errors)


def train_chosen(
    chosen: Chosen, clients: Sequence[NumberClient], setting: Setting, cache: Cache
) -> FittedNumbers:
    """The winner on all training rows."""
    one = chosen.candidate
    return _cached(cache, f"final {one.name}", one, lambda: setting.candidate(clients, one))


def _cached(
    cache: Cache, key: str, one: Candidate, train: Callable[[], FittedNumbers]
) -> FittedNumbers:
    if one.hears or one.plain < 1.0:
        return train()
    if key not in cache:
        cache[key] = train()
    return cache[key]


def _split(client: NumberClient, seed: int) -> tuple[Measured, Measured]:
    """Three quarters of the training rows, and the rest for validation."""
    return client.data.split(0.75, stream(seed, "validation", client.id))
