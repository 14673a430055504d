"""The metric that decides: what rows cost under it, and who is chosen by it."""

from types import SimpleNamespace

import pytest
import torch

from fedlore import Client, ConfigError, Examples, Knowledge, fit
from fedlore.core.metrics import balanced_accuracy, check_metric, count_pairs, row_costs
from fedlore.engine.lore import Agreement, Candidate, SearchSpace, SiteRows, vote
from fedlore.engine.lore.space import Trial
from fedlore.experiments.classes import ClassJudge
from fedlore.models.own.baseline import Own, OwnModel

RARE = torch.tensor([0] * 9 + [1])
ALWAYS = torch.tensor([[0.9, 0.1]]).double().log().expand(10, 2)  # never says the rare class
FAIR = torch.where(RARE[:, None] == torch.arange(2), 0.6, 0.4).double().log()  # right, and unsure
FAIR = torch.cat([FAIR[:2].flip(1), FAIR[2:]])  # but for two common rows


def test_rows_cost_what_the_metric_says():
    said = ALWAYS.argmax(1)
    assert row_costs("accuracy", ALWAYS, RARE).mean() == pytest.approx(0.1)
    balanced = 1.0 - float(row_costs("balanced", ALWAYS, RARE).mean())
    assert balanced == pytest.approx(balanced_accuracy(count_pairs(said, RARE, 2)))
    assert torch.equal(row_costs("macro_f1", FAIR, RARE), row_costs("balanced", FAIR, RARE))
    loss = row_costs("log_loss", ALWAYS, RARE)
    assert loss.sum() == pytest.approx(-(9 * ALWAYS[0, 0] + ALWAYS[0, 1]))
    number, y = torch.tensor([1.0, 4.0]).double(), torch.tensor([2.0, 2.0]).double()
    assert row_costs("rmse", number, y).tolist() == [1.0, 4.0]
    assert row_costs("mae", number, y).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("metric", "best"), [("", "always"), ("accuracy", "always"), ("balanced", "fair")]
)
def test_an_own_model_is_chosen_by_it(metric, best):
    models = [OwnModel(SimpleNamespace(name=name), held, error) for name, held, error in
              (("trees, always", ALWAYS, 0.1), ("trees, fair", FAIR, 0.2))]  # fmt: skip
    (way,) = Own(tuple(models), torch.zeros(10)).best_ways(metric, RARE)
    assert way.member.name == f"trees, {best}"


@pytest.mark.parametrize(("metric", "ahead"), [("accuracy", "always"), ("balanced", "fair")])
def test_a_trial_is_voted_on_by_it(metric, ahead):
    """Two networks on the same rows: one that never says the rare class, and a fair one."""
    x = torch.cat([ALWAYS, FAIR], 1).float()  # what either says is written on the row
    client = Client("a", Examples(x, RARE), Knowledge())
    space = SearchSpace((Candidate(), Candidate()), folds=2, metric=metric)
    common = Agreement(4, 2, space, hidden=())
    rows = SiteRows(client, common)
    losses = {}
    for name, first in (("always", 0), ("fair", 2)):
        params = {
            n: torch.zeros_like(p) for n, p in common.recipe(Candidate()).model.named_parameters()
        }
        (weight,) = (n for n, p in params.items() if p.ndim == 2)
        params[weight][:, first : first + 2] = torch.eye(2)
        every = [vote(rows, Trial(0, fold, 1), params)["loss"] for fold in range(2)]
        losses[name] = float(sum(every))
    assert min(losses, key=losses.get) == ahead


def test_a_metric_of_something_else_is_refused():
    with pytest.raises(ConfigError, match="metric of classes must be one of accuracy"):
        check_metric("rmse", numbers=False)
    with pytest.raises(ConfigError, match="metric of a number must be one of rmse, mae, got 'f1'"):
        check_metric("f1", numbers=True)
    rows = Examples(torch.randn(9, 2), torch.arange(9) % 2)
    client = Client("a", rows, Knowledge())
    with pytest.raises(ConfigError, match="metric of classes"):
        fit([client, Client("b", rows, Knowledge())], recipe="lore", metric="mae")
    with pytest.raises(ConfigError, match="recipe = lore chooses: name both"):
        fit([client], torch.nn.Linear(2, 2), metric="accuracy")
    assert ClassJudge(metric="balanced").metric == "balanced"
