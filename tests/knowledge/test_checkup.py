"""The whole audit of a knowledge file, without and with data."""

from pathlib import Path

import pytest
import torch

from fedlore import Examples, KnowledgeError
from fedlore.data import read_table
from fedlore.kernel.findings import errors
from fedlore.knowledge import Feature, Knowledge, Schema
from fedlore.knowledge.findings.checkup import check_data, check_file
from fedlore.knowledge.findings.data import lint_data

from .test_files import FILE, PREDICT, folder

EXAMPLES = Path(__file__).parents[2] / "examples" / "coke"


RANGE_ONLY = FILE[: FILE.index("[[predict.sources]]")] + (
    '[[predict.sources]]\nformula = "0"\n[[range.sources]]\ntable = "range.csv"\n'
)


def codes(found, severity="error") -> set[str]:
    return {f.kind for f in found.findings if f.severity == severity}


def test_a_contradiction_of_two_tables_is_found_with_a_row(tmp_path):
    predict = PREDICT.replace("<= 10", "<= 13")
    found = check_file(folder(tmp_path, predict=predict))
    finding = next(f for f in errors(found.findings) if f.kind == "outside-range")
    assert finding.place.file == "predict.csv" and finding.place.row == 3
    row = finding.counterexample
    assert 12 < row["ash"] <= 13 and row["Ro"] > 1.4 and row["seam"] in ("A", "B")


def test_every_bad_cell_of_a_table_is_reported_at_its_place(tmp_path):
    bad = 'ash,seam,then\n> 12,,"III, II"\n> x,D,III\n< 9,,IV\n'
    found = check_file(folder(tmp_path, limits=bad))
    places = [(f.place.file, f.place.row, f.place.column) for f in errors(found.findings)]
    wrong = [(3, "ash"), (3, "seam"), (4, "then")]
    assert places == [("range.csv", row, column) for row, column in wrong]
    assert found.knowledge is None


def test_a_missing_source_is_a_finding_and_a_broken_file_is_not_usable(tmp_path):
    gone = FILE.replace("range.csv", "absent.csv")
    assert codes(check_file(folder(tmp_path, gone))) == {"source"}
    with pytest.raises(KnowledgeError, match="not valid TOML"):
        check_file(folder(tmp_path, "classes = ["))


def test_a_statistical_range_is_marked(tmp_path):
    assert "statistical" in codes(check_file(folder(tmp_path)), "info")


def data(*rows: tuple[float, float, float, int]) -> Examples:
    values = torch.tensor(rows)
    return Examples(values[:, :3].contiguous(), values[:, 3].long())


def test_data_show_labels_outside_rows_out_of_scope_and_weak_experts(tmp_path):
    found = check_file(folder(tmp_path, RANGE_ONLY))
    rows = data((13, 1.0, 0, 2), (20, 1.0, 0, 0), (8, 1.0, 1, 1), (8, 1.0, 1, 1))
    found = check_data(found, rows, "rows.csv")
    outside = next(f for f in found.findings if f.kind == "label-outside")
    assert outside.severity == "error" and "row 2" in outside.message
    scope = next(f for f in found.findings if f.kind == "out-of-scope")
    assert (scope.place.row, scope.place.column) == (3, "ash")
    weak = next(f for f in found.findings if f.kind == "weak-expert")
    assert "25.0%" in weak.message and "50.0%" in weak.message
    assert found.audit.outside == 1


def test_labels_outside_are_the_ones_that_are_counted_where_values_are_missing():
    def low(x):
        assert not x.isnan().any()  # who knows nothing of holes is never shown one
        return torch.tensor([[True, False]]).repeat(len(x), 1)

    known = Knowledge(range=low, schema=Schema((Feature("ash", missing="mean"),), ("a", "b")))
    data = Examples(torch.tensor([[torch.nan], [1.0]]), torch.tensor([1, 1]))
    found, audit = lint_data(known, data, "rows.csv")
    assert [f.args["rows"] for f in found if f.kind == "label-outside"] == [[3]]
    assert audit.outside == 1


@pytest.mark.parametrize("plant", ["plant-1", "plant-2", "plant-3", "plant-4"])
def test_the_example_sites_have_no_errors(plant):
    found = check_file(EXAMPLES / plant / "knowledge.toml")
    schema = found.knowledge.schema
    rows = read_table(EXAMPLES / plant / "train.csv", schema, label=schema.label)
    found = check_data(found, rows)
    assert errors(found.findings) == []
    assert found.audit.rows == {"plant-1": 40, "plant-2": 60, "plant-3": 80, "plant-4": 110}[plant]


def test_a_value_on_the_bound_of_the_scope_is_inside_it(tmp_path):
    found = check_file(folder(tmp_path, RANGE_ONLY))
    found = check_data(found, data((5, 0.7, 0, 1), (16, 1.7, 2, 0)), "rows.csv")
    assert "out-of-scope" not in {f.kind for f in found.findings}


def test_rows_that_rules_cannot_answer_are_counted_as_in_their_file(tmp_path):
    text = RANGE_ONLY.replace('formula = "0"', 'table = "predict.csv"\nhit = "unique"')
    said = "ash,Ro,then\n> 12,,III\n,> 1.4,II\n"
    found = check_file(folder(tmp_path, text, predict=said, limits="ash,then\n> 99,I\n"))
    found = check_data(found, data((8, 1.0, 0, 1), (13, 1.5, 0, 0)), "rows.csv")
    (said,) = [f.message for f in found.findings if f.kind == "data"]
    assert "data row 3: row 2 and row 3 hit" in said
