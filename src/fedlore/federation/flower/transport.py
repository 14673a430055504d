"""The same loop over Flower: tasks and replies as its messages, and a run of the coordinator's.

The SuperLink is Flower's own. Code that arrives with a run is never loaded: the coordinator drives
its run from here, and a site answers with the fedlore it has installed.
"""

import hashlib
import io
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import httpx

from ...core.wire import Reply, Task
from ..bell import Ringer
from ..kits.receipts import Receipts
from ..remote import BEAT, Letter, LinkLost, NotTrusted, Refusal, beating, plain_text
from .messages import (
    BadReply,
    Courier,
    Packed,
    RunCourier,
    read_reply,
    read_task,
    reply_record,
    size_of,
    task_record,
)
from .names import (
    ControlHttpClient,
    Error,
    Fab,
    Message,
    ObjectPullError,
    ObjectPushError,
    RunNotRunningException,
    RuntimeHttpClient,
    TaskIdentity,
    TaskType,
    control_pb2,
    fab_to_proto,
    load_interceptors,
    runtime_pb2,
)

REFUSED, FAILED = 1000, 1001  # codes of our own in Flower's error messages
SILENCE = 15.0  # seconds: a server that says nothing for so long is taken for stopped
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"

#: A run must carry an app. Ours is empty, because nobody loads it.
APP = {
    "pyproject.toml": b"""[project]
name = "fedlore"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "fedlore"
[tool.flwr.app.components]
serverapp = "nothing:nothing"
clientapp = "nothing:nothing"
[tool.flwr.app.config]
""",
    "nothing.py": b"",
}

Answerer = Callable[[Task, str], Reply]  # a task and the terms it is asked under


@dataclass(frozen=True)
class Mail:
    """A post over Flower's grid; only enrolled keys are written to."""

    grid: Courier
    sites: Mapping[str, bytes]  # name -> public key
    terms: str = ""
    bell: Ringer | None = None
    receipts: Receipts | None = None
    stop: threading.Event | None = None  # whether nobody waits for anything any more
    _nodes: dict[str, int] = field(default_factory=dict)
    _asked: dict[str, str] = field(default_factory=dict)  # message -> site

    def online(self) -> Mapping[str, str]:
        with link():
            nodes = self.grid.get_nodes()
        here = {bytes(node.public_key): node for node in nodes}
        found = {name: here[key] for name, key in self.sites.items() if key in here}
        self._nodes.update({name: node.node_id for name, node in found.items()})
        return {name: str(node.last_activated_at) for name, node in found.items()}

    def push(self, task: Task, to: Sequence[str], ttl: float) -> Sequence[str]:
        kind = task.kind if task.kind in ("train", "evaluate") else "query"
        if self.receipts is not None:
            task = replace(task, receipt=self.receipts.roll())
        packed: Packed = {}
        letters = [
            Message(
                task_record(task, site, self.terms, packed),
                self._nodes[site],
                kind,
                ttl=ttl,
                group_id=str(task.round),
            )
            for site in to
        ]
        with link():
            names = [name or "" for name in self.grid.push_messages(letters)]
        if self.bell is not None:
            self.bell.ring()
        self._asked.update(zip(names, to, strict=True))
        return names

    def pull(self, about: Sequence[str]) -> Iterator[Letter]:
        with link():
            for message in self.grid.pull_messages(about):
                yield self._read(message)

    def wait(self, seconds: float) -> None:
        if self.stop is not None and self.stop.is_set():
            raise KeyboardInterrupt
        if self.bell is None:
            time.sleep(seconds)
        else:
            self.bell.wait(seconds)

    def _read(self, message: Message | BadReply) -> Letter:
        if isinstance(message, BadReply):
            return Letter(message.about, wrong=plain_text(f"malformed ({message.why})"))
        about = message.metadata.reply_to_message_id
        if message.has_error():  # codes of Flower's own: the node went away
            wrong = {REFUSED: "refused", FAILED: "failed"}.get(message.error.code, "lost")
            return Letter(about, wrong=wrong, detail=plain_text(message.error.reason or ""))
        size = size_of(message.content)
        site = self._asked.get(about, "")
        try:
            reply = read_reply(message.content, site)
            if self.receipts is not None and site:
                self.receipts.keep(site, reply.books)
            return Letter(about, reply, size=size)
        except (KeyError, TypeError, ValueError, AttributeError, EOFError, RecursionError) as error:
            return Letter(about, wrong=f"malformed ({type(error).__name__})", size=size)


def respond(message: Message, site: str, answerer: Answerer) -> Message:
    """A site's answer to a message. What goes wrong is named only where it may leave the site."""
    try:
        return Message(reply_record(answerer(*read_task(message.content, site))), reply_to=message)
    except Refusal as refusal:
        return Message(Error(code=REFUSED, reason=str(refusal)), reply_to=message)
    except Exception:  # its text may quote rows or rules: it stays in the site's log
        reason = "the site could not answer: its own log says why"
        return Message(Error(code=FAILED, reason=reason), reply_to=message)


@dataclass(frozen=True)
class Link:
    """How to reach a SuperLink: its address and the certificate that signs for it."""

    address: str
    ca: bytes | None = None  # PEM; None only without TLS

    def enrol(self, sites: Mapping[str, bytes]) -> tuple[list[str], list[str]]:
        """Let in these sites by their keys, and nobody else.

        Who was shut out, and which sites can never be let in again: a key that somebody has
        unregistered stays used for as long as the server's state lives.
        """
        kept = set(sites.values())
        with link(), self.steer() as control:
            known = {bytes(node.public_key): node for node in _list_registered(control)}
            gone = [node for key, node in known.items() if key not in kept]
            for node in gone:
                control.UnregisterNode(control_pb2.UnregisterNodeRequest(node_id=node.node_id))
            lost = []
            for name, key in sites.items():
                if key in known:
                    continue
                try:
                    control.RegisterNode(control_pb2.RegisterNodeRequest(public_key=key, name=name))
                except httpx.HTTPStatusError as error:
                    if error.response.status_code >= 500:
                        raise
                    lost.append(name)
        return [node.name for node in gone], lost

    def online(self) -> dict[bytes, bool]:
        """The registered keys, and whether each is here now."""
        with link(), self.steer() as control:
            return {bytes(n.public_key): n.status == "online" for n in _list_registered(control)}

    @contextmanager
    def run(self, secret: bytes, app: Mapping[str, bytes] | None = None) -> Iterator[Courier]:
        """A run of our own, driven from this process; nothing is loaded from any app."""
        bundle = Fab("", _zip(app or APP), {})
        known = load_interceptors()
        lock = known.SuperExecAuthHttpInterceptor(master_secret=secret, protected_methods={ACQUIRE})
        with link(), self.steer() as control:
            run_id = control.StartRun(control_pb2.StartRunRequest(fab=fab_to_proto(bundle))).run_id
            with self.open(RuntimeHttpClient, _versioned(), lock) as runner:
                token = _claim(runner, run_id)
        shown = known.RuntimeTokenHttpInterceptor(token=token)
        client = self.open(RuntimeHttpClient, _versioned(), shown)
        ended = runtime_pb2.PushTaskOutputRequest(sub_status="failed", details="the run broke off")
        try:
            with link():
                given = client.PullTaskInput(runtime_pb2.PullTaskInputRequest())
            TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
            TaskIdentity.node_id = given.context.node_id
            beat = partial(client.SendTaskHeartbeat, runtime_pb2.SendTaskHeartbeatRequest())
            with beating(beat, BEAT):
                yield RunCourier(client, given.run.run_id)
            ended = runtime_pb2.PushTaskOutputRequest(sub_status="completed", details="")
        finally:
            with suppress(httpx.HTTPError):
                client.PushTaskOutput(ended)
            client.close()

    def steer(self) -> Any:
        """A client of the server's control interface."""
        return self.open(ControlHttpClient, _versioned())

    def open(self, kind: Any, *interceptors: Any) -> Any:
        client = kind.from_server_address(self.address, self.ca is None, self.ca, interceptors)
        client._client.timeout = httpx.Timeout(SILENCE)
        return client


@contextmanager
def link() -> Iterator[None]:
    """Say what a failed call to the SuperLink means."""
    try:
        yield
    except httpx.TransportError as error:
        if "certificate" in str(error).lower():
            raise NotTrusted(
                f"the server's certificate is not accepted: {error}. If its authority was renewed "
                "while this site was away, put the coordinator's new ca.crt into the site's folder"
            ) from None
        raise LinkLost(f"the server does not answer: {error}") from None
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        if code in (413, 429) or code >= 500:  # of the gate: it says why
            raise LinkLost(f"the server says: {plain_text(error.response.text[:200])}") from None
        raise LinkLost(f"the server no longer knows this run (HTTP {code})") from None
    except (RunNotRunningException, ObjectPullError, ObjectPushError):
        raise LinkLost("the server has given up the run") from None


def _versioned() -> Any:
    """Tells the version of flwr."""
    return load_interceptors().RuntimeVersionHttpInterceptor(component_name="fedlore")


def _zip(files: Mapping[str, bytes]) -> bytes:
    """An app as Flower wants it: its files, and a list of them with hashes and sizes in bits."""
    content = [f"{n},{hashlib.sha256(d).hexdigest()},{8 * len(d)}" for n, d in files.items()]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in (*files.items(), (".info/CONTENT", "\n".join(content).encode())):
            archive.writestr(zipfile.ZipInfo(name), data)  # without the time of day
    return packed.getvalue()


def _list_registered(control: ControlHttpClient) -> list[Any]:
    nodes = control.ListNodes(control_pb2.ListNodesRequest()).nodes_info
    return [node for node in nodes if node.status != "unregistered"]


def _claim(runner: RuntimeHttpClient, run_id: int) -> str:
    """The token of our own run; a task of anybody else's is claimed and let lapse."""
    for _ in range(100):
        found = runner.AcquireTask(
            runtime_pb2.AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
        )
        if found.token and found.task.run_id == run_id:
            return str(found.token)
        if not found.token:
            time.sleep(0.1)
    raise LinkLost("the server does not hand out the run: is another one in progress?")
