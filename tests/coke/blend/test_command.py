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
from fedlore.core.nets import mlp
from fedlore.core.scaler import Scaler
from fedlore_coke.blend import check, order_for, read_coals

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
    result = run(bundle, tmp_path, "--lots", "25", "--worst-case", "--force", target="grade>=19")
    assert result.exit_code == 1
    assert "grade >= CSR68" in result.output


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


def test_other_limits_and_scenarios_stand_in_the_plan(bundle, tmp_path):
    strike = tmp_path / "strike.csv"
    coals = read_coals(COKE / "coals.csv")
    rows = [
        f"{n},{p * (1.2 if i % 2 else 1.0):.2f}"
        for i, (n, p) in enumerate(zip(coals.names, coals.price, strict=True))
    ]
    strike.write_text("coal,price\n" + "\n".join(rows) + "\n")
    options = ("--lots", "10", "--max-coals", "3", "--confidence", "0.3", "--scenario", str(strike))
    more = ("--limit", "Ad<=12.5", "--limit", f"grade<=15 by {bundle} at 0.2")
    result = run(bundle, tmp_path / "out", *options, *more)
    assert result.exit_code == 0, result.output
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert plan["limits"][0] == "Ad <= 12.5" and plan["blend"]["features"]["Ad"] <= 12.5
    assert plan["limits"][1].endswith("with P >= 0.2")
    assert all(side["kept"] for side in plan["blend"]["limits"])
    costs = plan["scenarios"]["cost_per_tonne"]
    assert set(costs) == {"list", "strike"} and costs["strike"] >= costs["list"]
    assert plan["blend"]["cost_per_tonne"] == pytest.approx(sum(costs.values()) / 2)
    page = (tmp_path / "out" / "plan.html").read_text()
    assert "Other limits" in page and "Costs by scenario" in page


def test_what_must_change_is_told_and_written(bundle, tmp_path):
    names = read_coals(COKE / "coals.csv").names
    blend = tmp_path / "blend.csv"
    blend.write_text(f"coal,share\n{names[0]},60\n{names[1]},40\n")
    options = ("--confidence", "0.3", "--change", str(blend))
    result = run(bundle, tmp_path / "out", *options, target="grade>=12")
    assert result.exit_code in (0, 1), result.output
    found = json.loads((tmp_path / "out" / "change.json").read_text())
    assert found["blend"] == {names[0]: pytest.approx(0.6), names[1]: pytest.approx(0.4)}
    assert "P(grade >= CSR54) of this blend" in result.output
    if found["nearest"] is not None:
        assert sum(found["nearest"].values()) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--fix", "oven"), "--fix must read NAME=VALUE, got 'oven'"),
        (("--fix", "oven=3"), "unknown feature 'oven'"),
        (("--promise", "sure"), "promise must be expected or safe, got 'sure'"),
        (("--confidence", "2"), "confidence must lie in (0, 1], got 2"),
        (("--target", "grade>=CSR99"), "unknown class 'CSR99'"),
        (("--model", "nowhere.lore"), "nowhere.lore"),
        (("--limit", "Asche<=9"), "feature 'Asche'"),
        (("--limit", "cri<=30 by nowhere.lore"), "nowhere.lore"),
        (("--choose", "best"), "mean or worst"),
        (("--scenario", "nowhere.csv"), "nowhere.csv"),
        (("--change", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_and_nothing_is_written(
    bundle, tmp_path, monkeypatch, capsys, options, message
):
    monkeypatch.chdir(tmp_path)
    words = ["blend", str(COKE / "coals.csv"), "--target", "grade>=8", "--model", str(bundle)]
    words += ["--fix", "coking_time=20", "--out", "out", *options]
    monkeypatch.setattr("sys.argv", ["fedlore", *words])
    with pytest.raises(SystemExit) as end:
        main()
    said = capsys.readouterr().err
    assert end.value.code == 2 and said.startswith("error: ") and message in said
    assert len(said.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
