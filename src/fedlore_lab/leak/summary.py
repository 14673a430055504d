"""What the rows of an audit say: leaks with intervals, accuracy, and what can be recommended."""

from collections.abc import Callable, Mapping, Sequence
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
                    interval(_by_seed(mine, lambda row: _number(row, "ta"))),
                    _loss(mine, named.get("plain", {})),
                    _loss(mine, named.get(_unhidden(setting), {})),
                    {name: leak_of(mine, name) for name in ATTACKS},
                    _beyond(setting, mine, rows),
                )
            )
    return made


def leak_of(rows: Sequence[Row], attack: str) -> Leak | None:
    """The score of one attack over these rows; None where no row has anything to find."""
    pairs = [(row[f"{attack} error"], row[f"{attack} chance"]) for row in rows]
    found = [(float(e), float(c)) for e, c in pairs if e is not None and c is not None]
    return score_leak([e for e, _ in found], [c for _, c in found]) if found else None


def recommend(found: Sequence[LeakLine]) -> list[LeakLine]:
    """Settings that tell nothing of the knowledge and cost little, the most accurate first."""
    fit = [
        line
        for line in found
        if line.quiet and line.loss is not None and line.loss.mean <= BEARABLE
    ]
    return sorted(fit, key=lambda line: -line.ta.mean)


def _beyond(setting: LeakSetting, mine: Sequence[Row], rows: Sequence[Row]) -> Leak | None:
    control = CONTROL.get(setting.view)
    other = {(r["seed"], r["site"]): r["union error"] for r in rows if r["setting"] == control}
    pairs = [(row["union error"], other.get((row["seed"], row["site"]))) for row in mine]
    found = [(float(e), float(c)) for e, c in pairs if e is not None and c is not None]
    if not found or setting.name == control or not any(c for _, c in found):
        return None  # no control, or one that is always right
    return score_leak([e for e, _ in found], [c for _, c in found])


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
    return interval(
        _by_seed(
            mine, lambda row: _number(plain[row["seed"], row["site"]], "ta") - _number(row, "ta")
        )
    )


def _by_seed(rows: Sequence[Row], value: Callable[[Row], float]) -> list[float]:
    """The mean over sites for each seed."""
    seeds = list(dict.fromkeys(row["seed"] for row in rows))
    parts = [[value(row) for row in rows if row["seed"] == seed] for seed in seeds]
    return [sum(part) / len(part) for part in parts]


def _number(row: Row, name: str) -> float:
    return float(row[name] or 0.0)
