"""Sites behind a proxy, and processes of one machine that must not go through it."""

import os
from pathlib import Path

import httpx
import pytest

from fedlore.federation.coordinator.server import healthy
from fedlore.federation.coordinator.training import train_federation
from fedlore.federation.flower.names import FleetHttpClient
from fedlore.federation.flower.transport import Link
from fedlore.federation.household import Household, start_server, start_site, wait_for_sites
from fedlore.federation.pages.app import PagePlace, showing_folder
from fedlore.federation.pages.overview import Watcher
from fedlore.federation.processes import free_port, spare_loopback
from fedlore_coke.starter import make_trial

from .inside import reference
from .pages.stage import stage as stage_files
from .proxy import forward_proxy
from .test_gateway import staged

NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    for name in (*NAMES, *map(str.lower, NAMES)):
        monkeypatch.setenv(name, "")  # so that it is put back, also where there was none
        monkeypatch.delenv(name)


def test_what_a_site_dials_goes_through_the_proxy_of_its_environment(tmp_path, monkeypatch):
    with staged(tmp_path) as stage, forward_proxy({"localhost": "127.0.0.1"}) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.address)
        ca, address = stage.ca.read_bytes(), f"localhost:{stage.door}"
        assert healthy(address, ca) is None  # what doctor asks
        client = Link(address, ca).open(FleetHttpClient)
        assert client._client.get(f"https://{address}/health").text == "ok"
        client.close()
        assert proxy.asked == [f"CONNECT {address}"] * 2 and proxy.carried > 0
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free_port()}")
        assert "refused" in str(healthy(address, ca))


def test_a_proxy_never_stands_between_processes_of_one_machine(tmp_path, monkeypatch):
    folder = stage_files(tmp_path, ["sent"])
    with showing_folder(folder, PagePlace("127.0.0.1", 0), token=None, say=print) as address:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
        monkeypatch.setenv("NO_PROXY", "intern.example")
        here = address.removeprefix("http://")  # without TLS, as the server behind the gate
        assert healthy(here, None) is not None
        spare_loopback()
        assert healthy(here, None) is None
        with httpx.Client() as client:
            assert client.get(f"http://{here}/health").status_code == 200
        spared = "intern.example,127.0.0.1,localhost,::1"
        assert os.environ["NO_PROXY"] == os.environ["no_proxy"] == spared
        spare_loopback()
        assert os.environ["NO_PROXY"].count("localhost") == 1


@pytest.mark.slow
def test_a_federation_whose_name_only_the_proxy_can_resolve(tmp_path, monkeypatch):
    """Sites as processes: with no other way to the coordinator, all they send passes the proxy."""
    folder, port = tmp_path / "fed", free_port()
    make_trial(
        folder, sites=2, address=f"coordinator.invalid:{port}", rounds=2, test_rows=30, secure=False
    )
    (folder / "logs").mkdir()
    server = start_server(folder)
    with forward_proxy({"coordinator.invalid": "127.0.0.1"}) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.address)
        homes = sorted(Path(folder / "sites").iterdir())
        federation = Household(folder, server, {home.name: start_site(home) for home in homes})
        try:
            spare_loopback()  # as every command does
            wait_for_sites(federation)
            run = train_federation(folder)
            states = {site.name: site.state for site in Watcher(folder).look().sites}
        finally:
            federation.stop()
    assert run.rows == reference(folder).rows and set(states.values()) == {"waiting"}
    assert set(proxy.asked) == {f"CONNECT coordinator.invalid:{port}"} and proxy.carried > 50_000
