"""The door to the network: who comes through, and what a stranger can do in front of it."""

import asyncio
import base64
import datetime
import gc
import socket
import ssl
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from fedlore.errors import FedloreError
from fedlore.federation.coordinator.gateway import Gateway
from fedlore.federation.coordinator.limits import Bucket, GateLimits, RefusalLog, Twins
from fedlore.federation.kits.certificates import new_authority, new_server, raw_key
from fedlore.federation.processes import free_port

from .inside import wait_until

KEY, OTHER = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))


class Behind(BaseHTTPRequestHandler):
    """What stands in for Flower's server: it keeps what reaches it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.seen.append((self.path, body, dict(self.headers)))
        self.send_response(self.server.status.get(self.path, 200))
        self.send_header("content-type", "application/protobuf")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, *_):
        pass


class Stage:
    """A gate, what is behind it, and what it wrote."""

    def __init__(self, folder, **limits):
        new_authority(folder, "test", days=2)
        new_server(folder, ["localhost", "127.0.0.1"], days=2)
        self.ca = folder / "ca.crt"
        self.behind = ThreadingHTTPServer(("127.0.0.1", 0), Behind)
        self.behind.seen, self.behind.status = [], {}
        self.lines, self.lost = [], []
        self.port = self.behind.server_address[1]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem", folder / "server.key")
        self.door = free_port()
        self.gate = Gateway(
            "127.0.0.1",
            self.door,
            context,
            lambda: {raw_key(KEY.public_key()): "north"},
            lambda: self.port,
            self.ca.read_bytes,
            self.lines.append,
            self.lost.append,
            replace(GateLimits(patience=1.0), **limits),
        )

    @contextmanager
    def serving(self):
        thread = threading.Thread(target=self.behind.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            self.behind.shutdown()
            self.behind.server_close()
            thread.join()

    def client(self):
        context = ssl.create_default_context(cafile=str(self.ca))
        return httpx.Client(base_url=f"https://localhost:{self.door}", verify=context, timeout=5.0)


@contextmanager
def staged(folder, **limits):
    """A gate before a server, which ends whatever comes: a thread left over would never let go."""
    stage = Stage(folder, **limits)
    with stage.serving(), stage.gate:
        yield stage


def signed(key=KEY, *, ahead=0.0, claim=None, **more):
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ahead)
    stamp = now.isoformat()
    signature = key.sign(stamp.encode(), ec.ECDSA(hashes.SHA256()))
    return {
        "flwr-public-key": base64.b64encode(raw_key((claim or key).public_key())).decode(),
        "flwr-signature": base64.b64encode(signature).decode(),
        "flwr-timestamp": stamp,
        "content-type": "application/protobuf",
        **more,
    }


PULL = "/v1/fleet/pull-messages"
PUSH = "/v1/fleet/push-object"


def test_what_a_site_signs_goes_on_and_its_answer_comes_back(tmp_path):
    with staged(tmp_path) as stage, stage.client() as client:
        for body in (b"", b"x" * 100_000):
            answer = client.post(PULL, content=body, headers=signed() | {"cookie": "secret"})
            assert (answer.status_code, answer.content) == (200, body)
            assert answer.headers["content-type"] == "application/protobuf"
    paths, bodies, headers = zip(*stage.behind.seen, strict=True)
    assert paths == (PULL, PULL) and bodies == (b"", b"x" * 100_000)
    assert "cookie" not in {name.lower() for name in headers[0]} and stage.lines == []


HIDDEN = [
    ("POST", "/v1/control/list-nodes"),
    ("POST", "/v1/control/unregister-node"),
    ("POST", "/v1/control/stop-run"),
    ("POST", "/v1/control/start-run"),
    ("POST", "/v1/runtime/acquire-task"),
    ("POST", "/v1/fleet/get-fab"),
    ("POST", "/v1/fleet/get-run"),
    ("POST", "/v1/fleet/register-node"),
    ("POST", "/v1/fleet/../control/list-nodes"),
    ("POST", "//v1/control/list-nodes"),
    ("POST", "/v1/fleet/pull-messages?x=/v1/control"),
    ("POST", "/v1/fleet/%2e%2e/control/list-nodes"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", PULL),
    ("PUT", PULL),
    ("POST", "/health"),
]


@pytest.mark.parametrize("method, path", HIDDEN)
def test_nothing_else_of_the_server_is_there_for_the_network(stage, method, path):
    with stage.client() as client:
        request = client.build_request(method, "/", headers=signed())
        request.url = request.url.copy_with(raw_path=path.encode())
        assert client.send(request).status_code == 404
    assert stage.behind.seen == [] and "is not for the network" in stage.lines[-1]


@pytest.fixture
def stage(tmp_path):
    with staged(tmp_path) as found:
        yield found


@pytest.mark.parametrize(
    "headers, status, why",
    [
        (dict, 401, "not signed"),
        (lambda: signed(OTHER), 403, "not enrolled"),
        (lambda: signed(OTHER, claim=KEY), 401, "signature of the request does not fit"),
        (lambda: signed(ahead=60), 401, "60 s ahead of the coordinator's: set it"),
        (lambda: signed(ahead=-600), 401, "600 s behind the coordinator's: set it"),
        (lambda: signed() | {"flwr-public-key": "@@"}, 401, "not signed"),
        (lambda: signed() | {"flwr-timestamp": "2026-01-01T00:00:00"}, 401, "no zone"),
    ],
)
def test_who_has_not_signed_is_told_why_and_goes_no_further(stage, headers, status, why):
    with stage.client() as client:
        answer = client.post(PULL, content=b"body", headers=headers())
    assert answer.status_code == status and why in answer.text
    assert stage.behind.seen == [] and why in stage.lines[-1]


def raw(stage, text, *, tls=True, wait=5.0):
    """What comes back for bytes as they are."""
    found = b""
    with connected(stage, tls=tls, wait=wait) as line:
        with suppress(TimeoutError, ConnectionError, ssl.SSLError):
            line.sendall(text)
            while piece := line.recv(65536):
                found += piece
    return found


@contextmanager
def connected(stage, *, tls=True, wait=5.0):
    with socket.create_connection(("127.0.0.1", stage.door), timeout=wait) as plain:
        context = ssl.create_default_context(cafile=str(stage.ca))
        with context.wrap_socket(plain, server_hostname="localhost") if tls else plain as line:
            yield line


def request(headers, body=b"", path=PULL):
    lines = [f"POST {path} HTTP/1.1", "host: x", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def test_a_body_that_is_too_long_is_never_read(tmp_path):
    with staged(tmp_path, body=1000, ask=1000) as stage:
        told = raw(stage, request(signed() | {"content-length": str(1 << 40)}))
        assert told.startswith(b"HTTP/1.1 413")
        pieces = b"".join(b"400\r\n" + b"x" * 1024 + b"\r\n" for _ in range(3))
        told = raw(stage, request(signed() | {"transfer-encoding": "chunked"}, pieces))
        assert told.startswith(b"HTTP/1.1 413")
        told = raw(stage, b"GET /health HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello")
        assert told.startswith(b"HTTP/1.1 413")
        assert stage.behind.seen == []


@pytest.mark.parametrize(
    "text",
    [
        lambda: request(
            signed() | {"content-length": "5", "transfer-encoding": "chunked"}, b"0\r\n\r\n"
        ),
        lambda: request(signed() | {"content-length": "-1"}),
        lambda: request({"x": "y" * 40_000}),
        lambda: b"\x16\x03\x01 nonsense\r\n\r\n",
        lambda: b"POST /health\r\n\r\n",
    ],
)
def test_what_is_not_http_gets_nothing(stage, text):
    assert b" 200 " not in raw(stage, text())
    assert all(not body for _, body, _ in stage.behind.seen)
    with stage.client() as client:
        assert client.get("/health").status_code == 200


def test_a_flood_of_silent_strangers_shuts_nobody_out(tmp_path):
    with staged(tmp_path, strangers=5, patience=30.0) as stage, stage.client() as client:
        assert client.post(PULL, headers=signed()).status_code == 200
        crowd = [socket.create_connection(("127.0.0.1", stage.door)) for _ in range(60)]
        for one in crowd[:20]:
            one.sendall(b"P")
        assert client.post(PULL, headers=signed()).status_code == 200  # who was here
        with stage.client() as late:
            assert late.post(PULL, headers=signed()).status_code == 200  # and who comes now
        for one in crowd:
            one.close()
    assert any("too many connections" in line for line in stage.lines)


def test_sites_of_one_address_may_all_come_at_once():
    assert GateLimits.for_sites(4) == GateLimits()
    many = GateLimits.for_sites(200, reply=7)
    assert (many.strangers, many.address, many.reply) == (400, 200, 7)


def test_who_floods_the_gate_shuts_out_himself_alone(tmp_path):
    """Another address that was slow to begin its handshake still has its line."""
    with staged(tmp_path, strangers=8, address=6, patience=30.0) as stage:
        slow = socket.create_connection(("127.0.0.1", stage.door))
        crowd = [
            socket.create_connection(("127.0.0.1", stage.door), source_address=("127.0.0.2", 0))
            for _ in range(40)
        ]
        wait_until(lambda: any("refused 127.0.0.2: too many" in line for line in stage.lines))
        context = ssl.create_default_context(cafile=str(stage.ca))
        with context.wrap_socket(slow, server_hostname="localhost") as line:
            line.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
            assert line.recv(100).startswith(b"HTTP/1.1 200")
        for one in crowd:
            one.close()


def test_a_flood_leaves_no_buffers_behind(tmp_path):
    """A handshake has a buffer of 256 KB; nobody may have to collect garbage to get it back."""
    with staged(tmp_path, address=4) as stage:
        gc.collect()
        gc.disable()
        try:
            for _ in range(60):
                socket.create_connection(("127.0.0.1", stage.door)).close()
            with stage.client() as client:
                assert client.get("/health").status_code == 200
            wait_until(lambda: buffers() < 4)
        finally:
            gc.enable()


def buffers():
    return sum(type(one) is asyncio.sslproto.SSLProtocol for one in gc.get_objects())


def test_connections_of_one_site_are_bounded(tmp_path):
    with staged(tmp_path, lines=3) as stage, ExitStack() as open_lines:
        clients = [open_lines.enter_context(stage.client()) for _ in range(5)]
        for client in clients:
            assert client.post(PULL, headers=signed()).status_code == 200
        wait_until(lambda: sum(s.lines for s in stage.gate.presence.sites.values()) == 3)
    assert any("too many connections of site 'north'" in line for line in stage.lines)


def test_parts_on_their_way_count_together(tmp_path):
    """Else a site that sends many at once has that many times the memory of the gate."""
    head = signed() | {"content-length": "600"}
    with staged(tmp_path, reply=1000) as stage, ExitStack() as lines:
        first = lines.enter_context(connected(stage))
        first.sendall(request(head, b"x" * 500, PUSH))
        wait_until(lambda: sum(stage.gate._held.values()) == 500)
        assert raw(stage, request(head, b"x" * 600, PUSH)).startswith(b"HTTP/1.1 413")
        first.sendall(b"x" * 100)
        assert first.recv(100).startswith(b"HTTP/1.1 200")
        wait_until(lambda: sum(stage.gate._held.values()) == 0)
        long = request(signed() | {"content-length": str(2 << 20)})
        assert raw(stage, long).startswith(b"HTTP/1.1 413")


def test_what_a_site_sends_for_one_task_is_bounded_before_it_is_read(tmp_path):
    part = b"x" * 400
    with staged(tmp_path, reply=1000, pause=0.2) as stage, stage.client() as client:

        def pushed():
            return client.post(PUSH, content=part, headers=signed()).status_code

        assert [pushed(), pushed(), pushed(), pushed()] == [200, 200, 413, 413]
        assert sum(len(body) for path, body, _ in stage.behind.seen if path == PUSH) == 800
        client.post(PULL, content=b"task", headers=signed())
        assert pushed() == 413  # for another task as much again, though not at once
        time.sleep(0.3)
        client.post(PULL, content=b"task", headers=signed())
        assert pushed() == 200
    assert any("largest_answer" in line for line in stage.lines)


def test_a_slow_stranger_is_hung_up_on(tmp_path):
    with staged(tmp_path, patience=0.3) as stage:
        began = time.monotonic()
        assert raw(stage, b"POST /v1/fl") == b""
        assert raw(stage, b"", tls=False) == b""
        assert time.monotonic() - began < 4.0
        wait_until(lambda: any("too slow" in line for line in stage.lines))


def test_without_tls_nothing_is_said(stage):
    assert b"200" not in raw(stage, b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n", tls=False)
    wait_until(lambda: any("no TLS" in line for line in stage.lines))


def test_a_site_that_asks_too_often_has_to_wait(tmp_path):
    with staged(tmp_path, rate=0.001, burst=3.0) as stage, stage.client() as client:
        found = [client.post(PULL, headers=signed()).status_code for _ in range(4)]
    assert found == [200, 200, 200, 429] and "more than 0.001 a second" in stage.lines[-1]


def test_a_site_that_the_server_lost_is_not_shut_out_but_taken_in_again(stage):
    enter = "/v1/fleet/activate-node"
    stage.behind.status[enter] = 412
    with stage.client() as client:
        assert client.post(enter, headers=signed()).status_code == 503
        stage.behind.status[PULL] = 401  # an answer like any other
        assert client.post(PULL, headers=signed()).status_code == 401
    assert stage.lost == ["north"]


def test_while_the_server_is_away_sites_are_told_to_wait(stage):
    with stage.client() as client:
        stage.port = None
        assert client.post(PULL, headers=signed()).status_code == 503
        assert client.get("/health").status_code == 503
        stage.port = free_port()  # nobody listens there
        assert client.post(PULL, headers=signed()).status_code == 503
        stage.port = stage.behind.server_address[1]
        assert client.post(PULL, headers=signed()).status_code == 200


def test_anybody_may_ask_for_health_and_for_the_authority(stage):
    with stage.client() as client:
        assert client.get("/health").status_code == client.head("/health").status_code == 200
        assert client.get("/authority").content == stage.ca.read_bytes()
    assert stage.behind.seen == []


def test_a_port_in_use_is_a_sentence(stage):
    second = Gateway("127.0.0.1", stage.door, None, dict, lambda: None, bytes, print)
    with pytest.raises(FedloreError, match="does another federation, or another program, use"):
        second.__enter__()


def test_the_same_refusal_again_is_counted_and_not_repeated():
    now, lines = [0.0], []
    log = RefusalLog(lines.append, every=10.0, most=3, clock=lambda: now[0])
    for _ in range(100):
        log.note("1.2.3.4", "not signed")
    log.note("1.2.3.5", "not signed")
    assert len(lines) == 2
    now[0] = 11.0
    log.note("1.2.3.4", "not signed")
    assert lines[-1] == "refused 1.2.3.4: not signed (99 more of it before)"
    for number in range(1000):
        log.note(f"10.0.0.{number}", "not signed")
    assert len(log._seen) <= 4


def test_a_rate_has_a_burst_and_recovers():
    now = [0.0]
    bucket = Bucket(2.0, 3.0, clock=lambda: now[0])
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now[0] = 0.5
    assert [bucket.take() for _ in range(2)] == [True, False]


def test_a_kit_in_two_places_is_said_aloud_and_a_restart_is_not():
    lines = []
    twins = Twins(lines.append)
    for visit in ("a", "a", "b", "b", "c"):  # started three times, one after the other
        twins.seen("north", visit, "10.0.0.1")
    assert lines == []
    twins.seen("north", "b", "10.9.9.9")
    twins.seen("north", "c", "10.0.0.1")
    (line,) = lines
    assert "'north' speaks from two places (10.0.0.1 and 10.9.9.9)" in line and "renew" in line
