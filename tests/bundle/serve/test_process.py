"""fedlore serve as a process of its own, on a free loopback port."""

import http.client
import json
import signal
import socket
import sys

import pytest

from fedlore import FedloreError
from fedlore.bundle import read_bundle, write_bundle
from fedlore.bundle.serve import serve_bundle
from fedlore.cli import main

from .process import INSIST, serving
from .sites import ROW, TOKEN, grades


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    place = tmp_path_factory.mktemp("bundle") / "plant.lore"
    write_bundle(grades(), place)
    return place


def post(port, body, **headers):
    talk = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        talk.request("POST", "/predict", body, {"Content-Type": "application/json", **headers})
        answer = talk.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        talk.close()


@pytest.mark.slow
def test_it_answers_refuses_and_stops_when_it_is_told(path):
    token = {"FEDLORE_TOKEN": TOKEN}
    with serving(path, *INSIST, "--max-body", "500", environment=token) as service:
        process, port, line = service
        assert "needs a token" in line
        row = json.dumps(ROW).encode()
        lock = {"Authorization": f"Bearer {TOKEN}"}
        status, said = post(port, row, **lock)
        assert status == 200
        assert said["answers"][0]["allowed"] == ["III", "II"]
        assert post(port, row)[0] == 401
        assert post(port, b" " * 501, **lock)[0] == 413
        pieces = (b" " * 100 for _ in range(10))  # chunked, without an announced size
        assert post(port, pieces, **lock)[0] == 413
        assert post(port, b'{"ash": NaN}', **lock)[0] == 422
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert process.stdout.read().strip() == "stopped"
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        (["--host", "0.0.0.0"], "'0.0.0.0' can be reached from other machines: set a token"),
        (["--max-body", "much"], "a size must be a whole number"),
        (["--token-file", "nowhere"], "there is no 'nowhere'"),
    ],
)
def test_what_cannot_be_served_is_one_line_and_exit_code_2(path, options, rule, capsys):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["fedlore", "serve", str(path), *INSIST, *options])
        patch.setenv("COLUMNS", "300")
        patch.delenv("FEDLORE_TOKEN", raising=False)
        with pytest.raises(SystemExit) as left:
            main()
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: {rule}")
    assert said.count("\n") == 1


def test_without_the_extra_the_command_says_what_to_install(path, monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("fedlore.bundle.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.setattr(sys, "argv", ["fedlore", "serve", str(path)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: uvicorn is missing: pip install 'fedlore[serve]' [command]")


def test_a_taken_port_is_one_line(path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(FedloreError, match=f"cannot listen on 127.0.0.1:{port}"):
            serve_bundle(read_bundle(path), port=port)
