"""The estimators on the ten tables of `studies.tables`: what do rules add to a bare model?

    python -m studies.estimators RESULTS.jsonl --draws 3

Each site's rows teach four models of scikit-learn as they are, and the same four behind the
site's knowledge file (`KnowledgeClassifier(file, estimator=model, trust="auto")`). What the
estimators take by themselves is the row "local best" of `studies.tables`.
"""

import argparse
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .tables import TABLES, Table, makers, score_answers, write_folder


def compare(table: Table, draw: int) -> list[dict[str, Any]]:
    """A row per site and model: its score bare and with knowledge."""
    import pandas

    from fedlore.sklearn import KnowledgeClassifier, KnowledgeRegressor

    kind = KnowledgeClassifier if table.classes else KnowledgeRegressor
    rows = []
    with tempfile.TemporaryDirectory() as name:
        write_folder(table, Path(name), draw)
        for home in sorted((Path(name) / "sites").iterdir()):
            train, test = (pandas.read_csv(home / f"{part}.csv") for part in ("train", "test"))
            x, y = list(table.features), table.label
            file = home / "knowledge.toml"
            tag = {"table": table.name, "draw": draw, "site": home.name}
            for model, make in makers(table, trees=100).items():
                bare = make().fit(train[x], train[y]).predict(test[x])
                known = kind(file, estimator=make(), trust="auto").fit(train[x], train[y])
                pair = {"bare": bare, "known": known.predict(test[x])}
                scores = {k: score_answers(said, test[y], table) for k, said in pair.items()}
                rows.append({**tag, "model": model, "trust": known.trust_} | scores)
    return rows


def summarise(rows: list[dict[str, Any]]) -> list[str]:
    """A line per table: each model bare, and what knowledge adds; points, or % of RMSE."""
    lines = []
    for table in TABLES:
        own = [row for row in rows if row["table"] == table.name]
        cells = []
        for model in dict.fromkeys(row["model"] for row in own):
            mine = [row for row in own if row["model"] == model]
            known = float(np.mean([row["known"] for row in mine]))
            bare = float(np.mean([row["bare"] for row in mine]))
            gain = 100 * (known - bare) if table.classes else 100 * (1 - known / bare)
            cells.append(f"{model} {100 * bare if table.classes else bare:.2f} {gain:+.2f}")
        if own:
            lines.append(f"{table.name}: " + ", ".join(cells))
    return lines


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("out", type=Path)
    parse.add_argument("--draws", type=int, default=3)
    parse.add_argument("--first", type=int, default=0)
    parse.add_argument("--only", nargs="*", default=[table.name for table in TABLES])
    args = parse.parse_args()
    warnings.simplefilter("ignore")
    found: list[dict[str, Any]] = []
    with open(args.out, "w", encoding="utf-8") as file:
        for table in TABLES:
            for draw in (
                range(args.first, args.first + args.draws) if table.name in args.only else ()
            ):
                rows = compare(table, draw)
                found += rows
                file.writelines(json.dumps(row) + "\n" for row in rows)
                file.flush()
                print(summarise(rows)[0], flush=True)
    print("\n".join(summarise(found)))


if __name__ == "__main__":
    main()
