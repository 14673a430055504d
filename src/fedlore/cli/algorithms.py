"""fedlore algorithms: what there is to choose from, and what it costs."""

from dataclasses import asdict
from json import dumps
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ..algorithms import Algorithm, facts_of, installed_algorithms, settings_of
from ..core.aggregate import AGGREGATES
from .screen import Grid


def algorithms(
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> None:
    """List the federated algorithms: paper, settings, traffic, and what each needs."""
    console = Console()
    if json:
        described = {name: _describe(kind) for name, kind in installed_algorithms().items()}
        console.print_json(dumps(described, ensure_ascii=False))
        return
    table = Grid(show_lines=True)
    table.add_column("name", no_wrap=True)
    table.add_column("down + up", no_wrap=True)
    table.add_column("paper, settings with symbol and default, needs", overflow="fold")
    for name, kind in installed_algorithms().items():
        facts = facts_of(kind)
        lines = [facts.paper]
        for s in settings_of(kind):
            lines.append(f"{_sign(s.name, s.symbol)} = {_show(s.default)}: {s.meaning}")
        if facts.note:
            lines.append(f"sends: {facts.note}")
        lines.append(f"needs: {', '.join(facts.needs) or 'nothing'}")
        table.add_row(name, f"{facts.down:g} + {facts.up:g}", Text("\n".join(lines)))
    console.print(table)
    console.print(
        "down + up: what a client gets and returns in a round, in multiples of the model.\n"
        f"Aggregates at the server: {', '.join(AGGREGATES)}.",
        highlight=False,
    )


def _describe(kind: type[Algorithm]) -> dict[str, object]:
    facts = facts_of(kind)
    return {
        "paper": facts.paper,
        "settings": [asdict(s) for s in settings_of(kind)],
        "down": facts.down,
        "up": facts.up,
        "note": facts.note,
        "needs": facts.needs,
    }


def _sign(name: str, symbol: str) -> str:
    return f"{name} ({symbol})" if symbol else name


def _show(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "()"
    return f"{value:g}" if isinstance(value, float) else str(value)
