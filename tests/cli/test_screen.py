"""Tables fit a terminal of any width, or turn into blocks: no cell is cut."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fedlore.cli.screen import Grid

WORDS = st.text("abcdefgh0123456789.%±", min_size=1, max_size=14)
CELLS = st.integers(2, 9).flatmap(
    lambda width: st.lists(st.lists(WORDS, min_size=width, max_size=width), min_size=2, max_size=4)
)


def shown(rows, width):
    grid = Grid(title="what is shown")
    for title in rows[0]:
        grid.add_column(title, justify="right")
    for row in rows[1:]:
        grid.add_row(*row)
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(grid)
    return out.getvalue()


@given(CELLS, st.sampled_from([40, 80, 120]))
def test_every_cell_is_there_and_no_line_is_too_long(rows, width):
    text = shown(rows, width)
    assert "…" not in text
    for cell in (cell for row in rows for cell in row):
        assert cell in text
    assert max(map(len, text.splitlines())) <= width


def test_a_table_that_fits_stays_a_table():
    text = shown([["setting", "leak"], ["plain", "0.83"]], 80)
    assert "┃" in text and "plain" in text


def test_a_table_that_does_not_fit_tells_its_rows_one_by_one():
    rows = [["setting", *(f"column-{i}" for i in range(9))], ["plain", *("0.123456",) * 9]]
    assert "what is shown\nsetting: plain\n  column-0: 0.123456\n" in shown(rows, 80)
