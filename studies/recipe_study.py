"""The study behind `lore` and `trust = auto`: many processes, one file of rows each.

python -m studies.recipe_study --dataset covtype --share 0.01 --range oracle
    --seeds 0-9 --out rows.jsonl

Per seed: own best, the paper's approaches, FL+mask, lore 1, FLwKM with one λ for all from 0 to
0.5, FLwKM with private λ, and lore. A finished seed is not computed again. `--summary` reads such
files and prints means and paired differences.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from fedlore.core.history import Row, read_rows, write_rows
from fedlore.errors import FedloreError
from fedlore.personal.own.memory import remembering
from fedlore.workbench.approaches import (
    FL,
    FL_MASK,
    FLWKM,
    LORE_1,
    ML,
    MLWKM,
    OWN_BEST,
    PKM,
)
from fedlore.workbench.comparing import compare
from fedlore.workbench.paper.drawings import StudyDrawing, drawing
from fedlore.workbench.recipe import auto_rows, lore_rows

from .recipe_summary import recipe_summary_text
from .seeds import parse_seeds

TRUSTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


@remembering()  # own best and the mixture of lore need the same models of every site
def measure(it: StudyDrawing, *, parts: Sequence[str]) -> list[Row]:
    """All rows of one seed; `parts` are any of paper, fixed, auto, lore."""
    settings = {"plan": it.plan, "rounds": it.rounds, "seed": it.seed, "scale": it.scale}
    rows: list[Row] = []
    if "paper" in parts:
        several = (OWN_BEST, ML, PKM, MLWKM, FL, FLWKM, FL_MASK, LORE_1)
        rows += compare(
            it.clients,
            it.make_model,
            approaches=several,
            ordered=it.ordered,
            **settings,
        )
    if "fixed" in parts:
        for trust in TRUSTS:
            same = [row for row in rows if row["approach"] == FLWKM.name]
            if same and all(c.knowledge.trust == trust for c in it.clients):
                rows += [{**row, "approach": f"FLwKM {trust:g}", "trust": trust} for row in same]
                continue
            one = replace(FLWKM, name=f"FLwKM {trust:g}", trust=trust)
            found = compare(it.clients, it.make_model, approaches=[one], **settings)
            rows += [{**row, "trust": trust} for row in found]
    if "auto" in parts:
        rows += auto_rows(it.clients, it.make_model, **settings)
    if "lore" in parts:
        found, _ = lore_rows(it.clients, it.make_model, ordered=it.ordered, **settings)
        rows += found
    return rows


def run_recipe_study(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="studies.recipe_study")
    parser.add_argument("--dataset", choices=("covtype", "fmnist", "coke"), default="covtype")
    parser.add_argument("--share", type=float, default=0.01)
    parser.add_argument("--range", default="oracle", help="oracle, conformal99, ...")
    parser.add_argument("--seeds", default="0-0", help="a-b, both included")
    parser.add_argument("--parts", default="paper,fixed,auto,lore")
    parser.add_argument("--protocol", default="fair")
    parser.add_argument("--core", type=int, help="stay on this core; for many processes at once")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--summary", nargs="+", type=Path, help="files to read; computes nothing")
    given = parser.parse_args(arguments)
    if given.summary:
        print(recipe_summary_text([row for path in given.summary for row in read_rows(path)]))
        return
    if given.out is None:
        parser.error("--out is needed")
    torch.set_num_threads(1)
    if given.core is not None:
        os.sched_setaffinity(0, {given.core})
    coke = given.dataset == "coke"
    kind, share = ("expert", 1.0) if coke else (given.range, given.share)
    parts = given.parts.split(",")
    rows = list(read_rows(given.out)) if given.out.exists() else []
    for seed in parse_seeds(given.seeds):
        tags = {"dataset": given.dataset, "range": kind, "share": share}
        there = {"part": ",".join(parts), **tags, "seed": seed}
        if any(all(row.get(k) == v for k, v in there.items()) for row in rows):
            continue
        start = time.process_time()
        it = drawing(given.dataset, share, kind, seed, given.protocol)
        found = measure(it, parts=parts)
        spent = round(time.process_time() - start, 1)
        rows += [{**tags, "protocol": given.protocol, **r, "part": ",".join(parts)} for r in found]
        write_rows(rows, given.out)
        print(f"{given.dataset} {share:g} {kind} seed {seed}: {spent} CPU seconds", flush=True)


if __name__ == "__main__":
    try:
        run_recipe_study()
    except FedloreError as error:
        sys.exit(f"error: {error}")
