"""Files of rows to files of answers, and the commands around them."""

import csv
import gzip
import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from fedlore import Knowledge, Personal, mlp
from fedlore.algorithms import Plan
from fedlore.algorithms.catalog import Method
from fedlore.bundle import Policies, answer_rows, bundle_of, read_bundle, write_bundle
from fedlore.bundle.files import predict_file
from fedlore.bundle.update import update_bundle
from fedlore.data.rows import files
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.federation.journal import write_state
from fedlore.federation.settings import Model
from fedlore.federation.terms import Terms, fedlore_version
from fedlore.knowledge import Feature, Schema, table_of

from .making import SCHEMA, bundle, call, known, personal, regressor, rows, run

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
MADE = bundle()


def table(n=50):
    x = np.round(rows(n).numpy().astype(float), 3)
    return {"sample": [f"k-{i}" for i in range(n)], "s [%]": x[:, 1], "ash": x[:, 0]}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "rows.csv"
    columns = table()
    with path.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def read(path):
    with path.open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("chunk", [7, 65_536])
def test_answers_in_a_file_are_those_in_memory(tmp_path, file, monkeypatch, fast, chunk):
    monkeypatch.setattr(files, "ROWS_AT_ONCE", chunk)
    monkeypatch.setattr(files, "_BYTES", 200 if chunk == 7 else 1 << 20)
    told = predict_file(MADE, file, tmp_path / "out.csv", fast=fast, keep=["sample"])
    columns = table()
    x = np.stack([columns["ash"], columns["s [%]"]], 1)
    found = answer_rows(MADE, rows().new_tensor(x))
    lines = read(tmp_path / "out.csv")
    assert [line["sample"] for line in lines] == columns["sample"]
    assert [line["grade"] for line in lines] == [SCHEMA.classes[i] for i in found.predicted]
    chances = np.array([[line[f"p_{c}"] for c in SCHEMA.classes] for line in lines], dtype="f4")
    assert np.allclose(chances, found.probabilities.numpy(), atol=1e-6)
    assert (chances[~found.allowed.numpy()] == 0).all()
    sets = [
        "|".join(c for c, a in zip(SCHEMA.classes, row, strict=True) if a) for row in found.allowed
    ]
    assert [line["allowed"] for line in lines] == sets
    assert {line["in_scope"] for line in lines} == {"true"}
    assert told.rows == 50 and told.passed_over == ()
    assert sum(told.decided.values()) == 50


def test_parquet_and_gzip_say_the_same(tmp_path, file):
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table(table()), tmp_path / "rows.parquet")
    (tmp_path / "rows.csv.gz").write_bytes(gzip.compress(file.read_bytes()))
    predict_file(MADE, file, tmp_path / "a.csv")
    for name in ("rows.parquet", "rows.csv.gz"):
        predict_file(MADE, tmp_path / name, tmp_path / "b.csv")
        assert (tmp_path / "b.csv").read_text() == (tmp_path / "a.csv").read_text()
    predict_file(MADE, file, tmp_path / "out.parquet", why=True)
    found = parquet.read_table(tmp_path / "out.parquet")
    assert found.column("grade").to_pylist() == [line["grade"] for line in read(tmp_path / "a.csv")]
    assert all(found.column("why").to_pylist())


def test_a_unit_in_a_parquet_file_is_checked(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    ash = pa.field("ash", pa.float64(), metadata={"unit": "g/kg"})
    schema = pa.schema([ash, pa.field("s", pa.float64())])
    parquet.write_table(pa.table({"ash": [1.0], "s": [1.0]}, schema=schema), tmp_path / "a.parquet")
    with pytest.raises(FedloreError, match=r"'ash' is in \[g/kg\]"):
        predict_file(MADE, tmp_path / "a.parquet", tmp_path / "out.csv")


WRONG = {
    "word": ("ash,s\n1,2\n3,x\n", "row 3, column 's': 'x' is not a number"),
    "blank": ("ash,s\n1,2\n,2\n", "row 3, column 'ash' is missing"),
    "width": ("ash,s\n1,2\n3\n", "row 3 has 1 cells, the header has 2"),
    "column": ("ash,z\n1,2\n", "the column 's' is missing"),
    "unit": ("ash [ppm],s\n1,2\n", r"'ash' is in \[ppm\]"),
    "none": ("ash,s\n", "has no rows"),
    "empty": ("", "is empty"),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("fast", [True, False])
def test_faults_are_placed_and_nothing_is_written(tmp_path, name, fast):
    text, words = WRONG[name]
    (tmp_path / "rows.csv").write_text(text)
    (tmp_path / "out.csv").write_text("before")
    with pytest.raises(FedloreError, match=words):
        predict_file(MADE, tmp_path / "rows.csv", tmp_path / "out.csv", fast=fast)
    assert (tmp_path / "out.csv").read_text() == "before"
    assert sorted(os.listdir(tmp_path)) == ["out.csv", "rows.csv"]


BAD = "sample,ash,s\nA,1,2\nB,x,2\nC,3,\nD,4\nE,5,6\n"


@pytest.mark.parametrize("fast", [True, False])
def test_rows_that_cannot_be_answered_are_marked_and_all_others_answered(tmp_path, fast):
    (tmp_path / "rows.csv").write_text(BAD)
    out = tmp_path / "o.csv"
    told = predict_file(
        MADE, tmp_path / "rows.csv", out, keep=["sample"], on_error="mark", why=True, fast=fast
    )
    assert (told.rows, told.wrong) == (2, 3)
    assert told.first == "row 3: column 'ash': 'x' is not a number"
    found = read(out)
    assert [row["sample"] for row in found] == ["A", "B", "C", "", "E"]
    assert [row["error"][:25] for row in found] == [
        "",
        "column 'ash': 'x' is not ",
        "column 's' is missing: fi",
        "has 2 cells, the header h",
        "",
    ]
    clean = tmp_path / "clean.csv"
    clean.write_text("sample,ash,s\nA,1,2\nE,5,6\n")
    asked = {"keep": ["sample"], "why": True, "fast": fast}
    predict_file(MADE, clean, tmp_path / "c.csv", on_error="mark", **asked)
    wanted = read(tmp_path / "c.csv")
    assert "error" not in wanted[0]  # only a file with such rows has the column
    assert [{k: v for k, v in found[i].items() if k != "error"} for i in (0, 4)] == wanted
    assert all(found[1][k] == "" for k in found[1] if k not in ("sample", "error"))
    predict_file(MADE, tmp_path / "rows.csv", out, on_error="skip", **asked)
    assert read(out) == wanted
    with pytest.raises(FedloreError, match="has 3 problems"):
        predict_file(MADE, tmp_path / "rows.csv", out)


@pytest.mark.parametrize("fast", [True, False])
def test_one_unseen_level_far_down_a_file_leaves_all_others_answered(tmp_path, monkeypatch, fast):
    """Behind several batches, where a fast reader must begin anew with the slow one."""
    monkeypatch.setattr(files, "ROWS_AT_ONCE", 64)
    monkeypatch.setattr(files, "CELL_BY_CELL", 0)
    mine = Feature("mine", levels=("north", "south"))
    schema = Schema((Feature("ash"), mine), SCHEMA.classes)
    model = Personal(mlp(2, len(SCHEMA.classes)), Knowledge(schema=schema))
    made = bundle_of(model, "plant")
    lines = ["ash,mine", *(f"{i},{'north' if i % 3 else 'south'}" for i in range(300))]
    lines[201] = "200,east"
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "o.csv"
    told = predict_file(made, tmp_path / "rows.csv", out, on_error="mark", fast=fast)
    assert (told.rows, told.wrong) == (299, 1)
    assert told.first == "row 202: column 'mine': unknown level 'east'; known: north, south"
    found = read(out)
    assert [i for i, row in enumerate(found, 2) if row["error"]] == [202] and len(found) == 300


def test_a_row_that_the_knowledge_refuses_is_marked_too(tmp_path):
    torn = [{"ash": "> 4", "then": "A"}, {"s": "> 4", "then": "B"}]
    known = Knowledge(range=table_of(torn, SCHEMA, kind="range"), schema=SCHEMA)
    made = bundle_of(personal(known), "plant")
    (tmp_path / "rows.csv").write_text("ash,s\n1,2\n5,5\n3,4\n")
    told = predict_file(made, tmp_path / "rows.csv", tmp_path / "o.parquet", on_error="mark")
    assert (told.rows, told.wrong) == (2, 1)
    found = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert "leave no class" in found[1]["error"] and found[1]["decided"] is None
    assert found[0]["error"] == "" and found[0]["decided"]


@pytest.mark.parametrize("fast", [True, False])
def test_a_european_file_says_the_same_and_how_it_was_read(tmp_path, file, fast):
    predict_file(MADE, file, tmp_path / "a.csv", keep=["sample"], fast=fast)
    other = tmp_path / "european.csv"
    other.write_text(file.read_text().replace(",", ";").replace(".", ","))
    told = predict_file(MADE, other, tmp_path / "b.csv", keep=["sample"], fast=fast)
    assert (tmp_path / "b.csv").read_text() == (tmp_path / "a.csv").read_text()
    assert "decimals follow a comma" in told.said


def test_columns_with_titles_of_their_own_are_predicted_from(tmp_path):
    ash, s = SCHEMA.features
    schema = replace(SCHEMA, features=(replace(ash, column="Ash, dry"), s))
    bare = personal(Knowledge(trust=0.0, schema=schema))
    write_bundle(bundle_of(bare, "plant", schema=schema), tmp_path / "a.lore")
    (tmp_path / "rows.csv").write_text('s,"Ash, dry",note\n1,10,x\n')
    told = predict_file(read_bundle(tmp_path / "a.lore"), tmp_path / "rows.csv", tmp_path / "o.csv")
    assert told.rows == 1 and told.passed_over == ("note",)


def test_numbers_are_answered_too(tmp_path, file):
    predict_file(bundle_of(regressor(), "plant", schema=SCHEMA), file, tmp_path / "o.csv", why=True)
    for line in read(tmp_path / "o.csv"):
        assert float(line["low"]) <= float(line["grade"]) <= float(line["high"])


@pytest.mark.slow
def test_predict_on_the_command_line(tmp_path, file):
    write_bundle(MADE, tmp_path / "a.lore")
    shown = subprocess.run(
        [sys.executable, "-m", "fedlore", "predict", tmp_path / "a.lore", file, "--keep", "sample"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert len(shown.stdout.splitlines()) == 51
    assert shown.stdout.startswith("sample,grade,p_A,p_B,p_C,allowed,expert,decided,trust,in_scope")
    assert "50 rows decided: " in shown.stderr


def test_update_swaps_rules_or_trust(tmp_path, file):
    old = bundle(hears=True)
    louder = update_bundle(old, trust=0.9)
    assert louder.personal.knowledge.trust == 0.9
    assert louder.members["weights.safetensors"] == old.members["weights.safetensors"]
    known(0.1).write(tmp_path / "knowledge.toml")
    new = update_bundle(old, tmp_path / "knowledge.toml")
    wanted = old.personal.with_knowledge(known(0.1))
    assert (new.personal(rows()) == wanted(rows())).all()
    numbers = update_bundle(bundle_of(regressor(), "plant", schema=SCHEMA), trust=1.0)
    assert numbers.personal.knowledge.trust == 1.0
    with pytest.raises(KnowledgeError, match=r"trust must lie in \[0, 1\], got 2"):
        update_bundle(old, trust=2.0)


def test_update_refuses_what_the_network_does_not_know(tmp_path):
    known().write(tmp_path / "k.toml")
    text = (tmp_path / "k.toml").read_text()
    for old, new, words in (
        ('unit = "%"', 'unit = "ppm"', "table-1.csv|takes it in"),
        ('["A", "B", "C"]', '["A", "C", "B"]', "classes are not the network's"),
    ):
        (tmp_path / "k.toml").write_text(text.replace(old, new, 1))
        with pytest.raises(KnowledgeError, match=words):
            update_bundle(MADE, tmp_path / "k.toml")


def test_update_on_the_command_line(tmp_path):
    write_bundle(MADE, tmp_path / "a.lore")
    replace(known(0.0), prediction=None).write(tmp_path / "k.toml")
    lines = ["ash,s,grade", *(f"{a:.3f},{s:.3f},C" for a, s in rows(20).tolist())]
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    asked = ["update", tmp_path / "a.lore", tmp_path / "k.toml"]
    asked += ["--data", tmp_path / "data.csv", "--out", tmp_path / "b.lore"]
    told = run(*asked)
    assert "before" in told and "audit: 20 rows" in told
    assert "is now 0, as the new file says" in told
    found = read_bundle(tmp_path / "b.lore")
    assert found.personal.knowledge.trust == 0.0 and "ta" in found.metrics
    known().write(tmp_path / "k.toml")  # its two tables contradict each other somewhere
    (tmp_path / "b.lore").unlink()
    shown = call(*asked)
    assert "forbids where ash <= 8 and s > 3" in shown.output
    assert "has 1 error and is not used" in str(shown.exception)
    assert not (tmp_path / "b.lore").exists()
    run(*asked, "--accept-conflicts")
    assert (tmp_path / "b.lore").exists()
    assert isinstance(call("update", tmp_path / "a.lore", "--out", "x").exception, FedloreError)


def terms() -> Terms:
    return Terms(
        "run-1", "coal", fedlore_version(), 2, 3, 0, "equal", SCHEMA, Model(hidden=(8,)),
        Method(), Plan(), shift=(20.0, 2.5), spread=(11.0, 1.5),
    )  # fmt: skip


def test_a_kit_and_a_coordinator_are_exported(tmp_path):
    weights = dict(personal(seed=4).model.named_parameters())
    weights = {name: t.detach() for name, t in weights.items()}
    about = {"run": "run-1", "round": 3, "terms": terms().text()}
    kit, home = tmp_path / "kit", tmp_path / "home"
    known().write(kit / "knowledge.toml")
    (kit / "site.toml").write_text(
        'name = "north"\naddress = "127.0.0.1:9092"\nknowledge = "knowledge.toml"\ntrust = 0.25\n'
    )
    taken = ["export", kit, "--out", tmp_path / "n.lore"]
    assert "no personal.weights yet" in str(call(*taken).exception)
    write_state(kit / "personal.weights", about, {"model": weights})
    write_state(home / "shared.weights", about, {"model": weights})
    assert "has 1 error and is not used" in str(call(*taken).exception)
    run(*taken, "--accept-conflicts")
    north = read_bundle(tmp_path / "n.lore")
    assert north.client == "north" and north.personal.knowledge.trust == 0.25
    asked = ["export", home, "--out", tmp_path / "new", "--client", "newcomer"]
    assert "needs --knowledge" in str(call(*asked).exception)
    run(*asked, "--knowledge", kit / "knowledge.toml", "--accept-conflicts")
    fresh = read_bundle(tmp_path / "new")
    assert fresh.client == "newcomer" and fresh.personal.knowledge.trust == 0.5
    same = fresh.members["weights.safetensors"] == north.members["weights.safetensors"]
    assert same and json.loads(fresh.members["bundle.json"])["scaling"]["shift"] == [20.0, 2.5]


def test_a_bundle_is_exported_with_other_policies(tmp_path):
    first, second, third = (tmp_path / f"{name}.lore" for name in "abc")
    write_bundle(bundle_of(personal(), "plant", policies=Policies(signed=False)), first)
    insist = "--accept-conflicts"  # its tables clash somewhere
    run("export", first, "--out", second, "--extra", "error", insist)
    run("export", second, "--out", third, insist)
    assert read_bundle(second).policies == Policies("error")
    assert read_bundle(third).fingerprint == read_bundle(second).fingerprint


def test_export_says_what_it_needs(tmp_path):
    for asked, words in (
        ([], "say where to write"),
        (["--out", "x.lore"], "cannot be exported: it is neither"),
        (["--out", "x.lore", "--extra", "zero"], "must be one of ignore, error"),
    ):
        assert words in str(call("export", tmp_path, *asked).exception)


@pytest.mark.parametrize("fast", [True, False])
def test_a_broken_archive_is_a_fault_of_the_file_read(tmp_path, fast):
    lines = "".join(f"{i % 7},{i % 3}\n" for i in range(20_000))
    whole = gzip.compress(f"ash,s\n{lines}".encode())
    path = tmp_path / "rows.csv.gz"
    for data in (b"hello", whole[: len(whole) // 2], whole[:-8] + bytes(8)):
        path.write_bytes(data)
        with pytest.raises(FedloreError, match="rows.csv.gz' is not a table of text"):
            predict_file(MADE, path, tmp_path / "out.csv", fast=fast)
    assert os.listdir(tmp_path) == ["rows.csv.gz"]


def test_line_breaks_inside_quotes_are_one_cell(tmp_path):
    (tmp_path / "rows.csv").write_text('"a\nnote",ash,s\n"one\ntwo",10,1\nx,20,2\n')
    told = predict_file(MADE, tmp_path / "rows.csv", tmp_path / "o.csv")
    assert told.rows == 2 and len(read(tmp_path / "o.csv")) == 2
