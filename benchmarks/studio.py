"""How soon the studio answers: a keystroke's check, the row that is tried, a map, a comparison.

The linter alone stands beside each check: what the studio adds to it is the ratio.
"""

import random
import time
from collections.abc import Callable
from functools import partial

from fedlore.knowledge.lint.checkup import check_file
from fedlore.knowledge.tables.sheets import csv_bytes
from fedlore.studio.asking import tried_row
from fedlore.studio.checks import judge
from fedlore.studio.differing import compare_answers
from fedlore.studio.grids import read_grids
from fedlore.studio.maps import draw_map
from fedlore.studio.verdict import judge_row
from fedlore.studio.writing import check_draft

COLUMNS = 10


def site(rules: int, seed: int = 0) -> dict[str, bytes]:
    """A table of predictions that four of ten columns decide on average."""
    draw = random.Random(seed)
    names = [f"f{i}" for i in range(COLUMNS)]
    toml = "classes = ['I', 'II', 'III']\n"
    toml += "".join(f"[[features]]\nname = '{name}'\nlow = 0\nhigh = 100\n" for name in names)
    toml += "[[predict.sources]]\ntable = 'predict.csv'\n"
    rows = [[*names, "then"]]
    for _ in range(rules):
        cells = []
        for _ in names:
            low = draw.randint(0, 80)
            cells.append("" if draw.random() < 0.6 else f"[{low}..{low + draw.randint(5, 20)})")
        rows.append([*cells, draw.choice(["I", "II", "III"])])
    return {"knowledge.toml": toml.encode(), "predict.csv": csv_bytes(rows)}


def best(work: Callable[[], object], times: int = 5) -> float:
    """The shortest of some runs, in milliseconds."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return 1_000 * min(found)


def main() -> None:
    row = {f"f{i}": 50.0 for i in range(COLUMNS)}
    print(f"{'rules':>6} {'lint':>9} {'studio':>9} {'try':>8} {'map':>8}   milliseconds")
    for rules in (12, 50, 200, 1_000):
        files = site(rules)
        checkup = judge(files).checkup
        x = tried_row(row, checkup)
        grids = read_grids(files)
        lint, studio = best(partial(check_file, files)), best(partial(check_draft, files))
        tried = best(partial(judge_row, checkup, x, grids))
        drawn = best(partial(draw_map, checkup, x, ["f0", "f1"]))
        print(f"{rules:>6} {lint:>9.1f} {studio:>9.1f} {tried:>8.1f} {drawn:>8.1f}")
    few = site(12)
    print(f"compare 12 rules: {best(partial(compare_answers, few, site(12, 1)), 1):.0f} ms")


if __name__ == "__main__":
    main()
