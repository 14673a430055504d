"""The paper's tables on a small part of Covtype: rows, guarantees, interruptions."""

import json

import pytest
from typer.testing import CliRunner

from fedlore.core.history import read_rows
from fedlore.errors import ConfigError, FedloreError
from fedlore.experiments.cells import ResultCell, ResultLedger
from fedlore_lab.paper import command as command
from fedlore_lab.paper import realcoke
from fedlore_lab.paper import study as paper
from fedlore_lab.paper.realcoke import run_measured, run_simulated
from fedlore_lab.paper.study import Study, distinct, run_study
from fedlore_lab.paper.tasks import PAPER_TASKS, read_protocol

from ..conftest import shorten_recipe
from .small import FEW, QUICK, protocol, small_task, some_cokes


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setitem(PAPER_TASKS, "covtype", small_task())


def every(where: str) -> Study:
    """All approaches."""
    return Study("approaches", "covtype", where, seeds=1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One finished table of approaches: its folder and its rows."""
    out = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PAPER_TASKS, "covtype", small_task())
        shorten_recipe(patch)
        rows = run_study(every(protocol(out)), out)
    return out, rows


def without_time(rows):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def test_rows_are_flat_and_say_where_they_come_from(finished):
    _, rows = finished
    assert len(rows) == 2 * 8 * 5  # ranges, approaches, clients
    keys = "dataset protocol range approach seed share trust model client ta pov abstained coverage"
    keys += " width train_rows test_rows rounds seconds config versions"
    assert all(list(row) == keys.split() for row in rows)
    first = rows[0]
    assert (first["dataset"], first["protocol"], first["share"]) == ("covtype", "small", 0.2)
    assert {r["trust"] for r in rows if r["approach"] in ("FLwKM", "MLwKM", "FL+mask")} == {0.3}
    assert {r["trust"] for r in rows if r["approach"] in ("ML", "FL", "P-KM")} == {None}
    assert json.loads(json.dumps(rows)) == rows


def test_no_prediction_with_knowledge_leaves_the_range(finished):
    _, rows = finished
    bare = {"ML", "FL"}
    assert all(row["pov"] == 0.0 for row in rows if row["approach"] not in bare)
    assert any(row["pov"] > 0.0 for row in rows if row["approach"] in bare)


def test_models_without_knowledge_are_the_same_under_every_range(finished):
    _, rows = finished
    for name in ("ML", "FL"):
        scores = [
            [r["ta"] for r in rows if (r["approach"], r["range"]) == (name, kind)]
            for kind in ("oracle", "conformal90")
        ]
        assert scores[0] == scores[1]


def test_coverage_is_told(finished):
    _, rows = finished
    assert {row["coverage"] for row in rows if row["range"] == "oracle"} == {1.0}
    honest = [row["coverage"] for row in rows if row["range"] == "conformal90"]
    assert 0.7 < min(honest) < 1.0


def test_the_first_seed_tells_its_history_and_its_confusions(finished):
    out, rows = finished
    history = read_rows(out / "rounds-covtype-small.jsonl")
    assert {row["round"] for row in history} == {1, 2, 3}
    assert {row["approach"] for row in history} == {"ML", "MLwKM", "FL", "FLwKM", "lore"}
    mistakes = read_rows(out / "confusion-covtype-small.jsonl")
    mine = [r for r in mistakes if (r["approach"], r["range"]) == ("FLwKM", "oracle")]
    right = sum(r["count"] for r in mine if r["label"] == r["predicted"])
    assert sum(r["count"] for r in mine) == 5 * 150
    scores = [r["ta"] for r in rows if (r["approach"], r["range"]) == ("FLwKM", "oracle")]
    assert right == pytest.approx(150 * sum(scores))


def test_golden_numbers(finished):
    """One small fixed run; a change of these means a change of data, seeds or training."""
    _, rows = finished
    found = {}
    for name in ("P-KM", "ML", "FLwKM", "FL+mask"):
        mine = [r["ta"] for r in rows if (r["approach"], r["range"]) == (name, "oracle")]
        found[name] = sum(mine) / len(mine)
    wanted = {"P-KM": 0.4387, "ML": 0.5693, "FLwKM": 0.5, "FL+mask": 0.616}
    assert found == pytest.approx(wanted, abs=0.01)


def test_a_finished_study_computes_nothing(finished, monkeypatch):
    out, rows = finished
    monkeypatch.setattr(paper, "PaperDrawings", None)
    again = run_study(every(str(out / "small.toml")), out)
    assert again == rows


def test_the_table_has_the_honest_baseline_first_and_the_chosen_recipe_last(tmp_path):
    where = protocol(tmp_path)
    study = Study("approaches", "covtype", where, ("oracle",), seeds=1)
    found = list(paper.cells(study, read_protocol(where)))
    names = [cell.approach for cell, _ in found]
    assert (names[0], names[-1], len(names)) == ("local best", "lore", 8)
    assert found[0][0].trust is None


class Stopped(Exception):
    pass


@pytest.mark.slow
def test_an_interrupted_study_goes_on_where_it_stopped(finished, tmp_path, short_recipe):
    study = every(protocol(tmp_path))

    def stop(cell, done, total):
        if done == 4:
            raise Stopped

    with pytest.raises(Stopped):
        run_study(study, tmp_path, on_cell=stop)
    before = read_rows(tmp_path / "approaches-covtype-small.jsonl")
    assert len(before) == 4 * 5
    rows = run_study(study, tmp_path)
    assert rows[: len(before)] == before
    assert without_time(rows) == without_time(finished[1])


@pytest.mark.slow
def test_other_settings_are_computed_anew(finished, tmp_path, monkeypatch):
    out, rows = finished
    changed = protocol(tmp_path, **{"rounds = { 20 = 3": "rounds = { 20 = 2"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paper, "PaperDrawings", None)
        with pytest.raises(TypeError):  # it wants to compute
            run_study(every(changed), out)
    assert read_rows(out / "approaches-covtype-small.jsonl") == rows


def test_tables_share_their_cells(finished, tmp_path, monkeypatch):
    out, rows = finished
    study = Study("data", "covtype", str(out / "small.toml"), ("oracle",), seeds=1)
    shares = run_study(study, out)
    assert [r["share"] for r in shares] == [0.2] * 5 + [0.5] * 5
    wanted = [r for r in rows if (r["approach"], r["range"]) == ("FLwKM", "oracle")]
    assert shares[:5] == wanted  # seconds included: taken over, not computed
    assert shares[5]["train_rows"] > shares[0]["train_rows"]


def test_lambda_sweeps_trust_and_shares_the_weights_of_fl(tmp_path):
    study = Study("lambda", "covtype", protocol(tmp_path), ("oracle",), seeds=1)
    rows = run_study(study, tmp_path)
    assert sorted({r["trust"] for r in rows}) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert {r["approach"] for r in rows} == {"FLwKM", "FL+mask"}
    assert all(r["pov"] == 0.0 for r in rows)


@pytest.mark.slow
def test_the_authors_way_scores_tuned_weights_and_short_training_alone(tmp_path):
    changed = protocol(tmp_path, **{"test_rows = 150": "test_rows = 150\ntuned = true\nalone = 1"})
    rows = run_study(Study("approaches", "covtype", changed, ("oracle",), seeds=1), tmp_path)
    models = {r["approach"]: (r["model"], r["rounds"]) for r in rows}
    assert models["ML"] == ("local", 1) and models["FL"] == ("tuned", 3)
    assert models["FLwKM"] == ("tuned", 3) and models["P-KM"] == ("expert", 0)
    assert all(r["pov"] == 0.0 for r in rows if r["approach"] not in ("ML", "FL"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"table": "aproaches"}, "unknown table 'aproaches'; did you mean 'approaches'"),
        ({"dataset": "mnist"}, "unknown data set 'mnist'; did you mean 'fmnist'"),
        ({"seeds": 0}, "seeds must be at least 1, got 0"),
        ({"ranges": ("expert",)}, "a range must be oracle or conformal"),
    ],
)
def test_a_wrong_study_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        Study(**{"table": "data", "dataset": "covtype", "protocol": "fair", **settings})


def test_a_ledger_refuses_a_file_that_is_none(tmp_path):
    (tmp_path / "x.jsonl").write_text("{half a row")
    with pytest.raises(ValueError, match="x.jsonl' is not a file of rows"):
        ResultLedger(tmp_path / "x.jsonl")


def test_a_ledger_replaces_rows_of_other_settings(tmp_path):
    cell = ResultCell("covtype", "fair", "oracle", "FL", 0, 0.01, None)
    ledger = ResultLedger(tmp_path / "x.jsonl")
    ledger.add(cell, [{**cell.tags, "config": "old", "ta": 0.5}])
    assert ledger.find(cell, "new") == []
    ledger.add(cell, [{**cell.tags, "config": "new", "ta": 0.6}])
    assert [row["ta"] for row in read_rows(tmp_path / "x.jsonl")] == [0.6]


def test_a_cell_that_two_tables_hold_is_borrowed_once(tmp_path):
    cell = ResultCell("covtype", "fair", "oracle", "FL", 0, 0.01, None)
    others = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path in others:
        ResultLedger(path).add(cell, [{**cell.tags, "config": "same", "client": "client-1"}])
    ledger = ResultLedger(tmp_path / "c.jsonl", borrow=others)
    assert len(ledger.find(cell, "same")) == 1
    assert len(read_rows(tmp_path / "c.jsonl")) == 1


@pytest.mark.slow
def test_approaches_are_written_as_rows_and_a_table(tmp_path, monkeypatch):
    monkeypatch.setitem(PAPER_TASKS, "covtype", small_task())
    arguments = ["approaches", "--protocol", protocol(tmp_path), "--out", str(tmp_path)]
    result = CliRunner().invoke(
        command.paper_app, [*arguments, "--seeds", "1", "--range", "oracle"]
    )
    assert result.exit_code == 0, result.output
    text = (tmp_path / "approaches-covtype-small.md").read_text()
    assert "FLwKM" in text and "label inside" in text and "100.00" in text
    assert len(read_rows(tmp_path / "approaches-covtype-small.jsonl")) == 8 * 5
    page = (tmp_path / "report-covtype-small" / "report.html").read_text()
    assert "Accuracy over the rounds" in page and "onfusion" in page


def test_a_row_that_two_tables_hold_is_shown_once():
    row = {"dataset": "a", "approach": "FL", "client": "1", "seed": 0, "trust": None, "ta": 0.5}
    other = row | {"seed": 1}
    assert distinct([row, other, dict(row)]) == [row, other]


@pytest.mark.slow
def test_the_case_goes_on_without_the_real_cokes(tmp_path, monkeypatch):
    def absent(seeds, out, **settings):
        raise FedloreError("no such file")

    monkeypatch.setattr(command, "run_simulated", lambda n, o, **k: run_simulated(n, o, demo=QUICK))
    monkeypatch.setattr(command, "run_measured", absent)
    result = CliRunner().invoke(command.paper_app, ["case", "--seeds", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "The real cokes are left out: no such file" in result.output
    text = (tmp_path / "case-coke.md").read_text()
    assert "The paper's own coking case" in text and "imulated" in text


@pytest.mark.slow
def test_real_cokes_are_told_with_the_uncertainty_of_few_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(realcoke, "real_cokes", lambda folder: some_cokes())
    monkeypatch.setattr(command, "run_simulated", lambda n, o, **k: run_simulated(n, o, demo=QUICK))
    monkeypatch.setattr(command, "run_measured", lambda n, o, **k: run_measured(n, o, case=FEW))
    result = CliRunner().invoke(command.paper_app, ["case", "--seeds", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "seeds do not narrow it" in (tmp_path / "case-coke-real.md").read_text()
