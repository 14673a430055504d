"""What did taking part bring each site? Its own table, kept in its own folder of the results."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ..core.examples import Examples
from ..core.metrics import decide
from ..core.rng import stream
from ..core.store import write_private
from ..engine import Client, Fitted, fit
from ..errors import FedloreError
from ..personal.brought import Brought, Line
from ..personal.classifier import Personal
from .federations import Gathering
from .intervals import wilson

_FOLDS = 3
WITHOUT = "federation without knowledge"


def write_tables(gathering: Gathering, fitted: Fitted[Personal], out: Path) -> None:
    """Each site's table as brought.json in its own folder."""
    plain = right_without_knowledge(gathering)
    for client in gathering.clients:
        if client.id not in fitted.tables:
            continue
        table = fitted.brought(client.id)
        if client.id in plain:
            table = with_line(table, plain[client.id])
        path = brought_path(out, client.id)
        text = json.dumps({"site": client.id, **table.plain()}, indent=2, ensure_ascii=False)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_private(path, f"{text}\n".encode())
        except OSError as error:
            raise FedloreError(f"cannot write to '{path}': {error.strerror}") from None


def brought_path(out: Path, client: str) -> Path:
    """Where the table of one site stands."""
    return out / "sites" / client / "brought.json"


def with_line(table: Brought, right: Tensor) -> Brought:
    """The table with the federation that knows nothing, before the one that does."""
    share = float(right.double().mean())
    line = Line(WITHOUT, share, *wilson(share, len(right)))
    names = [one.name for one in table.lines]
    at = names.index("network") if "network" in names else len(names) - 1
    return replace(table, lines=(*table.lines[:at], line, *table.lines[at:]))


@torch.no_grad()
def right_without_knowledge(gathering: Gathering) -> dict[str, Tensor]:
    """Whether FL is right on each training row, (n,) bool, by a training that had not seen it."""
    setting = gathering.setting
    clients = [c for c in gathering.clients if len(c.data) >= _FOLDS]
    if len(clients) < len(gathering.clients):
        return {}  # a site would be away from some of the trainings
    places = {c.id: _places(c, setting.seed) for c in clients}
    right = {c.id: torch.zeros(len(c.data), dtype=torch.bool) for c in clients}
    for fold in range(_FOLDS):
        with torch.enable_grad():
            fitted = fit(
                _without(clients, places, fold),
                gathering.make_model(setting.model.hears),
                algorithm=setting.algorithm.make(),
                plan=setting.plan,
                rounds=setting.rounds,
                scale=gathering.scaling,
                seed=setting.seed,
                sample=setting.sample,
                weights=setting.weights,
                privacy=setting.privacy,
            )
        for client in clients:
            away = places[client.id] == fold
            held = client.data[away]
            said = decide(fitted.model(client.id).log_probs(Examples(held.x)), None)
            right[client.id][away] = said == held.y
    return right


def _without(clients: Sequence[Client], places: dict[str, Tensor], fold: int) -> list[Client]:
    less = [replace(c, data=c.data[places[c.id] != fold], test=None) for c in clients]
    return [client.bare() for client in less]


def _places(client: Client, seed: int) -> Tensor:
    """The fold of each training row, (n,)."""
    n = len(client.data)
    order = torch.randperm(n, generator=stream(seed, "brought", client.id))
    return order.argsort() % _FOLDS
