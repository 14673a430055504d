"""Run the notebooks; `python -m handbook.notebooks` also keeps what they print."""

import sys
import tempfile
from pathlib import Path
from typing import Any

from .pages import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
LIMIT = 600  # seconds that one cell may take on a busy machine


def run_notebook(path: Path, folder: Path) -> Any:
    """The notebook after a run from top to bottom, each cell with the text that it printed."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, 4)
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=LIMIT, kernel_name="python3", resources=where).execute()
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            text = printed(cell)
            kept = nbformat.v4.new_output("stream", name="stdout", text=text)
            cell.outputs, cell.execution_count = ([kept] if text else []), None
    return notebook


def printed(cell: Any) -> str:
    """What a cell printed, the warnings of other packages left out."""
    return "".join(out.get("text", "") for out in cell.outputs if out.get("name") == "stdout")


if __name__ == "__main__":
    import nbformat

    wanted = sys.argv[1:] or [path.stem for path in NOTEBOOKS]
    for path in NOTEBOOKS:
        if path.stem in wanted:
            with tempfile.TemporaryDirectory() as folder:
                nbformat.write(run_notebook(path, Path(folder)), path)
