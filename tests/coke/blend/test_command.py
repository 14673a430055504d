"""fedlore blend from the command line, with a bundle on disk."""

import csv
import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fedlore import Knowledge, Personal
from fedlore.bundle import bundle_of, read_bundle, write_bundle
from fedlore.cli.app import app, main
from fedlore.coke.blend import check, order_for, read_coals
from fedlore.core.nets import mlp
from fedlore.core.scaler import Scaler

COKE = Path(__file__).parents[3] / "examples" / "coke"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """Plant 3's formulas around an untrained network; the range alone says much."""
    known = Knowledge.read(COKE / "plant-3" / "knowledge.toml")
    middle = torch.tensor([(f.low + f.high) / 2 for f in known.schema.features]).double()
    width = torch.tensor([(f.high - f.low) / 4 for f in known.schema.features]).double()
    net = mlp(17, 20, hidden=(16,), seed=3)
    path = tmp_path_factory.mktemp("bundle") / "plant-3.lore"
    write_bundle(bundle_of(Personal(net, known, scaler=Scaler(middle, width)), "plant-3"), path)
    return path


def run(bundle, out, *options, coals=COKE / "coals.csv", target="grade>=8"):
    words = ["blend", str(coals), "--target", target, "--model", str(bundle), "--out", str(out)]
    return CliRunner().invoke(app, [*words, "--fix", "coking_time=20", "--beyond-scope", *options])


def test_a_plan_is_written(bundle, tmp_path):
    options = ("--lots", "10", "--max-coals", "3", "--tonnes", "500", "--confidence", "0.5")
    result = run(bundle, tmp_path, *options)
    assert result.exit_code == 0, result.output
    assert "per tonne" in result.output and "The runner-up" in result.output
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["feasible"] and plan["proved_cheapest"]
    assert plan["blend"]["total_cost"] == pytest.approx(500 * plan["blend"]["cost_per_tonne"])
    # what is written keeps the order, by the checker, with the bundle read anew
    found, coals = read_bundle(bundle), read_coals(COKE / "coals.csv")
    order = order_for(
        found.personal, found.schema, coals, "grade>=8", confidence=0.5, scope=False,
        tonnes=500.0, most_coals=3, lots=10.0, fixed={"coking_time": 20.0},
    )  # fmt: skip
    shares = np.array([plan["blend"]["shares"].get(name, 0.0) for name in coals.names])
    assert not check(order, shares)
    rows = [json.loads(line) for line in (tmp_path / "front.jsonl").read_text().splitlines()]
    assert {row["front"] for row in rows} == {"confidence", "target"}
    assert (tmp_path / "plots" / "cost-confidence.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "plan.html").read_text()
    assert page.count("<svg") == 2 and "Blended features" in page
    assert "true: not known" in page and plan["blend"]["p_true"] == "not known"
    assert "weighted by 100 - inerts" in (tmp_path / "plan.md").read_text()


def test_no_plan_has_a_reason_and_exit_code_1(bundle, tmp_path):
    result = run(bundle, tmp_path, "--lots", "25", "--tonnes", "90000")
    assert result.exit_code == 1
    assert "infeasible because" in result.output and "of the 90,000 t" in result.output
    assert not json.loads((tmp_path / "plan.json").read_text())["feasible"]
    result = run(bundle, tmp_path, "--lots", "25", "--worst-case", target="grade>=19")
    assert result.exit_code == 1
    assert "grade >= CSR68" in result.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fix", "oven"), "--fix must read NAME=VALUE, got 'oven'"),
        (("--fix", "oven=3"), "unknown feature 'oven'"),
        (("--promise", "sure"), "promise must be expected or safe, got 'sure'"),
        (("--confidence", "2"), "confidence must lie in (0, 1], got 2"),
        (("--target", "grade>=CSR99"), "unknown class 'CSR99'"),
        (("--model", "nowhere.lore"), "nowhere.lore"),
    ],
)
def test_bad_input_is_one_line(bundle, tmp_path, monkeypatch, capsys, options, message):
    words = ["fedlore", "blend", str(COKE / "coals.csv"), "--target", "grade>=8",
             "--model", str(bundle), "--out", str(tmp_path), "--fix", "coking_time=20"]  # fmt: skip
    monkeypatch.setattr("sys.argv", [*words, *options])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and message in " ".join(said.split())


def test_a_property_that_the_coals_lack(bundle, tmp_path):
    with open(COKE / "coals.csv", newline="") as file:
        rows = [{k: v for k, v in row.items() if k != "G"} for row in csv.DictReader(file)]
    with open(tmp_path / "few.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    result = run(bundle, tmp_path, coals=tmp_path / "few.csv")
    assert "feature 'G' of the model cannot be blended" in str(result.exception)


def test_the_stock_list_is_what_its_script_writes():
    script = runpy.run_path(str(COKE / "stock.py"))
    made = script["stock_list"]()
    with open(COKE / "coals.csv", newline="") as file:
        assert [{k: str(v) for k, v in row.items()} for row in made] == list(csv.DictReader(file))
