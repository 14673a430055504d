"""What every algorithm must do in every engine, and every engine with every algorithm."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..algorithms import Algorithm, Scaffnew, Scaffold, facts_of
from ..core import tree
from ..core.store import pack_payload, unpack_payload
from ..core.tree import Params, Payload
from ..core.wire import Task
from ..engine import Local, Memory, Recipe, Run, Stacked, federate
from ..engine.loop import recall
from ..errors import ConfigError
from .clients import (
    EXAMPLES,
    Losing,
    MakeEngine,
    Postbox,
    Simulation,
    check_laws,
    expect,
    loss_falls,
    own_models,
    payload_size,
    same_payloads,
    small_federation,
    small_recipe,
    start_of,
)

ENGINES: tuple[MakeEngine, ...] = (Local, Stacked)

Ended = tuple[Payload, dict[str, Params]]  # the state, and what each client predicts with


def check_algorithm(algorithm: Algorithm, *, engines: Sequence[MakeEngine] = ENGINES) -> None:
    """Every law for an algorithm of one's own, in both engines.

    >>> from fedlore import FedAvg
    >>> check_algorithm(FedAvg(), engines=[Local])
    """
    check_laws(ALGORITHM_LAWS, *((algorithm, engine) for engine in engines))


def inputs_are_not_changed(algorithm: Algorithm, engine: MakeEngine) -> None:
    """Weights, state and memories that were given out stay as they are."""
    recipe = small_recipe(algorithm)
    weights = tree.clone(start_of(recipe))
    transport = engine(small_federation(), recipe)
    run = federate(transport, recipe, 2)
    state, memories = _copy(run.state), dict(transport.memories.items())
    before = {n: (_copy(m.before), _copy(m.after)) for n, m in memories.items()}
    federate(transport, recipe, 3, start=run)
    same_payloads({"model": weights}, {"model": start_of(recipe)})
    same_payloads(run.state, state)
    for name, memory in memories.items():
        _same((memory.before, memory.after), before[name])


def same_seed_same_bits_in_any_order_of_clients(algorithm: Algorithm, engine: MakeEngine) -> None:
    """The seed decides everything, and another one decides otherwise."""
    for knowledge in (True, False):
        clients = small_federation(knowledge=knowledge)
        one = _end(engine, algorithm, clients=clients)
        _same(one, _end(engine, algorithm, clients=clients[::-1]))
        other = _end(engine, algorithm, clients=clients, seed=4)[1]
        changed = [not torch.equal(t, other[c][n]) for c, p in one[1].items() for n, t in p.items()]
        expect(any(changed), "another seed ends in the same bits")


def a_rate_of_zero_uploads_zeros(algorithm: Algorithm, engine: MakeEngine) -> None:
    """Who does not move has nothing to tell, and the model stays."""
    recipe = small_recipe(algorithm, lr=0.0)
    post = Postbox(engine(small_federation(), recipe))
    run = federate(post, recipe, 2)
    expect(len(post.replies) == 6, f"3 clients and 2 rounds made {len(post.replies)} replies")
    for reply in post.replies:
        for key, bundle in reply.upload.items():
            still = all(bool((t == 0).all()) for t in bundle.values())
            expect(still, f"the upload '{key}' is not zero at lr = 0")
    same_payloads({"model": run.state["model"]}, {"model": start_of(recipe)})


def uploads_are_differences_shaped_like_the_model(algorithm: Algorithm, engine: MakeEngine) -> None:
    """An upload has the bundles of `uploads`, and a mean of zeros merges to no change."""
    recipe = small_recipe(algorithm)
    post = Postbox(engine(small_federation(), recipe))
    run = federate(post, recipe, 1)
    expect(len(post.replies) == 3, f"3 clients made {len(post.replies)} replies")
    sent = algorithm.send(algorithm.init(start_of(recipe)))
    shapes = {name: p.shape for name, p in recipe.model.named_parameters()}
    for reply in post.replies:
        bundles, said = tuple(reply.upload), tuple(algorithm.uploads)
        expect(bundles == said, f"the upload holds {bundles}, `uploads` says {said}")
        for key, bundle in reply.upload.items():
            found = {n: t.shape for n, t in bundle.items()}
            wanted = {n: shapes[n] for n in sent[key]}
            expect(found == wanted, f"the upload '{key}' is {found}, what was sent is {wanted}")
    # nobody moved, nothing is merged: what is uploaded is measured from what was sent
    nothing = {k: tree.zeros(sent[k]) for k in algorithm.uploads}
    still = algorithm.merge(algorithm.init(start_of(recipe)), nothing, 1.0)
    same_payloads({"model": still["model"]}, {"model": start_of(recipe)})
    expect(run.round == 1, f"one round was asked for, {run.round} were run")


def memory_survives_a_save_and_a_load(algorithm: Algorithm, engine: MakeEngine) -> None:
    """What clients remember is named tensors and nothing else."""
    recipe = small_recipe(algorithm)
    transport = engine(small_federation(), recipe)
    run = federate(transport, recipe, 2)
    fresh = engine(small_federation(), recipe)
    for name, memory in transport.memories.items():
        fresh.memories[name] = Memory(
            memory.round, _through_a_file(memory.before), _through_a_file(memory.after)
        )
    whole, resumed = (federate(t, recipe, 4, start=run) for t in (transport, fresh))
    same_payloads(whole.state, resumed.state)
    same_payloads(own_models(transport, recipe, whole), own_models(fresh, recipe, resumed))


def a_lost_round_leaves_no_trace(algorithm: Algorithm, engine: MakeEngine) -> None:
    """A round that nobody's answer came back from is as one that was not asked for."""

    def in_round_two(task: Task, name: str) -> bool:
        return task.kind == "train" and task.round == 2

    lost = _end(engine, algorithm, rounds=4, lose=in_round_two)
    _same(lost, _end(engine, algorithm, rounds=4, skip=in_round_two))


def a_lost_reply_leaves_no_trace(algorithm: Algorithm, engine: MakeEngine) -> None:
    """A client whose answer got lost goes on from where the server knows it to be."""

    def one_in_round_two(task: Task, name: str) -> bool:
        return task.kind == "train" and task.round == 2 and name == "site-1"

    lost = _end(engine, algorithm, rounds=4, lose=one_in_round_two)
    never = _end(engine, algorithm, rounds=4, skip=one_in_round_two)
    # who else is in a stack may change the last bit, never more
    _same(lost, never, **_tolerance(engine))


def engines_agree(algorithm: Algorithm, engine: MakeEngine) -> None:
    """1e-9 in float64 after three rounds; the reference engine agrees with itself bit by bit."""
    for knowledge in (True, False):
        clients = small_federation(knowledge=knowledge)
        wanted = _end(Local, algorithm, clients=clients)
        _same(_end(engine, algorithm, clients=clients), wanted, **_tolerance(engine))


def training_helps(algorithm: Algorithm, engine: MakeEngine) -> None:
    """The loss on test rows is less after twelve rounds than at the beginning."""
    for knowledge in (True, False):
        recipe = small_recipe(algorithm, lr=0.1, schedule="constant")
        transport = engine(small_federation(knowledge=knowledge), recipe)
        loss_falls(federate(transport, recipe, 12, evaluate=1))


def sampling_works_or_is_refused(algorithm: Algorithm, engine: MakeEngine) -> None:
    """Half of the clients in each round, unless the facts say that everyone is needed."""
    if facts_of(algorithm).everyone:
        try:
            _end(engine, algorithm, sample=0.5)
        except ConfigError as error:
            named = "needs every client in every round" in str(error)
            expect(named, f"a sample is refused without the reason: {error}")
        else:
            raise AssertionError("facts.everyone is set, and a sample of 0.5 was not refused")
        return
    state, models = _end(engine, algorithm, rounds=2, sample=0.5)
    expect(tree.finite({"model": state["model"]}), "the model is not finite with a sample of 0.5")
    expect(set(models) == {"site-0", "site-1", "site-2"}, f"only {sorted(models)} have a model")


def stated_traffic_is_the_measured_one(algorithm: Algorithm, engine: MakeEngine) -> None:
    """`facts.down` and `facts.up`, in multiples of the model; less where layers stay at home."""
    facts, recipe = facts_of(algorithm), small_recipe(algorithm)
    post = Postbox(Local(small_federation(), recipe))
    federate(post, recipe, 1)
    whole = payload_size({"model": start_of(recipe)})
    down = payload_size(algorithm.send(algorithm.init(start_of(recipe)))) / whole
    up = payload_size(post.replies[0].upload) / whole
    measured = f"{down:g} down and {up:g} up, facts say {facts.down:g} and {facts.up:g}"
    if facts.note.startswith("the shared layers only"):
        expect(down == up and up < facts.up == facts.down, measured)
    else:
        expect((down, up) == (facts.down, facts.up), measured)


def stated_memory_is_what_clients_keep(algorithm: Algorithm, engine: MakeEngine) -> None:
    """`facts.memory` says whether clients remember anything."""
    recipe = small_recipe(algorithm)
    transport = engine(small_federation(), recipe)
    federate(transport, recipe, 1)
    for name, memory in transport.memories.items():
        found, said = bool(memory.after), facts_of(algorithm).memory
        expect(found == said, f"{name} keeps something: {found}; facts.memory: {said}")


def finishing_steps_forget_themselves_when_training_goes_on(
    algorithm: Algorithm, engine: MakeEngine
) -> None:
    """Last local steps change what a client predicts with, never what training goes on from."""
    recipe = small_recipe(algorithm, schedule="constant")
    finishing = replace(recipe, plan=replace(recipe.plan, finish=3))
    through = engine(small_federation(), recipe)
    whole = federate(through, recipe, 3)
    stopped = engine(small_federation(), finishing)
    run = federate(stopped, finishing, 1)
    run = federate(stopped, recipe, 3, start=run)
    same_payloads(whole.state, run.state)
    same_payloads(own_models(through, recipe, whole), own_models(stopped, recipe, run))


ALGORITHM_LAWS = (
    inputs_are_not_changed,
    same_seed_same_bits_in_any_order_of_clients,
    a_rate_of_zero_uploads_zeros,
    uploads_are_differences_shaped_like_the_model,
    memory_survives_a_save_and_a_load,
    a_lost_round_leaves_no_trace,
    a_lost_reply_leaves_no_trace,
    engines_agree,
    training_helps,
    sampling_works_or_is_refused,
    stated_traffic_is_the_measured_one,
    stated_memory_is_what_clients_keep,
    finishing_steps_forget_themselves_when_training_goes_on,
)


def _end(
    engine: MakeEngine,
    algorithm: Algorithm,
    *,
    rounds: int = 3,
    clients: Any = None,
    lose: Losing = lambda task, name: False,
    skip: Losing = lambda task, name: False,
    seed: int = 3,
    sample: float = 1.0,
) -> Ended:
    recipe = small_recipe(algorithm, seed=seed)
    transport = engine(clients or small_federation(), recipe)
    run = federate(Postbox(transport, lose, skip), recipe, rounds, sample=sample)
    return run.state, own_models(transport, recipe, run)


def _same(one: Sequence[Any], two: Sequence[Any], **tolerance: float) -> None:
    for a, b in zip(one, two, strict=True):
        same_payloads(a, b, **tolerance)


def _tolerance(engine: MakeEngine) -> dict[str, float]:
    return {} if engine is Local else {"rtol": 1e-9, "atol": 1e-9}


def _copy(payload: Payload) -> Payload:
    return tree.each(payload, torch.clone)


def _through_a_file(payload: Payload) -> Payload:
    """A payload written and read again: tensors under names, nothing else."""
    return unpack_payload(pack_payload(payload, {}))[1]


LOST = {(2, "site-0"), (3, "site-0"), (3, "site-1"), (3, "site-2"), (5, "site-2")}


def check_engine(engine: MakeEngine, *, algorithms: Sequence[Algorithm] = EXAMPLES) -> None:
    """Every law for an engine of one's own: made from clients and a recipe, with `memories`."""
    check_laws(ALGORITHM_LAWS, *((algorithm, engine) for algorithm in algorithms))
    check_laws(ENGINE_LAWS, (engine,))


def the_common_control_stays_the_mean_of_the_clients_controls(engine: MakeEngine) -> None:
    """SCAFFOLD's sum holds whatever gets lost on the way."""
    for sample in (1.0, 0.5):
        recipe = small_recipe(Scaffold())
        transport = engine(small_federation(), recipe)
        run = federate(Postbox(transport, lose=_is_lost), recipe, 5, sample=sample)
        own = [m["control"] for m in _memories(transport, recipe, run)]
        for name, common in run.state["control"].items():
            mean = torch.stack([c[name] for c in own]).mean(0)
            torch.testing.assert_close(common, mean, rtol=0.0, atol=1e-13)
            expect(common.abs().max() > 1e-3, f"the control of '{name}' never moved")


def the_shifts_of_scaffnew_still_sum_to_zero(engine: MakeEngine) -> None:
    """Scaffnew's sum holds, because a round with a gap is void."""
    recipe = small_recipe(Scaffnew(chance=0.3))
    transport = engine(small_federation(), recipe)
    run = federate(Postbox(transport, lose=_is_lost), recipe, 5)
    merged = [row["merged"] for row in run.rows]
    expect(merged == [3, 0, 0, 3, 0], f"rounds with a gap are void, these were merged: {merged}")
    sent = recipe.algorithm.send(run.state)
    algorithm = recipe.algorithm
    assert isinstance(algorithm, Scaffnew)
    own = [algorithm.shift(sent, m) for m in _memories(transport, recipe, run)]
    for name in sent["model"]:
        shifts = torch.stack([s[name] for s in own])
        expect(shifts.sum(0).abs().max() < 1e-13, f"the shifts of '{name}' do not sum to zero")
        expect(shifts.abs().max() > 1e-3, f"the shifts of '{name}' never moved")


ENGINE_LAWS = (
    the_common_control_stays_the_mean_of_the_clients_controls,
    the_shifts_of_scaffnew_still_sum_to_zero,
)


def _is_lost(task: Task, name: str) -> bool:
    return task.kind == "train" and (task.round, name) in LOST


def _memories(transport: Simulation, recipe: Recipe, run: Run) -> Iterator[Payload]:
    sent = recipe.algorithm.send(run.state)
    for name in transport.clients():
        settled = transport.memories[name].settle(run.accepted.get(name, 0))
        yield recall(recipe, sent, settled)
