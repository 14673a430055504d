"""Tables as grids of text and back: what was not touched keeps its bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlore.errors import KnowledgeError
from fedlore.studio.grids import grid_bytes, read_grids

from .sites import FILES

HEAD = ["ash [%]", "seam", "then"]


def test_every_table_is_a_grid_with_its_header():
    one, two = read_grids(FILES)
    assert (one.side, one.source, one.file) == ("predict", 0, "predict.csv")
    assert one.header == tuple(HEAD) and one.rows[1] == ("<= 14", "C", "II")
    assert two.rows == (("> 12", "III..II"), ("< 8", "II..I"))


def test_rows_that_stay_keep_their_very_bytes():
    """Quotes that a program wrote, line ends, a mark of the encoding, semicolons."""
    head = '\ufeff"ash [%]";"seam";"then"\r\n"> 14";"";"III"\r\n'
    old = {**FILES, "predict.csv": (head + "<= 14;C;II\r\n").encode()}
    made = grid_bytes(old, "predict.csv", "", HEAD, [["> 14", "", "III"], ["< 9", "", "I"]])
    assert made == (head + "< 9;;I\r\n").encode()


def test_blank_lines_before_the_header_stay():
    files = {**FILES, "range.csv": b",\n,\nash,then\n> 12,III\n"}
    grid = read_grids(files)[1]
    assert (grid.first, grid.header) == (3, ("ash", "then"))
    made = grid_bytes(files, "range.csv", "", grid.header, [["> 13", "III"]])
    assert made == b",\n,\nash,then\n> 13,III\n"


_CELL = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)


@given(st.lists(st.lists(_CELL, min_size=3, max_size=3), max_size=6))
def test_whatever_is_typed_is_read_back(rows):
    made = grid_bytes(FILES, "predict.csv", "", ["ash", "seam", "then"], rows)
    again = read_grids({**FILES, "predict.csv": made})[0]
    assert [list(row) for row in again.rows] == rows


def test_a_table_that_cannot_be_read_is_said_and_the_others_are_there():
    one, two = read_grids({**FILES, "predict.csv": b"ash,then\n\xe9,I\n"})
    assert "not UTF-8" in one.fault and not one.rows and not two.fault
    one = read_grids({**FILES, "predict.csv": b'ash,then\n"x,I\n'})[0]
    assert "not readable as CSV" in one.fault


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ([], [], "1 to 200 columns"),
        (["a"] * 201, [], "1 to 200 columns"),
        (["a", "b"], [["1"]], "rule 1 has 1 cells"),
        (["a"], [["x" * 10_001]], "a cell has 10001 characters"),
    ],
)
def test_what_is_no_table_is_refused_before_it_is_written(header, rows, said):
    with pytest.raises(KnowledgeError, match=said):
        grid_bytes(FILES, "predict.csv", "", header, rows)
