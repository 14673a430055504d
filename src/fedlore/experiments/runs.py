"""A federation of a user's own files in one process: approaches, scores, weights, resumed."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..algorithms import FedAvg
from ..core.history import Row, read_rows
from ..core.scaler import Scaler
from ..core.store import pack_payload, unpack_payload, write_whole
from ..core.tree import Params, Payload
from ..engine import Client, Fitted, NumberClient
from ..errors import FedloreError
from ..federation.settings import Federation
from ..knowledge.kinds import kind_of
from ..personal.own.best import OwnModel
from ..personal.own.memory import remembering
from .approaches import Approach, say_chosen, train_approach, training, trust_of
from .brought import write_tables
from .bundles import KEPT, keep_bundle
from .cells import ResultCell, ResultLedger, package_versions, replace_rows, settings_fingerprint
from .comparing import judge_classes
from .confusion import confusion
from .federations import Gathering
from .numbers import judge_number, own_number_best
from .ownbest import own_best, too_few

OnApproach = Callable[[str, bool], None]  # its name, and whether it was computed just now


@dataclass(frozen=True)
class Finished:
    """All rows of a run."""

    rows: list[Row]
    history: list[Row]
    confusion: list[Row]
    left_out: dict[str, str]  # approach -> why it could not be run


@remembering()  # own best and the mixture of lore need the same models of every site
def run_federation(
    gathering: Gathering, out: Path, *, on_approach: OnApproach | None = None
) -> Finished:
    """Compute what is not finished yet; rows, weights and side files go to `out`."""
    ledger = ResultLedger(out / "results.jsonl")
    trained: dict[Approach, Fitted[Any]] = {}
    rows: list[Row] = []
    left_out: dict[str, str] = {}
    for approach in gathering.approaches:
        silent = [c.id for c in gathering.clients if c.knowledge.prediction is None]
        if approach.silent and silent:
            left_out[approach.name] = f"site '{silent[0]}' has no P-KM"
            continue
        few = too_few(gathering.clients) if approach.alone else None
        if few is not None:
            left_out[approach.name] = few
            continue
        cell = _cell(gathering, approach)
        config = _config(gathering, approach)
        found = ledger.find(cell, config)
        fresh = not found or not _weights_there(out, approach, gathering.clients)
        if fresh:
            made = _compute(gathering, approach, trained)
            _save(out, cell, approach, made, gathering)
            if made.fitted is not None and made.fitted.tables:
                write_tables(gathering, made.fitted, out)
            own = {"config": config, "versions": package_versions()}
            found = [{**cell.tags, **row, **own} for row in made.rows]
            ledger.add(cell, found)
        rows += found
        if on_approach is not None:
            on_approach(approach.name, fresh)
    return Finished(rows, _read(out / HISTORY), _read(out / CONFUSION), left_out)


HISTORY, CONFUSION = "rounds.jsonl", "confusion.jsonl"


@dataclass(frozen=True, eq=False)
class _Made:
    """One approach, computed."""

    rows: list[Row]
    history: list[Row]
    confusion: list[Row]
    fitted: Fitted[Any] | None
    clients: Sequence[Client] | Sequence[NumberClient]


def _compute(
    gathering: Gathering, approach: Approach, trained: dict[Approach, Fitted[Any]]
) -> _Made:
    setting, clients = gathering.setting, gathering.clients
    every = math.ceil(setting.rounds / 20)
    fitted, best = None, {}
    if approach.alone:
        best = _own_best(gathering)
    approach = _adapt(approach, setting)
    if approach.algorithm is not None:
        key = training(approach)
        if key not in trained:
            trained[key] = train_approach(
                approach,
                clients,
                gathering.make_model,
                plan=setting.plan,
                rounds=setting.rounds,
                seed=setting.seed,
                scale=gathering.scaling,
                every=every,
                sample=setting.sample,
                weights=setting.weights,
                privacy=setting.privacy,
                bins=gathering.bins,
                hidden=setting.model.hidden,
                shaped=setting.model.lipschitz,
            )
        fitted = trained[key]
    rows: list[Row] = []
    mistakes: list[Row] = []
    for client in clients:
        if isinstance(client, NumberClient):
            assert gathering.bins is not None
            found: dict[str, float | str] = judge_number(
                approach, fitted, client, gathering.bins, best
            )
        else:
            predicted, found = judge_classes(approach, fitted, client, best)
            mistakes += _confusion(client, predicted)
        picked = {"chosen": best[client.id].member.name} if approach.alone else say_chosen(fitted)
        rows.append(
            {"model": approach.model, "client": client.id, **found, **picked, **_spent(fitted)}
        )
    own = approach.guarded == approach.trained  # else these weights are another approach's
    history = _history(fitted) if own and fitted is not None else []
    return _Made(rows, history, mistakes, fitted, clients)


def _own_best(gathering: Gathering) -> dict[str, OwnModel]:
    """What each site gets without anybody; there are no weights to keep."""
    seed, clients, bins = gathering.setting.seed, gathering.clients, gathering.bins
    if bins is not None:
        numbers = [c for c in clients if isinstance(c, NumberClient)]
        return own_number_best(numbers, bins, seed=seed)
    return own_best([c for c in clients if isinstance(c, Client)], seed=seed)


def _history(fitted: Fitted[Any]) -> list[Row]:
    """Scores over rounds; the log-loss is left out, it is infinite where a range misses a label."""
    names = ("round", "client", "ta", "rmse", "pov")
    scored = [row for row in fitted.history if "ta" in row or "rmse" in row]
    return [{n: row[n] for n in names if n in row} for row in scored]


def _spent(fitted: Fitted[Any] | None) -> dict[str, str]:
    """What privacy cost in this training, where it cost anything."""
    return {} if fitted is None or not fitted.privacy else {"privacy": "; ".join(fitted.privacy)}


def _confusion(client: Client, predicted: torch.Tensor) -> list[Row]:
    assert client.test is not None and client.test.y is not None
    return [{"client": client.id, **row} for row in confusion(predicted, client.test.y)]


def _adapt(approach: Approach, setting: Federation) -> Approach:
    """The approach with the federation's own algorithm and kind of network."""
    if isinstance(approach.algorithm, FedAvg):
        approach = replace(approach, algorithm=setting.algorithm.make())
    return replace(approach, hears=approach.hears or setting.model.hears)


def _cell(gathering: Gathering, approach: Approach) -> ResultCell:
    setting = gathering.setting
    told = {c.knowledge.trust for c in gathering.clients}
    trust = trust_of(approach, told.pop()) if len(told) == 1 else None
    return ResultCell(
        setting.name, "own", _range(gathering.clients), approach.name, setting.seed, 1.0, trust
    )


def _range(clients: Sequence[Client] | Sequence[NumberClient]) -> str:
    """What kind of range the sites have."""
    ranges = [c.knowledge.range for c in clients if c.knowledge.range is not None]
    if not ranges:
        return "none"
    return "conformal" if any(kind_of(r) == "statistical" for r in ranges) else "expert"


def _config(gathering: Gathering, approach: Approach) -> str:
    setting = gathering.setting
    run = replace(setting.run, approaches=("ML",), sites="")
    what = replace(setting.without_deployment(), run=run)
    return settings_fingerprint(what, repr(approach), gathering.digest)


def weights_path(out: Path, approach: str, client: str) -> Path:
    """Where the personal weights of a site under an approach are kept."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", approach)
    return out / "weights" / safe / f"{client}{KEPT[0]}"


def write_weights(fitted: Fitted[Any], client: str, path: Path) -> None:
    """A site's own weights and the common scaler as a file of tensors."""
    personal = fitted.model(client).inner
    payload = {"weights": dict(personal.model.state_dict())}
    if personal.scaler is not None:
        payload["scaler"] = personal.scaler.tensors()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, pack_payload(payload, {"client": client}))
        path.with_suffix(KEPT[1]).unlink(missing_ok=True)
    except OSError as error:
        raise FedloreError(f"cannot write to '{path}': {error.strerror}") from None


def read_weights(path: str | Path) -> tuple[Params, Scaler | None]:
    """The weights and the scaler that `write_weights` wrote, also in the `.npz` of 0.1.0."""
    try:
        if Path(path).suffix == KEPT[1]:
            payload = _read_old(Path(path))
        else:
            payload = unpack_payload(Path(path).read_bytes())[1]
    except (OSError, ValueError, FedloreError) as error:
        raise FedloreError(f"'{path}' holds no weights: {error}") from None
    scaler = payload.get("scaler")
    return payload.get("weights", {}), None if scaler is None else Scaler.read(scaler, None)


def _read_old(path: Path) -> Payload:
    with np.load(path, allow_pickle=False) as file:
        found: Payload = {}
        for name in file.files:
            key, _, rest = name.partition(".")
            found.setdefault(key, {})[rest] = torch.from_numpy(file[name])
    return found


def _weights_there(
    out: Path, approach: Approach, clients: Sequence[Client] | Sequence[NumberClient]
) -> bool:
    if approach.algorithm is None:
        return True
    paths = [weights_path(out, approach.name, c.id) for c in clients]
    return all(any(path.with_suffix(end).exists() for end in KEPT) for path in paths)


def _save(
    out: Path, cell: ResultCell, approach: Approach, made: _Made, gathering: Gathering
) -> None:
    """Everything of one approach but its rows, which come last: they say that it is finished."""
    if made.fitted is not None:
        for client in made.clients:
            path = weights_path(out, cell.approach, client.id)
            write_weights(made.fitted, client.id, path)
            scores = next((r for r in made.rows if r["client"] == client.id), {})
            keep_bundle(
                path,
                approach,
                made.fitted,
                client,
                scores,
                signature=gathering.signatures.get(client.id),
                signed=gathering.setting.run.signed,
            )
    for name, rows in ((HISTORY, made.history), (CONFUSION, made.confusion)):
        replace_rows(out / name, [{**cell.tags, **row} for row in rows], cell.belongs)


def _read(path: Path) -> list[Row]:
    return read_rows(path) if path.exists() else []
