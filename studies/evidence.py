"""The tables behind docs/explain/lore.md: local best, the paper's approaches and lore.

python -m studies.evidence --sets coke,coal,ccpp,concrete,california,casp,covtype
    --seeds 200-219 --out rows.jsonl
python -m studies.evidence --summary rows.jsonl --tables results

Per set and seed one block of rows, written whole: a finished block is not computed again, and
several processes may each have a file of their own. With `--short` blocks are local best and lore
alone, of numbers with honest ranges: for a change that touches no other approach. `--summary`
prints means and differences paired by seed with 95 % intervals; `--tables` also writes them to
lore2-SET.md.
Public sets are found through FEDLORE_DATA. Test rows decide nothing.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from fedlore.core.history import Row, read_rows, write_rows
from fedlore.errors import FedloreError
from fedlore.experiments import (
    APPROACHES,
    LOCAL_BEST,
    LORE,
    MeanInterval,
    compare,
    interval,
    pair_interval,
)
from fedlore.models.own.limits import remembering
from fedlore_lab.paper.drawings import draw
from fedlore_lab.paper.number_sets import load_numbers, sites
from fedlore_lab.paper.number_study import NumberStudy, draw_numbers, run_regression

from .seeds import parse_seeds

NUMBERS = ("coal", "ccpp", "concrete", "california", "casp")
CLASSES = {  # name -> data set, share of its rows, kind of range
    "coke": ("coke", 1.0, "expert"),
    "coke-measured": ("coke-measured", 1.0, "expert"),
    "covtype": ("covtype", 0.01, "oracle"),
    "covtype-honest": ("covtype", 0.01, "conformal99"),
    "covtype10": ("covtype", 0.1, "oracle"),
    "fmnist": ("fmnist", 0.01, "oracle"),
    "fmnist-honest": ("fmnist", 0.01, "conformal99"),
    "fmnist10": ("fmnist", 0.1, "oracle"),
}
BINS = 50  # of the regression tables


def block(name: str, seed: int, device: str | None = None, short: bool = False) -> list[Row]:
    """All rows of one set and seed; on a card no local best, whose trees need none."""
    start = time.process_time()
    study = NumberStudy(name, bins=(BINS,), seeds=1, first_seed=seed) if name in NUMBERS else None
    if study is not None and not short:
        with remembering():
            rows = run_regression(study)
    else:
        if study is not None:
            own = sites(load_numbers(name, None), seed=seed)
            it = draw_numbers(study, own, BINS, seed, "honest")
        else:
            it = replace(draw(*CLASSES[name], seed), device=device)
        wanted = (LOCAL_BEST, LORE) if short else APPROACHES
        rows = compare(it, [a for a in wanted if device is None or a is not LOCAL_BEST])
        rows = rows if study is None else [{**row, "range": it.name} for row in rows]
    spent = round(time.process_time() - start, 1)
    return [{**row, "set": name, "cpu": spent} for row in rows]


def compute(
    sets: Sequence[str],
    seeds: Iterable[int],
    out: Path,
    device: str | None = None,
    short: bool = False,
) -> None:
    """Every block that the file does not have yet."""
    rows = list(read_rows(out)) if out.exists() else []
    seeds = list(seeds)
    for name in sets:
        for seed in seeds:
            if any(row["set"] == name and row["seed"] == seed for row in rows):
                continue
            rows += block(name, seed, device, short)
            write_rows(rows, out)
            print(f"{name} seed {seed}: {rows[-1]['cpu']} CPU seconds", flush=True)


def means(rows: Iterable[Row], metric: str) -> dict[str, dict[int, float]]:
    """Mean over clients by approach and seed."""
    cells: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        value = row.get(metric)
        if value is not None:
            by_seed = cells.setdefault(str(row["approach"]), {})
            by_seed.setdefault(int(row["seed"] or 0), []).append(float(value))
    return {
        name: {seed: sum(v) / len(v) for seed, v in sorted(by_seed.items())}
        for name, by_seed in cells.items()
    }


def table(rows: Sequence[Row], name: str) -> str:
    """One set as Markdown: means, and lore minus the others paired by seed."""
    parts = [f"## {name}"]
    for kind in dict.fromkeys(str(row.get("range") or "expert") for row in rows):
        some = [row for row in rows if str(row.get("range") or "expert") == kind]
        parts.append(_kind(some, name, kind))
    return "\n\n".join(parts) + "\n"


def _kind(rows: Sequence[Row], name: str, kind: str) -> str:
    numbers = name in NUMBERS
    metric, unit, scale = ("rmse", "RMSE", 1.0) if numbers else ("ta", "TA, %", 100.0)
    found = means(rows, metric)
    ours = found.get("lore", {})
    broken = means(rows, "pov")
    seeds = sorted(ours)
    lines = [
        f"{kind} ranges, seeds {_spans(seeds)}; {unit} ± 95 %. Above 0 lore is better.",
        "",
        f"| approach | {unit} | violations, % | lore against it, paired |",
        "|:---|---:|---:|---:|",
    ]
    for approach, by_seed in found.items():
        both = [seed for seed in seeds if seed in by_seed]
        if not both:
            continue
        mean = interval([scale * by_seed[seed] for seed in both])
        pov = broken.get(approach, {})
        out = 100 * sum(pov[s] for s in both) / len(both) if all(s in pov for s in both) else None
        gap = "–"
        if approach != "lore":
            sign = -1.0 if numbers else 1.0
            mine = [sign * scale * ours[seed] for seed in both]
            gap = _gap(
                pair_interval(mine, [sign * scale * by_seed[seed] for seed in both]), numbers
            )
        few = "" if len(both) == len(seeds) else f" ({len(both)} seeds)"
        share = "–" if out is None else "0" if out == 0 else f"{out:.2f}"
        lines.append(f"| {approach}{few} | {_mean(mean, numbers)} | {share} | {gap} |")
    return "\n".join(lines)


def changes(rows: Sequence[Row], before: Sequence[Row]) -> str:
    """lore against the rows `lore before` of another file, paired by seed: a line for each set."""
    lines = []
    for name in dict.fromkeys(str(row["set"]) for row in rows):
        numbers = name in NUMBERS
        metric = "rmse" if numbers else "ta"
        ours, theirs = (
            means([row for row in some if row["set"] == name], metric).get(approach, {})
            for some, approach in ((rows, "lore"), (before, "lore before"))
        )
        both = sorted(set(ours) & set(theirs))
        if both:
            pairs = [(ours[s], theirs[s]) for s in both]
            gap = interval([100 * (a / b - 1 if numbers else a - b) for a, b in pairs])
            now, was = (sum(each) / len(both) for each in zip(*pairs, strict=True))
            unit = "%" if numbers else "points"
            lines.append(
                f"{name}, seeds {_spans(both)}: {was:.4g} before, {now:.4g} now, "
                f"{gap.mean:+.2f} {unit} ({gap.low:+.2f} to {gap.high:+.2f})"
            )
    return "\n".join(lines)


def _mean(found: MeanInterval, numbers: bool) -> str:
    text = f"{found.mean:.4g}" if numbers else f"{found.mean:.1f}"
    if found.half != found.half:
        return text
    return f"{text} ± {found.half:.2g}" if numbers else f"{text} ± {found.half:.1f}"


def _gap(gap: MeanInterval, numbers: bool) -> str:
    form = "+.3g" if numbers else "+.1f"
    span = "" if gap.half != gap.half else f" ({gap.low:{form}} to {gap.high:{form}})"
    return f"{gap.mean:{form}}{span}"


def _spans(seeds: Sequence[int]) -> str:
    if seeds and list(seeds) == list(range(seeds[0], seeds[-1] + 1)) and len(seeds) > 1:
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def summary(rows: Sequence[Row], tables: Path | None) -> str:
    """All sets of the rows, one after another; with `tables` each also as a file there."""
    parts = []
    for name in dict.fromkeys(str(row["set"]) for row in rows):
        mine = [row for row in rows if row["set"] == name]
        parts.append(table(mine, name))
        if tables is not None:
            (tables / f"lore2-{name}.md").write_text(parts[-1], encoding="utf-8")
    return "\n".join(parts)


def _read_all(paths: Sequence[Path]) -> list[Row]:
    return [row for path in paths for row in read_rows(path)]


def run_evidence(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.evidence")
    parser.add_argument("--sets", default="coke", help=", ".join((*CLASSES, *NUMBERS)))
    parser.add_argument("--seeds", default="100-101", help="a-b, both included")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", help="cuda: networks train on the card")
    parser.add_argument("--short", action="store_true", help="local best and lore alone")
    parser.add_argument("--summary", nargs="+", type=Path, help="files to read; computes nothing")
    parser.add_argument("--before", type=Path, help="with --summary: rows `lore before` of a file")
    parser.add_argument("--tables", type=Path, help="a folder for lore2-SET.md")
    given = parser.parse_args(arguments)
    if given.summary:
        rows = _read_all(given.summary)
        print(summary(rows, given.tables))
        if given.before is not None:
            print(changes(rows, _read_all([given.before])))
        return
    if given.out is None:
        parser.error("--out is needed")
    sets = given.sets.split(",")
    for name in sets:
        if name not in (*CLASSES, *NUMBERS):
            parser.error(f"unknown set '{name}'; known: {', '.join((*CLASSES, *NUMBERS))}")
    torch.set_num_threads(1)
    compute(sets, parse_seeds(given.seeds), given.out, given.device, given.short)


if __name__ == "__main__":
    try:
        run_evidence()
    except FedloreError as error:
        sys.exit(f"error: {error}")
