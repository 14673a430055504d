"""Flower equals Local bit for bit, and its messages hold what the wire law allows."""

import ast
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from fedlore import federate
from fedlore.algorithms.catalog import ALGORITHMS as CATALOG
from fedlore.core.wire import Reply, Task
from fedlore.engine import Local
from fedlore.engine.loop import scale_together
from fedlore.federation.flower.transport import read_reply, read_task, reply_record, task_record

from ..engine.federation import federation
from ..laws.lists import ALGORITHMS, names, recipe_for
from ..laws.test_algorithms import assert_close, own
from .inprocess import FlowerInProcess

SOURCE = Path(__file__).parents[2] / "src" / "fedlore"


def test_the_list_of_laws_holds_the_whole_catalog():
    assert {type(a) for a in ALGORITHMS} == set(CATALOG.values())


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=names(ALGORITHMS))
def test_flower_and_local_give_the_same_bits(algorithm):
    recipe = recipe_for(algorithm, double=False, finish=2)
    results = []
    for engine in (Local, FlowerInProcess):
        transport = engine(federation(), recipe)
        run = federate(transport, recipe, 3, evaluate=3)
        results.append((run.state, own(transport, recipe, run), run.rows))
    (state, models, rows), (other_state, other_models, other_rows) = results
    assert_close(state, other_state)
    assert_close(models, other_models)
    assert rows == other_rows and any("ta" in row for row in rows)


def test_a_common_scaling_has_the_same_bits():
    recipe = recipe_for(ALGORITHMS[0])
    a, b = (scale_together(engine(federation(), recipe)) for engine in (Local, FlowerInProcess))
    assert torch.equal(a.shift, b.shift) and torch.equal(a.spread, b.spread)


def test_a_task_comes_back_from_its_record():
    sent = {"model": {"w": torch.randn(3, 2), "scalar": torch.tensor(1.5, dtype=torch.float64)}}
    task = Task("train", 7, sent, seed=11, rate=0.25, accepted={"a": 6, "b": 3})
    found, terms = read_task(task_record(task, "b", "terms"), "b")
    assert replace(found, sent={}) == replace(task, sent={}, accepted={"b": 3})
    assert terms == "terms"
    assert_close(found.sent, sent)


def test_a_reply_comes_back_from_its_record():
    upload = {"model": {"w": torch.randn(2, 2)}, "empty": {}}
    reply = Reply("a", 4, upload, rows=12, metrics={"ta": 0.5})
    found = read_reply(reply_record(reply), "a")
    assert replace(found, upload={}) == replace(reply, upload={})
    assert_close(found.upload, upload)


def test_only_one_file_imports_flwr():
    importing = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            found = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            found += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.split(".")[0] == "flwr" for name in found):
                importing.add(path.relative_to(SOURCE).as_posix())
    assert importing == {"federation/flower/names.py"}


def test_the_names_of_flwr_that_are_used_are_there():
    """Where this fails after an upgrade, flowernames.py is the file to mend."""
    from flwr.supercore.protobuf.client import ProtobufClient
    from flwr.superlink.grid import HttpGrid
    from flwr.supernode.fleet_http_client import FleetHttpClient

    major, minor = map(int, version("flwr").split(".")[:2])
    assert (major, minor) in ((1, 41), (1, 42))
    grid = HttpGrid("127.0.0.1:9", True, None, token="t")
    assert grid._retry_invoker is not None and isinstance(grid._runtime_client, ProtobufClient)
    calls = ("ActivateNode", "DeactivateNode", "SendNodeHeartbeat", "PullMessages", "PushMessages")
    assert all(hasattr(FleetHttpClient, call) for call in calls)
    grid.close()
