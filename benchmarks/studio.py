"""How soon the studio answers: a keystroke's check, the row that is tried, a map, a comparison.

    OMP_NUM_THREADS=1 python benchmarks/studio.py
    OMP_NUM_THREADS=1 PYTHONPATH=.:src python benchmarks/studio.py --page   # with Chromium

Processor time, so that a busy machine gives the same figures. The linter alone stands beside each
check: what the studio adds to it is the ratio. `overlap` has a table of each side whose wide
conditions overlap. With `--page` keys are pressed in a browser: the time that the page computes for
each, and from the key to the drawn frame behind it by the clock.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from fedlore.knowledge.findings.checkup import check_file
from fedlore.knowledge.tables.sheets import csv_bytes
from fedlore.studio.checks import check_draft, judge
from fedlore.studio.compare import compare_answers
from fedlore.studio.grids import read_grids
from fedlore.studio.maps import draw_map
from fedlore.studio.verdict import judge_row, tried_row

COLUMNS = 10
CLASSES = ["I", "II", "III"]
RANGES = ["I..II", "II..III", "all"]


def site(rules: int, seed: int = 0, *, overlap: bool = False) -> dict[str, bytes]:
    """A table of predictions that four of ten columns decide on average; or two that overlap."""
    draw = random.Random(seed)
    names = [f"f{i}" for i in range(COLUMNS)]
    toml = "classes = ['I', 'II', 'III']\n"
    toml += "".join(f"[[features]]\nname = '{name}'\nlow = 0\nhigh = 100\n" for name in names)
    files = {}
    wide = (20, 40) if overlap else (5, 20)
    for side, words in (("predict", CLASSES), ("range", RANGES))[: 1 + overlap]:
        toml += f"[[{side}.sources]]\ntable = '{side}.csv'\n"
        rows = [[*names, "then"]]
        for _ in range(rules // (1 + overlap)):
            cells = []
            for _ in names:
                low = draw.randint(0, 100 - wide[1])
                cells.append("" if draw.random() < 0.6 else f"[{low}..{low + draw.randint(*wide)})")
            rows.append([*cells, draw.choice(words)])
        files[f"{side}.csv"] = csv_bytes(rows)
    return {"knowledge.toml": toml.encode(), **files}


def middle(work: Callable[[], object], times: int = 5) -> float:
    """The median processor time of some runs, in milliseconds."""
    found = []
    for _ in range(times):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return 1_000 * statistics.median(found)


FRAMES = """(() => { window.times = []; window.addEventListener('keydown', (event) => {
    const began = event.timeStamp; requestAnimationFrame(() => setTimeout(() =>
    window.times.push(performance.now() - began))); }, true); return true; })()"""


def time_page(rules: int) -> tuple[list[float], list[float]]:
    """Milliseconds that the page computes for each of some keys, and until the frame behind it."""
    from pathlib import Path

    from tests.browser import browsing
    from tests.studio.keys import READY, focus_grid, leave, press, settled, type_text
    from tests.studio.process import opened

    with tempfile.TemporaryDirectory() as folder:
        for name, data in site(rules).items():
            (Path(folder) / name).write_bytes(data)
        with browsing(Path(folder) / "profile") as browser, opened(Path(folder)) as (address, _):
            browser.open(address)
            browser.wait(READY)
            focus_grid(browser)
            browser.ask(FRAMES)
            browser.call("Performance.enable", timeDomain="threadTicks")
            computed: list[float] = []

            def count(work: Callable[[], object]) -> None:
                began = computed_seconds(browser)
                work()
                browser.ask("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
                computed.append(1_000 * (computed_seconds(browser) - began))

            for text in ("> 1", "< 9", "[1..3)", "> 7", "= 5"):
                count(partial(type_text, browser, text))
                for key in ("Enter", "ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft"):
                    count(partial(press, browser, key))
            count(partial(press, browser, "End", control=True))
            count(partial(press, browser, "Home", control=True))
            settled(browser)
            found = [float(value) for value in browser.ask("window.times")]
            leave(browser)
    return computed, found


def computed_seconds(browser: Any) -> float:
    """Processor time of the page's own thread so far."""
    found = browser.call("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in found if one["name"] == "TaskDuration"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--page", action="store_true", help="press keys in Chromium")
    if parser.parse_args().page:
        print(
            f"{'rules':>6} {'keys':>5} {'median':>8} {'90 %':>8}   computed, ms {'frame':>8} 90 %"
        )
        for rules in (200, 2_000, 5_000):
            computed, frames = time_page(rules)
            nine, late = (statistics.quantiles(some, n=10)[-1] for some in (computed, frames))
            half = statistics.median(computed)
            print(f"{rules:>6} {len(computed):>5} {half:>8.1f} {nine:>8.1f} {late:>22.1f}")
        return
    row = {f"f{i}": 50.0 for i in range(COLUMNS)}
    names = ("rules", "lint", "studio", "overlap", "try", "map")
    print("".join(f"{name:>9}" for name in names), "  milliseconds, medians of 5")
    for rules in (12, 50, 200, 1_000, 2_000):
        files = site(rules)
        checkup = judge(files)
        x = tried_row(row, checkup)
        grids = read_grids(files)
        works = (
            partial(check_file, files),
            partial(check_draft, files),
            partial(check_draft, site(rules, overlap=True)),
            partial(judge_row, checkup, x, grids),
            partial(draw_map, checkup, x, ["f0", "f1"]),
        )
        print(f"{rules:>9}" + "".join(f"{middle(work):>9.1f}" for work in works), flush=True)
    few = site(12)
    print(f"compare 12 rules: {middle(partial(compare_answers, few, site(12, 1)), 1):.0f} ms")


if __name__ == "__main__":
    main()
