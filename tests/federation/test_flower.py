"""Flower equals Local bit for bit, and its messages hold what the wire law allows."""

import ast
import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
import torch
from flwr.app import Message, RecordDict

from fedlore import FedloreError, federate
from fedlore.algorithms.catalog import ALGORITHMS as CATALOG
from fedlore.core.wire import ONLY, Reply, Task
from fedlore.engine import Local
from fedlore.engine.loop import scale_together
from fedlore.federation.flower import messages, superlink
from fedlore.federation.flower.messages import read_reply, read_task, reply_record, task_record
from fedlore.federation.flower.transport import SILENCE, Link, Mail
from fedlore.federation.kits import app
from fedlore.testing.clients import small_recipe as recipe_for

from ..engine.federation import federation
from ..laws.lists import ALGORITHMS, names
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


SENT = {"model": {"w": torch.arange(3.0), "scalar": torch.tensor(1.5).double()}, "empty": {}}
#: A value other than the default for each field; whoever adds a field adds one here.
TASK = {"kind": "train", "round": 2, "sent": SENT, "seed": 5, "rate": 0.5}
TASK |= {"accepted": {"a": 1}, "sums": True, "trial": "0/main/3", "receipt": "7 lines"}
REPLY = {"client": "a", "round": 2, "upload": SENT, "rows": 9, "metrics": {"ta": 0.5}}
REPLY |= {"books": "8 lines"}


def test_every_field_of_a_task_crosses_the_network():
    assert set(TASK) == {f.name for f in fields(Task)}
    back, _ = read_task(task_record(Task(**TASK), "a"), "a")
    for name, value in TASK.items():
        found = getattr(back, name)
        assert type(found) is type(value)
        if name == "sent":
            assert_close(found, value)
        else:
            assert found == value


def test_every_field_of_a_reply_crosses_the_network_but_whom_it_is_of():
    assert set(REPLY) == {f.name for f in fields(Reply)} - {"members"}
    liar = replace(Reply(**REPLY), client="b", members=("a", "b", "c"))
    back = read_reply(reply_record(liar), "a")
    assert replace(back, upload={}) == replace(Reply(**REPLY), upload={})
    assert back.names == ("a",)
    assert_close(back.upload, SENT)


def test_a_field_that_is_added_crosses_without_anybody_thinking_of_it(monkeypatch):
    @dataclass(frozen=True)
    class Later(Task):
        more: tuple[str, ...] = ()
        about: Mapping[str, float] = field(default_factory=dict)

    monkeypatch.setattr(messages, "Task", Later)
    later = Later("train", 1, more=("x", "y"), about={"z": 0.5})
    back, _ = read_task(task_record(later, "a"), "a")
    assert back == later


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows", "many"),
        ("metrics", '{"ta": "high"}'),
        ("metrics", "[]"),
        ("metrics", 3),
        ("surprise", 1),
    ],
)
def test_a_malformed_reply_is_refused(name, value):
    record = reply_record(Reply(**REPLY))
    record["reply"][name] = value
    with pytest.raises(FedloreError):
        read_reply(record, "a")


@pytest.mark.parametrize("nested", ["layouts", "metrics"])
def test_a_reply_of_countless_brackets_is_malformed(nested):
    record = reply_record(Reply(**REPLY))
    record["reply"][nested] = "[" * 100_000
    asked = Message(RecordDict(), 1, "train")
    asked.metadata.__dict__["_message_id"] = "asked"
    letter = Mail(None, {})._read(Message(record, reply_to=asked))
    assert (letter.about, letter.wrong) == ("asked", "malformed (RecursionError)")


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
    """Where this fails after an upgrade, federation/flower/names.py is the file to mend."""
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.supernode.fleet_http_client import FleetHttpClient

    assert version("flwr").startswith(
        ("1.41.", "1.42.")
    )  # what was tried, as pyproject.toml has it
    with Link("127.0.0.1:9").open(RuntimeHttpClient) as client:
        assert client._client.timeout.read == SILENCE
    runtime = ("GetNodes", "PushMessages", "PushObject", "PullMessages", "PullObject")
    assert all(hasattr(RuntimeHttpClient, call) for call in runtime)
    calls = ("ActivateNode", "DeactivateNode", "SendNodeHeartbeat", "PullMessages", "PushMessages")
    assert all(hasattr(FleetHttpClient, call) for call in calls)


def test_what_an_app_needs_of_flwr_is_there(tmp_path):
    """The names in the two files of `fedlore flower init`, and what is asked of a grid."""
    import inspect

    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

    named = set()
    for text in (app.SERVER, app.CLIENT):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flwr"):
                named |= {alias.name for alias in node.names}
    there = {"Context": Context, "Message": Message, "ClientApp": ClientApp, "Grid": Grid}
    assert named == set(there | {"ServerApp": ServerApp})
    assert all(hasattr(ClientApp, name) for name in ("train", "evaluate", "query"))
    assert hasattr(ServerApp, "main")
    assert all(hasattr(Grid, name) for name in ("get_nodes", "push_messages", "pull_messages"))
    fields = {"node_config", "run_config", "state"}
    assert fields <= set(inspect.signature(Context.__init__).parameters)


@pytest.mark.parametrize("size", [10, 1_000_000])
def test_tensors_are_one_object_where_they_are_small(size):
    """Every object costs requests of its own: three are the least that a message can have."""
    upload = {"model": {"w": torch.arange(size, dtype=torch.float32)}, "more": {"b": torch.ones(2)}}
    reply = Reply("a", 1, upload, 5)
    record = reply_record(reply)
    assert len(record.array_records) == (0 if size == 10 else 2)
    back = read_reply(record, "a")
    assert all(torch.equal(back.upload[k][n], t) for k, b in upload.items() for n, t in b.items())


def test_what_sites_are_told_differs_in_one_small_record_alone():
    task = Task("train", 2, {"model": {"w": torch.ones(3)}}, accepted={"a": 1, "b": 2})
    one, two = (task_record(task, site, "terms") for site in ("a", "b"))
    assert one["task"].object_id == two["task"].object_id
    assert [read_task(r, s)[0].accepted for r, s in ((one, "a"), (two, "b"))] == [
        {"a": 1},
        {"b": 2},
    ]


def test_bytes_that_do_not_fit_their_layouts_are_refused():
    record = reply_record(Reply("a", 1, {"model": {"w": torch.ones(3)}}))
    for wrong in (b"", b"x" * 11, b"x" * 13):
        record["reply"]["tensors"] = wrong
        with pytest.raises((ValueError, FedloreError)):
            read_reply(record, "a")


def test_a_task_whose_tensors_were_packed_before_is_the_same_record():
    """Of one task the bundles are packed once for all sites, each of which gets its own alone."""
    task = Task(**TASK)
    task = replace(task, sent=SENT | {ONLY + name: {"x": torch.ones(2)} for name in "ab"})
    packed: messages.Packed = {}
    for site in ("a", "b", "a"):
        again = task_record(task, site, "terms", packed)
        assert size_and_values(again) == size_and_values(task_record(task, site, "terms"))
        assert set(read_task(again, site)[0].sent) == {*SENT, ONLY + site}


def size_and_values(record):
    values = {name: dict(part.items()) for name, part in record.config_records.items()}
    return messages.size_of(record), values


def answers(cheap: bool, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bytes, str, str]]:
    """What an app with middlewares of every kind answers, by Starlette's way or by ours."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    class Translates(BaseHTTPMiddleware):
        async def dispatch(self, request, call_next):
            request.state.said = (await request.body()).upper()
            answer = await call_next(request)
            answer.headers["seen"] = request.url.path
            return answer

    class FleetCounts(BaseHTTPMiddleware):
        async def dispatch(self, request, call_next):
            if not request.url.path.startswith("/v1/fleet/"):
                return await call_next(request)
            answer = await call_next(request)
            answer.headers["counted"] = "fleet"
            return answer

    class Refuses(BaseHTTPMiddleware):
        async def dispatch(self, request, call_next):
            if b"NO" in request.state.said:
                return Response(b"refused", 401)
            try:
                return await call_next(request)
            except ValueError as error:
                return Response(str(error).encode(), 500)

    async def say(request):
        if request.state.said == b"FAIL":
            raise ValueError("it failed")
        return PlainTextResponse(request.state.said + await request.body(), 201)

    routes = [Route(path, say, methods=["POST"]) for path in ("/v1/fleet/x", "/v1/other/x")]
    layers = [Middleware(Translates), Middleware(FleetCounts), Middleware(Refuses)]
    app = Starlette(routes=routes, middleware=layers)

    async def ask_all():
        found = []
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://here"
        ) as client:
            for path in ("/v1/fleet/x", "/v1/other/x", "/nowhere"):
                for body in (b"word", b"", b"no", b"fail", b"x" * 3_000_000):
                    answer = await client.post(path, content=body)
                    marks = [answer.headers.get(name, "") for name in ("seen", "counted")]
                    found.append((answer.status_code, answer.content, *marks))
        return found

    with monkeypatch.context() as patch:
        if cheap:
            patch.setattr(BaseHTTPMiddleware, "__call__", superlink.run_middleware)
        return asyncio.run(ask_all())


def test_the_cheap_way_through_middlewares_answers_as_the_usual_one(monkeypatch):
    usual, ours = (answers(cheap, monkeypatch) for cheap in (False, True))
    assert ours == usual
    assert {status for status, *_ in ours} == {201, 401, 404, 500}
    assert {seen for _, _, seen, _ in ours} == {"/v1/fleet/x", "/v1/other/x", "/nowhere"}
    assert {counted for *_, counted in ours[:5]} == {"fleet"}


def test_middlewares_of_one_interface_do_nothing_on_the_paths_of_others():
    """By name they are left out elsewhere: their own source must say the same."""
    import inspect

    from flwr.superlink.main import _get_middleware

    found = {layer.cls.__name__: layer.cls for layer in _get_middleware()}
    own = {n: kind for n, kind in found.items() if n.startswith(tuple(superlink.OWN))}
    assert set(own) == {
        "ControlSensitiveResponseMiddleware",
        "ControlAuthenticationMiddleware",
        "ControlLicenseMiddleware",
        "ControlEventLogMiddleware",
        "RuntimeTracingMiddleware",
        "FleetEventLogMiddleware",
    }
    assert {"NodeAuthMiddleware", "ProtobufTranslationMiddleware"} <= set(found) - set(own)
    for name, kind in own.items():
        text = inspect.getsource(kind.dispatch)
        path = next(path for start, path in superlink.OWN.items() if name.startswith(start))
        asks = (f'startswith("{path}")', "_is_control_path", "_is_control_sensitive_route")
        assert any(word in text for word in asks) or "AcquireTaskResponse" in text, name
