"""The two tables of `studies.shapes`, from its lines."""

from collections.abc import Sequence

from fedlore.core.history import Row
from fedlore.experiments.intervals import MeanInterval, interval

from .shape_rivals import RIVALS

ARMS = ("without", "with", "half", "false", "plain")
APPROACHES = (*ARMS, *RIVALS)
Scores = dict[str, list[float]]  # of each approach, by site
WORDS = {"plain": "plain network"}
OTHERS = (1, 3)  # the sites without shapes where two of four have some


def drawings(lines: Sequence[Row]) -> dict[tuple[str, int, int], Scores]:
    """Scores by approach and site of every drawing that is complete, by set, rows and seed."""
    found: dict[tuple[str, int, int], Scores] = {}
    for line in lines:
        scores = found.setdefault((line["set"], line["train_rows"], line["seed"]), {})
        scores.setdefault(line["approach"], []).append(line.get("ta", line.get("rmse")))
    return {key: scores for key, scores in found.items() if _complete(scores)}


def _complete(scores: Scores) -> bool:
    return set(scores) == set(APPROACHES) and all(len(v) == 4 for v in scores.values())


def tables(lines: Sequence[Row]) -> str:
    """What shapes change, and what others do: paired differences with 95 % intervals."""
    cells: dict[tuple[str, int], list[Scores]] = {}
    found = drawings(lines)
    for name, rows, seed in sorted(found, key=lambda x: (x[0] != "coke", *x)):
        cells.setdefault((name, rows), []).append(found[name, rows, seed])
    first = [
        "| set | rows | drawings | without shapes | true ones | at two of four: the other two "
        "| turned round |",
        "|" + "---|" * 7,
    ]
    rivals = ("plain", *RIVALS)
    second = [
        "| set | rows | true shapes | "
        + " | ".join(f"{WORDS.get(r, r)} | against it" for r in rivals)
        + " |",
        "|" + "---|" * (3 + 2 * len(rivals)),
    ]
    for (name, rows), scores in cells.items():
        accuracy = name == "coke"

        def change(arm: str, base: str = "without", at: Sequence[int] = range(4)) -> str:
            return show(differ(scores, arm, base, at, accuracy))  # noqa: B023

        def level(arm: str) -> str:
            mean = sum(sum(s[arm]) / len(s[arm]) for s in scores) / len(scores)  # noqa: B023
            return f"{100 * mean:.1f} %" if accuracy else f"{mean:.2f}"  # noqa: B023

        parts = [name, str(rows), str(len(scores)), level("without"), change("with")]
        parts += [change("half", at=OTHERS), change("false")]
        first.append("| " + " | ".join(parts) + " |")
        ensemble = [part for r in rivals for part in (level(r), change("with", r))]
        second.append("| " + " | ".join([name, str(rows), level("with"), *ensemble]) + " |")
    return "\n".join([*first, "", *second]) + "\n"


def differ(
    scores: Sequence[Scores], arm: str, base: str, at: Sequence[int], accuracy: bool
) -> MeanInterval:
    """Points of accuracy, or percent of RMSE, by which one arm is above the other."""
    found = []
    for one in scores:
        ours, theirs = (sum(one[name][i] for i in at) / len(at) for name in (arm, base))
        found.append(100 * (ours - theirs) if accuracy else 100 * (ours / theirs - 1))
    return interval(found)


def show(found: MeanInterval) -> str:
    return f"{found.mean:+.2f} ± {found.half:.2f}"
