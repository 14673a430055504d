"""Names where numbers are wanted: frames, arrays, and rows for a trained federation."""

import numpy as np
import pytest
import torch

from fedlore import Client, Examples, Knowledge, fit, mlp
from fedlore.data.rows.levels import code_levels
from fedlore.errors import FedloreError
from fedlore.knowledge import Feature, Schema
from fedlore.knowledge.scope import count_inputs

SCHEMA = Schema((Feature("ash"), Feature("mine", levels=("north", "south"))), ("I", "II"))


class Frame:
    """As much of a data frame as is asked for."""

    def __init__(self, **columns):
        self.values = columns
        self.columns = list(columns)

    def __getitem__(self, name):
        return self.values[name]

    def assign(self, **more):
        return Frame(**{**self.values, **more})


def test_levels_become_positions_and_what_is_none_is_placed():
    frame = Frame(ash=[1.0, 2.0], mine=["south", "north"], note=["a", "b"])
    assert code_levels(frame, SCHEMA)["mine"].tolist() == [1.0, 0.0]
    assert code_levels(frame, None) is frame
    coded = Frame(mine=np.array([1, 0]))
    assert code_levels(coded, SCHEMA) is coded
    with pytest.raises(FedloreError, match="data row 1, column 'mine': .*'east'"):
        code_levels(Frame(mine=["south", "east"]), SCHEMA)
    with pytest.raises(FedloreError, match="data row 0, column 'mine' is missing"):
        code_levels(Frame(mine=[None, "north"]), SCHEMA)


def test_examples_take_arrays_and_say_what_reads_frames():
    found = Examples(np.array([[1.0, 0.0]]), np.array([1], dtype=np.int32))
    assert found.x.dtype == torch.float64 and found.y.tolist() == [1]
    for wrong in (Frame(ash=[1.0]), np.array([["a"]]), [[1.0]]):
        with pytest.raises(FedloreError, match="as_examples"):
            Examples(wrong)


@pytest.mark.parametrize("width", [count_inputs(SCHEMA), 2])
def test_a_federation_answers_rows_by_name(width):
    """Networks for levels one by one, and for one number a feature."""
    x = torch.tensor([[i / 10, float(i % 2)] for i in range(20)])
    client = Client("a", Examples(x, (x[:, 1] > 0).long()), Knowledge(schema=SCHEMA))
    fitted = fit([client], mlp(width, 2, hidden=(4,)), rounds=1)
    named = {"mine": ["south", "north"], "ash": [0.1, 0.2]}
    coded = torch.tensor([[0.1, 1.0], [0.2, 0.0]])
    assert torch.equal(fitted.predict("a", named), fitted.predict("a", coded))
    with pytest.raises(FedloreError, match="unknown level 'east'"):
        fitted.predict("a", {"mine": ["east"], "ash": [0.1]})
    with pytest.raises(FedloreError, match="column 'mine' has 2, which is no value"):
        fitted.predict("a", torch.tensor([[0.1, 2.0]]))
