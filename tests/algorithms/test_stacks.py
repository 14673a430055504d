"""The client half of an algorithm on a stack of clients does what it does one by one."""

import pytest
import torch

from fedlore import Plan
from fedlore.algorithms import Alone, Apfl, Ditto, FedAvg, FedOpt, FedPer, Scaffnew, Scaffold, reach
from fedlore.core import tree
from fedlore.core.rng import stream

M, D = 3, 4
STEPS = torch.tensor([1, 3, 6])


class Stack:
    """Work on quadratics of several clients in lockstep; with one client, of that client.

    Tensors are (m, d), or (d,) for one client, and a client that is done stands still.
    """

    def __init__(self, curves, centres, steps, momentum):
        self.plan = Plan(lr=0.1, momentum=momentum, decay=0.0)
        self.curves, self.centres, self.steps = curves, centres, steps
        self.lr = self.plan.lr

    @property
    def reach(self):
        sums = [reach(int(s), self.lr, self.plan.momentum) for s in self.steps.reshape(-1)]
        return torch.tensor(sums, dtype=torch.float64).reshape(self.steps.shape)

    def gradient(self, at):
        return {n: self.curves * (t - self.centres) for n, t in at.items()}

    def descend(self, start, *, shift=None, anchor=None, pull=0.0, steps=None):
        def slopes(points, gradient):
            away = gradient(points["p"])
            if shift is not None:
                away = tree.add(away, shift)
            if anchor is not None:
                away = tree.axpy(pull, tree.sub(points["p"], anchor), away)
            return {"p": away}

        count = self.steps if steps is None else torch.full_like(self.steps, steps)
        return self.walk({"p": start}, slopes, count)["p"]

    def walk(self, points, slopes, count=None):
        count = self.steps if count is None else count
        velocity = {k: tree.zeros(p) for k, p in points.items()}
        for step in range(int(count.max())):
            rate = torch.where(step < count, -self.lr, 0.0)  # () or (m,)
            away = slopes(points, self.gradient)
            velocity = {k: tree.axpy(self.plan.momentum, velocity[k], away[k]) for k in points}
            points = {k: tree.axpy(rate, velocity[k], p) for k, p in points.items()}
        return points

    def shared(self, purpose):
        return stream("stack", purpose)


def stacked(payloads):
    return {
        key: {name: torch.stack([p[key][name] for p in payloads]) for name in bundle}
        for key, bundle in payloads[0].items()
    }


@pytest.mark.parametrize(
    "algorithm",
    [
        FedAvg(),
        FedAvg(prox=0.3),
        FedOpt(),
        Scaffold(),
        Scaffnew(chance=0.3),
        Ditto(),
        Apfl(),
        FedPer(private=("head",)),
        Alone(),
    ],
    ids=repr,
)
def test_a_stack_is_its_clients(algorithm):
    g = stream("clients")
    curves, centres, start, head = (
        torch.rand(*shape, generator=g, dtype=torch.float64)
        for shape in ((M, D), (M, D), (D,), (D,))
    )
    momentum = 0.5 if algorithm.facts.momentum else 0.0
    initial = {"x": start, "head": head}
    state = algorithm.init(initial)
    memories = [algorithm.start(algorithm.send(state), initial) for _ in range(M)]
    together = stacked(memories)
    for _ in range(3):
        sent = algorithm.send(state)
        spread = {k: {n: t.expand(M, *t.shape) for n, t in b.items()} for k, b in sent.items()}
        both = algorithm.local(spread, together, Stack(curves, centres, STEPS, momentum))
        single = [
            algorithm.local(sent, m, Stack(curves[i], centres[i], STEPS[i], momentum))
            for i, m in enumerate(memories)
        ]
        memories, together = [memory for _, memory in single], both[1]
        uploads = [upload for upload, _ in single]
        for found, wanted in zip(both, (stacked(uploads), stacked(memories)), strict=True):
            assert found.keys() == wanted.keys()
            for key, bundle in wanted.items():
                for name, t in bundle.items():
                    torch.testing.assert_close(found[key][name], t, rtol=0, atol=1e-14)
        state = algorithm.merge(state, tree.mean((u, 1.0) for u in uploads), 1.0)
        mine = algorithm.personal(spread, together)
        assert all(t.shape == (M, D) for t in mine.values())
