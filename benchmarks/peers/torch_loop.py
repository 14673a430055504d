"""What a researcher writes by hand: clients one after another, torch's own SGD.

A third argument above 1 spreads the clients of a round over that many processes.
"""

import sys

import torch
import torch.multiprocessing as mp
from workloads import BATCH, DECAY, EPOCHS, LR, MOMENTUM, Clock, asked, torch_loss, torch_model

torch.set_num_threads(1)


def train(model, start, x, y, generator):
    """One client's round: its parameters after training."""
    with torch.no_grad():
        for p, s in zip(model.parameters(), start, strict=True):
            p.copy_(s)
    sgd = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM, weight_decay=DECAY)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x), generator=generator).split(BATCH):
            sgd.zero_grad()
            torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            sgd.step()
    return [p.detach() for p in model.parameters()]


def total(model, start, x, y, clients, round):
    """The sum of the trained parameters of some clients."""
    sums = [torch.zeros_like(s) for s in start]
    for i in clients:
        generator = torch.Generator().manual_seed(1000 * round + i)
        for s, p in zip(sums, train(model, start, x[i], y[i], generator), strict=True):
            s.add_(p)
    return sums


def serve(workload, x, y, pipe):
    torch.set_num_threads(1)
    model = torch_model(workload)
    while (order := pipe.recv()) is not None:
        clients, start, round = order
        pipe.send(total(model, start, x, y, clients, round))


def main() -> None:
    workload, processes = asked(), int(sys.argv[3]) if len(sys.argv) > 3 else 1
    arrays = workload.data()
    x, y = (torch.from_numpy(part).share_memory_() for part in arrays)
    model = torch_model(workload)
    start = [p.detach().clone() for p in model.parameters()]
    pipes = []
    for _ in range(processes - 1):
        here, there = mp.Pipe()
        mp.Process(target=serve, args=(workload, x, y, there), daemon=True).start()
        pipes.append(here)
    clock = Clock()
    for round in range(workload.rounds):
        cohort = workload.cohort_of(round)
        for k, pipe in enumerate(pipes):
            pipe.send((cohort[k + 1 :: processes], start, round))
        parts = [total(model, start, x, y, cohort[::processes], round)]
        parts += [pipe.recv() for pipe in pipes]
        start = [sum(tensors) / len(cohort) for tensors in zip(*parts, strict=True)]
        clock.lap()
    for pipe in pipes:
        pipe.send(None)
    with torch.no_grad():
        for p, s in zip(model.parameters(), start, strict=True):
            p.copy_(s)
    clock.tell(torch_loss(model, *arrays))


if __name__ == "__main__":
    mp.set_start_method("fork")
    main()
