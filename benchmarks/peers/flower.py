"""Flower's simulation engine: its FedAvg strategy, NumPy clients, Ray with two workers."""

import logging

import torch
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation
from torch_loop import train
from workloads import Clock, asked, torch_loss, torch_model

logging.getLogger("flwr").setLevel(logging.ERROR)
torch.set_num_threads(1)
WORKLOAD = asked()
_kept: dict[str, object] = {}  # a worker loads the rows once


def rows(partition: int):
    if not _kept:
        _kept["x"], _kept["y"] = (torch.from_numpy(part) for part in WORKLOAD.data())
        _kept["model"] = torch_model(WORKLOAD)
    return _kept["model"], _kept["x"][partition], _kept["y"][partition]


class Site(NumPyClient):
    def __init__(self, partition: int) -> None:
        self._partition = partition

    def fit(self, parameters, config):
        torch.set_num_threads(1)
        model, x, y = rows(self._partition)
        start = [torch.from_numpy(p) for p in parameters]
        generator = torch.Generator().manual_seed(1000 * config["round"] + self._partition)
        return [p.numpy() for p in train(model, start, x, y, generator)], len(x), {}


def client(context: Context):
    return Site(int(context.node_config["partition-id"])).to_client()


def server(context: Context) -> ServerAppComponents:
    clock, arrays = Clock(), WORKLOAD.data()
    model = torch_model(WORKLOAD)

    def after(round: int, parameters, config):
        if round:
            clock.lap()
        if round == WORKLOAD.rounds:
            with torch.no_grad():
                for p, s in zip(model.parameters(), parameters, strict=True):
                    p.copy_(torch.from_numpy(s))
            clock.tell(torch_loss(model, *arrays))

    strategy = FedAvg(
        fraction_fit=WORKLOAD.cohort / WORKLOAD.clients,
        fraction_evaluate=0.0,
        min_fit_clients=WORKLOAD.cohort,
        min_available_clients=WORKLOAD.clients,
        initial_parameters=ndarrays_to_parameters(WORKLOAD.weights()),
        evaluate_fn=after,
        on_fit_config_fn=lambda round: {"round": round},
    )
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=WORKLOAD.rounds))


if __name__ == "__main__":
    run_simulation(
        server_app=ServerApp(server_fn=server),
        client_app=ClientApp(client_fn=client),
        num_supernodes=WORKLOAD.clients,
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": 2, "include_dashboard": False, "logging_level": "ERROR"},
        },
    )
