"""What did taking part bring each site? Its own table, kept in its own folder of the results."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.rng import stream
from ..core.store import write_private
from ..engine import Client, Fitted, NumberClient
from ..engine.lore.report import measure_line
from ..errors import FedloreError
from ..models.benefit import Benefit
from ..models.client import Predictor
from .sites import Gathering

_FOLDS = 3
WITHOUT = "federation without knowledge"


def write_tables(gathering: Gathering, fitted: Fitted[Any], out: Path) -> None:
    """Each site's table as benefit.json in its own folder."""
    plain = losses_without_knowledge(gathering)
    for client in gathering.clients:
        if client.id not in fitted.tables:
            continue
        table = fitted.benefit(client.id)
        if client.id in plain:
            table = with_line(table, plain[client.id])
        path = benefit_path(out, client.id)
        text = json.dumps({"site": client.id, **table.plain()}, indent=2, ensure_ascii=False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_private(path, f"{text}\n".encode())
        except OSError as error:
            raise FedloreError(f"cannot write to '{path}': {error.strerror}") from None


def benefit_path(out: Path, client: str) -> Path:
    """Where the table of one site stands."""
    return out / "sites" / client / "benefit.json"


def with_line(table: Benefit, losses: Tensor) -> Benefit:
    """The table with the federation that knows nothing, before the one that does."""
    line = measure_line(WITHOUT, losses, table.measure)
    names = [one.name for one in table.lines]
    at = names.index("network") if "network" in names else len(names) - 1
    return replace(table, lines=(*table.lines[:at], line, *table.lines[at:]))


@torch.no_grad()
def losses_without_knowledge(gathering: Gathering) -> dict[str, Tensor]:
    """The loss of FL on each training row, (n,), by a training that had not seen it.

    Of classes whether it is wrong, of a number the squared error.
    """
    setting = gathering.setting
    clients = [c for c in gathering.clients if len(c.data) >= _FOLDS]
    if len(clients) < len(gathering.clients):
        return {}  # a site would be away from some of the trainings
    places = {c.id: _places(c, setting.seed) for c in clients}
    found = {c.id: torch.zeros(len(c.data), dtype=torch.float64) for c in clients}
    for fold in range(_FOLDS):
        with torch.enable_grad():
            fitted = gathering.train(
                [c.select(places[c.id] != fold).bare() for c in clients], setting.privacy
            )
        for client in clients:
            away = places[client.id] == fold
            found[client.id][away] = _losses(fitted.model(client.id), client, away)
    return found


def _losses(model: Predictor, client: Client | NumberClient, rows: Tensor) -> Tensor:
    held = client.data[rows]
    assert held.y is not None  # read with its label
    missed = model.predict(held.x) - held.y
    return missed.square() if missed.is_floating_point() else missed.ne(0).double()


def _places(client: Client | NumberClient, seed: int) -> Tensor:
    """The fold of each training row, (n,)."""
    draw = stream(seed, "brought", client.id)
    return torch.randperm(len(client.data), generator=draw).argsort() % _FOLDS
