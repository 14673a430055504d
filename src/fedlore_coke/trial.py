"""A whole federation on one machine: the four simulated coking plants, each in a folder."""

import csv
from pathlib import Path

from fedlore import Examples
from fedlore.errors import FedloreError
from fedlore.federation.kits.kit import SECURE, add_site, init, unpack
from fedlore.federation.processes import free_port
from fedlore.knowledge import dump
from fedlore.privacy import LEAST

from .experts import BOUND, COKE, EDGES
from .plants import PROFILES, Plant, coking_plants


def make_trial(
    folder: Path,
    *,
    sites: int,
    address: str,
    rounds: int = 10,
    test_rows: int = 200,
    secure: bool = SECURE,
    recipe: str = "none",
) -> None:
    """A coordinator's folder, and under sites/ what would lie on the plants' own machines."""
    if not 1 <= sites <= len(PROFILES):
        raise FedloreError(f"the trial has up to {len(PROFILES)} plants, got {sites}")
    secure = secure and sites >= LEAST
    init(
        folder,
        name="coke",
        address=address,
        schema=COKE,
        rounds=rounds,
        secure=secure,
        recipe=recipe,
    )
    home = folder / "sites"
    home.mkdir()
    paths = {"data": "train.csv", "test": "test.csv", "knowledge": "knowledge.toml"}
    for plant in coking_plants(0, test_rows=test_rows)[:sites]:
        kit = add_site(folder, plant.id, paths=paths)
        kit = kit.rename(home / kit.name)
        site = unpack(kit)
        kit.unlink()
        _write_rows(site / "train.csv", plant.train)
        _write_rows(site / "test.csv", plant.test)
        (site / "knowledge.toml").write_text(_knowledge(plant), encoding="utf-8")


def make_trial_here(folder: Path, *, sites: int, rounds: int, recipe: str) -> None:
    """The same on a free port of this machine."""
    address = f"127.0.0.1:{free_port()}"
    make_trial(folder, sites=sites, address=address, rounds=rounds, recipe=recipe)


def _write_rows(path: Path, data: Examples) -> None:
    assert data.y is not None
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow([*COKE.names, COKE.label])
        for row, y in zip(data.x.tolist(), data.y.tolist(), strict=True):
            out.writerow([*(repr(value) for value in row), COKE.classes[y]])


def _knowledge(plant: Plant) -> str:
    """This plant's expert as a knowledge file."""
    expert = plant.knowledge.prediction.model.expert  # type: ignore[union-attr]
    said = expert.text
    features = [
        {"name": f.name, "unit": f.unit, "low": f.low, "high": f.high} for f in COKE.features
    ]
    return dump(
        {
            "trust": plant.knowledge.trust,
            "outside": "widen",
            "label": COKE.label,
            "classes": list(COKE.classes),
            "edges": list(EDGES),
            "features": features,
            "card": {"owner": f"the expert of {plant.id}", "note": "simulated"},
            "predict": {"sources": [{"formula": said}]},
            "range": {"sources": [{"lower": f"{said} - {BOUND}", "upper": f"{said} + {BOUND}"}]},
        }
    )
