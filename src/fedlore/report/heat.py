"""The confusion matrix of one approach."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..core.history import Row
from ..errors import FedloreError
from ..look.plots import Plot, short_text
from .curves import belonging
from .panels import Case
from .scores import natural, plain_text
from .words import seeds_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE = "#3d9ad9"  # seen on white and on black
LEGEND = (0.05, 0.25, 1.0)
MOST_NUMBERS = 10  # classes whose cells still have room for a number
ABSTAINS = "no answer"


def confusion_matrix(
    case: Case, rows: Iterable[Row], name: str, names: Sequence[str] = ()
) -> list[Plot]:
    """Labels against predictions, summed over clients and seeds, for lore or the next best known.

    Where shares or trusts vary, the first of them is shown. `names` are those of the classes, where
    the rows have their numbers.
    """
    called = {str(place): plain_text(word) for place, word in enumerate(names)}
    mine = belonging(case, rows)
    known = {plain_text(row.get("approach")) for row in mine}
    chosen = next((a for a in ("lore", "FLwKM", *sorted(known)) if a in known), None)
    if chosen is None:
        return []
    mine = [row for row in mine if plain_text(row.get("approach")) == chosen]
    for key in ("share", "trust"):
        first = mine[0].get(key)
        mine = [row for row in mine if row.get(key) == first]
    counts = _counts(mine)
    classes = sorted({c for pair in counts for c in pair} - {ABSTAINS}, key=natural)
    guesses = [*classes, ABSTAINS] if any(p == ABSTAINS for _, p in counts) else classes
    totals = {l: sum(counts[l, p] for p in guesses) for l in classes}
    total = sum(totals.values())
    right = sum(counts[c, c] for c in classes) / total

    def paint(axes: "Axes") -> None:
        from matplotlib.colors import to_rgba

        cells = [
            (i, j, counts[label, guess] / totals[label])
            for i, label in enumerate(classes)
            for j, guess in enumerate(guesses)
            if counts[label, guess]
        ]
        axes.bar(
            [j for _, j, _ in cells],
            1,
            1,
            [i - 0.5 for i, _, _ in cells],
            color=[to_rgba(BLUE, _alpha(share)) for _, _, share in cells],
            linewidth=0,
        )
        for i, j, share in cells if len(guesses) <= MOST_NUMBERS else ():
            axes.text(j, i, f"{100 * share:.0f}", ha="center", va="center", fontsize=10)
        for share in LEGEND:
            axes.scatter([], [], marker="s", s=80, color=BLUE, alpha=_alpha(share), linewidth=0,
                         label=f"{100 * share:.0f} % of row")  # fmt: skip
        axes.set_xlim(-0.5, len(guesses) - 0.5)
        axes.set_ylim(len(classes) - 0.5, -0.5)
        across, down = (
            [short_text(called.get(name, name)) for name in guesses],
            [short_text(called.get(name, name)) for name in classes],
        )
        axes.set_xticks(range(len(guesses)), across, rotation=90 if _wide(across) else 0)
        axes.set_yticks(range(len(classes)), down)
        axes.tick_params(labelsize=11 if len(classes) <= 12 else 9)
        axes.grid(visible=False)
        axes.set_xlabel("predicted class")
        axes.set_ylabel("true class")

    caption = (
        f"Of the test rows with a label (a row of squares), the share predicted as each class, %. "
        f"{total} predictions of all clients, {seeds_in_words(mine)}; {100 * right:.1f} % of them "
        "are right (the diagonal)."
    )
    title = f"Confusion matrix of {chosen}"
    height = min(1.5 + 0.27 * max(len(classes), 8), 7.0)
    shown = [called.get(name, name) for name in guesses]
    if _wide(shown):
        height += 0.1 * min(24, max(len(name) for name in shown))
    return [Plot(name, title, case.title, caption, height, paint)]


def _counts(rows: Iterable[Row]) -> Counter[tuple[str, str]]:
    found: Counter[tuple[str, str]] = Counter()
    for row in rows:
        count = row.get("count")
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise FedloreError(f"confusion: count must be a whole number, got {count!r}")
        if row.get("label") is None or row.get("predicted") is None:
            raise FedloreError("confusion: a row needs 'label' and 'predicted'")
        guess = ABSTAINS if row["predicted"] == -1 else plain_text(row["predicted"])
        found[plain_text(row["label"]), guess] += count
    return found


def _alpha(share: float) -> float:
    """Opacity by the root of a share, so that rare mistakes are seen."""
    return float(0.78 * share**0.5)


def _wide(names: list[str]) -> bool:
    return max(len(name) for name in names) * len(names) > 45
