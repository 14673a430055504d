"""Scores of many clients at once: one pass over all of their test rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ...core.examples import Examples
from ...core.inject import fill_trust, guard, inject
from ...core.metrics import decide, find_median
from ...core.scaler import Scaler
from ...core.tree import Params
from ...models.client import Client, Measure
from ..client import see_rows
from .clients import Ears, ears_of
from .params import StackedParams

ROWS = 4096  # rows in one pass: enough to fill the arithmetic, small enough for the cache


@dataclass(frozen=True, eq=False)
class TestRows:
    """The test rows of m clients, each with what its own expert says; bare clients hear nothing."""

    sizes: tuple[int, ...]  # rows of each client, 0 without a test
    x: Tensor  # (n, *features), scaled
    y: Tensor  # (n,)
    prior: Tensor  # (n, k)  zeros where nothing is said
    allowed: Tensor  # (n, k)  true where nothing is ruled out
    trust: Tensor  # (n, 1)
    ears: Ears | None  # how a hearing network gets it
    limits: Tensor  # (n, k)  against which violations count, injected or not
    limited: tuple[bool, ...]  # whether a client has such limits
    measures: tuple[Measure | None, ...]
    shaped: Tensor  # (n,) bool: rows of sites with shapes

    def expert_inputs(self, rows: slice | Tensor) -> Tensor | None:
        """What a hearing network gets of these rows, (..., 2k) or less."""
        if self.ears is None:
            return None
        return self.ears(self.prior[rows], self.allowed[rows], self.prior[rows])


def stack_tests(
    clients: Sequence[Client], model: nn.Module, scaler: Scaler | None, classes: int
) -> TestRows | None:
    """The test rows of these clients together, None when there are none."""
    like = next(model.parameters())
    tests = [c.test if c.test is not None and c.test.y is not None else None for c in clients]
    pairs = [(c, test) for c, test in zip(clients, tests, strict=True) if test is not None]
    if not pairs:
        return None

    def whole(name: str, blank: Tensor, *, bare: bool = False) -> Tensor:
        """One part of all tests; what is missing, or not for bare clients, is left blank."""
        parts = []
        for client, test in pairs:
            part = getattr(test, name) if client.injected or not bare else None
            parts.append(blank.expand(len(test), classes) if part is None else part.to(blank))
        return torch.cat(parts).to(like.device)

    nothing, everything = torch.zeros(1, 1, dtype=like.dtype), torch.ones(1, 1, dtype=torch.bool)
    trust = [_trust(client, test) for client, test in pairs]
    rows = torch.tensor([len(test) for _, test in pairs])
    seen = [see_rows(client.injected, test, scaler, model) for client, test in pairs]
    x = torch.cat([part.x for part in seen])
    return TestRows(
        tuple(0 if test is None else len(test) for test in tests),
        x.to(like),
        torch.cat([test.y for _, test in pairs if test.y is not None]).to(like.device),
        whole("prior", nothing, bare=True),
        whole("allowed", everything, bare=True),
        torch.cat(trust)[:, None].to(like),
        ears_of(model, x[:1].to(like)) if getattr(model, "hears", True) else None,
        whole("allowed", everything),
        tuple(test is not None and test.allowed is not None for test in tests),
        tuple(c.measure for c in clients),
        torch.tensor([part.signs is not None for part in seen]).repeat_interleave(rows),
    )


def _trust(client: Client, test: Examples) -> Tensor:
    """λ at prediction of each row, (n,); a bare client hears nobody."""
    one = client.knowledge.trust_at_prediction if client.injected else 0.0
    found = fill_trust(test.trust if client.injected else None, one)
    return torch.as_tensor(found, dtype=torch.float64).expand(len(test))


@torch.no_grad()
def score_tests(tests: TestRows, logits: Tensor) -> list[dict[str, float]]:
    """The scores of each client, from the logits of all of their rows, (n, k)."""
    logits = guard(logits)
    log_probs = inject(logits, tests.prior, tests.allowed, tests.trust)
    predicted = decide(log_probs, tests.prior)
    shaped = tests.shaped.to(logits.device)
    if shaped.any():
        predicted = torch.where(shaped, find_median(log_probs), predicted)
    clients = torch.arange(len(tests.sizes))
    owner = clients.repeat_interleave(torch.tensor(tests.sizes)).to(logits.device)
    right = (predicted == tests.y).double()
    loss = -log_probs.double().gather(1, tests.y[:, None])[:, 0]
    outside = (~tests.limits.gather(1, predicted[:, None])[:, 0]).double()
    sums = loss.new_zeros(len(tests.sizes), 3)
    sums.index_add_(0, owner, torch.stack([right, loss, outside], 1))
    found, start = [], 0
    for i, (n, (ta, nll, pov)) in enumerate(zip(tests.sizes, sums.tolist(), strict=True)):
        measure = tests.measures[i]
        scores: dict[str, float] = {}
        if n and measure is not None:
            scores = measure(logits[start : start + n])
        elif n:
            scores = {"ta": ta / n, "nll": nll / n}
            if tests.limited[i]:
                scores["pov"] = pov / n
        found.append(scores)
        start += n
    return found


@torch.no_grad()
def shared_logits(tests: TestRows, model: nn.Module, params: Params) -> Tensor:
    """The logits of all rows, (n, k), when all clients predict with the same network."""
    parts = []
    for s in range(0, len(tests.x), ROWS):
        rows = slice(s, s + ROWS)
        said = (tests.prior[rows], tests.allowed[rows]) if tests.ears is not None else ()
        parts.append(functional_call(model, params, (tests.x[rows], *said)))
    return torch.cat(parts)


@torch.no_grad()
def own_logits(tests: TestRows, stack: StackedParams, params: Params) -> Tensor:
    """The logits of all rows, (n, k), when every client has a network of its own, (m, ...)."""
    most, device = stack.clients, tests.x.device
    sizes = torch.tensor(tests.sizes)
    starts = sizes.cumsum(0) - sizes
    tested = sizes.nonzero()[:, 0]
    found: Tensor | None = None
    for some in torch.split(tested, most):
        stack.load({n: t.index_select(0, some.to(device)) for n, t in params.items()}, len(some))
        for first in range(0, int(sizes[some].max()), ROWS):
            width = min(ROWS, int(sizes[some].max()) - first)
            place = first + torch.arange(width).expand(len(some), -1)  # (m, r)
            inside = place < sizes[some, None]
            rows = (starts[some, None] + torch.minimum(place, sizes[some, None] - 1)).to(device)
            logits = (
                stack.program(len(some), width).logits(tests.x[rows], tests.expert_inputs(rows)).mT
            )
            if found is None:
                found = logits.new_empty(len(tests.x), logits.shape[2])
            found[rows[inside]] = logits[inside.to(device)]
    assert found is not None
    return found
