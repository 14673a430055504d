"""Fedlore's own kinds of source under the laws that it ships."""

import pytest
import torch

from fedlore.knowledge.sources.catalog import SOURCE_KINDS
from fedlore.testing import check_source
from fedlore.testing.source import SOURCE_LAWS

from ..knowledge import test_files as classes
from ..knowledge import test_number_files as numbers
from .lists import each_law

GRADES = {
    "knowledge.toml": classes.FILE.encode(),
    "predict.csv": classes.PREDICT.encode(),
    "range.csv": b'ash,then\n> 12,"III, II, I"\n',
}
GRADED = torch.tensor([[15.0, 1.0, 0.0], [9.0, 1.5, 1.0], [9.0, 1.05, 2.0]])
VALUES = {
    "knowledge.toml": numbers.FILE.encode(),
    "known.csv": numbers.KNOWN.encode(),
    "limits.csv": numbers.LIMITS.encode(),
}
VALUED = torch.tensor([[10.0, 10.0], [22.0, 8.0], [31.0, 9.0]])
CASES = [(key, GRADES, GRADED) for key in ("table", "formula", "lower", "conformal")]
CASES += [(key, VALUES, VALUED) for key in ("table", "formula", "lower")]


@each_law(SOURCE_LAWS)
@pytest.mark.parametrize(
    ("key", "files", "rows"),
    CASES,
    ids=[f"{key} of {'grades' if files is GRADES else 'values'}" for key, files, _ in CASES],
)
def test_sources(key, files, rows, law):
    law(SOURCE_KINDS[key], files, rows)


def test_a_file_without_the_source_says_nothing_about_it():
    with pytest.raises(AssertionError, match="the_example_uses_it"):
        check_source(SOURCE_KINDS["onnx"], GRADES, GRADED)
