"""The approaches that are compared, as values.

First what a site would do on its own, its local best model; then the paper's five (Fan et al.
2022, section 6.1); FL+mask, which its authors' code contains and the paper leaves out; and lore,
our own recipe.
"""

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ..algorithms import Algorithm, Alone, FedAvg
from ..engine import Fitted
from ..models.client import Member
from ..models.own.baseline import missing_learners

_C = TypeVar("_C", bound=Member[Any])


@dataclass(frozen=True)
class Approach:
    """Who learns, and where the knowledge enters."""

    name: str
    model: str  # whose weights are scored
    algorithm: Algorithm | None  # None: nobody learns
    trained: bool = False  # knowledge in the training loss
    guarded: bool = False  # knowledge at prediction
    hears: bool = False  # knowledge as input of the network
    plain: float = 0.0  # α, where it is not the plan's own
    trust: float | None = None  # λ, where it is not the client's own
    # what is common is chosen by trials on training rows, the site's mixture by each client
    chosen: bool = field(default=False, repr=False)
    # each site alone makes several kinds of model and takes its best
    alone: bool = field(default=False, repr=False)

    @property
    def silent(self) -> bool:
        """Whether nobody learns: the expert by himself."""
        return self.algorithm is None and not self.alone


#: What a site gets without us: never left out because it wins.
LOCAL_BEST = Approach("local best", "local", None, guarded=True, alone=True)
ML = Approach("ML", "local", Alone())
PKM = Approach("P-KM", "expert", None, guarded=True)
MLWKM = Approach("MLwKM", "local", Alone(), trained=True, guarded=True)
FL = Approach("FL", "shared", FedAvg())
FLWKM = Approach("FLwKM", "shared", FedAvg(), trained=True, guarded=True)
FL_MASK = Approach("FL+mask", "shared", FedAvg(), guarded=True)
#: Our own recipe: a server model chosen by trials, and at each site a mixture of all it has.
LORE = Approach("lore", "ensemble", FedAvg(), trained=True, guarded=True, chosen=True)
#: Our first recipe, one fixed combination chosen beforehand: the network hears the expert, half
#: of the loss is ordinary cross-entropy, the range guards the output, and λ is 0, since what the
#: P-KM says is learned from rather than mixed in.
LORE_1 = Approach(
    "lore 1", "shared", FedAvg(), trained=True, guarded=True, hears=True, plain=0.5, trust=0.0
)

APPROACHES = (LOCAL_BEST, ML, PKM, MLWKM, FL, FLWKM, FL_MASK, LORE)


def training(approach: Approach) -> Approach:
    """The part of an approach that its weights depend on: FL and FL+mask share theirs."""
    trust = approach.trust if approach.trained else None
    return replace(approach, name="", guarded=approach.trained, trust=trust)


def chosen_in(fitted: Fitted[Any] | None) -> dict[str, str]:
    """What the trials of a training chose for all, where there were trials."""
    said = [] if fitted is None else [row["recipe"] for row in fitted.history if "recipe" in row]
    return {"chosen": str(said[-1])} if said else {}


def trust_client(client: _C, trust: float | None) -> _C:
    """The client with another λ, where one is said: the same for all rows."""
    if trust is None:
        return client
    return client.with_knowledge(replace(client.knowledge, trust=trust, row_trust=None))


def trust_of(approach: Approach, clients: float) -> float | None:
    """λ of an approach whose clients trust their expert so far; None where it has no use for it."""
    if not approach.guarded or approach.algorithm is None or approach.chosen:
        return None
    return clients if approach.trust is None else approach.trust


def local_best_words() -> str:
    """What the local baseline is on this machine, in one sentence; what is missing is named."""
    lacking = missing_learners()
    linear = "each site alone, weighed by cross-validation: linear models"
    if not lacking:
        return f"{linear}, extra trees and boosted trees, with and without the expert's word"
    (how,) = set(lacking.values())
    return (
        f"{linear} only, with and without the expert's word: {' and '.join(lacking)} are not "
        f"installed ({how}), so this baseline is weaker than it should be"
    )


def effort(approach: Approach) -> float:
    """How long an approach takes, in ordinary trainings and roughly: what time is left goes by it.

    Measured on the demo, where a site's own models take longest: lore finds them there.
    """
    if approach.alone:
        return 4.0 if missing_learners() else 50.0
    if approach.chosen:
        return 10.0
    return 0.05 if approach.algorithm is None or approach.trained != approach.guarded else 1.0
