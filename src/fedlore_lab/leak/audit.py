"""The leak audit: settings against attacks, over seeds, resumable."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedlore.core.history import Row, check_writable, write_rows
from fedlore.core.store import replacing
from fedlore.engine import Client
from fedlore.errors import ConfigError, FedloreError
from fedlore.experiments import Drawing, gather, ordered_classes, settings_fingerprint
from fedlore.models.own import remembering

from ..paper.drawings import draw as draw_paper
from . import observe as leak_observe
from . import score as leak_score
from .attacks import ATTACKS, attack
from .observe import Observed, Watchtower
from .score import secrets_of
from .settings import LeakSetting

_SHARE = 0.01  # of Covtype's training part
CASES = ("coke", "covtype")
ENOUGH = 3  # seeds from which other seeds alone are the shadows
#: How many seeds tell what is usual; none of them is attacked. Plants are cheap, and unlike.
ELSEWHERE = {"coke": 40, "covtype": 8}
_FIRST = 10_000  # of those seeds

Draw = Callable[[int], Drawing]  # seed -> clients, networks and budget


def draw_case(case: str) -> Draw:
    """The simulated plants of the demo, or Covtype at 1 % with oracle ranges."""
    if case not in CASES:
        raise ConfigError(f"case must be one of {', '.join(CASES)}, got '{case}'")
    kind = "expert" if case == "coke" else "oracle"
    return lambda seed: draw_paper(case, _SHARE, kind, seed)


def of_sites(where: Path) -> Draw:
    """A user's own sites: a folder of site folders, or a federation.toml beside them."""
    found = gather(where)
    clients = [client for client in found.clients if isinstance(client, Client)]
    if not clients:
        raise FedloreError("the audit guesses classes: of a number there are none to guess")
    for client in clients:
        if client.data.prior is None or client.data.allowed is None:
            raise FedloreError(
                f"site '{client.id}' needs a prediction and a range: the audit asks what becomes "
                "of both"
            )
    if len(clients) < 2:
        raise FedloreError("the audit needs at least two sites: one is the shadow of the other")
    setting, ordered = found.setting, ordered_classes(clients)

    def draw(seed: int) -> Drawing:
        def model(hears: bool) -> Any:
            return setting.model.make(*found.size, hears=hears, seed=seed)

        return Drawing(
            clients, model, setting.plan, setting.rounds, seed, setting.scale, ordered=ordered
        )

    return draw


def audit(
    case: str,
    draw: Draw,
    *,
    settings: Sequence[LeakSetting],
    seeds: Sequence[int],
    out: Path,
    on_cell: Callable[[str, int], None] | None = None,
) -> list[Row]:
    """One row per setting, seed and site, with the error of every attack and that of no look.

    What was observed is kept in `cells`, so that a run that was stopped goes on where it was.
    """
    path = out / f"leak-{case}.jsonl"
    check_writable(path)
    cells = out / "cells"
    cells.mkdir(parents=True, exist_ok=True)
    seen: dict[str, list[Observed]] = {setting.name: [] for setting in settings}
    for seed in seeds:
        it = draw(seed)
        tower = Watchtower(it)
        with remembering():  # the models that sites make alone are the same in every view
            for setting in settings:
                config = _config(it, setting)
                place = cells / f"{_slug(case)}-{seed}-{_slug(setting.name)}.npz"
                observed = _load(place, config)
                if observed is None:
                    observed = tower.observe(setting)
                    _write(place, {"config": np.asarray(config), **observed.arrays()})
                seen[setting.name].append(observed)
                if on_cell is not None:
                    on_cell(setting.name, seed)
    own_shadows = case in CASES and len(seeds) >= ENOUGH
    usual = _usual(case, draw, cells) if case in CASES else None
    rows = [
        row
        for setting in settings
        for row in _rows(case, setting, seen[setting.name], seeds, usual, by_seed=own_shadows)
    ]
    write_rows(rows, path)
    return rows


def _rows(
    case: str,
    setting: LeakSetting,
    seen: Sequence[Observed],
    seeds: Sequence[int],
    usual: Mapping[str, Tensor] | None,
    *,
    by_seed: bool,
) -> list[Row]:
    groups = [[i if by_seed else s for s in range(len(o.sites))] for i, o in enumerate(seen)]
    errors = attack(seen, groups, usual)
    rows: list[Row] = []
    for seed, observed in zip(seeds, seen, strict=True):
        for i, site in enumerate(observed.sites):
            place = len(rows)
            scores: dict[str, float | None] = {}
            for name in ATTACKS:
                for what, values in zip(("error", "chance"), errors[name], strict=True):
                    value = values[place]
                    scores[f"{name} {what}"] = None if math.isnan(value) else round(value, 6)
            head: dict[str, Any] = {
                "case": case,
                "setting": setting.name,
                "view": setting.view,
                "seed": seed,
            }
            rows.append({**head, "site": site, "ta": round(float(observed.ta[i]), 6), **scores})
    return rows


def _usual(case: str, draw: Draw, cells: Path) -> dict[str, Tensor]:
    """What someone knows of every class who has simulated the case and saw no upload, (k,) each."""
    seeds = range(_FIRST, _FIRST + ELSEWHERE[case])
    place = cells / f"{case}-usual-{len(seeds)}.npz"
    if not place.exists():
        sites = [client for seed in seeds for client in draw(seed).class_clients]
        found = {name: torch.stack(rows).mean(0) for name, rows in secrets_of(sites).items()}
        _write(place, {name: value.numpy() for name, value in found.items()})
    return {name: torch.from_numpy(value) for name, value in _read(place).items()}


def _config(it: Drawing, setting: LeakSetting) -> str:
    sizes = [
        (c.id, len(c.data), round(float(c.data.x.double().sum()), 6)) for c in it.class_clients
    ]
    looked = (leak_score.EARLY, leak_score.LATE, leak_observe.PROBES, leak_observe.DRAWINGS)
    seen_as = replace(setting, about="")
    budget = (it.plan, it.rounds, it.seed, it.scale)
    return settings_fingerprint(repr(seen_as), *budget, sizes, looked)


def _load(place: Path, config: str) -> Observed | None:
    """A finished cell, or None where there is none, or one of other settings."""
    if not place.exists():
        return None
    arrays = _read(place)
    return Observed.of(arrays) if str(arrays.pop("config", "")) == config else None


def _write(place: Path, arrays: Mapping[str, Any]) -> None:
    with replacing(place) as file:
        np.savez_compressed(file, **arrays)


def _read(place: Path) -> dict[str, Any]:
    try:
        with np.load(place, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise FedloreError(f"'{place}' is not a cell of an audit: {error}; move it away") from None


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
