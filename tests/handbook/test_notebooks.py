"""The notebooks run from top to bottom, and print what their pages show."""

import ast
import json

import pytest

from handbook.compare import same
from handbook.notebooks import NOTEBOOKS, printed, run_notebook
from handbook.pages import ROOT

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path, kind):
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


def test_there_are_four():
    assert [path.stem for path in NOTEBOOKS] == ["algorithm", "leak", "paper", "plan"]


@each_notebook
def test_a_notebook_is_text_that_begins_with_a_title_and_code_that_parses(path):
    assert "".join(cells(path, "markdown")[0]["source"]).startswith("# ")
    for cell in cells(path, "code"):
        ast.parse("".join(cell["source"]))
        assert cell["execution_count"] is None
        assert all(out["output_type"] == "stream" for out in cell["outputs"])


def test_the_algorithm_has_forty_lines_at_most():
    source = "".join(cells(ROOT / "docs" / "notebooks" / "algorithm.ipynb", "code")[0]["source"])
    assert sum(bool(line.strip()) for line in source.splitlines()) <= 40


@pytest.mark.slow
@each_notebook
@pytest.mark.filterwarnings("default")  # what other packages warn of is not ours
def test_a_notebook_runs_and_prints_what_it_shows(path, tmp_path):
    pytest.importorskip("nbclient")
    now = run_notebook(path, tmp_path).cells
    before = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for old, new in zip(before, now, strict=True):
        if old["cell_type"] == "code":
            shown = "".join("".join(out["text"]) for out in old["outputs"])
            assert same(shown, printed(new)), f"shown\n{shown}\nand printed\n{printed(new)}"
