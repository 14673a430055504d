"""A trained federation for numbers, and the guarantee for any weights."""

import math
from dataclasses import replace

import pytest
import torch

from fedlore import Client, ConfigError, FedloreError, KnowledgeError, Plan, fit
from fedlore.answers import HEARD, Bins, Line, Measured, Sets
from fedlore.answers.measured import (
    all_scores,
    coverage,
    mae,
    number_violation,
    r2,
    region_scores,
    rmse,
)
from fedlore.core.nets import mlp
from fedlore.core.rng import stream
from fedlore.engine import Fitted, NumberClient, Training
from fedlore.engine.lore import Candidate, default_space, train_lore
from fedlore.knowledge import Feature, Formula, Schema
from fedlore.knowledge.intervals import Band, Between
from fedlore.knowledge.models import Knowledge
from fedlore.knowledge.scope import count_inputs
from fedlore.models.regressor import PersonalRegressor
from fedlore.models.tasks import Regression

from ..engine.federation import federation

NAN = torch.tensor(math.nan)
CUT = Bins(-6.0, 6.0, 12)
PLAN = Plan(epochs=2, batch=16, lr=0.05)


def expert(x):
    return 2 * x[:, 0].double()


KNOWN = Knowledge(expert, Band(expert, 0.0, 2.3), trust=0.3, conflict="project")


def site(i: int, rows: int = 60) -> NumberClient:
    def part(n: int, name: str) -> Measured:
        g = stream("numbers", i, name)
        x = torch.randn(n, 3, generator=g).clamp(-1.5, 1.5)
        noise = 0.3 * torch.rand(n, generator=g)
        return Measured(x, (2 * x[:, 0] + x[:, 1].abs() + 0.2 * i + noise).double())

    return NumberClient(f"site-{i}", part(rows, "train"), KNOWN, part(80, "test"))


SITES = [site(i) for i in range(3)]


def trained(clients=SITES, hears=True, **settings) -> Fitted[PersonalRegressor]:
    model = mlp(3 + HEARD * hears, 12, hidden=(16,))
    return fit(
        clients, model, task="regression", bins=CUT, hears=hears, plan=PLAN, rounds=4, **settings
    )


def test_fit_gives_every_site_a_regressor_that_stays_in_its_set_and_learns():
    fitted = trained(evaluate=4)
    for client in SITES:
        regressor = fitted.model(client.id)
        assert isinstance(regressor, PersonalRegressor)
        told = KNOWN.annotate(client.test, Line(CUT), training=False)
        for decode in ("mean", "mode", "median"):
            predicted = regressor.predict(told, decode=decode)
            assert predicted.dtype == torch.float64
            assert number_violation(predicted, told.sets) == 0.0
        mean = regressor.predict(client.test.x)
        assert rmse(mean, client.test.y) < rmse(told.said, client.test.y)
        assert torch.equal(mean, fitted.predict(client.id, client.test.x))
    scored = [row for row in fitted.history if "rmse" in row]
    assert [row["client"] for row in scored] == [c.id for c in SITES]
    assert all(row["pov"] == 0.0 for row in scored)


def test_history_has_the_very_scores_of_the_final_model():
    fitted = trained(hears=False, evaluate=4)
    client = SITES[0]
    told = KNOWN.annotate(client.test, Line(CUT), training=False)
    predicted = fitted.model(client.id).predict(told)
    row = next(r for r in fitted.history if r.get("client") == client.id)
    assert row["rmse"] == pytest.approx(rmse(predicted, client.test.y), rel=1e-6)


def test_bare_clients_train_and_decode_without_knowledge_but_are_measured_by_it():
    fitted = trained([c.bare() for c in SITES], hears=False, evaluate=4)
    regressor = fitted.model("site-0")
    assert regressor.knowledge == Knowledge().of_number(regressor.bins)
    povs = [row["pov"] for row in fitted.history if "pov" in row]
    assert max(povs) > 0
    masked = regressor.with_knowledge(KNOWN)
    told = KNOWN.annotate(SITES[0].test, Line(CUT), training=False)
    assert number_violation(masked.predict(told), told.sets) == 0.0


@pytest.mark.parametrize("scale", [1e3, 1e30])
def test_no_weights_can_leave_the_set(scale):
    model = mlp(3, 12, hidden=(8,))
    g = stream("adversary")
    with torch.no_grad():
        for values in model.parameters():
            values.copy_(scale * torch.randn(values.shape, generator=g))
    for numbers in (KNOWN, replace(KNOWN, spread=0.7), replace(KNOWN, trust=0.0)):
        regressor = PersonalRegressor(model, CUT, numbers)
        told = numbers.annotate(SITES[0].test, Line(CUT), training=False)
        for decode in ("mean", "mode", "median"):
            assert number_violation(regressor.predict(told, decode=decode), told.sets) == 0.0
        quantiles = regressor.quantiles(told, (0.0, 0.1, 0.9, 1.0))
        assert all(number_violation(q, told.sets) == 0.0 for q in quantiles.T)
        low, high = regressor.interval(told, 0.8)
        assert (
            number_violation(low, told.sets) == number_violation(high, told.sets) == 0.0
            and (low <= high).all()
        )


def test_full_reliance_answers_what_the_expert_says():
    regressor = PersonalRegressor(mlp(3, 12), CUT, replace(KNOWN, reliance=1.0))
    told = KNOWN.annotate(SITES[0].test, Line(CUT), training=False)
    assert torch.equal(regressor(SITES[0].test.x), told.said)


def test_an_ordinal_loss_learns_something_else():
    plain, ordinal = (trained(hears=False, ordinal=o) for o in (0.0, 1.0))
    x = SITES[0].test.x
    assert not torch.equal(plain.predict("site-0", x), ordinal.predict("site-0", x))
    assert rmse(ordinal.predict("site-0", x), SITES[0].test.y) < 1.0


def test_the_smallest_case_two_bins_and_labels_at_the_bounds():
    x = torch.randn(8, 2, generator=stream("two"))
    y = torch.tensor([0.0, 1.0] * 4)
    client = NumberClient("one", Measured(x, y), Knowledge(range=Between(0.0, 1.0)))
    fitted = fit([client], mlp(2, 2, hidden=(4,)), task="regression", bins=Bins(0.0, 1.0, 2))
    predicted = fitted.predict("one", x)
    assert ((predicted >= 0) & (predicted <= 1)).all()


def test_the_network_hears_the_expert_in_four_columns():
    data = Measured(torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))

    def sometimes(x):
        return torch.where(x[:, 0] > 0, 3.0, torch.nan)

    told = Knowledge(sometimes, Between(0.0, 4.5)).annotate(data, Line(CUT))
    assert told.heard.tolist() == [[0.5, 1.0, 0.0, 0.75], [0.0, 0.0, 0.0, 0.75]]
    assert told.inputs(hears=True).shape == (2, 3 + HEARD)
    assert Knowledge().annotate(data, Line(CUT)).heard.tolist() == [[0.0, 0.0, -1.0, 1.0]] * 2
    bare = Regression(CUT, hears=True).enter(SITES[0].bare())
    assert bare.data.x[0, 3:].tolist() == [0.0, 0.0, -1.0, 1.0]
    with pytest.raises(FedloreError, match="needs rows of features"):
        Knowledge().annotate(Measured(torch.zeros(2, 4, 4)), Line(CUT)).inputs(hears=True)


def test_sums_for_the_scaling_tell_nothing_of_what_the_expert_says():
    one, other = (
        Regression(CUT, hears=True).enter(replace(SITES[0], knowledge=numbers)).sums()
        for numbers in (KNOWN, Knowledge(lambda x: -expert(x), outside="widen"))
    )
    for name in one:
        assert torch.equal(one[name], other[name])
    scaler = trained().recipe.scaler
    assert scaler.shift[3:].tolist() == [0.0] * HEARD
    assert scaler.spread[3:].tolist() == [1.0] * HEARD


def test_what_does_not_fit_the_task_is_refused():
    model = mlp(3, 12)
    with pytest.raises(ConfigError, match="regression needs bins"):
        fit(SITES, model, task="regression")
    with pytest.raises(
        ConfigError, match="needs clients of type NumberClient: 'site-0' is a Client"
    ):
        fit(federation(), model, task="regression", bins=CUT)
    with pytest.raises(ConfigError, match="classification needs clients of type Client"):
        fit(SITES, model, task="classification")
    with pytest.raises(ConfigError, match="needs clients of type Client: 'site-0' is a NumberCl"):
        fit([*federation(), *SITES], model)
    with pytest.raises(ConfigError, match="task must be classification or regression, got 'rank'"):
        fit(SITES, model, task="rank")
    with pytest.raises(ConfigError, match="belong to task = regression"):
        fit(federation(), model, bins=CUT)
    with pytest.raises(ConfigError, match="rows of 7 inputs .of which 4 are what the expert says"):
        fit(SITES, model, task="regression", bins=CUT, hears=True)
    with pytest.raises(ConfigError, match="has 10 outputs, there are 12 bins"):
        fit(SITES, mlp(3, 10), task="regression", bins=CUT)
    with pytest.raises(ConfigError, match="ordinal must not be negative, got -1"):
        fit(SITES, model, task="regression", bins=CUT, ordinal=-1.0)
    with pytest.raises(FedloreError, match="unknown client 'site-9'"):
        trained().model("site-9")


def test_a_label_outside_its_set_names_client_and_row():
    data = SITES[0].data
    wrong = Measured(data.x, torch.where(torch.arange(len(data)) == 5, 5.99, data.y))
    with pytest.raises(KnowledgeError, match="client 'site-0': 1 labels .* first row 5 with 5.99"):
        trained([replace(SITES[0], data=wrong)])
    kept = replace(KNOWN, outside="widen")
    assert trained([replace(SITES[0], data=wrong, knowledge=kept)]).model("site-0")


def test_the_lifted_client_is_an_ordinary_one():
    lifted = Regression(CUT).enter(SITES[0])
    assert isinstance(lifted, Client)
    assert lifted.audit.outside == 0 and lifted.audit.classes == 12


def test_a_regressor_with_other_outputs_than_bins_is_refused():
    with pytest.raises(FedloreError, match="has 7 outputs, there are 12 bins"):
        PersonalRegressor(mlp(3, 7), CUT).predict(SITES[0].test.x)
    with pytest.raises(FedloreError, match="mean, mode or median, got 'best'"):
        PersonalRegressor(mlp(3, 12), CUT).predict(SITES[0].test.x, decode="best")


def test_no_rows_and_many_rows_are_decoded_alike(monkeypatch):
    regressor = trained().model("site-0")
    told = KNOWN.annotate(SITES[0].test, Line(CUT), training=False)
    whole = regressor.predict(told)
    monkeypatch.setattr("fedlore.models.regressor.NUMBER_BLOCK", 7)
    torch.testing.assert_close(regressor.predict(told), whole, rtol=1e-6, atol=1e-6)
    assert number_violation(regressor.predict(told), told.sets) == 0.0
    none = SITES[0].test.x[:0]
    assert regressor.predict(none).shape == (0,)
    assert regressor.quantiles(none, (0.1, 0.9)).shape == (0, 2)


def test_scores_one_can_redo_by_hand():
    y, predicted = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 4.0, 3.0])
    sets = Sets.whole(3, 0.0, 3.0)
    assert rmse(predicted, y) == pytest.approx(math.sqrt(4 / 3))
    assert mae(predicted, y) == pytest.approx(2 / 3)
    assert r2(predicted, y) == pytest.approx(1 - 4 / 2)
    assert r2(predicted, torch.ones(3)) == 0.0
    assert number_violation(predicted, sets) == pytest.approx(1 / 3)
    assert number_violation(torch.tensor([math.nan, 1.0]), Sets.whole(2, 0.0, 3.0)) == 0.0
    assert set(all_scores(predicted, y, sets)) == {"rmse", "mae", "r2", "pov"}
    assert coverage(Sets.whole(3, 0.0, 2.0), y) == pytest.approx(2 / 3)
    assert region_scores(Sets.whole(3, 0.0, 2.0), y)["width"] == 2.0


def test_a_hole_is_refused_where_no_value_may_be_missing():
    rows = site(0).data
    holed = replace(rows, x=rows.x.clone())
    holed.x[4, 1] = float("nan")
    with pytest.raises(FedloreError, match="'a': training rows: data row 4: column 1 is missing"):
        NumberClient("a", holed)
    with pytest.raises(FedloreError, match="'a': test rows: data row 4: column 1 is missing"):
        NumberClient("a", rows, test=holed)
    regressor = PersonalRegressor(mlp(3, 12, hidden=(4,)), CUT, KNOWN)
    for ask in (regressor, regressor.predict, regressor.interval, regressor.distribution):
        with pytest.raises(FedloreError, match="data row 4: column 1 is missing"):
            ask(holed.x)


FEATURES = (Feature("a", missing="mean"), Feature("b"), Feature("c", levels=("u", "v"), other=True))
HOLED = Schema((*FEATURES[:2], replace(FEATURES[2], missing="level")), tuple("abcdefghijkl"), "y")


def holed(client: NumberClient, every: int = 4) -> NumberClient:
    """The same site where `a` lacks in some rows, and `c` is a level, another one, or lacks."""

    def torn(rows: Measured) -> Measured:
        x = rows.x.clone()
        x[:, 2] = torch.arange(len(x)) % 3.0
        x[::every, 0] = math.nan
        x[1::every, 2] = math.nan
        return Measured(x, rows.y)

    band = Band(Formula.parse("2 * a", HOLED), 0.0, 2.3)
    known = Knowledge(Formula.parse("2 * a", HOLED), band, 0.3, conflict="project", schema=HOLED)
    return NumberClient(client.id, torn(client.data), known, torn(client.test))


@pytest.mark.parametrize("hears", [False, True])
def test_a_number_is_learned_from_rows_with_holes_and_levels(hears):
    clients = [holed(site(i)) for i in range(2)]
    width = count_inputs(HOLED) + HEARD * hears  # a, its sign, b, two levels, another, a sign
    assert width == 7 + HEARD * hears
    model = mlp(width, 12, hidden=(8,))
    fitted = fit(clients, model, bins=CUT, hears=hears, plan=PLAN, rounds=2, evaluate=2)
    test = clients[0].test
    told = fitted.model("site-0").annotate(test.x)
    gone = test.x[:, 0].isnan()
    assert gone.any() and told.said[gone].isnan().all()  # nobody names a number he cannot know
    whole = Sets.whole(int(gone.sum()), CUT.lower, CUT.upper)
    assert torch.equal(told.sets[gone].lower[:, :1], whole.lower)
    assert torch.equal(told.sets[gone].upper[:, :1], whole.upper)
    assert told.sets.holds(fitted.predict("site-0", test.x)).all()
    # the mean of all sites stands for what is missing, never one row's own
    means = torch.cat([c.data.x[:, 0] for c in clients]).nanmean()
    assert fitted.recipe.scaler.inputs.features[0].fill == pytest.approx(float(means), abs=0.05)
    with pytest.raises(KnowledgeError, match="data row 2: column 'b' is missing"):
        fitted.predict("site-0", test.x[:5].index_put((torch.tensor(2), torch.tensor(1)), NAN))


def test_a_network_of_plain_numbers_takes_levels_as_one_number_each():
    schema = replace(HOLED, features=tuple(replace(f, missing="refuse") for f in HOLED.features))
    whole = [
        replace(c, data=Measured(c.data.x.nan_to_num(), c.data.y), test=None,
                knowledge=Knowledge(schema=schema))
        for c in (holed(site(0)), holed(site(1)))
    ]  # fmt: skip
    fitted = fit(whole, mlp(3, 12, hidden=(4,)), bins=CUT, plan=PLAN, rounds=1)
    assert fitted.recipe.scaler.inputs is None
    with pytest.raises(ConfigError, match="count_inputs\\(schema\\) says how many"):
        fit([holed(site(0))], mlp(3, 12, hidden=(4,)), bins=CUT, rounds=1)


@pytest.mark.parametrize("own", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_recipe_of_a_number_settles_on_rows_with_holes(own):
    training = Training(rounds=1, plan=PLAN)
    two = (Candidate(hears=True), Candidate())
    search_space = replace(
        default_space(7, numbers=True), candidates=two, folds=2, finishes=(0,), own=own
    )
    fitted = train_lore(
        [holed(site(i)) for i in range(2)], training, bins=CUT, search_space=search_space
    )
    model, test = fitted.model("site-0"), holed(site(0)).test
    assert model.ensemble is not None and model.inner.scaler.inputs.width == 7
    assert model.annotate(test.x).sets.holds(model.predict(test.x)).all()
