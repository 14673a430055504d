"""What the rows of an audit say, with intervals: as tables, plots and one page."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedlore.core.history import Row
from fedlore.errors import FedloreError
from fedlore.experiments import MeanInterval, interval
from fedlore.look.page import Section, page, save_page
from fedlore.look.plots import INK, Plot, draw
from fedlore.look.tables import Cell, TextTable, markdown

from .attacks import ATTACKS
from .score import Leak as Leak
from .score import score_leak
from .settings import DEFAULT, SETTINGS, LeakSetting

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    known = any(c for e, c in pairs if e is not None)
    # without a control, or with one that is always right, there is nothing to hold it against
    return _scored(pairs) if known and setting.name != control else None


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


_READING = (
    "A leak is the share of the error of the best guess without any upload that an attack takes "
    "away: 0 is chance, 1 is exact, below 0 the attack had better looked at nothing. In brackets: "
    "95 % interval, by resampling sites and seeds. A bold leak is at chance: its interval reaches "
    "0. A dash: this training does not contain the secret.",
    "Attacks that learn have shadows: other simulated sites (in other seeds, or among given sites "
    "the others) whose secrets the attacker knows. Another attacker may do better.",
    "The row 'mask' is the control: its training never sees the knowledge, so what is found there "
    "about ranges was told by the labels.",
)
VIEWS = {
    "single": "the server sees every upload",
    "sum": "the server sees sums only",
    "collusion": "sums, less the upload of one site that tells",
}
# after Okabe and Ito; one per way to train
_COLOURS = (
    *("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#8c8c8c", "#882255", "#56B4E9"),
    "#999933",
)
_MARKERS = {"single": "o", "sum": "D", "collusion": "X", "two": "s"}
LOOKS = {
    "single": "every upload",
    "sum": "sums",
    "collusion": "sums, one tells",
    "two": "sums of 2",
}


def write_leaks(rows: Sequence[Row], out: Path, *, title: str, facts: Mapping[str, str]) -> Path:
    """Write leak-CASE.md, leak-CASE.html and plots/ into a folder; returns the page's path."""
    found = lines(rows)
    if not found:
        raise FedloreError("a report needs at least one row, got none")
    case = str(rows[0]["case"])
    tables = leak_tables(found)
    section = Section("Leaks and accuracy", (), tuple(tables), tuple(map(draw, leak_plots(rows))))
    terms = {s.name: f"{s.about}; {VIEWS[s.view]}" for s in (line.setting for line in found)}
    html = page(title, facts=facts, reading=_READING, terms=terms, sections=[section])
    text = f"# {title}\n\n{markdown(tables)}\n" + "\n\n".join(_READING) + "\n"
    save_page(out, {f"leak-{case}.md": text, f"leak-{case}.html": html}, section.plots)
    return out / f"leak-{case}.html"


def leak_tables(found: Sequence[LeakLine]) -> list[TextTable]:
    """Leaks of what the sites know, leaks of their rows, and what can be recommended."""
    rows_of = tuple(name for name in ATTACKS if name not in KNOWLEDGE)
    known = _table("What the sites know: leaks by setting", found, KNOWLEDGE)
    extra = [_score(line.beyond) for line in found]
    body = tuple((*row, cell) for row, cell in zip(known.body, extra, strict=True))
    note = "beyond labels: the union, against the same attack on training without knowledge."
    return [
        replace(known, head=(*known.head, "beyond labels"), body=body, notes=(*known.notes, note)),
        _table("What their rows are: leaks by setting", found, rows_of),
    ]


def leak_verdict(found: Sequence[LeakLine]) -> str:
    """The recommendation in one sentence."""
    usual = _default_words(found)
    fit = recommend(found)
    if not fit:
        none = "No setting hides what the sites know at a cost of at most 1 point of mean TA."
        return none + usual
    names = ", ".join(f"{line.setting.name} ({100 * line.ta.mean:.1f} %)" for line in fit)
    return (
        "Everything the sites know is at chance, and mean TA at most 1 point below plain, under: "
        f"{names}.{usual}"
    )


def _default_words(found: Sequence[LeakLine]) -> str:
    line = next((one for one in found if one.setting.name == DEFAULT), None)
    if line is None or line.hiding is None:
        return ""
    cost = -100 * line.hiding.mean + 0.0
    return (
        f" What fedlore federation init writes ({DEFAULT}) has {cost:+.1f} points of TA against "
        "the same recipe unhidden."
    )


def _table(title: str, found: Sequence[LeakLine], attacks: Sequence[str]) -> TextTable:
    head = ("setting", "mean TA, %", "TA minus plain's, points", *attacks)
    body = [
        (Cell(line.setting.name), *_accuracy(line), *(_score(line.leaks[name]) for name in attacks))
        for line in found
    ]
    return TextTable.of(title, head, body, [f"{name}: {ATTACKS[name]}." for name in attacks])


def _accuracy(line: LeakLine) -> tuple[Cell, Cell]:
    loss = line.loss
    lost = "" if loss is None else f"{-100 * loss.mean + 0.0:+.1f} ± {100 * loss.half:.1f}"
    return Cell(f"{100 * line.ta.mean:.1f}"), Cell(lost.replace(" ± nan", ""))


def _score(one: Leak | None) -> Cell:
    if one is None:
        return Cell("-")
    text = f"{one.score:.2f} [{one.low:.2f}, {one.high:.2f}]"
    return Cell(text.replace("-0.00", "0.00"), one.at_chance)


def leak_plots(rows: Sequence[Row]) -> list[Plot]:
    """Leak of the ranges' union against accuracy: over all sites, and at each."""
    case = str(rows[0]["case"])
    sites = list(dict.fromkeys(str(row["site"]) for row in rows))
    made = [_scatter(rows, f"leak-{case}", "all sites")]
    made += [
        _scatter([r for r in rows if r["site"] == site], f"leak-{case}-{site}", site)
        for site in sites
    ]
    return made


def _scatter(rows: Sequence[Row], name: str, where: str) -> Plot:
    points = [
        (line.setting, 100 * line.ta.mean, found.score)
        for line in lines(rows)
        if (found := line.leaks["union"]) is not None
    ]
    ways = list(dict.fromkeys(_way(setting) for setting, _, _ in points))
    shown = {_look(setting) for setting, _, _ in points}

    def paint(axes: "Axes") -> None:
        axes.axhline(0, color=INK, linewidth=1)
        labelled = set()
        for setting, ta, score in points:
            way = _way(setting)
            colour = _COLOURS[ways.index(way) % len(_COLOURS)]
            _dot(axes, ta, max(score, -0.5), colour, _look(setting))
            if way not in labelled:  # colours say how, and below shapes say what was seen
                axes.scatter([], [], s=52, marker="o", color=colour, label=way)
            labelled.add(way)
        for look, words in LOOKS.items():
            if look in shown:
                _dot(axes, [], [], INK, look, words)
        axes.set_ylim(-0.55, 1.08)
        axes.set_xlabel("test accuracy (TA), %")
        axes.set_ylabel("leak of ranges")

    caption = (
        f"{where}: right is better, down is safer. The leak of the union of ranges; 0 is chance, "
        "1 exact, and what is below -0.5 is drawn there. Each colour is a way to train, with the "
        "same accuracy whatever the server sees of it."
    )
    return Plot(name, "Leak against accuracy", where, caption, 5.4, paint)


def _dot(
    axes: "Axes",
    x: float | list[float],
    y: float | list[float],
    colour: str,
    look: str,
    label: str = "",
) -> None:
    hollow = look in ("sum", "two")
    face = "none" if hollow else colour
    axes.scatter(x, y, s=52, marker=_MARKERS[look], facecolors=face, edgecolors=colour,
                 linewidths=1.6, label=label or None)  # fmt: skip


def _way(setting: LeakSetting) -> str:
    """How it trains, whatever the server sees of it."""
    if setting.epsilon is not None:
        return "DP"
    same = (s for s in SETTINGS if s.training == setting.training)
    return "plain" if setting.pairs else next(same, setting).name


def _look(setting: LeakSetting) -> str:
    return "two" if setting.pairs else setting.view
