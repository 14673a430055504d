"""A small federation with knowledge, made from nothing but a seed, and what laws are made of."""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import fields
from typing import Any, Protocol

import torch
from torch.nn.functional import one_hot

from ..algorithms import (
    Algorithm,
    Alone,
    Apfl,
    Ditto,
    FedAvg,
    FedOpt,
    FedPer,
    Plan,
    Scaffnew,
    Scaffold,
    facts_of,
)
from ..core.examples import Examples
from ..core.nets import mlp
from ..core.rng import stream
from ..core.tree import Params, Payload
from ..core.wire import Reply, Task, Transport
from ..engine import Client, Memory, Recipe, Run
from ..engine.loop import own_params, recall
from ..errors import ConfigError, unknown
from ..knowledge import Knowledge

FEATURES, CLASSES = 6, 4

#: Fedlore's own algorithms in the settings that engines and filters are checked with.
EXAMPLES: tuple[Algorithm, ...] = (
    FedAvg(),
    FedAvg(prox=0.5),
    FedOpt(kind="momentum", lr=0.3),
    FedOpt(kind="adagrad"),
    FedOpt(kind="adam"),
    FedOpt(kind="yogi"),
    Scaffold(),
    Scaffnew(chance=0.2),
    Ditto(),
    Apfl(),
    FedPer(),
    FedPer(private=("body.1.0",)),
    Alone(),
)


def small_rows(n: int, *path: int | str) -> Examples:
    """Linear truth, an expert who is right two times of three, ranges two or three wide."""
    g = stream("federation", *path)
    x = torch.randn(n, FEATURES, generator=g)
    truth = torch.randn(FEATURES, CLASSES, generator=stream("truth"))
    y = (x @ truth).argmax(1)
    allowed = one_hot(y, CLASSES).bool() | (torch.rand(n, CLASSES, generator=g) < 0.3)
    guess = torch.where(allowed, torch.rand(n, CLASSES, generator=g), -1.0).argmax(1)
    right = torch.rand(n, generator=g) < 0.67
    prior = one_hot(torch.where(right, y, guess), CLASSES).float()
    return Examples(x, y, prior, allowed)


def small_federation(
    sizes: Sequence[int] = (20, 33, 47), *, trust: float = 0.3, knowledge: bool = True
) -> list[Client]:
    """Clients called site-0, site-1, ..., with or without what their experts say."""
    clients = [
        Client(
            f"site-{i}", small_rows(n, i), Knowledge(trust=trust), test=small_rows(60, i, "test")
        )
        for i, n in enumerate(sizes)
    ]
    return clients if knowledge else [client.bare() for client in clients]


def small_recipe(
    algorithm: Algorithm, *, double: bool = True, seed: int = 3, **changes: Any
) -> Recipe:
    """A small recipe that the algorithm bears; `changes` are settings of its plan."""
    for name in changes:
        known = [field.name for field in fields(Plan)]
        if name not in known:
            raise ConfigError(unknown("setting of a plan", name, known))
    settings: dict[str, Any] = {"epochs": 2, "batch": 8, "lr": 0.05, "schedule": "cosine"}
    settings["momentum"] = 0.9 if facts_of(algorithm).momentum else 0.0
    model = mlp(FEATURES, CLASSES, hidden=(5,))
    return Recipe(
        model.double() if double else model, algorithm, Plan(**(settings | changes)), seed
    )


Law = Callable[..., None]
Losing = Callable[[Task, str], bool]  # whether this is about a client's answer to a task


class Simulation(Transport, Protocol):
    """A transport over clients in this process, which keeps what they remember."""

    @property
    def memories(self) -> MutableMapping[str, Memory]: ...


MakeEngine = Callable[[Sequence[Client], Recipe], Simulation]


def expect(holds: object, sentence: str) -> None:
    """Raise the sentence where something does not hold."""
    if not holds:
        raise AssertionError(sentence)


def check_laws(laws: Iterable[Law], *cases: tuple[Any, ...]) -> None:
    """All laws for all cases; every one that is broken is named, in one error.

    What is raised beside AssertionError comes through, with the law in a note.
    """
    broken = []
    for case in cases:
        for law in laws:
            try:
                law(*case)
            except AssertionError as error:
                broken.append(f"{law_name(law, case)}: {error}")
            except Exception as error:
                error.add_note(f"in the law {law_name(law, case)}")
                raise
    if broken:
        raise AssertionError("broken: " + "\n".join(broken))


def law_name(law: Law, case: tuple[Any, ...] = ()) -> str:
    """A law and what it was asked of, for people."""
    about = ", ".join(getattr(one, "__name__", None) or repr(one)[:80] for one in case)
    return f"{law.__name__}({about})"


class Postbox:
    """A transport that keeps every reply and loses those it is told to lose.

    A lost reply was worked out all the same; a reply that is not asked for was not.
    """

    def __init__(
        self,
        inner: Transport,
        lose: Losing = lambda task, name: False,
        skip: Losing = lambda task, name: False,
    ) -> None:
        self.inner, self.lose, self.skip = inner, lose, skip
        self.replies: list[Reply] = []  # to the task train
        self.kept: dict[str, Reply] = {}  # the last of each client

    def clients(self) -> Sequence[str]:
        return self.inner.clients()

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        to = [name for name in to if not self.skip(task, name)]
        for reply in self.inner.exchange(task, to):
            self.kept[reply.client] = reply
            if task.kind == "train":
                self.replies.append(reply)
            if not self.lose(task, reply.client):
                yield reply


def own_models(transport: Simulation, recipe: Recipe, run: Run) -> dict[str, Params]:
    """What each client predicts with."""
    sent = recipe.algorithm.send(run.state)
    found = {}
    for name in sorted(transport.clients()):
        settled = transport.memories[name].settle(run.accepted.get(name, 0))
        found[name] = own_params(recipe.algorithm, sent, recall(recipe, sent, settled))
    return found


def loss_falls(run: Run) -> None:
    """Refuse a run of three clients whose loss on test rows does not end below its beginning."""
    loss = [float(row["nll"] or 0.0) for row in run.rows if "nll" in row]
    first, last = sum(loss[:3]) / 3, sum(loss[-3:]) / 3
    expect(last < first, f"the loss went from {first:.4f} to {last:.4f}")


def start_of(recipe: Recipe) -> Params:
    """The weights before round 1."""
    return {name: p.detach() for name, p in recipe.model.named_parameters()}


def same_payloads(
    a: Mapping[str, Params], b: Mapping[str, Params], *, rtol: float = 0.0, atol: float = 0.0
) -> None:
    """Refuse payloads that differ; without a tolerance, in a single bit."""
    expect(a.keys() == b.keys(), f"bundles {sorted(a)} are not {sorted(b)}")
    for key, bundle in a.items():
        other = b[key]
        expect(bundle.keys() == other.keys(), f"{key}: {sorted(bundle)} are not {sorted(other)}")
        for name, t in bundle.items():
            try:
                torch.testing.assert_close(t, other[name], rtol=rtol, atol=atol)
            except AssertionError as error:
                raise AssertionError(f"{key}/{name}: {error}") from None


def payload_size(payload: Payload) -> int:
    """How many numbers it holds."""
    return sum(t.numel() for bundle in payload.values() for t in bundle.values())
