"""What usual control charts do on the years of `studies.watch`, looked at after each row.

    python -m studies.watch_rivals --years 2000 --changed 200 --out results/watch-rivals.md

Every rule is charted by its faults and every property by its mean, where the year before gave the
claims. *3 sigma*: the rate, or the mean, of all rows so far is three standard errors off, those of
the year before counted in. *Binomial*: a one-sided binomial test of all rows so far falls below 5 %
over the number of charts (of properties a normal one). *CUSUM*: Page's sum of standardised values
less half of the change that it is made for, up to its usual limit of 5, of 8 for half a deviation.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import binom, norm

from .watch import CUTS, FEATURES, PLAIN, WORLDS, YEAR, World, draw_rows

RULES = 12
#: Whether a chart has alarmed by each row; the claim is 5 % of faults, as the rules really have.
Chart = Callable[[np.ndarray], np.ndarray]
CLAIM = 0.05
LEVEL = 0.05 / (RULES + FEATURES)
HEAD = """# What usual control charts notice on the years of watch.md

Charts of twelve rules and 17 properties, looked at after each row, without range, expert and
answers. They are told that rules are wrong in 5 %, which a watch must learn from the year before.
A chart that had alarmed before the change counts as 0 rows.
"""


def rule_faults(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which rule fires in each row, and whether it is wrong there."""
    i, j = (np.digitize(x[:, c], CUTS[c][1:-1]) for c in (0, 1))
    return 3 * i + j, (2 + (i + j) % 4 != y).astype(float)


def rule_three_sigma(wrong: np.ndarray) -> np.ndarray:
    n = np.arange(1, len(wrong) + 1)
    return wrong.cumsum() / n > CLAIM + 3 * np.sqrt(CLAIM * (1 - CLAIM) / n)


def rule_binomial(wrong: np.ndarray) -> np.ndarray:
    n = np.arange(1, len(wrong) + 1)
    return binom.sf(wrong.cumsum() - 1, n, CLAIM) < LEVEL


def rule_cusum(wrong: np.ndarray) -> np.ndarray:
    return page((wrong - CLAIM) / np.sqrt(CLAIM * (1 - CLAIM)), 0.5, 5.0)


def errors_off(z: np.ndarray) -> np.ndarray:
    """By each row, how many standard errors the mean so far is off that of the year before."""
    n = np.arange(1, len(z) + 1)
    return np.abs(z.cumsum() / n) / np.sqrt(1 / n + 1 / YEAR)


def mean_three_sigma(z: np.ndarray) -> np.ndarray:
    return errors_off(z) > 3


def mean_normal(z: np.ndarray) -> np.ndarray:
    return errors_off(z) > norm.isf(LEVEL / 2)


def mean_cusum(z: np.ndarray) -> np.ndarray:
    return page(z, 0.25, 8.0) | page(-z, 0.25, 8.0)


def page(values: np.ndarray, less: float, limit: float) -> np.ndarray:
    """Page's one-sided sum above its limit, by each row."""
    steps = np.concatenate([[0.0], (values - less).cumsum()])
    return (steps - np.minimum.accumulate(steps))[1:] > limit


CHARTS: dict[str, tuple[Chart, Chart]] = {
    "3 sigma": (rule_three_sigma, mean_three_sigma),
    "binomial": (rule_binomial, mean_normal),
    "CUSUM": (rule_cusum, mean_cusum),
}


def standard(seed: int, x: np.ndarray, world: World = PLAIN) -> np.ndarray:
    """Properties in deviations from the year before."""
    before = draw_rows(np.random.default_rng((seed, 1)), YEAR, world=world)[0].numpy()
    return (x - before.mean(0)) / np.maximum(before.std(0), 1e-12)


def false_alarms(
    years: int, world: World = PLAIN, first: int = 0
) -> dict[str, tuple[float, float]]:
    """The share of years without a change in which a rule's, or any chart alarms."""
    wolf = {name: [0, 0] for name in CHARTS}
    for seed in range(first, first + years):
        x, y = (t.numpy() for t in draw_rows(np.random.default_rng((seed, 2)), YEAR, world=world))
        rule, wrong = rule_faults(x, y)
        z = standard(seed, x, world)
        for name, (of_rule, of_mean) in CHARTS.items():
            rules = any(of_rule(wrong[rule == r]).any() for r in range(RULES))
            wolf[name][0] += rules
            wolf[name][1] += rules or any(of_mean(z[:, c]).any() for c in range(FEATURES))
    return {name: (a / years, b / years) for name, (a, b) in wolf.items()}


def delays(runs: int, calm: int, *, rule: bool) -> dict[str, list[float]]:
    """Rows after a change until its chart alarms; a year in which it did before counts as 0."""
    found: dict[str, list[float]] = {name: [] for name in CHARTS}
    for seed in range(10_000, 10_000 + runs):
        draw = np.random.default_rng((seed, 3))
        quiet = draw_rows(draw, calm)
        changed = draw_rows(draw, 12 * 120, wrong_rule=5) if rule else draw_rows(draw, 500, moved=9)
        x, y = (np.concatenate([a.numpy(), b.numpy()]) for a, b in zip(quiet, changed, strict=True))
        which, wrong = rule_faults(x, y)
        values = wrong[which == 5] if rule else standard(seed, x)[:, 9]
        before = int((which[:calm] == 5).sum()) if rule else calm
        for name, charts in CHARTS.items():
            reached = np.flatnonzero(charts[0 if rule else 1](values))
            late = float(max(reached[0] + 1 - before, 0)) if len(reached) else np.inf
            found[name].append(late)
    return found


def table(years: int, changed: int) -> str:
    """One line a chart."""
    wolf = false_alarms(years)
    cases = [(rule, calm) for rule in (True, False) for calm in (0, YEAR // 2)]
    late = {case: delays(changed, case[1], rule=case[0]) for case in cases}
    said = [
        "| chart | years with a false alarm: of rules | of rules and properties "
        "| rule: median rows, from the start | after 125 | property: from the start | after 125 |",
        "|" + "---|" * 7,
    ]
    for name in CHARTS:
        parts = [f"{share:.1%}" for share in wolf[name]]
        parts += [f"{np.median(late[case][name]):.0f}" for case in cases]
        said.append(f"| {name} | " + " | ".join(parts) + " |")
    return "\n".join(said) + "\n"


def table_of_worlds(years: int, first: int) -> str:
    """Years without a change that raise an alarm, by how rows hang together."""
    said = ["| rows | chart | a rule alarms | a rule or a property |", "|---|---|---|---|"]
    for world in WORLDS:
        for name, shares in false_alarms(years, world, first).items():
            said.append(f"| {world.name} | {name} | {shares[0]:.1%} | {shares[1]:.1%} |")
    return "\n".join(said) + "\n"


def main(said: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--years", type=int, default=2000)
    parser.add_argument("--changed", type=int, default=200)
    parser.add_argument("--worlds", action="store_true", help="of false alarms alone, by world")
    parser.add_argument("--first", type=int, default=40_000, help="the first seed of --worlds")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args(said)
    if args.worlds:
        print(table_of_worlds(args.years, args.first))
        return
    text = f"{HEAD}\n{table(args.years, args.changed)}"
    print(text)
    if args.out is not None:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
