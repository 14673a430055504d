"""The `fedlore` command and its one way of reporting errors."""

import sys

import typer
from rich.console import Console

from ..errors import FedloreError
from .algorithms import algorithms
from .demo import demo
from .federation import app as federation
from .federation import doctor, join, server, status, train, up
from .lint import calibrate, lint
from .paper import app as paper
from .run import new, run
from .tune import tune_sites

app = typer.Typer(
    name="fedlore",
    help="Federated learning that knows what your experts know.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, lint, calibrate, algorithms):
    app.command()(command)
for command in (server, join, train, status, doctor, up):
    app.command()(command)
app.command()(new)
app.command()(run)
app.command("tune")(tune_sites)
app.add_typer(paper, name="paper")
app.add_typer(federation, name="federation")


@app.callback()
def _root() -> None:
    """Keeps subcommands named even while there is only one."""


def main() -> None:
    """Run a command; what the user can mend is one line on stderr and exit code 2."""
    try:
        app()
    except FedloreError as error:
        Console(stderr=True, highlight=False).print(f"error: {error}", markup=False)
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped")
        sys.exit(130)
