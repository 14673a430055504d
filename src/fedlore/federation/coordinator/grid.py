"""A training over a Flower grid that somebody else runs: the one loop inside a ServerApp."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...engine import Run
from ...engine.loop import start_run
from ...errors import ConfigError, FedloreError, unknown
from ..flower.hello import StockGrid, meet_sites
from ..flower.transport import Mail
from ..remote import LinkLost
from ..settings import Federation, read_deployed
from ..terms import terms_of
from .status import Reports, line_reports, read_status, score_text
from .training import Way, coordinator_filters, train_over

#: What `flwr run app --run-config` may say, and what it is without.
RUN_CONFIG: dict[str, Any] = {
    "sites": 3,  # SuperNodes to wait for
    "wait": 300.0,  # seconds to wait for them
    "out": "results",  # the folder of journal, scores and shared weights, where the SuperLink runs
    "rounds": 0,  # in place of those in federation.toml
    "resume": False,  # go on after the last round in the journal
    "simulate": "",  # in a simulation: the folder of the sites' folders
}


def grid_way(
    folder: Path, federation: Federation, keys: dict[str, bytes], reports: Reports, grid: Any
) -> Way:
    """The way over somebody else's SuperLink and SuperNodes."""

    @contextmanager
    def open() -> Iterator[Mail]:
        try:
            yield Mail(StockGrid(grid), keys)
        except LinkLost as error:  # Flower itself has tried again before
            raise FedloreError(
                f"{error}: nothing is lost, submit the run again with --run-config 'resume=true'",
                code="connection",
            ) from None

    def all_here() -> bool:
        return {n.public_key for n in StockGrid(grid).get_nodes()} >= set(keys.values())

    return Way(folder, federation, keys, reports, open, all_here)


def train_on_grid(
    grid: Any, config: Mapping[str, Any], app: Path, say: Callable[[str], None]
) -> Run:
    """Train as the federation.toml in the app's folder says, over all nodes of the grid."""
    asked = read_run_config(config)
    federation = read_deployed(app, address=False)
    if asked["rounds"]:
        federation = replace(federation, rounds=asked["rounds"])
    terms = terms_of(federation, run="", participants=asked["sites"])
    coordinator_filters(terms)  # refused before anybody is asked
    start_run(terms.recipe())
    out = Path(asked["out"]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    say(f"'{federation.name}': {federation.rounds} rounds; journal and results in {out}")
    keys = meet_sites(grid, asked["sites"], patience=asked["wait"], say=say)
    reports = line_reports(federation.rounds, say, times=False)
    run = train_over(grid_way(out, federation, keys, reports, grid), resume=asked["resume"])
    for row in read_status(out)["scores"]:
        scores = {k: v for k, v in row.items() if k not in ("round", "client")}
        say(f"{row['client']}: {', '.join(f'{k} {score_text(v)}' for k, v in scores.items())}")
    say(f"shared weights: {out / 'shared.weights'}; each site holds its own personal.weights")
    return run


def read_run_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The run-config with what it leaves open; what cannot be is an error that says so."""
    found = dict(RUN_CONFIG)
    for name, value in config.items():
        if name not in RUN_CONFIG:
            raise ConfigError(f"run-config: {unknown('key', name, list(RUN_CONFIG))}")
        kind = type(RUN_CONFIG[name])
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise ConfigError(f"run-config: {name} must be {kind.__name__}, got {value!r}")
        found[name] = value
    for name, least in (("sites", 1), ("rounds", 0), ("wait", 1.0)):
        if found[name] < least:
            raise ConfigError(f"run-config: {name} must be at least {least}, got {found[name]}")
    if not found["out"]:
        raise ConfigError("run-config: out must name a folder, got ''")
    return found
