"""fedlore lint and calibrate, as an expert runs them."""

import ast
import json
import shutil
from pathlib import Path

import pytest

import fedlore as fedlore_package
from fedlore import Knowledge

from ..knowledge.test_files import FILE, PREDICT, folder
from ..test_public import loaded, rooms
from .test_demo import fedlore

EXAMPLES = Path(__file__).parents[2] / "examples" / "coke"


def test_a_clean_site_exits_with_0_and_shows_its_rules(tmp_path):
    site = EXAMPLES / "plant-1"
    done = fedlore(
        "lint", str(site / "knowledge.toml"), "--data", str(site / "train.csv"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Rules on the data" in done.stdout and "0 errors" in done.stdout


def test_findings_exit_with_1_and_name_row_17_and_the_column(tmp_path):
    rules = ["ash,then", *(f'> {i},"III, II"' for i in range(15)), "> 12%,III"]
    folder(tmp_path, limits="\n".join(rules) + "\n")
    done = fedlore("lint", "knowledge.toml", cwd=tmp_path)
    assert done.returncode == 1
    assert "range.csv, row 17, column 'ash'" in done.stdout


def test_json_has_the_same_findings(tmp_path):
    folder(tmp_path, predict=PREDICT.replace("<= 10", "<= 13"))
    done = fedlore("lint", "knowledge.toml", "--json", cwd=tmp_path)
    assert done.returncode == 1
    found = json.loads(done.stdout)["findings"]
    first = next(f for f in found if f["severity"] == "error")
    assert first["place"]["file"] == "predict.csv" and first["counterexample"]["seam"] in "AB"
    assert first["suggestion"]


@pytest.mark.parametrize("file", [None, "classes = [", FILE.replace("trust", "turst")])
def test_what_cannot_be_used_exits_with_2(tmp_path, file):
    if file is not None:
        folder(tmp_path, file)
    done = fedlore("lint", "knowledge.toml", cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_calibrate_writes_a_statistical_range(tmp_path):
    shutil.copytree(EXAMPLES / "plant-4", tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "knowledge.toml").read_text()
    (tmp_path / "knowledge.toml").write_text(text[: text.index("[range]")])
    done = fedlore(
        "calibrate", "knowledge.toml", "--data", "calibration.csv", "--out", "new/knowledge.toml",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "statistical, not certain" in done.stdout.replace("\n", " ")
    found = Knowledge.read(tmp_path / "new" / "knowledge.toml")
    shipped = Knowledge.read(EXAMPLES / "plant-4" / "knowledge.toml").range
    assert (found.range.kind, found.range.rows, found.range.alpha) == ("statistical", 60, 0.05)
    assert found.range.thresholds == pytest.approx(shipped.thresholds, abs=1e-4)


LINT = (
    "import sys; sys.argv = ['fedlore', 'lint', {!r}]\n"
    "from fedlore.cli import main\n"
    "try:\n    main()\nexcept SystemExit as done:\n    assert done.code == {}"
)


def test_a_table_is_checked_without_torch(tmp_path):
    site = EXAMPLES / "plant-1"
    head, _, _ = FILE.partition("[[predict.sources]]")
    tables = '[[predict.sources]]\ntable = "predict.csv"\n[[range.sources]]\ntable = "range.csv"\n'
    folder(tmp_path, predict=PREDICT.replace("<= 10", "<= 13"))
    (tmp_path / "knowledge.toml").write_text(head + tables)  # with findings too
    for path, code in ((site / "knowledge.toml", 0), (tmp_path / "knowledge.toml", 1)):
        modules = loaded(LINT.format(str(path), code))
        assert not modules & {"torch", "importlib.metadata"}
        assert len(modules) < 600  # with torch 1,330
        assert not rooms(modules) & {"data", "bundle", "personal", "engine"}


def test_knowledge_reaches_for_torch_only_when_it_is_used():
    room = Path(fedlore_package.__file__).parent / "knowledge"
    for path in room.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.partition(".")[0] == "torch" for name in names), (
                f"{path.name}: write `from ..core.tensors import torch`, and import Tensor under "
                "TYPE_CHECKING, so that lint need not wait for torch"
            )
