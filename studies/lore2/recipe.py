"""The recipe for the coke case with the product's own calls: one round, networks, their mixture."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedlore.algorithms import FedPer, Plan
from fedlore.core.exact import Basis
from fedlore.core.examples import Examples
from fedlore.core.foresight import Exact, Foresight
from fedlore.core.ordinal import Ordinal, lay_between, ordered_mlp
from fedlore.core.scaler import Scaler
from fedlore.engine import Client, fit
from fedlore.engine.choice import scaler_of
from fedlore.engine.exact import exact_rows, posterior_of
from fedlore_coke.demo import Demo, plants_of

CLASSES = 20
PLAN = Plan(epochs=5, batch=32, lr=0.01, schedule="cosine", decay=5e-3, clip=5.0)


def one_round(clients: Sequence[Client], scaler: Scaler, exact: Exact) -> list[Tensor]:
    """Log-probabilities of each client's test rows inside the range, (n, k)."""
    rows = {c.id: exact_rows(c, exact, scaler, classes=CLASSES) for c in clients}
    groups = exact.basis.groups(exact.columns(clients[0].data.x.shape[1]))
    found = posterior_of(rows, groups)
    out = []
    for client in clients:
        site = Foresight(exact, found, rows[client.id].home, CLASSES)
        test = client.test
        assert test is not None
        out.append(inside(site.logits(scaler(test.x.double()), test.prior, test.allowed), test))
    return out


def network(
    clients: Sequence[Client], scaler: Scaler, options: Ordinal, *, seed: int, rounds: int = 40
) -> list[Tensor]:
    """The same of one federated network whose shift and width stay at home."""
    model = ordered_mlp(clients[0].data.x.shape[1], CLASSES, options=options, seed=seed)
    fitted = fit(
        clients, model, algorithm=FedPer(private=("own",)), plan=PLAN, rounds=rounds,
        scale=scaler, seed=seed, workers=1,
    )  # fmt: skip
    with torch.no_grad():
        return [inside(fitted.model(c.id).logits(c.test), c.test) for c in clients]


def inside(logits: Tensor, rows: Examples) -> Tensor:
    assert rows.allowed is not None
    return logits.double().masked_fill(~rows.allowed, -torch.inf).log_softmax(1)


def mean(parts: Sequence[list[Tensor]]) -> list[Tensor]:
    """The mixture with equal weights."""
    return [torch.stack(p).exp().mean(0).log() for p in zip(*parts, strict=True)]


def accuracy(out: Sequence[Tensor], clients: Sequence[Client]) -> float:
    right = [(p.argmax(1) == c.test.y).double().mean() for p, c in zip(out, clients, strict=True)]
    return 100 * float(torch.stack(right).mean())


def with_number(client: Client) -> Client:
    """The same client whose expert tells the number behind his class."""
    model = client.knowledge.prediction

    def told(rows: Examples) -> Examples:
        csr = model.model.expert(rows.x[:, list(model.columns)])
        return replace(rows, prior=lay_between((csr - 30.0) / 2.0 - 0.5, CLASSES).to(rows.prior))

    return replace(client, data=told(client.data), test=told(client.test))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="100-119")
    parser.add_argument("--number", action="store_true")
    parser.add_argument("--networks", type=int, default=4)
    given = parser.parse_args()
    first, last = map(int, given.seeds.split("-"))
    torch.set_num_threads(1)
    table: dict[str, list[float]] = {}
    for seed in range(first, last + 1):
        began = time.perf_counter()
        clients = [
            replace(c, knowledge=replace(c.knowledge, trust=0.0)) for c in plants_of(Demo(), seed)
        ]
        if given.number:
            clients = [with_number(c) for c in clients]
        scaler = scaler_of(clients)
        parts = {"one round": one_round(clients, scaler, Exact(Basis("quadratic")))}
        done = time.perf_counter()
        for start in ("none", "expert"):
            nets = [
                network(clients, scaler, Ordinal(start), seed=1000 * seed + i)
                for i in range(given.networks)
            ]
            parts[f"network on {start}"] = nets[0]
            parts[f"{len(nets)} networks on {start}"] = mean(nets)
        many = f"{given.networks} networks on none"
        parts[f"one round + {many}"] = mean([parts["one round"], parts[many]])
        for name, out in parts.items():
            table.setdefault(name, []).append(accuracy(out, clients))
        took = f"{done - began:.2f} s one round, {time.perf_counter() - done:.1f} s networks"
        print(seed, took, {n: round(v[-1], 2) for n, v in table.items()}, flush=True)
    for name, values in table.items():
        v = torch.tensor(values)
        print(f"{name:35s} {v.mean():.2f} ± {v.std() / len(v) ** 0.5:.2f}")


if __name__ == "__main__":
    main()
