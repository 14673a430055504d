"""Four simulated coking plants: 17 features of a coal blend, 20 grades of coke, honest experts.

Nothing here was measured at a plant. The simulation is fixed by published facts:

- CSR rises with reflectance in an arch and with fluidity, and falls with the modified basicity
  index: 48.6 Ro + 3.6 log10 MF - 6.9 MBI on 26 traded coals, curvature -88.6 on 61 others.
- Wide reflectance histograms and inerts outside 25-35 % make poor coke. The other effects have
  the accepted sign; their sizes are ours, so that what an expert leaves out matters.
- Ash, Vdaf, level of CSR and the line of CSR on CRI of each plant are those of a public source;
  what the coals leave of a level is made up by ovens and practice, within 4 points.
- CSR cannot be repeated better than about 1 to 1.5 points (ACARP C29071 on ISO 18894).
- CSR equations are biased away from home (North et al. 2018, doi:10.1007/s40789-018-0217-2), so
  each plant has calibrated its own on the averages of the year before.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedlore import Examples
from fedlore.core.rng import stream
from fedlore.errors import FedloreError
from fedlore.knowledge import Knowledge, Mask

from .coal import CoalTable, blend_coals, deliveries, market, proportions
from .experts import (
    EDGES,
    NOISE,
    UNSEEN,
    Bounds,
    Equation,
    Expert,
    ExpertVerdict,
    PlantLaw,
    arch,
    grade,
    kobe,
    refit,
    strength,
)


@dataclass(frozen=True)
class Profile:
    """What makes a plant: its coals, its habits, its ovens and its expert."""

    id: str
    coals: dict[str, int]  # class -> how many it buys
    ash: float  # the ash it buys, %
    steady: int  # Dirichlet parameter of the daily shares
    swing: float  # size of their slow drift
    fewest: int  # coals in a blend; the most are 7
    moisture: float  # %
    hours: float  # coking time
    level: float  # mean CSR it works for
    line: tuple[float, float, float]  # CSR = a - b CRI with residual s
    equation: Equation


PROFILES = (
    Profile(  # after source 2: low ash, wide rank
        id="plant-1",
        coals={"JM": 3, "FM": 2, "1/3JM": 3, "QM": 2},
        ash=6.6,
        steady=2,
        swing=0.6,
        fewest=3,
        moisture=9.0,
        hours=19.0,
        level=46.5,
        line=(94.2, 1.14, 2.6),
        equation=arch,
    ),
    Profile(  # after source 3: high ash, low volatile matter
        id="plant-2",
        coals={"JM": 5, "JM24": 2, "SM": 1, "FM": 2, "1/3JM": 2},
        ash=12.6,
        steady=3,
        swing=0.5,
        fewest=4,
        moisture=10.0,
        hours=20.0,
        level=54.8,
        line=(102.3, 1.54, 2.4),
        equation=refit,
    ),
    Profile(  # after source 4: a narrow, steady operation
        id="plant-3",
        coals={"JM": 3, "FM": 1, "1/3JM": 4},
        ash=10.3,
        steady=60,
        swing=0.05,
        fewest=7,
        moisture=10.8,
        hours=20.0,
        level=46.8,
        line=(85.4, 1.04, 2.0),
        equation=kobe,
    ),
    Profile(  # after source CHN: gas coals, stamp-charged
        id="plant-4",
        coals={"JM": 2, "1/3JM": 3, "QF": 2, "QM": 2},
        ash=12.1,
        steady=4,
        swing=0.4,
        fewest=4,
        moisture=10.5,
        hours=22.5,
        level=38.2,
        line=(78.3, 1.01, 2.6),
        equation=kobe,
    ),
)

#: The columns of a row by the names that coal.py uses.
ORDER = (
    *("moisture", "ash", "volatile", "sulphur", "phosphorus", "ro", "ro_sd", "v9_v13", "inerts"),
    *("fluidity", "swelling", "caking", "shrinkage", "layer", "dilatation", "mbi", "hours"),
)

PRACTICE = 4.0  # points of CSR by which ovens and practice can move a plant, either way


@dataclass(frozen=True, eq=False)
class Coke:
    """What the oven and the drum said: the numbers behind the grades."""

    csr: Tensor  # (n,) float64
    cri: Tensor  # (n,) float64


@dataclass(frozen=True, eq=False)
class Plant:
    """One simulated plant: scarce training rows, test rows, and its private expert."""

    id: str
    train: Examples  # raw units
    test: Examples
    knowledge: Knowledge
    train_coke: Coke
    test_coke: Coke
    law: PlantLaw  # what no plant knows
    kinds: tuple[str, ...]  # the classes of the coals that it buys
    coals: CoalTable

    @property
    def measured_train(self) -> Examples:
        """The training rows with where their measured CSR lies among the grades."""
        return self.train.place_numbers(self.train_coke.csr, EDGES)


def coking_plants(
    seed: int = 0,
    *,
    rows: Sequence[int] = (40, 60, 80, 110),
    test_rows: int = 400,
    trust: float = 0.3,
    unseen: float = UNSEEN,
    blur: float = 0.0,
    slack: float = 1.0,
) -> tuple[Plant, ...]:
    """Four plants under one law of nature, each with its own coals, level and expert.

    The range holds by construction: the truth is the expert's CSR plus at most `unseen` points of
    what the expert does not see and two sds of noise. For sensitivity: a smaller `unseen` makes
    better experts with narrower ranges, `blur` adds up to so many points of error to the P-KM
    alone, `slack` multiplies the bound of the R-KM alone.
    """
    bound = unseen + 2.0 * NOISE
    if len(rows) != len(PROFILES) or min(*rows, test_rows) < 1:
        raise FedloreError(
            f"rows must be {len(PROFILES)} positive numbers and test_rows another, "
            f"got {tuple(rows)} and {test_rows}"
        )
    if not 0.0 < unseen < math.inf:
        raise FedloreError(f"unseen must be positive and finite, got {unseen:g}")
    if not 1.0 <= slack < math.inf:
        raise FedloreError(f"slack must be at least 1, or the range is not honest, got {slack:g}")
    if not 0.0 <= blur <= bound:
        raise FedloreError(f"blur must lie in [0, {bound:g}] to stay in the range, got {blur:g}")
    names, coals = market(seed)
    made = []
    for profile, count in zip(PROFILES, rows, strict=True):
        kinds, owned = _buy(profile, names, coals, seed)
        practice, expert = _settle(profile, owned, seed)
        law = PlantLaw(expert, practice, unseen)
        seen = profile.equation.columns
        parts = []
        for part, n in (("train", count), ("test", test_rows)):
            x = _charge(profile, owned, n, seed, part)
            oven = stream(seed, "oven", profile.id, part)
            csr = law.bake(x, oven)
            coke = Coke(csr, _react(csr, oven, line=profile.line))
            parts.append((Examples(x, grade(coke.csr)), coke))
        (train, train_coke), (test, test_coke) = parts
        knowledge = Knowledge(
            Mask(seen, ExpertVerdict(expert, blur)),
            Mask(seen, Bounds(expert, slack * bound)),
            trust,
        )
        cokes = (train_coke, test_coke)
        made.append(Plant(profile.id, train, test, knowledge, *cokes, law, kinds, owned))
    return tuple(made)


def _buy(
    profile: Profile, names: Sequence[str], coals: CoalTable, seed: int
) -> tuple[tuple[str, ...], CoalTable]:
    """The coals of one plant: of each class those nearest to its ash, with some luck."""
    luck = torch.rand(len(names), generator=stream(seed, "buy", profile.id), dtype=torch.float64)
    distance = (coals["ash"] - profile.ash).abs() + luck
    chosen: list[int] = []
    for kind, count in profile.coals.items():
        offered = [i for i, name in enumerate(names) if name == kind]
        chosen += sorted(offered, key=lambda i: float(distance[i]))[:count]
    owned = {name: values[chosen] for name, values in coals.items()}
    # the washery does the rest, up to two points
    owned["ash"] = owned["ash"] + (profile.ash - owned["ash"].mean()).clamp(-2.0, 2.0)
    return tuple(names[i] for i in chosen), owned


def _settle(profile: Profile, owned: CoalTable, seed: int) -> tuple[float, Expert]:
    """What ovens and practice add to CSR, and the expert who knows last year's averages."""
    past = _charge(profile, owned, 365, seed, "past").double()
    natural = float(strength(past).mean())
    practice = min(max(profile.level - natural, -PRACTICE), PRACTICE)
    average = past[:, profile.equation.columns].mean(0, keepdim=True)
    constant = natural + practice - float(profile.equation(average))
    return practice, Expert(profile.equation, round(constant, 1))


def _charge(profile: Profile, owned: CoalTable, rows: int, seed: int, part: str) -> Tensor:
    """The features of `rows` blends on days of one year, (rows, 17) float32."""
    draw = stream(seed, "charge", profile.id, part)
    habit = stream(seed, "habit", profile.id)
    cycles = torch.rand(2, len(owned["ash"]), generator=habit, dtype=torch.float64)
    day = torch.randint(0, 365, (rows,), generator=draw).double() - 365.0 * (part == "past")
    share = proportions(
        day, cycles, draw, steady=profile.steady, swing=profile.swing, fewest=profile.fewest
    )
    t = blend_coals(deliveries(owned, rows, draw), share)
    weather, pace = torch.randn(2, rows, generator=draw, dtype=torch.float64)
    season = torch.sin(2.0 * math.pi * day / 365.0)
    t["moisture"] = (profile.moisture + 0.5 * season + 0.8 * weather).clamp(4.0, 16.0)
    t["hours"] = (profile.hours + 0.9 * pace).clamp(15.0, 27.0)
    return torch.stack([t[name] for name in ORDER], 1).float()


def _react(csr: Tensor, draw: torch.Generator, *, line: tuple[float, float, float]) -> Tensor:
    """A CRI for each CSR, such that CSR regressed on it has the plant's line and residual."""
    a, b, s = line
    level, variance = csr.mean(), csr.var(correction=0).clamp(min=1.5 * s * s)
    fit = 1.0 - s * s / variance  # R²
    error = torch.randn(len(csr), generator=draw, dtype=torch.float64) * (fit.sqrt() * s / b)
    return (a - level) / b - fit / b * (csr - level) + error
