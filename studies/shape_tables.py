"""The two tables of `studies.shapes`, from its lines."""

from collections.abc import Sequence

from fedlore.workbench.intervals import MeanInterval, interval

from .shape_rivals import RIVALS

OTHERS = (1, 3)  # the sites without shapes where two of four have some


def tables(lines: Sequence[dict]) -> str:
    """What shapes change, and what others do: paired differences with 95 % intervals."""
    cells: dict[tuple[str, int], list[dict]] = {}
    for line in sorted(lines, key=lambda x: (x["set"] != "coke", x["set"], x["rows"], x["seed"])):
        cells.setdefault((line["set"], line["rows"]), []).append(line["scores"])
    first = [
        "| set | rows | drawings | without shapes | true ones | at two of four: the other two "
        "| turned round |",
        "|" + "---|" * 7,
    ]
    rivals = ("plain", *RIVALS)
    second = [
        "| set | rows | true shapes | " + " | ".join(f"{r} | against it" for r in rivals) + " |",
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
        beside = [part for r in rivals for part in (level(r), change("with", r))]
        second.append("| " + " | ".join([name, str(rows), level("with"), *beside]) + " |")
    return "\n".join([*first, "", *second]) + "\n"


def differ(
    scores: Sequence[dict], arm: str, base: str, at: Sequence[int], accuracy: bool
) -> MeanInterval:
    """Points of accuracy, or percent of RMSE, by which one arm is above the other."""
    found = []
    for one in scores:
        ours, theirs = (sum(one[name][i] for i in at) / len(at) for name in (arm, base))
        found.append(100 * (ours - theirs) if accuracy else 100 * (ours / theirs - 1))
    return interval(found)


def show(found: MeanInterval) -> str:
    return f"{found.mean:+.2f} ± {found.half:.2f}"
