"""What every algorithm must do in every engine, to be added to one list."""

import io
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedlore import federate
from fedlore.core import tree
from fedlore.engine import Local, Memory
from fedlore.engine.loop import own_params, recall

from ..engine.federation import federation
from .lists import ALGORITHMS, ENGINES, clients_with, names, recipe_for

each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=names(ALGORITHMS))
each_engine = pytest.mark.parametrize("engine", ENGINES, ids=names(ENGINES))
with_and_without = pytest.mark.parametrize("knowledge", [True, False], ids=["told", "bare"])


class Post:
    """A transport that keeps every reply and loses those it is told to lose.

    A lost reply was worked out all the same; a reply that is not asked for was not.
    """

    def __init__(self, inner, lose=lambda task, name: False, skip=lambda task, name: False):
        self.inner, self.lose, self.skip = inner, lose, skip
        self.replies = []

    def clients(self):
        return self.inner.clients()

    def exchange(self, task, to):
        to = [name for name in to if not self.skip(task, name)]
        for reply in self.inner.exchange(task, to):
            if task.kind == "train":
                self.replies.append(reply)
            if not self.lose(task, reply.client):
                yield reply


def own(transport, recipe, run) -> dict[str, tree.Params]:
    """What each client predicts with."""
    sent = recipe.algorithm.send(run.state)
    found = {}
    for name in sorted(transport.clients()):
        settled = transport.memories[name].settle(run.accepted.get(name, 0))
        found[name] = own_params(recipe.algorithm, sent, recall(recipe, sent, settled))
    return found


def run_of(engine, algorithm, *, rounds=3, clients=None, post=None, seed=3, sample=1.0, **changes):
    """(state, own models) after a run."""
    recipe = recipe_for(algorithm, seed=seed, **changes)
    transport = engine(clients or federation(), recipe)
    run = federate(Post(transport, **(post or {})), recipe, rounds, sample=sample)
    return run.state, own(transport, recipe, run)


def assert_close(a, b, **tolerance):
    """Payloads alike; without a tolerance, bit by bit."""
    assert a.keys() == b.keys()
    for key, bundle in a.items():
        assert bundle.keys() == b[key].keys()
        for name, t in bundle.items():
            torch.testing.assert_close(t, b[key][name], **(tolerance or {"rtol": 0, "atol": 0}))


def assert_same(one, two, **tolerance):
    for a, b in zip(one, two, strict=True):
        assert_close(a, b, **tolerance)


def copied(payload):
    return {key: tree.clone(bundle) for key, bundle in payload.items()}


@each_algorithm
@each_engine
def test_inputs_are_not_changed(engine, algorithm):
    recipe = recipe_for(algorithm)
    weights = {name: p.detach().clone() for name, p in recipe.model.named_parameters()}
    transport = engine(federation(), recipe)
    run = federate(transport, recipe, 2)
    state, memories = copied(run.state), {n: m for n, m in transport.memories.items()}
    before = {n: (copied(m.before), copied(m.after)) for n, m in memories.items()}
    federate(transport, recipe, 3, start=run)
    assert_close({"model": weights}, {"model": dict(recipe.model.named_parameters())})
    assert_close(run.state, state)
    for name, memory in memories.items():
        assert_same((memory.before, memory.after), before[name])


@with_and_without
@each_algorithm
@each_engine
def test_same_seed_same_bits_in_any_order_of_clients(engine, algorithm, knowledge):
    clients = clients_with(knowledge)
    one = run_of(engine, algorithm, clients=clients)
    assert_same(one, run_of(engine, algorithm, clients=clients[::-1]))
    other = run_of(engine, algorithm, clients=clients, seed=4)[1]
    assert any(not torch.equal(t, other[c][n]) for c, p in one[1].items() for n, t in p.items())


@each_algorithm
@each_engine
def test_a_rate_of_zero_uploads_zeros(engine, algorithm):
    recipe = recipe_for(algorithm, lr=0.0)
    post = Post(engine(federation(), recipe))
    run = federate(post, recipe, 2)
    assert len(post.replies) == 6
    for reply in post.replies:
        assert all(bool((t == 0).all()) for b in reply.upload.values() for t in b.values())
    assert_close({"m": run.state["model"]}, {"m": dict(recipe.model.named_parameters())})


@each_algorithm
@each_engine
def test_uploads_are_differences_shaped_like_the_model(engine, algorithm):
    recipe = recipe_for(algorithm)
    transport = engine(federation(), recipe)
    post = Post(transport)
    run = federate(post, recipe, 1)
    assert len(post.replies) == 3
    shapes = {name: p.shape for name, p in recipe.model.named_parameters()}
    sent = algorithm.send(algorithm.init(dict(recipe.model.named_parameters())))
    for reply in post.replies:
        assert tuple(reply.upload) == algorithm.uploads
        for key, bundle in reply.upload.items():
            assert {n: t.shape for n, t in bundle.items()} == {n: shapes[n] for n in sent[key]}
    # nobody moved, nothing is merged: what is uploaded is measured from what was sent
    nothing = {k: tree.zeros(sent[k]) for k in algorithm.uploads}
    still = algorithm.merge(algorithm.init(sent_model(recipe)), nothing, 1.0)
    assert_close({"m": still["model"]}, {"m": sent_model(recipe)})
    assert run.round == 1


def sent_model(recipe):
    return {name: p.detach() for name, p in recipe.model.named_parameters()}


@each_algorithm
@each_engine
def test_memory_survives_a_save_and_a_load(engine, algorithm):
    recipe = recipe_for(algorithm)
    transport = engine(federation(), recipe)
    run = federate(transport, recipe, 2)
    fresh = engine(federation(), recipe)
    for name, memory in transport.memories.items():
        fresh.memories[name] = Memory(
            memory.round, through_a_file(memory.before), through_a_file(memory.after)
        )
    whole, resumed = (federate(t, recipe, 4, start=run) for t in (transport, fresh))
    assert_close(whole.state, resumed.state)
    assert_close(own(transport, recipe, whole), own(fresh, recipe, resumed))


def through_a_file(payload):
    """A payload written to npz and read again: tensors under names, nothing else."""
    file = io.BytesIO()
    flat = {f"{key}/{name}": t.numpy() for key, b in payload.items() for name, t in b.items()}
    np.savez(file, **flat)
    file.seek(0)
    back: tree.Payload = {}
    for path, values in np.load(file).items():
        key, _, name = path.partition("/")
        back.setdefault(key, {})[name] = torch.from_numpy(values)
    return back


@each_algorithm
@each_engine
def test_a_lost_round_leaves_no_trace(engine, algorithm):
    def in_round_two(task, name):
        return task.kind == "train" and task.round == 2

    lost = run_of(engine, algorithm, rounds=4, post={"lose": in_round_two})
    never = run_of(engine, algorithm, rounds=4, post={"skip": in_round_two})
    assert_same(lost, never)


@each_algorithm
@each_engine
def test_a_lost_reply_leaves_no_trace(engine, algorithm):
    def one_in_round_two(task, name):
        return task.kind == "train" and task.round == 2 and name == "site-1"

    lost = run_of(engine, algorithm, rounds=4, post={"lose": one_in_round_two})
    never = run_of(engine, algorithm, rounds=4, post={"skip": one_in_round_two})
    # who else is in a stack may change the last bit, never more
    tolerance = {} if engine is Local else {"rtol": 1e-9, "atol": 1e-9}
    assert_same(lost, never, **tolerance)


@with_and_without
@each_algorithm
@each_engine
def test_engines_agree(engine, algorithm, knowledge):
    """1e-9 in float64 after three rounds; the reference engine agrees with itself bit by bit."""
    clients = clients_with(knowledge)
    wanted = run_of(Local, algorithm, clients=clients)
    tolerance = {} if engine is Local else {"rtol": 1e-9, "atol": 1e-9}
    assert_same(run_of(engine, algorithm, clients=clients), wanted, **tolerance)


@with_and_without
@each_algorithm
@each_engine
def test_training_helps(engine, algorithm, knowledge):
    recipe = recipe_for(algorithm, lr=0.1, schedule="constant")
    transport = engine(clients_with(knowledge), recipe)
    run = federate(transport, recipe, 12, evaluate=1)
    loss = [row["nll"] for row in run.rows if "nll" in row]
    assert sum(loss[-3:]) < sum(loss[:3])


@each_algorithm
@each_engine
def test_sampling_works_or_is_refused(engine, algorithm):
    if algorithm.facts.everyone:
        with pytest.raises(ValueError, match="needs every client in every round"):
            run_of(engine, algorithm, sample=0.5)
    else:
        state, models = run_of(engine, algorithm, rounds=2, sample=0.5)
        assert all(t.isfinite().all() for t in state["model"].values())
        assert set(models) == {"site-0", "site-1", "site-2"}


@each_algorithm
def test_stated_traffic_is_the_measured_one(algorithm):
    recipe = recipe_for(algorithm)
    post = Post(Local(federation(), recipe))
    federate(post, recipe, 1)
    whole = size({"model": sent_model(recipe)})
    down = size(algorithm.send(algorithm.init(sent_model(recipe)))) / whole
    up = size(post.replies[0].upload) / whole
    if algorithm.facts.note.startswith("the shared layers only"):
        assert down == up < algorithm.facts.down == algorithm.facts.up
    else:
        assert (down, up) == (algorithm.facts.down, algorithm.facts.up)


def size(payload) -> int:
    return sum(t.numel() for bundle in payload.values() for t in bundle.values())


@each_algorithm
@each_engine
def test_stated_memory_is_what_clients_keep(engine, algorithm):
    recipe = recipe_for(algorithm)
    transport = engine(federation(), recipe)
    federate(transport, recipe, 1)
    assert all(bool(m.after) == algorithm.facts.memory for m in transport.memories.values())


@each_algorithm
@each_engine
def test_finishing_steps_forget_themselves_when_training_goes_on(engine, algorithm):
    recipe = recipe_for(algorithm, schedule="constant")
    finishing = replace(recipe, plan=replace(recipe.plan, finish=3))
    through = engine(federation(), recipe)
    whole = federate(through, recipe, 3)
    stopped = engine(federation(), finishing)
    run = federate(stopped, finishing, 1)
    run = federate(stopped, recipe, 3, start=run)
    assert_close(whole.state, run.state)
    assert_close(own(through, recipe, whole), own(stopped, recipe, run))
