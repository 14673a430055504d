"""Whether classes rise: read off their names, or said, and written where it is not the same."""

import pytest

from fedlore import Knowledge, Schema
from fedlore.kernel.schema import Feature
from fedlore.knowledge.files import read_parts, write

FEATURES = (Feature("ash"),)


@pytest.mark.parametrize(
    ("classes", "ordered"),
    [
        (("CSR30", "CSR32", "CSR68"), True),
        (("CSR30", "CSR32", "CSR31"), False),
        (("CSR30", "CRI32"), False),
        (("1", "2", "3"), False),  # numbers alone may be names
        (("low", "high"), False),
    ],
)
def test_names_tell(classes, ordered):
    assert Schema(FEATURES, classes).ordered is ordered


@pytest.mark.parametrize("classes", [("CSR30", "CSR32"), ("low", "high")])
@pytest.mark.parametrize("ordered", [True, False])
def test_a_file_says_it_again(tmp_path, classes, ordered):
    known = Knowledge(schema=Schema(FEATURES, classes, ordered=ordered))
    write(known, tmp_path / "knowledge.toml")
    assert read_parts(tmp_path / "knowledge.toml")[1]["schema"] == known.schema
    said = "ordered" in (tmp_path / "knowledge.toml").read_text()
    assert said == (ordered != Schema(FEATURES, classes).ordered)


def test_sites_that_disagree_do_not_have_the_same_schema():
    assert Schema(FEATURES, ("a", "b"), ordered=True) != Schema(FEATURES, ("a", "b"))
