"""fedlore algorithms and bench: what can train, and how fast it does."""

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated

import torch
import typer
from rich.text import Text
from torch.nn.functional import one_hot

from ..algorithms import FedAvg, Plan, facts_of, installed_algorithms, settings_of
from ..core.aggregate import AGGREGATES
from ..core.examples import Examples
from ..core.nets import lenet5, mlp
from ..core.rng import stream
from ..core.wire import Task
from ..engine import Client, Local, Recipe, Stacked
from ..engine.stacked.workers import can_fork, cores
from ..errors import ConfigError
from ..knowledge import Knowledge
from ..look.tables import TextTable
from .screen import Grid, current_screen


def algorithms() -> None:
    """List the federated algorithms: paper, settings, traffic, and what each needs."""
    screen = current_screen()
    every = installed_algorithms().items()
    about = {}
    for name, kind in every:
        facts = facts_of(kind)
        settings = [asdict(one) for one in settings_of(kind)]
        about[name] = asdict(facts) | {"needs": facts.needs, "settings": settings}
    screen.give(about)
    table = Grid(show_lines=True)
    table.add_column("name", no_wrap=True)
    table.add_column("down + up", no_wrap=True)
    table.add_column("paper, settings with symbol and default, needs", overflow="fold")
    for name, kind in every:
        facts = facts_of(kind)
        lines = [facts.paper]
        for s in settings_of(kind):
            shown = f"{s.name} ({s.symbol})" if s.symbol else s.name
            lines.append(f"{shown} = {_show(s.default)}: {s.meaning}")
        if facts.note:
            lines.append(f"sends: {facts.note}")
        lines.append(f"needs: {', '.join(facts.needs) or 'nothing'}")
        table.add_row(name, f"{facts.down:g} + {facts.up:g}", Text("\n".join(lines)))
    screen.show(table)
    screen.say("down + up: what a client gets and returns in a round, in multiples of the model.")
    screen.say(f"Aggregates at the server: {', '.join(AGGREGATES)}.")


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "()"
    return f"{value:g}" if isinstance(value, float) else str(value)


FLEETS = (("mlp", 5), ("mlp", 100), ("lenet", 5))  # model, clients
CARD = (("mlp", 5), ("mlp", 100), ("mlp", 1000), ("mlp", 10_000), ("lenet", 100))


def bench(
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seconds: Annotated[float, typer.Option(min=0.1, help="Time for each measurement.")] = 2.0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes of the last column; all cores by default.")
    ] = None,
) -> None:
    """Measure how long a training step of one client takes with each engine."""
    if device not in ("cpu", "cuda"):
        raise ConfigError(f"device must be cpu or cuda, got '{device}'")
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("there is no card that torch can use: device must be cpu")
    torch.set_num_threads(1)
    processes = workers or (cores() if can_fork() else 1)
    screen, measured = current_screen(), list[dict[str, object]]()
    columns = ["one by one", "in stacks"]
    columns += ["in stacks, plain loss"] + [f"{processes} processes"] * (device == "cpu")
    rows: list[list[str]] = []
    for kind, count in FLEETS if device == "cpu" else CARD:
        clients = _clients(kind, count)
        bare = [c.bare() for c in clients]
        model = mlp(54, 7) if kind == "mlp" else lenet5(10)
        recipe = Recipe(model.to(device), FedAvg(), Plan())
        engines: list[Callable[[], Local | Stacked]] = [
            partial(Local, clients[:5], recipe),
            partial(Stacked, clients, recipe),
            partial(Stacked, bare, recipe),
        ]
        if device == "cpu":
            engines.append(partial(Stacked, clients, recipe, workers=processes))
        found = [_measure(engine(), recipe, seconds, device) for engine in engines]
        rows.append([kind, f"{count:,}", *(f"{value:,.2f}" for value in found)])
        each = dict(zip(columns, found, strict=True))
        measured.append({"model": kind, "clients": count, "µs per step": each})
    title = f"µs per client step on {device}, 32 rows, with knowledge"
    screen.show(TextTable.of(title, ("model", "clients", *columns), rows, words=()))
    screen.give({"device": device, "measured": measured})


def _clients(kind: str, count: int) -> list[Client]:
    """Simulated clients, 116 rows each, with an expert who is right now and then."""
    g, k, rows = stream("bench", kind), 7 if kind == "mlp" else 10, 116
    x = torch.rand(count * rows, *((54,) if kind == "mlp" else (1, 28, 28)), generator=g)
    y = torch.randint(k, (count * rows,), generator=g)
    allowed = one_hot(y, k).bool() | (torch.rand(count * rows, k, generator=g) < 0.3)
    guess = torch.where(allowed, torch.rand(count * rows, k, generator=g), -1.0).argmax(1)
    whole = Examples(x, y, one_hot(guess, k).float(), allowed)
    parts = (whole[i * rows : (i + 1) * rows] for i in range(count))
    return [Client(f"{i:05d}", part, Knowledge(trust=0.3)) for i, part in enumerate(parts)]


def _measure(engine: Local | Stacked, recipe: Recipe, seconds: float, device: str) -> float:
    """The fastest round, after one to warm up, in µs per client step."""
    names = sorted(engine.clients())
    sent = {"model": {n: p.detach().clone() for n, p in recipe.model.named_parameters()}}
    until, best, number = time.perf_counter() + seconds, float("inf"), 1
    while number < 3 or time.perf_counter() < until:
        began = time.perf_counter()
        list(engine.exchange(Task("train", number, sent, sums=True), names))
        if device == "cuda":
            torch.cuda.synchronize()
        if number > 1:
            best = min(best, time.perf_counter() - began)
        number += 1
    if isinstance(engine, Stacked):
        engine.close()
    return best / (recipe.plan.local_steps(116) * len(names)) * 1e6
