"""What the rows of an audit say: leaks with intervals, accuracy, and what can be recommended."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedlore.core.history import Row
from fedlore.experiments import MeanInterval, interval

from .attacks import ATTACKS
from .score import Leak as Leak
from .score import score_leak
from .settings import SETTINGS, LeakSetting

#: What a site knows; the other attacks are after its rows.
KNOWLEDGE = ("union", "own union", "frequency", "right", "trust", "row range", "row right")
BEARABLE = 0.01  # of mean TA
#: Training without knowledge, by what the server sees: what is found there the labels told.
CONTROL = {"single": "mask", "sum": "mask, sum"}


@dataclass(frozen=True)
class LeakLine:
    """One setting: its accuracy, what that costs against plain, and every leak."""

    setting: LeakSetting
    ta: MeanInterval
    loss: MeanInterval | None  # TA of plain at the same sites and seeds, minus this
    hiding: MeanInterval | None  # TA of the same training with every upload seen, minus this
    leaks: dict[str, Leak | None]  # None: nothing to find
    beyond: Leak | None  # union, against the same attack on training without knowledge

    @property
    def quiet(self) -> bool:
        """Whether every attack on what the sites know is at chance."""
        found = [self.leaks[name] for name in KNOWLEDGE]
        return all(one is None or one.at_chance for one in found)


def lines(rows: Sequence[Row]) -> list[LeakLine]:
    """A line for every setting in the rows, in the usual order."""
    made = []
    named = {name: _by_place(rows, name) for name in dict.fromkeys(r["setting"] for r in rows)}
    for setting in SETTINGS:
        mine = [row for row in rows if row["setting"] == setting.name]
        if mine:
            made.append(
                LeakLine(
                    setting,
                    interval(_by_seed(mine, _ta)),
                    _loss(mine, named.get("plain", {})),
                    _loss(mine, named.get(_unhidden(setting), {})),
                    {name: leak_of(mine, name) for name in ATTACKS},
                    _beyond(setting, mine, rows),
                )
            )
    return made


def leak_of(rows: Sequence[Row], attack: str) -> Leak | None:
    """The score of one attack over these rows; None where no row has anything to find."""
    return _scored([(row[f"{attack} error"], row[f"{attack} chance"]) for row in rows])


def _scored(pairs: Iterable[tuple[Any, Any]]) -> Leak | None:
    known = [(float(e), float(c)) for e, c in pairs if e is not None and c is not None]
    return score_leak([e for e, _ in known], [c for _, c in known]) if known else None


def recommend(found: Sequence[LeakLine]) -> list[LeakLine]:
    """Settings that tell nothing of the knowledge and cost little, the most accurate first."""
    fit = [one for one in found if one.quiet and one.loss and one.loss.mean <= BEARABLE]
    return sorted(fit, key=lambda line: -line.ta.mean)


def _beyond(setting: LeakSetting, mine: Sequence[Row], rows: Sequence[Row]) -> Leak | None:
    control = CONTROL.get(setting.view)
    other = {place: row["union error"] for place, row in _by_place(rows, control).items()}
    pairs = [(row["union error"], other.get((row["seed"], row["site"]))) for row in mine]
    told = any(c for e, c in pairs if e is not None)
    # without a control, or with one that is always right, there is nothing to hold it against
    return _scored(pairs) if told and setting.name != control else None


def _by_place(rows: Sequence[Row], setting: Any) -> dict[Any, Row]:
    return {(row["seed"], row["site"]): row for row in rows if row["setting"] == setting}


def _unhidden(setting: LeakSetting) -> str:
    """The setting of the same name that shows every upload; none for that one itself."""
    name = setting.name.partition(",")[0]
    same = any((s.name, s.view) == (name, "single") for s in SETTINGS)
    return name if same and setting.name != name else ""


def _loss(mine: Sequence[Row], plain: Mapping[Any, Row]) -> MeanInterval | None:
    if not all((row["seed"], row["site"]) in plain for row in mine):
        return None

    def lost(row: Row) -> float:
        return _ta(plain[row["seed"], row["site"]]) - _ta(row)

    return interval(_by_seed(mine, lost))


def _by_seed(rows: Sequence[Row], value: Callable[[Row], float]) -> list[float]:
    """The mean over sites for each seed."""
    seeds = list(dict.fromkeys(row["seed"] for row in rows))
    parts = [[value(row) for row in rows if row["seed"] == seed] for seed in seeds]
    return [sum(part) / len(part) for part in parts]


def _ta(row: Row) -> float:
    return float(row["ta"] or 0.0)
