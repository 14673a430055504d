"""A task is one object: what it asks of clients, models and knowledge, and who belongs to it."""

import inspect
from dataclasses import fields, replace

import pytest
import torch

from fedlore import (
    HEARD,
    Bins,
    Classification,
    Client,
    ConfigError,
    Examples,
    Fitted,
    Knowledge,
    KnowledgeError,
    Measured,
    NumberClient,
    Personal,
    PersonalRegressor,
    Plan,
    Regression,
    fit,
    mlp,
)
from fedlore.engine import Training
from fedlore.engine.tuning import Tuning
from fedlore.models import TASKS, task_for
from fedlore.models.ensemble import Ensemble

from ..engine.federation import CLASSES, FEATURES, federation
from .test_regressor import CUT, PLAN, SITES


def test_the_clients_tell_the_task():
    assert task_for(federation()) == Classification()
    assert task_for(SITES, bins=CUT, hears=True) == Regression(CUT, hears=True)
    assert task_for([]) == Classification()
    fitted = fit(SITES, mlp(3, 12, hidden=(4,)), bins=CUT, plan=PLAN, rounds=1)
    assert isinstance(fitted, Fitted) and isinstance(fitted.model("site-0"), PersonalRegressor)
    fitted = fit(federation(), mlp(FEATURES, CLASSES, hidden=(4,)), plan=PLAN, rounds=1)
    assert isinstance(fitted, Fitted) and isinstance(fitted.model("site-0"), Personal)


def test_a_task_by_name_and_as_an_object_train_the_same():
    model = mlp(3 + HEARD, 12, hidden=(4,))
    named = fit(SITES, model, task="regression", bins=CUT, ordinal=0.5, hears=True, rounds=1)
    given = fit(SITES, model, task=Regression(CUT, 0.5, hears=True), rounds=1)
    x = SITES[0].data.x
    assert torch.equal(named.predict("site-0", x), given.predict("site-0", x))
    with pytest.raises(ConfigError, match="brings its own bins, ordinal and hears"):
        fit(SITES, model, task=Regression(CUT), hears=True)


def test_each_site_chooses_how_far_a_number_of_its_expert_is_trusted():
    """An expert who is always right is followed, and one who is always wrong is not."""

    def right(x):
        return (2 * x[:, 0] + x[:, 1].abs()).double()

    tuning = Tuning(folds=2, training=(0.0,))
    for expert, follows in ((right, True), (lambda x: -right(x), False)):
        sites = [replace(site, knowledge=Knowledge(expert)) for site in SITES]
        fitted = fit(sites, mlp(3, 12, hidden=(4,)), bins=CUT, trust=tuning, plan=PLAN, rounds=2)
        assert [k.trust_at_prediction > 0.5 for k in fitted.knowledge.values()] == [follows] * 3


def test_a_model_names_its_task_and_what_it_hears():
    assert {kind.name for kind in TASKS.values()} == set(TASKS)
    assert all(kind.predictor.task == name for name, kind in TASKS.items())
    task = Regression(Bins(0.0, 1.0, 4), hears=True)
    assert task.heard_inputs == HEARD and task.build(mlp(2 + HEARD, 4), None).hears
    assert not Personal(mlp(2, 3)).hears and Personal(mlp(2, 3, hears=True)).hears


def test_knowledge_or_members_about_something_else_are_refused():
    number, classes = Ensemble((), (), 1.0, width=1.0), Ensemble((), (), 1.0)
    with pytest.raises(KnowledgeError, match="for classes and knowledge about a number"):
        Classification().build(mlp(2, 3), Knowledge().of_number(CUT))
    with pytest.raises(KnowledgeError, match="for a number and knowledge about classes"):
        Regression(CUT).build(mlp(2, 12), Knowledge(lambda x: torch.ones(len(x), 3) / 3))
    with pytest.raises(KnowledgeError, match="for classes and members for a number"):
        Classification().build(mlp(2, 3), None, ensemble=number)
    with pytest.raises(KnowledgeError, match="for a number and members for classes"):
        Regression(CUT).build(mlp(2, 12), None, ensemble=classes)


def test_fit_and_training_say_the_same():
    """`fit` writes out what `Training` holds, so that an editor shows it: neither may drift."""
    asked = inspect.signature(fit).parameters
    training = Training()
    for field in fields(Training):
        said = asked[field.name].default
        if field.name in ("algorithm", "plan"):
            assert said is None  # made anew: FedAvg and Plan with their own defaults
        else:
            assert said == getattr(training, field.name), field.name
    assert all(p.kind is not p.VAR_KEYWORD for p in asked.values())


def test_knowledge_that_stays_outside_says_nothing_in_either_task():
    x, y = torch.rand(8, 2), torch.arange(8) % 2
    bare = Client("a", Examples(x, y), Knowledge(trust=0.5)).bare()
    assert fit([bare], mlp(2, 2, hidden=()), rounds=1).knowledge == {"a": Knowledge()}
    number = NumberClient("a", Measured(x, y.double()), Knowledge(trust=0.5)).bare()
    plan = Plan(epochs=1)
    fitted = fit([number], mlp(2, 2, hidden=()), bins=Bins(0.0, 1.0, 2), plan=plan, rounds=1)
    assert fitted.knowledge == {"a": Knowledge().of_number()}
