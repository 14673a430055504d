"""The plain words of a report: what approaches are, what ranges mean, what to beware of."""

from collections.abc import Iterable, Mapping

from ..words import say

MEANINGS = {
    "local best": "a site on its own: the best of the models it can make itself (linear, extra "
    "trees, boosted trees; with and without the expert's word), chosen by cross-validation on its "
    "own rows, behind the same range",
    "ML": "each client trains alone, without knowledge",
    "P-KM": "the expert's own answer; nobody learns",
    "MLwKM": "each client trains alone, with its knowledge",
    "FL": "one network trained together (federated), without knowledge",
    "FLwKM": "one network trained together, seen through each client's knowledge (the paper's)",
    "FL+mask": "the weights of FL, with the knowledge added only when predicting",
    "lore": "our own recipe: a shared model chosen by trials on training rows, and at each site an "
    "ensemble of it with the site's own models and the expert, weights private",
    "lore 1": "our first recipe, one fixed combination: the network hears the expert, half of the "
    "loss is ordinary cross-entropy, λ = 0",
}

#: The paper's abbreviations in a few words, for a line below a table.
SHORT = {
    "ML": "a network of each site alone",
    "P-KM": "the expert alone",
    "MLwKM": "ML with knowledge",
    "FL": "one federated network",
    "FLwKM": "FL with knowledge (the paper's method)",
    "FL+mask": "FL with the range added when predicting",
}

WHOSE_WEIGHTS = {
    "local": "weights that a client trained for itself",
    "ensemble": "all that a site has: the shared network, its own models, its expert",
    "shared": "the network that all clients trained together, as the last round left it",
    "tuned": "the shared network after one more round of training at the client itself",
    "expert": "no weights: what the expert says",
}

METRICS = (
    "Test accuracy is the share of a client's own test rows that were predicted right; outside the "
    "range is the share of predictions that the client's knowledge does not allow. "
    "Means count every client the same."
)
INTERVALS = (
    "The number after ± is half of the 95 % interval of the mean over {seeds} seeds (Student's t)."
)
ONE_SEED = "There is only one seed, so nothing can be said about chance: no intervals are shown."

_DATASETS = {
    "covtype": "Covertype",
    "fmnist": "Fashion-MNIST",
    "coke": "Simulated coke",
    "coke-real": "Real cokes",
}

_RANGES = {
    "oracle": "oracle ranges",
    "expert": "experts' ranges",
    "conformal": "conformal ranges",
    "none": "no ranges",
}

_ORACLE = (
    "Oracle ranges: read these numbers as an upper bound. The range of every test row was built "
    "from its true label, as the paper's authors did, so it always contains the right answer. "
    "Nobody has such a range in practice. That no prediction leaves it, and a good part of the "
    "accuracy of every approach with knowledge, comes from knowing the answer beforehand."
)
_CONFORMAL = (
    "Conformal ranges{level}: sets that each client worked out from its own training rows, "
    "without looking at any test label. They are meant to hold the true class in that share of "
    "rows, not in all of them; where one misses, an approach that keeps to it must be wrong."
)
_SIMULATED = (
    "Simulated data: no plant measured any of this. Coals, coke and experts come from a "
    "simulator built on published facts, so the numbers show how the approaches behave, not what "
    "a real plant would gain."
)


def dataset_name(dataset: str) -> str:
    """A data set as people call it."""
    return say(_DATASETS.get(dataset, dataset))


def range_name(kind: str) -> str:
    """A kind of range as people call it.

    >>> range_name("conformal95")
    'conformal ranges at 95 %'
    """
    level = kind.removeprefix("conformal")
    if level != kind and level:
        return say("conformal ranges at {level} %", level=level)
    return say(_RANGES[kind]) if kind in _RANGES else f"{kind} ranges" if kind else ""


def caveats(dataset: str, kind: str) -> list[str]:
    """What a reader has to know before reading the numbers of a case."""
    said = []
    if dataset == "coke" or "simulat" in dataset.lower():
        said.append(_SIMULATED)
    if kind == "oracle":
        said.append(_ORACLE)
    if kind.startswith("conformal"):
        level = kind.removeprefix("conformal")
        said.append(say(_CONFORMAL, level=say(" at {level} %", level=level) if level else ""))
    return said


def seeds_in_words(rows: Iterable[Mapping[str, object]]) -> str:
    """How many seeds rows stand on.

    >>> seeds_in_words([{"seed": 0}, {"seed": 1}]), seeds_in_words([{"seed": 3}])
    ('2 seeds together', 'one seed')
    """
    seeds = {row.get("seed") for row in rows}
    return f"{len(seeds)} seeds together" if len(seeds) > 1 else "one seed"


def spread(seeds: int, mark: str) -> str:
    """What the whiskers or bands of a plot are, if it has any."""
    return f"{mark} are 95 % intervals over {seeds} seeds." if seeds > 1 else "One seed."


def percent(fraction: float) -> str:
    """A fraction in percent, without digits it does not have.

    >>> percent(0.01), percent(0.3), percent(0.005)
    ('1', '30', '0.5')
    """
    return f"{100 * fraction:.6g}"
