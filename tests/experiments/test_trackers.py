"""MLflow and TensorBoard are told of finished folders, and read them back by themselves."""

import importlib.util
import json
import math
import warnings
from contextlib import suppress
from dataclasses import replace

import pytest

from fedlore import FedloreError
from fedlore.bundle import read_bundle
from fedlore.core.history import read_rows
from fedlore.experiments.trackers import open_tracker, track_folder
from fedlore.experiments.tracks import Point, read_tracks
from fedlore.federation.site.grid import site_kit

from ..cli.spoken import refused, typed
from ..federation.inside import small
from ..federation.stock import bare_sites, make_app, run_app
from ..federation.test_grid import AVERAGE, OPEN, PLAIN

pytestmark = pytest.mark.filterwarnings("default")  # of the trackers' own packages

QUICK = """
name = "plants"
rounds = 2
[run]
approaches = ["FL", "FLwKM"]
TRACK
[model]
hidden = [4]
[plan]
epochs = 1
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The folder of a run that was told to nobody."""
    folder = tmp_path_factory.mktemp("run")
    typed("new", str(folder / "d"))
    (folder / "d" / "federation.toml").write_text(QUICK.replace("TRACK", ""))
    typed("run", str(folder / "d" / "federation.toml"), "--out", str(folder / "o"))
    return folder / "o"


@pytest.fixture(scope="module", autouse=True)
def loaded():
    """MLflow's store, whose loading warns of an old way to ask SQLAlchemy."""
    with warnings.catch_warnings(record=True), suppress(ImportError):
        importlib.import_module("mlflow.store.tracking.sqlalchemy_store")


def by_mlflow(store):
    """Runs as MLflow's own client reads them, by name."""
    tracking = pytest.importorskip("mlflow.tracking")
    client = tracking.MlflowClient(f"sqlite:///{store / 'mlflow.db'}")
    groups = [one.experiment_id for one in client.search_experiments() if one.name != "Default"]
    return client, {run.info.run_name: run for run in client.search_runs(groups)}


def by_tensorboard(store):
    """Runs as TensorBoard's own reader has them, by folder."""
    name = "tensorboard.backend.event_processing.event_accumulator"
    reader = pytest.importorskip(name)
    found = {}
    for folder in store.iterdir():
        if folder.is_dir():
            found[folder.name.rpartition("-")[0]] = reader.EventAccumulator(str(folder)).Reload()
    return found


def test_mlflow_reads_back_what_a_run_has(made, tmp_path):
    pytest.importorskip("mlflow")
    told = track_folder(made, "mlflow", tmp_path / "store")
    assert (told.fresh, told.known) == (2, 0) and "mlflow ui" in told.hint
    client, runs = by_mlflow(tmp_path / "store")
    assert set(runs) == {"FL", "FLwKM"}
    rows = {(r["approach"], r["client"]): r for r in read_rows(made / "results.jsonl")}
    for name, run in runs.items():
        assert run.info.status == "FINISHED"
        assert run.data.params["plan.lr"] == "0.1" and run.data.params["rounds"] == "2"
        assert run.data.params["approach"] == name and "fedlore 0." in run.data.params["versions"]
        own = {c: r for (a, c), r in rows.items() if a == name}
        for site, row in own.items():
            assert run.data.metrics[f"ta/{site}"] == row["ta"]
        mean = sum(r["ta"] for r in own.values()) / len(own)
        assert run.data.metrics["ta"] == pytest.approx(mean)
        history = client.get_metric_history(run.info.run_id, "ta/plant-1")
        past = {
            r["round"]: r["ta"]
            for r in read_rows(made / "rounds.jsonl")
            if (r["client"], r["approach"]) == ("plant-1", name)
        }
        assert {m.step: m.value for m in history} == past and len(past) == 2
        names = {one.path for one in client.list_artifacts(run.info.run_id)}
        assert names == {"report.html", "tables.md", "bundles", "cards"}
        place = client.download_artifacts(run.info.run_id, "bundles/plant-1.lore")
        assert read_bundle(place).client == "plant-1"
        card = client.download_artifacts(run.info.run_id, "cards/plant-1.md")
        with open(card) as file:
            assert file.read() == read_bundle(place).card


def test_tensorboard_reads_back_what_a_run_has(made, tmp_path):
    pytest.importorskip("tensorboard")
    told = track_folder(made, "tensorboard", tmp_path / "store")
    assert (told.fresh, told.known) == (2, 0)
    runs = by_tensorboard(tmp_path / "store")
    assert set(runs) == {"FL", "FLwKM"}
    for name, run in runs.items():
        past = [r for r in read_rows(made / "rounds.jsonl") if r["approach"] == name]
        for site in ("plant-1", "plant-4"):
            own = {r["round"]: r["ta"] for r in past if r["client"] == site}
            seen = {event.step: event.value for event in run.Scalars(f"ta/{site}")}
            assert seen == pytest.approx(own)
        words = run.Tensors("parameters/text_summary")[0].tensor_proto.string_val[0].decode()
        assert "| plan.lr | 0.1 |" in words and f"| approach | {name} |" in words
        files = run.Tensors("files/text_summary")[0].tensor_proto.string_val[0].decode()
        assert str(made / "report.html") in files and "plant-1.lore" in files


@pytest.mark.parametrize("tracker", ["mlflow", "tensorboard"])
def test_a_run_that_is_known_is_not_told_twice(made, tmp_path, tracker):
    pytest.importorskip(tracker)
    track_folder(made, tracker, tmp_path)
    again = track_folder(made, tracker, tmp_path)
    assert (again.fresh, again.known) == (0, 2)


@pytest.mark.parametrize("tracker", ["mlflow", "tensorboard"])
def test_a_process_that_ended_while_it_told_leaves_nothing_half(made, tmp_path, tracker):
    """The run is told as a whole by the next one."""
    pytest.importorskip(tracker)
    first = read_tracks(made)[0]
    broken = replace(first, texts={"a": 3})
    assert broken.key == first.key
    with pytest.raises(Exception):  # noqa: B017 - whatever the library says to a text of 3
        open_tracker(tracker, tmp_path).write(broken)
    assert open_tracker(tracker, tmp_path).write(first)
    if tracker == "mlflow":
        assert list(by_mlflow(tmp_path)[1]) == [first.name]
    else:
        (run,) = by_tensorboard(tmp_path).values()
        assert len(run.Scalars("ta/plant-1")) == 2


def test_a_run_tells_what_its_file_names(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    typed("new", "d")
    path = tmp_path / "d" / "federation.toml"
    path.write_text(QUICK.replace("TRACK", 'track = "tensorboard"').replace('"FL", ', ""))
    said = typed("run", "d/federation.toml", "--out", "o")
    assert "Added 1 run to tensorboard's store o/tracking" in said
    assert set(by_tensorboard(tmp_path / "o" / "tracking")) == {"FLwKM"}
    said = typed("track", "o", "--to", "tensorboard")
    assert "Added 0 runs" in said and "1 was there already" in said
    path.write_text(QUICK.replace("TRACK", 'track = "mlfow"'))
    assert "unknown tracker 'mlfow'; did you mean 'mlflow'" in refused("run", "d/federation.toml")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A federation over a grid; one of its sites reports no scores."""
    folder = tmp_path_factory.mktemp("grid")
    sites = bare_sites(small(folder / "trial"), folder / "sites")
    path = site_kit(sites[1]).path("site.toml")
    path.write_text(path.read_text().replace('["ta", "nll", "pov", "rmse", "mae", "r2"]', "[]"))
    run_app(make_app(folder / "app", sites[0], *PLAIN, *OPEN, *AVERAGE), sites, folder / "out")
    return folder / "out", sites


def test_a_coordinator_tracks_what_it_was_told_and_a_site_its_own_rows(trained):
    out, sites = trained
    (told,) = read_tracks(out)
    assert {p.name for p in told.points if p.name.startswith("ta/")} == {"ta/plant-1", "ta/plant-3"}
    assert [p.step for p in told.points if p.name == "seconds"] == [1, 2, 3]
    assert told.group == "knowing" and told.parameters["plan.epochs"] == "1"
    (own,) = read_tracks(sites[1])
    scores = {p.name: p for p in own.points}
    assert 0 <= scores["ta/plant-2"].value <= 1 and scores["ta/plant-2"].step == 3
    assert {p.name.partition("/")[2] for p in own.points} == {"plant-2"}
    assert "range" in own.texts["cards/plant-2.md"]
    (other,) = read_tracks(sites[0])  # what it told is what it has
    mine = {p.name: p.value for p in other.points}
    assert mine["ta/plant-1"] == next(p.value for p in told.points if p.name == "ta/plant-1")


def test_rows_knowledge_and_trust_are_in_no_store(trained, tmp_path):
    pytest.importorskip("mlflow")
    out, sites = trained
    track_folder(out, "mlflow", tmp_path)
    data = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    for site in sites:
        assert not any(line in data for line in (site / "train.csv").read_bytes().splitlines()[1:4])
        assert str(site).encode() not in data
    assert b"predict.sources" not in data


def test_points_that_are_no_numbers_are_left_out(tmp_path):
    rows = [{"approach": "FL", "seed": 0, "client": "a", "ta": math.pi, "nll": None, "x": True}]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (run,) = read_tracks(tmp_path)
    assert set(run.points) == {Point("ta/a", math.pi), Point("ta", math.pi)}
    assert run.parameters == {"approach": "FL", "seed": "0", "x": "True"}


def test_nothing_phones_home(tmp_path):
    pytest.importorskip("mlflow")
    from mlflow.telemetry.utils import is_telemetry_disabled

    open_tracker("mlflow", tmp_path)
    assert is_telemetry_disabled()


def test_a_folder_without_results_is_named(tmp_path):
    with pytest.raises(FedloreError, match="holds nothing to track.*fedlore run"):
        read_tracks(tmp_path)
    assert "there is no" in refused("track", str(tmp_path / "no"), "--to", "mlflow")


def test_an_unknown_tracker_a_missing_package_and_a_bad_store_are_sentences(
    made, tmp_path, monkeypatch
):
    assert "unknown tracker 'wandb'; known: mlflow, tensorboard" in refused(
        "track", str(made), "--to", "wandb"
    )
    (tmp_path / "file").write_text("")
    said = refused("track", str(made), "--to", "tensorboard", "--into", str(tmp_path / "file"))
    assert "cannot write to" in said
    pytest.importorskip("mlflow")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "mlflow.db").write_bytes(b"no database at all" * 100)
    said = refused("track", str(made), "--to", "mlflow", "--into", str(tmp_path / "bad"))
    assert "cannot be used as a store" in said and "--into" in said
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "mlflow" else find(name, *a)
    )
    said = refused("track", str(made), "--to", "mlflow")
    assert "mlflow is missing: pip install 'fedlore[mlflow]'" in said
