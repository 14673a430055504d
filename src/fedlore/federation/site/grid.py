"""A site on a Flower grid that somebody else runs, where each message starts a process.

What one task leaves for the next is on the site's disk, as everywhere, except the secrets of a
running sum: those stay in the memory of the site's SuperNode (`context.state`).
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from ...core.store import lock_file, owner_only, write_whole
from ...data.rows import find_rows
from ...errors import FedloreError
from ..flower.hello import greet, is_hello
from ..flower.names import ConfigRecord, Error, Message
from ..flower.transport import FAILED, REFUSED, respond
from ..kits.kit import check_name
from ..remote import Refusal
from .folder import Kit, read_kit
from .worker import Worker

_MEMORY = "fedlore.memory"

SITE = """\
# Made when this folder first took part in a Flower grid. Nothing in it, and nothing it points to,
# leaves this machine.

name = {name}
data = {data}
{test}{knowledge}
[policy]                       # it wins over whatever a run asks
min_participants = 2
secure_aggregation = false     # true: take part only where single uploads are hidden
metrics = ["ta", "nll", "pov", "rmse", "mae", "r2"]  # scores that may be reported; [] for none
"""


def answer_message(message: Message, context: Any, say: Callable[[str], None]) -> Message:
    """A site's answer to one message; what may not leave the site is said here alone."""
    torch.set_num_threads(1)  # sums over several threads may differ in the last bit
    try:
        with owner_only():
            kit = kit_of(context.node_config, context.run_config)
            if is_hello(message):
                return greet(message, kit.file.name)
            with _in_turn(kit.state / "lock"):
                return _answer(message, context, kit, say)
    except Refusal as refusal:
        return Message(Error(code=REFUSED, reason=str(refusal)), reply_to=message)
    except (FedloreError, OSError) as error:
        say(f"this site cannot take part: {error}")
        reason = "the folder of this site cannot be used: its own log says why"
        return Message(Error(code=FAILED, reason=reason), reply_to=message)


def _answer(message: Message, context: Any, kit: Kit, say: Callable[[str], None]) -> Message:
    memory: dict[str, bytes] = {}
    if _MEMORY in context.state:
        memory = {str(k): bytes(v) for k, v in context.state[_MEMORY].items()}
    try:
        return respond(message, kit.file.name, Worker(kit, say, memory=memory))
    finally:
        context.state[_MEMORY] = ConfigRecord(dict(memory))


def kit_of(node: Mapping[str, Any], run: Mapping[str, Any]) -> Kit:
    """The site that a node stands for: its own folder; in a simulation one of several."""
    if node.get("site"):
        return site_kit(Path(str(node["site"])))
    place, where = node.get("partition-id"), str(run.get("simulate", ""))
    if place is None or not where:
        raise Refusal(
            "it names no site: start it with --node-config 'site=\"/folder/of/the/site\"'; a "
            "simulation takes --run-config 'simulate=\"/folder/of/sites\"'"
        )
    folder = Path(where)
    found = sorted(path for path in folder.glob("*") if path.is_dir())
    if not isinstance(place, int) or not 0 <= place < len(found):
        raise Refusal(
            f"simulate names a folder of {len(found)} sites, and this is SuperNode {place} of the "
            f"simulation, counted from 0: let it have num-supernodes = {len(found)}"
        )
    return site_kit(found[place])


def site_kit(folder: Path) -> Kit:
    """A folder with train.csv, test.csv and knowledge.toml as a site; a site.toml says it wins."""
    if not folder.is_dir():
        raise FedloreError(f"'{folder}' is no folder (node-config site)")
    if not (folder / "site.toml").exists():
        train, test = (find_rows(folder, part) for part in ("train", "test"))
        if train is None:
            raise FedloreError(f"'{folder}' holds neither a site.toml nor a train.csv")
        name = folder.resolve().name
        check_name(name)
        knows = (folder / "knowledge.toml").exists()
        text = SITE.format(
            name=json.dumps(name),
            data=json.dumps(train.name),
            test="" if test is None else f"test = {json.dumps(test.name)}\n",
            knowledge='knowledge = "knowledge.toml"\n' if knows else "",
        )
        write_whole(folder / "site.toml", text, private=True)
    return read_kit(folder)


@contextmanager
def _in_turn(path: Path) -> Iterator[None]:
    """One task of a site at a time: each writes into the same folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        lock_file(file.fileno(), wait=True)
        yield
