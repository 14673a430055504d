"""fedlore algorithms: what there is to choose from, and what it costs."""

from dataclasses import asdict

from rich.text import Text

from ..algorithms import Algorithm, facts_of, installed_algorithms, settings_of
from ..core.aggregate import AGGREGATES
from .screen import Grid
from .teller import teller


def algorithms() -> None:
    """List the federated algorithms: paper, settings, traffic, and what each needs."""
    told = teller()
    told.give({name: _describe(kind) for name, kind in installed_algorithms().items()})
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
    told.show(table)
    told.say("down + up: what a client gets and returns in a round, in multiples of the model.")
    told.say(f"Aggregates at the server: {', '.join(AGGREGATES)}.")


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
