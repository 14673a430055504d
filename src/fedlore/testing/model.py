"""What every kind of model must do: the same start everywhere, and training that helps."""

import torch
from torch import nn

from ..algorithms import FedAvg
from ..core.models import ModelKind, make_network
from ..engine import Local, Recipe, federate
from ..engine.stacked import Stacked
from ..engine.training import why_not_stacked
from .clients import (
    CLASSES,
    FEATURES,
    check_laws,
    expect,
    loss_falls,
    own_models,
    same_payloads,
    small_federation,
    small_recipe,
    small_rows,
    start_of,
)


def check_model(kind: ModelKind, *, hears: bool = False) -> None:
    """Every law for a kind of model of one's own; `hears` where it can hear the expert.

    >>> from fedlore.core.models import Mlp
    >>> check_model(Mlp(hidden=(5,)))
    """
    check_laws(MODEL_LAWS, (kind, hears))


def the_same_seed_makes_the_same_weights(kind: ModelKind, hears: bool) -> None:
    """Whatever random numbers the process has drawn before; and it draws none of the caller's."""
    one = _params(_network(kind, hears))
    torch.rand(3)
    before = torch.random.get_rng_state()
    two = _params(_network(kind, hears))
    kept = torch.equal(before, torch.random.get_rng_state())
    expect(kept, "torch's own random numbers go on elsewhere after make()")
    same_payloads({"weights": one}, {"weights": two})


def rows_become_logits(kind: ModelKind, hears: bool) -> None:
    """(n, features) to (n, classes), finite, for one row and for many, in both precisions."""
    data = small_rows(7, "model")
    for dtype in (torch.float32, torch.float64):
        model = _network(kind, hears).to(dtype)
        for n in (1, 7):
            some = data[slice(n)]
            logits = model(some.x.to(dtype), some.prior, some.allowed)
            found, wanted = tuple(logits.shape), (n, CLASSES)
            expect(found == wanted, f"{n} rows become {found}, not {wanted}")
            expect(logits.dtype == dtype, f"weights of {dtype} give logits of {logits.dtype}")
            expect(bool(logits.isfinite().all()), "a logit is not finite")


def a_row_is_judged_by_itself(kind: ModelKind, hears: bool) -> None:
    """Its logits do not depend on the rows beside it, nor on their order."""
    data, model = small_rows(7, "model"), _network(kind, hears).double().eval()
    whole = model(data.x.double(), data.prior, data.allowed)
    for i in range(len(data)):
        one = data[slice(i, i + 1)]
        alone = model(one.x.double(), one.prior, one.allowed)
        gap = float((alone[0] - whole[i]).detach().abs().max())
        expect(gap < 1e-9, f"the logits of a row change by {gap:.2g} with the rows beside it")


def what_it_hears_changes_the_answer(kind: ModelKind, hears: bool) -> None:
    """A model that hears takes the expert's word as input; one that does not, ignores it."""
    data, model = small_rows(7, "model"), _network(kind, hears)
    expect(bool(getattr(model, "hears", False)) == hears, f"hears is {not hears}")
    same = torch.equal(model(data.x, None, None), model(data.x, data.prior, data.allowed))
    expect(same != hears, "the expert's word " + ("changes nothing" if hears else "is heard"))


def training_lowers_the_loss(kind: ModelKind, hears: bool) -> None:
    """On test rows, after twelve rounds of FedAvg."""
    recipe = _recipe(kind, hears)
    loss_falls(federate(Local(small_federation(), recipe), recipe, 12, evaluate=1))


def both_engines_train_it_alike(kind: ModelKind, hears: bool) -> None:
    """Where it can be trained in stacks at all; else `fit` takes clients one by one and says so."""
    recipe, clients = _recipe(kind, hears), small_federation()
    if why_not_stacked(recipe.model, clients[0]) is not None:
        return
    one, many = Local(clients, recipe), Stacked(clients, recipe)
    ends = [(t, federate(t, recipe, 3)) for t in (one, many)]
    a, b = (own_models(t, recipe, run) for t, run in ends)
    same_payloads(a, b, rtol=1e-8, atol=1e-9)
    moved = any(
        not torch.equal(t, ends[0][1].state["model"][n]) for n, t in start_of(recipe).items()
    )
    expect(moved, "no weight moved in three rounds")


MODEL_LAWS = (
    the_same_seed_makes_the_same_weights,
    rows_become_logits,
    a_row_is_judged_by_itself,
    what_it_hears_changes_the_answer,
    training_lowers_the_loss,
    both_engines_train_it_alike,
)


def _network(kind: ModelKind, hears: bool) -> nn.Module:
    name = type(kind).__name__.lower()
    return make_network(name, kind, FEATURES, CLASSES, hears=hears, seed=0)


def _params(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: p.detach() for name, p in model.named_parameters()}


def _recipe(kind: ModelKind, hears: bool) -> Recipe:
    model = _network(kind, hears).double()
    like = small_recipe(FedAvg(), lr=0.1, schedule="constant")
    return Recipe(model, FedAvg(), like.plan, like.seed)
