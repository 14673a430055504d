"""What if: the nearest other answer along each input, held against all values of a grid."""

import pytest
import torch

from fedlore import Knowledge, read_bundle
from fedlore.bundle.change import GRID, change_reason, nearest_changes
from fedlore.bundle.predict import answer_rows

from ..golden import surface
from ..golden.cases import read_cases
from ..golden.frozen import write_files
from .making import SCHEMA, bundle, rows


def answers(made, row, column, values):
    x = row.repeat(len(values), 1)
    x[:, column] = torch.as_tensor(values, dtype=x.dtype)
    return answer_rows(made, x).predicted.tolist()


def ends(feature):
    return torch.linspace(feature.low, feature.high, GRID).tolist()


def test_along_each_number_nothing_nearer_changes_the_answer():
    """No value that lies nearer by a hundredth of the scope, on the grid, has another answer."""
    made, seen = bundle(), set()
    for row in rows(25, seed=4):
        here = answer_rows(made, row[None]).predicted.item()
        found = {one.column: one for one in nearest_changes(made, row)}
        for column, feature in enumerate(SCHEMA.features):
            wide, at = feature.high - feature.low, float(row[column])
            far = [v for v in ends(feature) if answers(made, row, column, [v]) != [here]]
            if column not in found:
                assert not far
                continue
            one = found[column]
            assert feature.low <= one.value <= feature.high
            assert answers(made, row, column, [one.value]) == [one.predicted] != [here]
            assert one.share == pytest.approx(abs(one.value - at) / wide)
            nearest = min((abs(v - at) for v in far), default=float("inf"))
            assert abs(one.value - at) <= nearest + 1e-6 * wide
            way = 1 if one.value > at else -1
            short = one.value - way * 0.01 * wide
            if (short - at) * way > 0:
                assert answers(made, row, column, [short]) == [here]
            assert round(one.value, 3) == one.value, "a person would not write it so"
            seen.add((column, way))
        shares = [one.share for one in nearest_changes(made, row)]
        assert shares == sorted(shares)
    assert seen == {(0, 1), (0, -1), (1, 1), (1, -1)}


def test_levels_are_tried_one_by_one_and_named(tmp_path):
    write_files(read_cases()["whole-first-intersect"], tmp_path)
    made = read_bundle(surface.bundle(tmp_path, seed=1))
    schema, told = made.schema, 0
    column = next(i for i, one in enumerate(schema.features) if one.levels)
    levels = range(len(schema.features[column].levels))
    x = torch.tensor([[(f.low + f.high) / 2 if not f.levels else 0.0 for f in schema.features]])
    for place in range(12):
        row = x[0].clone()
        for i, one in enumerate(schema.features):
            row[i] = place % len(one.levels) if one.levels else one.low + (
                one.high - one.low) * ((place * 7 + i * 5) % 12) / 11  # fmt: skip
        here = answer_rows(made, row[None]).predicted.item()
        others = [i for i in levels if answers(made, row, column, [float(i)]) != [here]]
        one = next((one for one in nearest_changes(made, row) if one.column == column), None)
        assert (one is None) == (not others)
        if one is not None:
            told += 1
            assert one.value in others and one.share == 1.0
            reason = change_reason(made, row, [one]).text
            assert schema.features[column].levels[int(one.value)] in reason
            assert schema.classes[int(one.predicted)] in reason
    assert told


def test_without_another_answer_it_says_so():
    only = bundle(Knowledge(schema=SCHEMA))
    row = rows(1, seed=2)[0]
    changes = nearest_changes(only, row)
    if not changes:
        assert str(GRID) in change_reason(only, row, []).text
    assert change_reason(only, row, []).kind == "change-none"
