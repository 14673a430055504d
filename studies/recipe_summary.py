"""The rows of the recipe study as text: means, paired differences, what was chosen."""

from collections import Counter
from collections.abc import Sequence

from fedlore.core.history import Row
from fedlore.workbench.intervals import interval, pair_interval

RIVALS = ("ML", "P-KM", "MLwKM", "FL", "FLwKM", "FL+mask")

Means = dict[str, dict[int, float]]  # approach -> seed -> mean TA over clients, %


def recipe_means(rows: Sequence[Row]) -> Means:
    """Mean TA over clients for each approach and seed, in percent."""
    cells: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        by_seed = cells.setdefault(str(row["approach"]), {})
        by_seed.setdefault(int(row["seed"] or 0), []).append(100 * float(row["ta"] or 0.0))
    return {
        name: {seed: sum(v) / len(v) for seed, v in sorted(by_seed.items())}
        for name, by_seed in cells.items()
    }


def recipe_summary_text(rows: Sequence[Row]) -> str:
    """Every case of the rows, one after another."""
    cases: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        case = (row.get("dataset"), row.get("share"), row.get("range"))
        cases.setdefault(case, []).append(row)
    return "\n\n".join(_case(case, mine) for case, mine in sorted(cases.items(), key=str))


def _case(case: tuple[object, ...], rows: Sequence[Row]) -> str:
    of = recipe_means(rows)
    seeds = len({row["seed"] for row in rows})
    lines = [f"{case[0]}, share {case[1]}, {case[2]} ranges, {seeds} seeds: mean TA, %"]
    for name, by_seed in of.items():
        found = interval(list(by_seed.values()))
        lines.append(f"  {name:12} {found.mean:6.2f} ± {found.half:.2f}")
    fixed = {name: v for name, v in of.items() if name.startswith("FLwKM ") and "auto" not in name}
    rivals = {name: v for name, v in of.items() if name in RIVALS}
    for ours, theirs in (
        ("lore", ["FLwKM"]),
        ("lore", _best(rivals)),
        ("lore", ["lore-fixed"]),
        ("FLwKM auto", _best(fixed)),
    ):
        for name in theirs:
            if ours in of and name in of:
                both = sorted(set(of[ours]) & set(of[name]))
                gap = pair_interval([of[ours][s] for s in both], [of[name][s] for s in both])
                lines.append(
                    f"  {ours} - {name}: {gap.mean:+.2f} ({gap.low:+.2f} to {gap.high:+.2f})"
                )
    picked = Counter(
        str(row["chosen"]) for row in {row["seed"]: row for row in rows if "chosen" in row}.values()
    )
    lines += [f"  chosen {times} times: {what}" for what, times in picked.most_common()]
    bad = sorted({str(r["approach"]) for r in rows if r.get("pov") and "KM" in str(r["approach"])})
    bad += ["lore"] if any(r.get("pov") for r in rows if r["approach"] == "lore") else []
    lines.append(f"  violations with knowledge: {', '.join(bad) or 'none'}")
    return "\n".join(lines)


def _best(of: Means) -> list[str]:
    """The approach with the best mean over all seeds, in hindsight."""
    if not of:
        return []
    return [max(of, key=lambda name: sum(of[name].values()) / len(of[name]))]
