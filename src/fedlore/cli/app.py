"""The `fedlore` command and its one way of reporting errors."""

import sys
from collections.abc import Callable

import typer
from rich.console import Console

from ..errors import FedloreError
from .algorithms import algorithms
from .bench import bench
from .blend import blend
from .certify import certify
from .demo import demo
from .export import export
from .federation import app as federation
from .federation import doctor, join, server, status, train, up
from .leak import leak
from .lint import calibrate, lint
from .paper import app as paper
from .predict import predict
from .reknow import reknow
from .run import new, run
from .serve import serve
from .tune import tune_sites

app = typer.Typer(
    name="fedlore",
    help="Federated learning that knows what your experts know.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "new": new,
    "run": run,
    "lint": lint,
    "calibrate": calibrate,
    "tune": tune_sites,
    "algorithms": algorithms,
    "bench": bench,
    "leak": leak,
    "server": server,
    "join": join,
    "train": train,
    "status": status,
    "doctor": doctor,
    "up": up,
    "export": export,
    "predict": predict,
    "certify": certify,
    "reknow": reknow,
    "serve": serve,
    "blend": blend,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
app.add_typer(paper, name="paper")
app.add_typer(federation, name="federation")


@app.callback()
def _root() -> None:
    """Federated learning that knows what your experts know."""


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
