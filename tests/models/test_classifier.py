"""The range holds for any weights, and the guarantee is refused where it cannot hold."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedlore import FedloreError, Knowledge, Personal
from fedlore.core.scaler import Scaler


def knowing(trust: float = 0.3) -> Knowledge:
    """Class 0 is impossible; the expert says class 1 where x is positive."""
    return Knowledge(
        lambda x: torch.stack([0 * x[:, 0], 1.0 * (x[:, 0] > 0), 0 * x[:, 0]], 1),
        lambda x: torch.tensor([False, True, True]).expand(len(x), 3),
        trust,
    )


@given(st.floats(-1e30, 1e30), st.floats(-1e30, 1e30))
def test_no_weights_can_leave_the_range(a, b):
    model = nn.Linear(2, 3)
    with torch.no_grad():
        model.weight.fill_(a)
        model.bias.copy_(torch.tensor([1e30, b, -b]))
    x = torch.tensor([[1e20, -1e20], [1.0, 2.0], [-3.0, 1e38]])
    probabilities = Personal(model, knowing()).predict_proba(x)
    assert (probabilities[:, 0] == 0.0).all()
    torch.testing.assert_close(probabilities.sum(1), torch.ones(3))
    assert (Personal(model, knowing()).predict(x) != 0).all()


def test_weights_that_are_not_finite_are_refused():
    model = nn.Linear(2, 3)
    weights = {name: t * torch.nan for name, t in model.state_dict().items()}
    with pytest.raises(FedloreError, match="weights must be finite: 'body.weight' is not"):
        Personal(model, knowing(), weights={f"body.{k}": v for k, v in weights.items()})


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_row_with_what_is_no_value_gets_no_answer(bad):
    personal = Personal(nn.Linear(2, 3), knowing())
    x = torch.tensor([[1.0, 0.0], [0.0, bad]])
    for ask in (personal, personal.predict, personal.predict_proba):
        with pytest.raises(FedloreError, match="data row 1: column 1"):
            ask(x)


def test_full_trust_is_the_expert_where_the_expert_speaks():
    personal = Personal(nn.Linear(2, 3), knowing(trust=1.0))
    spoken, silent = personal.predict_proba(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]))
    assert spoken.tolist() == [0.0, 1.0, 0.0]
    torch.testing.assert_close(silent.sum(), torch.tensor(1.0))


def test_lambda_at_prediction_may_differ_from_training():
    knowledge = Knowledge(knowing().prediction, knowing().range, trust=0.3, reliance=1.0)
    assert Personal(nn.Linear(2, 3), knowledge).predict_proba(torch.ones(1, 2))[0, 1] == 1.0


def test_knowledge_sees_raw_units_and_the_network_scaled_ones():
    seen = []
    scaler = Scaler(torch.tensor([10.0, 0.0]), torch.tensor([2.0, 1.0]))

    class Listening(nn.Linear):
        def forward(self, x):
            seen.append(x)
            return super().forward(x)

    knowledge = Knowledge(range=lambda x: seen.append(x) or torch.ones(len(x), 3).bool())
    Personal(Listening(2, 3), knowledge, scaler=scaler)(torch.tensor([[14.0, 1.0]]))
    assert [s.tolist() for s in seen] == [[[14.0, 1.0]], [[2.0, 1.0]]]


def test_knowledge_can_be_changed_after_training():
    personal = Personal(nn.Linear(2, 3))
    x = torch.ones(1, 2)
    assert (personal.predict_proba(x) > 0).all()
    assert personal.with_knowledge(knowing()).predict_proba(x)[0, 0] == 0.0
