"""What a law is: a function that raises AssertionError, with a sentence, where it is broken."""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Protocol

import torch

from ..core.tree import Params, Payload
from ..core.wire import Reply, Task, Transport
from ..engine import Client, Memory, Recipe, Run
from ..engine.loop import own_params, recall

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
