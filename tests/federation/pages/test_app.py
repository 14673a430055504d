"""The page over HTTP: read-only, guarded, under a strict policy."""

import json
import time
from dataclasses import replace

import httpx
import pytest
from typer.testing import CliRunner

from fedlore.cli.app import app
from fedlore.errors import ConfigError, FedloreError
from fedlore.federation.pages.app import (
    USUAL_PAGE,
    PagePlace,
    make_watch,
    showing_folder,
    watch_folder,
)

from ...bundle.serve.asking import ask
from .stage import EVIL, KINDS, stage

TOKEN = "a-token-of-enough-characters"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return stage(tmp_path_factory.mktemp("fed"), list(KINDS))


class Visitor:
    """Somebody who asks the page of a folder."""

    def __init__(self, folder, token=None, hosts=("127.0.0.1",)):
        self.app = make_watch(watch_folder(folder), token=token, hosts=hosts)

    def request(self, method, path, **more):
        return ask(self.app, method, path, **more)

    def get(self, path, **more):
        return self.request("GET", path, **more)


def test_people_programs_and_probes_are_answered(folder):
    page = Visitor(folder)
    whole, part = page.get("/").text, page.get("/part").text
    assert "<title>coke</title>" in whole and "Sites now" in part
    assert (
        "/*" not in whole.partition("<style>")[0] + whole.partition("</style>")[2].split("<sc")[0]
    )
    assert page.get("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")
    state = page.get("/state.json").json()
    assert state["sites"]["plant-01"]["state"] == "unknown" and state["sites"].keys() >= {
        "plant-08"
    }
    assert page.get("/health").json() == {"status": "ok", "token": False}
    assert page.get("/ready").status_code == 503  # what the gate wrote is old by now
    assert page.request("HEAD", "/").content == b""


def test_nothing_can_be_changed(folder):
    page = Visitor(folder)
    for path in ("/", "/part", "/state.json", "/metrics"):
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert page.request(method, path).status_code == 405
    assert page.get("/../site.key").status_code == page.get("/journal").status_code == 404
    assert page.request("POST", "/", content=b"xx").status_code == 413


def test_what_a_site_let_out_is_text(folder):
    page = Visitor(folder)
    for path in ("/", "/part"):
        text = page.get(path).text
        assert EVIL not in text and "&lt;img src=x" in text


def test_the_policy_lets_nothing_in_but_this_style_and_script(folder):
    answer = Visitor(folder).get("/")
    policy = dict(
        part.strip().partition(" ")[::2]
        for part in answer.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"].startswith("'sha256-") and "unsafe" not in str(policy)
    assert "style=" not in answer.text and "http" not in answer.text.replace("http-equiv", "")


def test_with_a_token_nothing_is_told_without_it(folder):
    page = Visitor(folder, TOKEN, None)
    assert "plant-01" not in page.get("/").text
    for path in ("/part", "/state.json", "/metrics"):
        assert page.get(path).status_code == 401
        said = page.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
        assert said.status_code == 200 and "plant-01" in said.text


def test_other_names_are_not_answered(folder):
    page = Visitor(folder, hosts=("localhost",))
    assert page.get("/", headers={"host": "evil.example"}).status_code == 421


def test_it_is_shown_on_loopback_beside_other_work(folder):
    lines = []
    with showing_folder(folder, PagePlace("127.0.0.1", 0), token=None, say=lines.append) as address:
        assert httpx.get(f"{address}/health").json()["status"] == "ok"
        port = int(address.rpartition(":")[2])
        with pytest.raises(FedloreError, match=f"cannot listen on 127.0.0.1:{port}"):
            with showing_folder(folder, PagePlace("127.0.0.1", port), token=None, say=lines.append):
                pass
        # where any port will do, one that is taken is no reason to have none
        other = PagePlace("127.0.0.1", port, asked=False)
        with showing_folder(folder, other, token=None, say=lines.append) as second:
            assert second != address and httpx.get(f"{second}/health").status_code == 200
    assert lines == [f"status page at {address}/", f"status page at {second}/"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{address}/health")


def test_other_machines_need_a_token(folder):
    with pytest.raises(FedloreError, match="can be reached from other machines: set a token"):
        with showing_folder(folder, PagePlace.read("0.0.0.0:0"), token=None, say=print):
            pass
    assert not USUAL_PAGE.asked and USUAL_PAGE.host == "127.0.0.1"


def test_a_folder_of_neither_kind_and_a_wrong_place_are_named(tmp_path):
    with pytest.raises(ConfigError, match="neither a federation.toml .* nor a site.toml"):
        watch_folder(tmp_path)
    with pytest.raises(ConfigError, match="a port or at host:port, got 'here'"):
        PagePlace.read("here")


def test_a_command_shows_the_same_and_then_what_changes(tmp_path, trained):
    folder = stage(tmp_path, ["training", "lost"], now=time.time())
    (folder / "ca.crt").touch()  # by which a command knows a coordinator's folder
    told = CliRunner().invoke(app, ["status", str(folder)])
    assert told.exit_code == 0 and "training; round 12 of 30; the server is up" in told.output
    shown = watch_folder(folder)
    before = shown.look()
    stage(folder, ["sent", "failed"], now=time.time())
    lines = shown.changes(before, shown.look())
    assert lines[0] == "  plant-01: training -> waiting" and "  plant-02: lost -> failed" in lines
    assert lines[-1].startswith("  plant-02: round 7: failed") and not shown.changes(before, before)
    told = CliRunner().invoke(app, ["status", str(trained / "sites" / "plant-3")])
    assert told.exit_code == 0 and "site 'plant-3' is not in" in told.output
    site = watch_folder(trained / "sites" / "plant-3")
    now = site.look()
    (line, *_) = site.changes(replace(now, events=now.events[1:]), now)
    assert "refused: policy: at least 4 participants" in line


def test_one_look_at_twenty_sites_is_quick(tmp_path):
    """Well below the two seconds after which the page looks again."""
    folder = stage(tmp_path, ["training"] * 20, rounds=500)
    shown = watch_folder(folder)
    shown.page(shown.look())
    began = time.process_time()
    text = shown.page(shown.look())
    assert time.process_time() - began < 1.0 and len(text) < 400_000
    assert len(json.dumps(len(shown.measures(shown.look())))) < 7
