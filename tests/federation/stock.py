"""A Flower grid as somebody else runs it, without a network: the app's own two halves, by bytes."""

import importlib
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from fedlore.federation.coordinator.grid import RUN_CONFIG
from fedlore.federation.kits.app import PACKAGE, write_app
from fedlore.knowledge.files import read_document

from .inprocess import carried


@dataclass
class StockGrid(Grid):
    """Every message comes to a ClientApp with nothing kept but its context's state."""

    client: ClientApp
    nodes: dict[int, dict]  # number -> node-config
    run_config: dict = field(default_factory=dict)
    wire: list[bytes] = field(default_factory=list)
    states: dict[int, RecordDict] = field(default_factory=dict)
    replies: dict[str, Message] = field(default_factory=dict)
    absent: set[int] = field(default_factory=set)
    before: object = lambda message, node: None

    def __post_init__(self):
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1

    def get_nodes(self):
        return [SimpleNamespace(node_id=n) for n in self.nodes if n not in self.absent]

    def get_node_ids(self):
        return [node.node_id for node in self.get_nodes()]

    def push_messages(self, messages):
        ids = []
        for message in messages:
            node, arrived = message.metadata.dst_node_id, carried(message, self.wire)
            self.before(arrived, node)
            state = self.states.setdefault(node, RecordDict())
            context = Context(1, node, self.nodes[node], state, self.run_config)
            reply = self.client(arrived, context)
            self.states[node] = context.state
            ids.append(arrived.metadata.message_id)
            self.replies[ids[-1]] = carried(reply, self.wire)
        return ids

    def pull_messages(self, message_ids):
        return [self.replies.pop(key) for key in list(message_ids) if key in self.replies]

    def run(self): ...
    def set_run(self, run): ...
    def create_message(self, *args): ...
    def send_and_receive(self, messages, *, timeout=None): ...


def bare_sites(trial: Path, folder: Path) -> list[Path]:
    """The plants of a trial as folders of rows and knowledge, without any kit."""
    made = []
    for home in sorted((trial / "sites").iterdir()):
        site = folder / home.name
        site.mkdir(parents=True)
        for name in ("train.csv", "test.csv", "knowledge.toml"):
            (site / name).write_bytes((home / name).read_bytes())
        made.append(site)
    return made


def make_app(folder: Path, site: Path, *changes: tuple[str, str]) -> Path:
    """The app that `fedlore flower init` writes, with some lines of federation.toml changed."""
    found = read_document(site / "knowledge.toml")
    write_app(folder, name="knowing", schema=found.schema, target=found.target)
    path = folder / PACKAGE / "federation.toml"
    text = path.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text)
    return folder


@contextmanager
def halves(app: Path):
    """The app's ServerApp and ClientApp, loaded as Flower does: by their names, from its folder."""
    sys.path.insert(0, str(app))
    try:
        yield tuple(
            importlib.import_module(f"{PACKAGE}.{half}").app
            for half in ("server_app", "client_app")
        )
    finally:
        sys.path.remove(str(app))
        for name in [n for n in sys.modules if n.partition(".")[0] == PACKAGE]:
            del sys.modules[name]


def run_app(app: Path, sites: list[Path], out: Path, *, grid=None, count=0, **config) -> StockGrid:
    """What `flwr run app` does, in this process."""
    asked = RUN_CONFIG | {"sites": count or len(sites), "wait": 5.0, "out": str(out)} | config
    with halves(app) as (server, client):
        nodes = {10 + i: {"site": str(site)} for i, site in enumerate(sites)}
        grid = grid or StockGrid(client, nodes)
        grid.client, grid.run_config = client, asked
        server(grid, Context(1, 1, {}, RecordDict(), asked))
    return grid
