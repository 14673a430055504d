"""A whole federation on one machine: the four simulated coking plants, each in a folder."""

from pathlib import Path
from typing import Any

from fedlore.errors import FedloreError
from fedlore.federation.kits.kit import SECURE, add_local_site, init
from fedlore.federation.processes import free_port
from fedlore.knowledge import dump
from fedlore.privacy import LEAST

from .experts import BOUND, COKE, EDGES
from .plants import PROFILES, Plant, coking_plants
from .starter import write_examples


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
    asked: dict[str, Any] = {"rounds": rounds, "secure": secure, "recipe": recipe}
    init(folder, name="coke", address=address, schema=COKE, **asked)
    paths = {"data": "train.csv", "test": "test.csv", "knowledge": "knowledge.toml"}
    for plant in coking_plants(0, test_rows=test_rows)[:sites]:
        site = add_local_site(folder, plant.id, paths=paths)
        write_examples(site / "train.csv", plant.train, label=COKE.label, form="")
        write_examples(site / "test.csv", plant.test, label=COKE.label, form="")
        (site / "knowledge.toml").write_text(_knowledge(plant), encoding="utf-8")


def make_trial_here(folder: Path, *, sites: int, rounds: int, recipe: str) -> None:
    """The same on a free port of this machine."""
    address = f"127.0.0.1:{free_port()}"
    make_trial(folder, sites=sites, address=address, rounds=rounds, recipe=recipe)


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
