"""The search space: what the sites may choose from together, and the trainings that decide.

Plain values, part of what all sites agree to: candidates and how they are compared, the name of a
training, and what every candidate shares, so that server and clients make the same recipe of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

from torch import nn

from ...algorithms import Algorithm, FedAvg, FedPer, Plan
from ...answers import HEARD, Bins
from ...core.aggregate import Aggregate, Mean
from ...core.lipschitz import Shaping, lipschitz_mlp
from ...core.metrics import check_metric
from ...core.nets import mlp, server
from ...core.one_shot import Basis, Link, OneShot, Posterior, Products
from ...core.ordinal import Ordinal, Start, ordered_mlp
from ...core.scaler import Scaler
from ...core.tree import Params
from ...errors import ConfigError, FedloreError
from ..loop import Recipe, Weights

Head = Literal["classes", "ordered", "shaped"]


@dataclass(frozen=True)
class Candidate:
    """What all sites would have in common. λ in training is 0 unless a candidate says so."""

    hears: bool = False  # the network gets the expert's rows as inputs
    plain: float = 0.0  # α: share of ordinary cross-entropy in the loss; 1 is FL+mask
    trusts: bool = False  # λ of each site's knowledge is in the loss, as FLwKM has it
    reread: bool = False  # the expert's word through his confusion, a distribution in the range
    head: Head = "classes"  # k free logits, a place and a width, or those and shapes kept
    start: Start = "none"  # of an ordered head: what the network's output is added to
    reach: float | None = None  # and how much of the whole scale one unit of output is
    private: bool = False  # and whether shift and width stay at the sites
    slope: float | None = None  # of a shaped head: how steep its trunk may be; None: the usual
    hidden: tuple[int, ...] | None = None  # None: the federation's
    soft: float = 0.0  # of a number: σ of the target, in bins
    lr: float | None = None  # None: the plan's, here and below
    decay: float | None = None  # weight decay
    clip: float | None = None  # largest norm of a batch gradient
    batch: int | None = None  # 0: all rows of a site in every step

    def __post_init__(self) -> None:
        if self.head not in get_args(Head):
            raise ConfigError(f"head must be classes, ordered or shaped, got '{self.head}'")
        if self.batch is not None and self.batch < 0:
            raise ConfigError(f"batch must not be negative, got {self.batch}")
        if self.private and self.head == "classes":
            raise ConfigError("private shift and width belong to head = ordered or shaped")
        if self.slope is not None and self.head != "shaped":
            raise ConfigError("slope belongs to head = shaped")
        if self.head == "shaped" and (self.reach is not None or self.reread):
            raise ConfigError("head = shaped has no reach and no reread")

    def __str__(self) -> str:
        if self.head != "classes":
            starts = {"none": "not centred", "middle": "centred on the range"}
            parts = [self.head, starts.get(self.start, "centred on the expert")]
            parts += ["hears the expert"] * (self.head == "shaped" and self.hears)
            parts += [] if self.slope is None else [f"slope {self.slope:g}"]
            parts += [] if self.reach is None else [f"width {self.reach:g}"]
            parts += ["linear"] * (self.hidden == ()) + ["last steps at the site"] * self.private
            parts += [] if self.decay is None else [f"decay {self.decay:g}"]
            return ", ".join(parts)
        said = "hears the expert" if self.hears else "does not hear the expert"
        more = ", trust in the loss" * self.trusts + ", expert reread" * self.reread
        return f"{said}, ordinary loss {self.plain:g}{more}"

    def plan(self, plan: Plan) -> Plan:
        """The federation's plan with what this candidate changes; last steps are private."""
        own = {n: getattr(self, n) for n in ("lr", "decay", "clip", "batch")}
        said = {name: value for name, value in own.items() if value is not None}
        if self.batch == 0:
            said["batch"] = None
        return replace(plan, plain=self.plain, finish=0, **said)

    def ordinal(self, classes: int, *, between: bool) -> Ordinal:
        """What its ordered head is told before training; a bell begins as wide as one unit."""
        options = Ordinal(self.start, hears=self.hears, reach=self.reach, between=between)
        if self.reach is None:
            return options
        return replace(options, width=options.width * options.unit(classes))

    def shaping(self, features: int) -> Shaping:
        """What a network that keeps shapes is told before training."""
        usual = Shaping(features, self.hears, self.start)
        return usual if self.slope is None else replace(usual, slope=self.slope)

    def algorithm(self, usual: Algorithm) -> Algorithm:
        """The federation's algorithm, or the one that keeps a head's shift and width at home."""
        return FedPer(private=("own",)) if self.private else usual


#: With few rows a step over all of them is quieter and cheaper than several over some.
_ORDERED = Candidate(
    hears=True,
    head="ordered",
    private=True,
    hidden=(32,),
    lr=0.03,
    decay=3e-2,
    clip=5.0,
    batch=0,
)
_RESIDUAL = replace(_ORDERED, start="expert", hidden=(64,), decay=1e-3, batch=None)

#: The approaches that stand beside lore in tables: FL+mask, and FLwKM.
RIVALS = (Candidate(plain=1.0), Candidate(trusts=True))

#: From simple to rich: at a tie the first wins.
UNORDERED = (
    *(Candidate(False, plain) for plain in (0.0, 0.2, 0.5)),
    *RIVALS,
    *(Candidate(True, plain) for plain in (0.0, 0.2, 0.5, 1.0)),
    *(Candidate(True, plain, reread=True) for plain in (0.2, 0.5, 1.0)),
    Candidate(False, 0.2, reread=True),
)
ORDERED = (
    _ORDERED,
    replace(_ORDERED, hidden=()),
    replace(_ORDERED, decay=0.1),
    replace(_ORDERED, start="expert"),
    *RIVALS,
    replace(_ORDERED, lr=0.01, decay=5e-3, batch=None),
    replace(_ORDERED, start="middle"),
    replace(_ORDERED, private=False),
    Candidate(),  # an order that is no help is not imposed
    Candidate(True, 0.5),
)
#: Of a number: bins in order, started from the expert's number or from nothing, or free bins.
NUMBERS = (
    replace(_RESIDUAL, reach=0.02),  # of an expert who is hardly ever off
    replace(_RESIDUAL, reach=0.15),  # and of one who often is
    replace(_RESIDUAL, start="none", reach=0.25),
    Candidate(True, 0.5, soft=1.0),
    Candidate(True, 0.0, soft=1.0),
    Candidate(False, 0.2, soft=1.0),
    *RIVALS,
)

#: Where sites have shapes: the same place and width from a network that keeps them, which hears at
#: most what moves as they say.
_SHAPED = replace(_ORDERED, hears=False, head="shaped")
SHAPED = (
    _SHAPED,
    replace(_SHAPED, hidden=()),
    replace(_SHAPED, hears=True, start="middle"),
    replace(_SHAPED, lr=0.01, decay=5e-3, batch=None),
    replace(_SHAPED, hears=True, start="expert"),
    replace(_SHAPED, private=False),
)
#: Of a number two, so that both are tried at full length: a steeper trunk can bend more, but begins
#: far off, since every feature with a shape counts for at least as much as the trunk can bend.
_OVER_EXPERT = replace(_SHAPED, hears=True, start="expert", batch=None)
SHAPED_NUMBERS = (
    replace(_OVER_EXPERT, lr=0.01, decay=5e-3),
    replace(_OVER_EXPERT, slope=1.0, decay=1e-2),
)

#: Features of the one-shot model: sums of more than a few for every row tell who was there
#: (docs/explain/leaks.md), and where columns are many their products bring next to nothing.
MOST_FEATURES = 100
MOST_LINKS = 6  # with which there are eight exchanges of sums

#: A range that is sharp bends as much around the expert; of a number it is wider than his error.
LINKS = (Link("middle", 0.9), Link("expert", 0.6))
NUMBER_LINKS = (Link("middle", 0.9), Link("expert", 0.9))


@dataclass(frozen=True)
class SearchSpace:
    """What a federation may choose from, and how it chooses.

    All candidates are tried on one fold by short trainings, the better ones by longer ones, two
    at full length, and the winner on every fold: at most five trainings of full length and of all
    rows, then the main one. `Trial` and `rungs` say how.
    """

    candidates: tuple[Candidate, ...] = UNORDERED  # combinations to try
    folds: int = 3  # of the cross-validation on a site's own rows
    one_shot: OneShot | None = None  # the one-shot model, where classes have an order
    links: tuple[Link, ...] = ()  # in which a range may bend it, tried beside it as it is
    finishes: tuple[int, ...] = (0, 80)  # last local steps to choose from, in private
    finish_rate: float = 0.1  # their learning rate, as a share of the plan's
    own: bool = True  # whether sites make models of their own
    metric: str = ""  # what decides trials, starts and own models; "": the likelihood, or errors

    def __post_init__(self) -> None:
        if not self.candidates or not self.finishes:
            raise ConfigError("candidates and finishes must hold at least one value")
        if self.folds < 2:
            raise ConfigError(f"folds must be at least 2, got {self.folds}")
        if len(self.links) > MOST_LINKS:
            raise ConfigError(
                f"at most {MOST_LINKS} links: every one is another sum of rows, got "
                f"{len(self.links)}"
            )

    @property
    def one_shots(self) -> tuple[OneShot, ...]:
        """The one-shot model as it is, and bent by each link."""
        if self.one_shot is None:
            return ()
        return (self.one_shot, *(replace(self.one_shot, link=link) for link in self.links))

    def read_posterior(self, sent: Params) -> tuple[OneShot, Posterior]:
        """The one-shot model that was chosen, from what the server sends of it."""
        return self.one_shot_at(sent), Posterior.of(sent)

    def one_shot_at(self, sent: Params) -> OneShot:
        """The one-shot model that the server asks about."""
        at, known = int(sent["link"]), self.one_shots
        if not 0 <= at < len(known):
            raise ConfigError(f"the search space has {len(known) - 1} links, got number {at}")
        return known[at]

    def with_flags(self, flags: tuple[int, ...]) -> "SearchSpace":
        """The same where these inputs say whether a value is missing."""
        one_shot = None if self.one_shot is None else replace(self.one_shot, flags=flags)
        return replace(self, one_shot=one_shot)

    def only(self, candidate: Candidate) -> "SearchSpace":
        """One fixed candidate, which needs no votes."""
        return replace(self, candidates=(candidate,))

    def refuse_dp(self) -> None:
        """Trials under a privacy budget, which they would spend many times over."""
        if len(self.candidates) > 1:
            raise ConfigError(
                "with differential privacy recipe = lore takes one fixed candidate, since every "
                f"trial would spend the budget again: got {len(self.candidates)} candidates"
            )


def default_space(
    features: int,
    *,
    ordered: bool = False,
    numbers: bool = False,
    shaped: bool = False,
    flags: tuple[int, ...] = (),
) -> SearchSpace:
    """The usual search space for classes, ordered classes, a number, or where shapes count."""
    if not ordered and not numbers:
        return SearchSpace()
    start: Start = "expert" if numbers else "none"
    richest: tuple[Products, ...] = ("quadratic", "squares", "linear")
    every = [Basis(terms) for terms in richest]
    if numbers and not shaped:  # of ordered classes curves were tried, and brought nothing
        every = [Basis("quadratic", curves=most) for most in (3, 2, 1)] + every
    offered = [OneShot(basis, start, flags=flags) for basis in every]
    few = [one for one in offered if int((one.groups(features) >= 0).sum()) <= MOST_FEATURES]
    one_shot = few[0] if few else offered[-1]
    usual = NUMBERS if numbers else ORDERED
    kept = SHAPED_NUMBERS if numbers else SHAPED
    links = () if shaped else NUMBER_LINKS if numbers else LINKS
    return SearchSpace(kept if shaped else usual, one_shot=one_shot, links=links)


MAIN = -1  # the fold of the main training: nothing is held back
MANY = 8  # candidates above which the better ones are tried a second time
_LEAST = 3  # rounds of the shortest trial, below which a vote says nothing


@dataclass(frozen=True)
class Trial:
    """One training: a candidate, the fold that it leaves out, and its length in rounds."""

    candidate: int
    fold: int
    rounds: int

    def __str__(self) -> str:
        fold = "main" if self.fold == MAIN else self.fold
        return f"{self.candidate}/{fold}/{self.rounds}"

    @staticmethod
    def read(text: str) -> "Trial":
        """The trial that a task names.

        >>> Trial.read("3/main/40") == Trial(3, MAIN, 40)
        True
        """
        parts = text.split("/")
        if len(parts) == 3 and parts[1] == "main":
            parts[1] = "0"
            fold = MAIN
        elif len(parts) == 3 and parts[1].isdecimal():
            fold = int(parts[1])
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            raise FedloreError(f"a trial is named candidate/fold/rounds, got '{text[:40]}'")
        return Trial(int(parts[0]), fold, int(parts[2]))


def rungs(candidates: int, rounds: int) -> list[tuple[int, int]]:
    """Successive halving on one fold: how many candidates are trained for how many rounds each.

    The first rung costs at most two trainings of full length, the last has two, one between one.

    >>> rungs(12, 60), rungs(12, 20), rungs(8, 40), rungs(1, 40)
    ([(12, 5), (4, 15), (2, 60)], [(12, 3), (4, 5), (2, 20)], [(8, 5), (2, 40)], [])
    """
    found = []
    left = candidates
    if left > 2:
        length = max(rounds // left, min(_LEAST, rounds))
        left = min(left, 2 * rounds // length)
        found.append((left, length))
        if left > MANY:
            left = math.ceil(left / 3)
            found.append((left, rounds // left))
    if left > 1:
        found.append((2, rounds))
    return found


def untried_candidates(candidates: Sequence[Candidate], rounds: int) -> Sequence[Candidate]:
    """Those for which there are too few rounds: the last ones.

    >>> len(untried_candidates([Candidate()] * 12, 10)), len(untried_candidates([Candidate()], 10))
    (6, 0)
    """
    tried = rungs(len(candidates), rounds)
    return candidates[tried[0][0] :] if tried else ()


def cost(candidates: int, rounds: int, folds: int) -> float:
    """Trainings of full length and of all rows before the main one.

    >>> round(cost(12, 60, 3), 2)
    4.0
    """
    steps = rungs(candidates, rounds)
    tried = sum(count * length for count, length in steps)
    # the winner's training on the first fold is one of the last rung, where there was one
    rest = (folds - 1 if steps else folds) * rounds
    return (1 - 1 / folds) * (tried + rest) / rounds


ModelMaker = Callable[[bool], nn.Module]  # hears -> a fresh server model with a head of classes


@dataclass(frozen=True, eq=False)
class Agreement:
    """A federation that chooses its recipe; made of its terms on either side."""

    features: int
    classes: int  # k, or the number of bins
    search_space: SearchSpace
    plan: Plan = field(default_factory=Plan)
    rounds: int = 10
    seed: int = 0
    sample: float = 1.0
    algorithm: Algorithm = field(default_factory=FedAvg)
    weights: Weights = "equal"
    aggregate: Aggregate = field(default_factory=Mean)
    scaler: Scaler | None = None  # of the features alone
    hidden: tuple[int, ...] = (64, 64)
    bins: Bins | None = None  # of a number
    ordered: bool = False
    make_model: ModelMaker | None = None  # in place of a perceptron, in one process
    device: str | None = None

    def __post_init__(self) -> None:
        check_metric(self.search_space.metric, numbers=self.bins is not None)

    def candidate(self, trial: Trial) -> Candidate:
        """What a trial tries; one that is not in the search space was never agreed to."""
        if trial.candidate >= len(self.search_space.candidates):
            raise ConfigError(
                f"the search space has {len(self.search_space.candidates)} candidates, number "
                f"{trial.candidate} was asked for"
            )
        return self.search_space.candidates[trial.candidate]

    def recipe(self, candidate: Candidate) -> Recipe:
        """The same on either side: even the initial weights follow from the seed."""
        if candidate not in self._recipes:
            self._recipes[candidate] = self._make_recipe(candidate)
        return self._recipes[candidate]

    @cached_property
    def _recipes(self) -> dict[Candidate, Recipe]:
        return {}

    def _make_recipe(self, candidate: Candidate) -> Recipe:
        return Recipe(
            self.model(candidate),
            candidate.algorithm(self.algorithm),
            candidate.plan(self.plan),
            self.seed,
            self.scale(candidate),
            self.weights,
            self.aggregate,
            one_shot=self.search_space.one_shot,
        )

    def model(self, candidate: Candidate) -> nn.Module:
        """A fresh server model with the head of a candidate."""
        hidden = self.hidden if candidate.hidden is None else candidate.hidden
        told = HEARD if self._hears_in_columns(candidate) else 0
        if candidate.head == "ordered":
            options = candidate.ordinal(self.classes, between=self.bins is not None)
            made: nn.Module = ordered_mlp(
                self.features, self.classes, hidden=hidden, options=options, seed=self.seed
            )
        elif candidate.head == "shaped":
            shaping = candidate.shaping(self.features)
            made = lipschitz_mlp(self.classes, shaping, hidden=hidden, seed=self.seed)
        elif self.make_model is not None:
            made = server(self.make_model(candidate.hears))
        else:
            hears = candidate.hears and not told
            made = mlp(
                self.features + told, self.classes, hidden=hidden, hears=hears, seed=self.seed
            )
        return made if self.device is None else made.to(self.device)

    def scale(self, candidate: Candidate) -> Scaler | None:
        """The common scaling; what a network hears of numbers is on its scale already."""
        if self.scaler is None or not self._hears_in_columns(candidate):
            return self.scaler
        return self.scaler.widen(HEARD)

    def _hears_in_columns(self, candidate: Candidate) -> bool:
        """Whether the expert's word comes as columns of the rows."""
        return self.bins is not None and candidate.hears and candidate.head == "classes"

    def with_scaler(self, scaler: Scaler | None) -> "Agreement":
        return replace(self, scaler=scaler)
