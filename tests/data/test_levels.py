"""Names where numbers are wanted: frames, arrays, and rows for a trained federation."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedlore import Client, Examples, Knowledge, fit, mlp
from fedlore.data.rows.table import add_columns, number_rows
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


def test_levels_become_positions_and_all_that_is_none_is_placed():
    frame = Frame(note=["a", "b"], mine=["south", "north"], ash=[1.0, 2.0])
    wanted = [[1.0, 1.0], [2.0, 0.0]]
    assert number_rows(frame, SCHEMA).tolist() == wanted
    assert number_rows(frame, None) is frame
    records = [{"ash": 1.0, "mine": "south"}, {"mine": "north", "ash": 2.0}]
    assert number_rows(records, SCHEMA).tolist() == wanted
    assert number_rows([[1.0, "south"], [2.0, "north"]], SCHEMA).tolist() == wanted
    coded = np.array(wanted)
    assert number_rows(coded, SCHEMA) is coded
    with pytest.raises(FedloreError, match="row 2, column 'ash' is missing.*\n.*row 3.*'east'"):
        number_rows(Frame(ash=[None, 2.0], mine=["south", "east"]), SCHEMA)


def test_further_columns_of_a_frame_are_further_numbers_but_the_label_is_none():
    frame = Frame(label=["I"], more=[1.0], mine=["south"], ash=[2.0], **{"ore (t)": [3.0]})
    schema = replace(SCHEMA, features=(*SCHEMA.features, Feature("more_x")))
    assert add_columns(schema, np.zeros((1, 3))) is schema
    wide = add_columns(schema, frame)
    assert [f.column for f in wide.features] == [None, None, None, "more", "ore (t)"]
    frame = Frame(**{**frame.values, "more_x": [None]})
    with pytest.raises(FedloreError, match="column 'more_x' is missing"):
        number_rows(frame, wide)
    holed = replace(wide, features=(*wide.features[:2], replace(wide.features[2], missing="mean"),
                                    *wide.features[3:]))  # fmt: skip
    assert str(number_rows(frame, holed).tolist()) == "[[2.0, 1.0, nan, 1.0, 3.0]]"


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
    with pytest.raises(FedloreError, match="column 'mine' has 2, which is not one of its values"):
        fitted.predict("a", torch.tensor([[0.1, 2.0]]))
