"""How soon the studio answers: a keystroke's check, the row that is tried, a map, a comparison.

    OMP_NUM_THREADS=1 python benchmarks/studio.py
    OMP_NUM_THREADS=1 PYTHONPATH=.:src python benchmarks/studio.py --page   # with Chromium

The linter alone stands beside each check: what the studio adds to it is the ratio. With `--page`
keys are pressed in a browser, and the time is from the key to the drawn frame behind it.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial

from fedlore.knowledge.findings.checkup import check_file
from fedlore.knowledge.tables.sheets import csv_bytes
from fedlore.studio.checks import check_draft, judge
from fedlore.studio.compare import compare_answers
from fedlore.studio.grids import read_grids
from fedlore.studio.maps import draw_map
from fedlore.studio.verdict import judge_row, tried_row

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


FRAMES = """(() => { window.times = []; window.addEventListener('keydown', (event) => {
    const began = event.timeStamp; requestAnimationFrame(() => setTimeout(() =>
    window.times.push(performance.now() - began))); }, true); return true; })()"""


def time_page(rules: int) -> list[float]:
    """Milliseconds from each of some keys to the frame that shows it."""
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
            for text in ("> 1", "< 9", "[1..3)", "> 7", "= 5"):
                type_text(browser, text)
                for key in ("Enter", "ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft"):
                    press(browser, key)
            press(browser, "End", control=True)
            press(browser, "Home", control=True)
            settled(browser)
            found = [float(value) for value in browser.ask("window.times")]
            leave(browser)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--page", action="store_true", help="press keys in Chromium")
    if parser.parse_args().page:
        print(f"{'rules':>6} {'keys':>5} {'median':>8} {'worst':>8}   milliseconds to the frame")
        for rules in (200, 5_000):
            times = time_page(rules)
            half = statistics.median(times)
            print(f"{rules:>6} {len(times):>5} {half:>8.1f} {max(times):>8.1f}")
        return
    row = {f"f{i}": 50.0 for i in range(COLUMNS)}
    print(f"{'rules':>6} {'lint':>9} {'studio':>9} {'try':>8} {'map':>8}   milliseconds")
    for rules in (12, 50, 200, 1_000):
        files = site(rules)
        checkup = judge(files)
        x = tried_row(row, checkup)
        grids = read_grids(files)
        lint, studio = best(partial(check_file, files)), best(partial(check_draft, files))
        tried = best(partial(judge_row, checkup, x, grids))
        drawn = best(partial(draw_map, checkup, x, ["f0", "f1"]))
        print(f"{rules:>6} {lint:>9.1f} {studio:>9.1f} {tried:>8.1f} {drawn:>8.1f}")
    many = site(5_000)
    print(f"  5000 {best(partial(check_file, many), 1):>9.1f}   by request, once")
    few = site(12)
    print(f"compare 12 rules: {best(partial(compare_answers, few, site(12, 1)), 1):.0f} ms")


if __name__ == "__main__":
    main()
