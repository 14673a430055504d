"""The Flower app in Flower's own simulation, where Ray is installed."""

import pytest
import torch

from fedlore.federation.processes import Child, free_port

from .inside import small
from .stock import bare_sites, make_app
from .stock_processes import BIN, StockFederation, environment, wait_for
from .test_grid import AVERAGE, OPEN, PLAIN, in_one_process, shared

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "masked"])
def test_a_simulation_under_ray_is_that_of_fit(tmp_path, masked):
    pytest.importorskip("ray", reason="flwr run local simulates with Ray: flwr[simulation]")
    sites = bare_sites(small(tmp_path / "trial", sites=4), tmp_path / "sites")
    app = make_app(tmp_path / "app", sites[0], *PLAIN, *AVERAGE, *(() if masked else OPEN))
    port = free_port()
    config = f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\n'
    found = environment(tmp_path / "home", config + "insecure = true\n")
    server = [str(BIN / "flower-superlink"), "--insecure", "--simulation", "--isolation"]
    server += ["subprocess", "--host", "127.0.0.1", "--port", str(port)]
    made = StockFederation(tmp_path, found)
    made.children.append(Child(server, log=tmp_path / "superlink.log", env=found))
    try:
        wait_for(f"127.0.0.1:{port}", None, made)
        words = f'simulate="{tmp_path / "sites"}" out="{tmp_path / "out"}"'
        nodes = ("--federation-config", "num-supernodes=4")
        made.flwr("run", str(app), "here", *nodes, "--run-config", words, "--stream", timeout=900)
        fitted = in_one_process(app, sites)
        for name, value in shared(tmp_path / "out").items():
            close = torch.allclose(value, fitted.run.state["model"][name], atol=1e-5)
            assert close if masked else torch.equal(value, fitted.run.state["model"][name])
    finally:
        made.children[0].stop()
