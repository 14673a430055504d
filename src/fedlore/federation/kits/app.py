"""A small Flower app: what `flwr run` takes, over `fedlore.flower`."""

import json
from pathlib import Path

from ...errors import FedloreError
from ...kernel.schema import Schema
from ...knowledge.files import Target
from ..settings import read_deployed
from .kit import check_name, write_settings

PACKAGE = "fedlore_app"

PROJECT = """\
[project]
name = {name}
version = "1.0.0"
description = "Federated learning that knows what your experts know"
license = "Apache-2.0"
dependencies = []         # fedlore is installed where SuperLink and SuperNodes run

[tool.flwr.app]
publisher = {name}

[tool.flwr.app.components]
serverapp = "{package}.server_app:app"
clientapp = "{package}.client_app:app"

[tool.flwr.app.config]    # flwr run . --run-config 'rounds=5'
sites = {sites}                 # SuperNodes to wait for
wait = 300.0              # seconds to wait for them
out = {out}           # journal, scores and shared weights, where the SuperLink runs
rounds = 0                # in place of those in federation.toml
resume = false            # go on after the last round in the journal
simulate = ""             # flwr run . local: the folder of the sites' folders
"""

SERVER = '''\
"""The server's half: fedlore's round loop over this grid, as federation.toml says."""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedlore.flower import train

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    train(grid, context, Path(__file__).parent)
'''

CLIENT = '''\
"""A site's half: rows and knowledge are in the folder of --node-config 'site="..."'."""

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedlore.flower import answer

app = ClientApp()


@app.train()
@app.evaluate()
@app.query()
def any_task(message: Message, context: Context) -> Message:
    return answer(message, context)
'''


def write_app(
    folder: Path, *, name: str, schema: Schema, target: Target | None = None, sites: int = 3
) -> list[Path]:
    """The files of an app; what is there already is never written over."""
    check_name(name)
    if folder.exists() and any(folder.iterdir()):
        raise FedloreError(f"'{folder}' is not empty: name a folder that is not there yet")
    home, titles = folder / PACKAGE, {"name": json.dumps(name), "package": PACKAGE}
    texts = {
        folder / "pyproject.toml": PROJECT.format(**titles, sites=sites, out=json.dumps(f"{name}")),
        home / "__init__.py": "",
        home / "server_app.py": SERVER,
        home / "client_app.py": CLIENT,
        home / "federation.toml": _settings(name, schema, target),
    }
    home.mkdir(parents=True, exist_ok=True)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    read_deployed(home, address=False)
    return list(texts)


def _settings(name: str, schema: Schema, target: Target | None) -> str:
    """A federation.toml without the address, which the grid has."""
    lines = write_settings(schema, target, name=name, address="").splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith(("address =", "largest_answer =")))
    # each message starts a process that loads torch
    return text.replace("deadline = 120.0 ", "deadline = 300.0 ", 1)
