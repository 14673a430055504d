"""fedlore itself: fit() with its defaults, or with the engine named as third argument."""

import sys

import torch
from workloads import Clock, asked, torch_loss, torch_model

from fedlore import Client, Examples, Plan, fit

torch.set_num_threads(1)


def main() -> None:
    workload = asked()
    engine, workers = (sys.argv[3].split(":") + [""])[:2] if len(sys.argv) > 3 else ("auto", "")
    arrays = workload.data()
    x, y = (torch.from_numpy(part) for part in arrays)
    clients = [Client(f"{i:05d}", Examples(x[i], y[i])) for i in range(workload.clients)]
    clock = Clock()
    fitted = fit(
        clients,
        torch_model(workload),
        plan=Plan(),
        rounds=workload.rounds,
        sample=workload.cohort / workload.clients,
        scale=False,
        engine=engine,
        workers=int(workers) if workers else None,
        on_round=lambda run: clock.lap(),
    )
    clock.tell(torch_loss(fitted.model("00000").model, *arrays))


if __name__ == "__main__":
    main()
