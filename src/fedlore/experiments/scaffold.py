"""A whole federation from one table: its rows dealt to sites, and a drafted knowledge file each."""

import csv
from collections.abc import Sequence
from pathlib import Path

import torch

from ..core.rng import stream
from ..data.draft import CellTable, Draft, draft_knowledge, read_cells
from ..data.rows import FileForm
from ..errors import FedloreError

_LEAST = 8  # rows of a site: a quarter is kept to test on


CONFIG = """\
name = "simulated coke"   # what tables and the report are called
rounds = 20
seed = 0
scale = true              # standardise features by sums that the sites add up first

[run]
sites = "sites"           # a folder with a folder per site, or a list of folders
approaches = ["local best", "ML", "P-KM", "MLwKM", "FL", "FLwKM", "FL+mask", "lore"]

[model]
kind = "mlp"
hidden = [32, 32]

[algorithm]
name = "fedavg"           # fedlore algorithms lists them and their settings

[plan]
epochs = 5
batch = 32
lr = 0.05
schedule = "cosine"
"""


def write_alike(
    folder: str | Path,
    rows: str | Path,
    *,
    label: str,
    sites: int = 4,
    seed: int = 0,
    form: FileForm | None = None,
) -> Draft:
    """Write a federation whose sites have the columns of a table, and each a share of its rows.

    Rows go to sites by chance, each label alike; the sites' files are plain CSV.
    """
    folder = Path(folder)
    check_empty(folder)
    table = read_cells(rows, form=form)
    draft = draft_knowledge(table, label, name=Path(rows).name)
    count = len(table.columns[0])
    if sites < 1 or count < _LEAST * sites:
        raise FedloreError(
            f"{table.place} has {count} rows: {sites} sites need at least {_LEAST} each"
        )
    place = table.find_label(label)
    owner = _owners(table, place, sites, seed)
    texts = [_written(table, column) for column in range(len(table.titles))]
    if draft.classes:
        texts[place] = table.labels(place)
    try:
        for site in range(sites):
            home = folder / "sites" / f"site-{site + 1}"
            home.mkdir(parents=True)
            mine = [i for i, which in enumerate(owner) if which == site]
            _write(home / "train.csv", table.titles, texts, mine)
            (home / "knowledge.toml").write_text(draft.text, encoding="utf-8")
        text = CONFIG.replace('"simulated coke"  ', f'"{folder.resolve().name}"  ')
        (folder / "federation.toml").write_text(text, encoding="utf-8")
    except OSError as error:
        raise FedloreError(f"cannot write to '{folder}': {error.strerror}") from None
    return draft


def _owners(table: CellTable, label: int, sites: int, seed: int) -> list[int]:
    """The site of each row: dealt out in turn by label, those that are alike shuffled."""
    texts = table.texts(label)
    numbers = table.numbers(label)
    keys: Sequence[object] = texts if numbers is None else numbers.tolist()
    order = torch.randperm(len(texts), generator=stream(seed, "alike")).tolist()
    order.sort(key=lambda i: (not texts[i], keys[i]))
    owner = [0] * len(texts)
    for turn, row in enumerate(order):
        owner[row] = turn % sites
    return owner


def _written(table: CellTable, column: int) -> list[str]:
    """A column as text with decimal points."""
    numbers, texts = table.numbers(column), table.texts(column)
    if numbers is None or table.decimal == ".":
        return texts
    return [text.replace(",", ".") for text in texts]


def _write(
    path: Path, titles: Sequence[str], texts: Sequence[Sequence[str]], rows: Sequence[int]
) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(titles)
        writer.writerows([column[i] for column in texts] for i in rows)


def check_empty(folder: Path) -> None:
    """Refuse a folder that is in use."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FedloreError(f"'{folder}' is not empty: name a new folder")
