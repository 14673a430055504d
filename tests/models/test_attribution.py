"""Which inputs an answer hangs on: numbers one can redo by hand."""

import pytest
import torch

from fedlore.core.scaler import Input, Inputs, Scaler, leave_unscaled
from fedlore.kernel.schema import Feature, Schema
from fedlore.models.attribution import input_effects, input_importance, name_effects, usual_row


class Line:
    """2a - b, and c does nothing."""

    def predict(self, x):
        return 2 * x[:, 0] - x[:, 1]


class Coin:
    """Class 1 with a as its probability, behind no range."""

    def predict_proba(self, x):
        return torch.stack([1 - x[:, 0], x[:, 0]], 1)

    def predict(self, x):
        return self.predict_proba(x).argmax(1)


def test_an_effect_is_the_answer_less_that_at_the_usual_value():
    x = torch.tensor([[3.0, 1.0, 5.0]])
    found = input_effects(Line(), x, torch.tensor([1.0, 4.0, 0.0]))
    assert found.tolist() == [[4.0, 3.0, 0.0]]
    assert list(name_effects(found, None, ["a", "b"])[0].items()) == [("a", 4), ("b", 3), ("x2", 0)]


def test_of_classes_it_is_the_probability_of_the_one_that_is_answered():
    x = torch.tensor([[0.9, 0.0], [0.2, 0.0]])
    found = input_effects(Coin(), x, torch.tensor([0.5, 0.0]))
    assert torch.allclose(found[:, 0], torch.tensor([0.4, 0.3], dtype=torch.float64))
    assert (found[:, 1] == 0).all()


def test_all_inputs_are_changed_in_one_pass_and_what_is_known_is_not_asked_again():
    class Counted(Coin):
        asked = 0

        def predict_proba(self, x):
            self.asked += len(x)
            return super().predict_proba(x)

    coin, x = Counted(), torch.tensor([[0.9, 0.0], [0.5, 7.0]])
    answered = (torch.tensor([0.9, 0.5]), torch.tensor([1, 1]))
    found = input_effects(coin, x, torch.tensor([0.5, 0.0]), answered)
    assert coin.asked == 2  # of four inputs two are usual already
    assert torch.allclose(found, torch.tensor([[0.4, 0.0], [0.0, 0.0]], dtype=torch.float64))


def test_importance_is_what_shuffling_costs():
    x = torch.rand(200, 3, generator=torch.Generator().manual_seed(0)).double()
    found = input_importance(Line(), x, Line().predict(x))
    assert found[0] > found[1] > 0 and found[2] == 0


def test_usual_is_the_mean_of_the_federation_or_the_middle_of_the_rows():
    x = torch.tensor([[0.0, 1.0], [2.0, 3.0], [10.0, 5.0]])
    assert usual_row(Scaler.of(x), x, None).tolist() == [4.0, 3.0]
    assert usual_row(None, x, None).tolist() == [2.0, 3.0]


@pytest.mark.parametrize("scaled", [False, True])
def test_the_usual_level_is_one_that_there_is(scaled):
    schema = Schema(
        (Feature("ash"), Feature("mine", levels=("own", "import", "both"))), ("no", "yes")
    )
    x = torch.tensor([[0.0, 0.0], [2.0, 1.0], [10.0, 2.0], [4.0, 2.0]])
    found = usual_row(Scaler.of(x) if scaled else None, x, schema)
    assert found.tolist() == [4.0 if scaled else 3.0, 1.0 if scaled else 2.0]


def test_where_nothing_is_scaled_the_usual_row_is_the_middle_of_those_at_hand():
    inputs = Inputs((Input(), Input(levels=2)))
    x, schema = torch.tensor([[1.0, 1.0], [4.0, 1.0], [9.0, 0.0]]), None
    assert usual_row(leave_unscaled(inputs), x, schema).tolist() == [4.0, 1.0]
