"""What version 0.1.0 wrote is read with the same answers, or refused with what to do.

The files and how they were made: tests/files/v0_1_0.
"""

import csv
import hashlib
import json
import re
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import fedlore
from fedlore import checker
from fedlore.cli.app import app
from fedlore.federation.journal import Journal, read_state
from fedlore.federation.site.audit import AuditLog, check_audit
from fedlore.privacy.dp.budget import BudgetSpent, Ledger, LedgerEntry

OLD = Path(__file__).parent / "files" / "v0_1_0"
BUNDLES = OLD / "bundles"
CLASSES = {"hearing": "hearing.lore", "plain": "plain", "deployed": "deployed.lore"}
ALL = CLASSES | {"number": "number"}
ROUNDING = 1e-6  # of numbers that were written as text, or computed on another machine


def cli(*arguments):
    """A command that works; what it printed."""
    # an expert of these files says what his range forbids, which 0.1.0 let pass
    insist = ["--accept-conflicts"] if arguments[0] in ("run", "export", "certify") else []
    asked = [*map(str, arguments), *insist]
    done = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def refused(*arguments):
    """A command that is refused; the sentence."""
    with pytest.raises(fedlore.FedloreError) as found:
        cli(*arguments)
    return str(found.value)


def table(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def assert_same_answers(path, name):
    """A file of answers against the one of 0.1.0: words alike, numbers up to rounding."""
    found, told = table(path), table(BUNDLES / f"{name}.answers.csv")
    assert len(found) == len(told) == 24
    for new, old in zip(found, told, strict=True):
        assert [name for name in new if name in old] == list(old)  # later ones have more
        for column, value in old.items():
            if column.startswith("p_") or column in ("strength", "low", "high", "trust"):
                assert float(new[column]) == pytest.approx(float(value), rel=ROUNDING, abs=ROUNDING)
                assert (float(new[column]) == 0) == (float(value) == 0)
            else:  # rules are told by the files that their experts wrote
                assert new[column] == re.sub(r"table-\d+-", "", value)


def bits(name):
    """What the library answered, and how far off another machine may be."""
    found = json.loads((BUNDLES / f"{name}.bits.json").read_text())
    here = (torch.__version__, torch.backends.cpu.get_cpu_capability())
    return found, 0.0 if here == (found["torch"], found["cpu"]) else ROUNDING


@pytest.fixture
def home(tmp_path):
    """The coordinator's folder, with keys that nobody else may read."""
    home = shutil.copytree(OLD / "deployed", tmp_path / "deployed")
    for path in (*home.rglob("*.key"), *home.rglob("*.secret")):
        path.chmod(0o600)
    return home


@pytest.mark.parametrize("name", ALL)
def test_bundles_answer_as_before(tmp_path, name):
    cli("predict", BUNDLES / ALL[name], BUNDLES / "rows.csv", "--why", "--out", tmp_path / "a.csv")
    assert_same_answers(tmp_path / "a.csv", name)


@pytest.mark.parametrize("name", ALL)
def test_bundles_answer_as_before_in_python(name):
    told, off = bits(name)
    x = torch.tensor(told["x"])
    model = fedlore.load(BUNDLES / ALL[name])
    if name in CLASSES:
        before = torch.tensor(told["probabilities"])
        found = model.predict_proba(x)
        assert (found - before).abs().max() <= off
        assert ((found == 0) == (before == 0)).all()
    found, before = model.predict(x), torch.tensor(told["predicted"], dtype=torch.float64)
    assert ((found - before).abs() <= off * before.abs()).all()


@pytest.mark.parametrize("name", ALL)
def test_bundles_can_be_written_again(tmp_path, name):
    """From a zip to a folder and the other way round: the form is all that changes."""
    copy = tmp_path / ("copy" if ALL[name].endswith(".lore") else "copy.lore")
    cli("export", BUNDLES / ALL[name], "--out", copy)
    cli("predict", copy, BUNDLES / "rows.csv", "--why", "--out", tmp_path / "a.csv")
    assert_same_answers(tmp_path / "a.csv", name)


@pytest.mark.parametrize("what", ["hearing.lore", "hearing.onnx"])
def test_the_certificate_still_holds(what):
    pytest.importorskip("onnx")
    lines = checker.check(BUNDLES / "hearing.certificate.json", BUNDLES / what)
    assert lines and all(line.holds for line in lines), [str(line) for line in lines]


def test_the_bundle_is_certified_as_before(tmp_path):
    pytest.importorskip("onnx")
    cli("certify", BUNDLES / "hearing.lore", "--out", tmp_path / "new.json")
    new, old = (
        json.loads(path.read_text())
        for path in (tmp_path / "new.json", BUNDLES / "hearing.certificate.json")
    )
    for key in ("verdict", "bundle", "files", "weights", "scope", "classes"):
        assert new[key] == old[key]
    for key in ("claim", "status", "needed"):  # how it is known has become more, and says so
        assert [claim[key] for claim in new["claims"]] == [claim[key] for claim in old["claims"]]
    assert (old["issuer"], new["issuer"]) == ("fedlore 0.1.0", f"fedlore {fedlore.__version__}")


def test_the_graph_answers_as_the_bundle():
    runtime = pytest.importorskip("onnxruntime")
    told, _ = bits("hearing")
    session = runtime.InferenceSession(BUNDLES / "hearing.onnx", providers=["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    (found,) = session.run(["probabilities"], {entry.name: np.array(told["x"], dtype="f8")})
    assert np.allclose(found, told["probabilities"], rtol=0, atol=ROUNDING)


@pytest.mark.parametrize(
    ("client", "approach", "name"), [("mine-1", "lore", "hearing"), ("mine-2", "FLwKM", "plain")]
)
def test_a_folder_of_results_is_exported_from(tmp_path, client, approach, name):
    where = ("--client", client, "--approach", approach)
    cli("export", OLD / "run" / "results", *where, "--out", tmp_path / "a.lore")
    cli("predict", tmp_path / "a.lore", BUNDLES / "rows.csv", "--why", "--out", tmp_path / "a.csv")
    assert_same_answers(tmp_path / "a.csv", name)


@pytest.mark.parametrize("approach", ["FLwKM", "lore"])
def test_plain_weights_are_those_of_the_bundle_beside_them(approach):
    for path in sorted((OLD / "run" / "results" / "weights" / approach).glob("*.npz")):
        model = fedlore.load(path.with_suffix(".lore"))
        inside = {f"weights.{n}": t.numpy() for n, t in model.model.state_dict().items()}
        inside |= {f"scaler.{n}": t.numpy() for n, t in model.scaler.tensors().items()}
        with np.load(path, allow_pickle=False) as arrays:
            assert set(arrays.files) == set(inside)
            assert all(np.array_equal(arrays[n], inside[n]) for n in arrays.files)


def test_a_run_goes_on_in_its_old_folder(tmp_path):
    """Kept or computed again: every cell stands once.

    What nobody learned has the scores it had; networks take levels one by one since.
    """
    home = shutil.copytree(OLD / "run", tmp_path / "run")
    before = scores(home)
    cli("run", home / "federation.toml", "--out", home / "results")
    after = scores(home)
    assert after.keys() == before.keys() and len(before) == 9
    for (approach, site), values in before.items():
        near = ROUNDING if approach == "P-KM" else 0.3
        assert after[approach, site] == pytest.approx(values, rel=0, abs=near)


def scores(home):
    lines = (home / "results" / "results.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len({(row["approach"], row["client"]) for row in rows}) == len(rows)
    return {(row["approach"], row["client"]): (row["ta"], row["pov"]) for row in rows}


def test_the_federation_file_of_fedlore_new_is_run(tmp_path):
    home = shutil.copytree(OLD / "run" / "sites", tmp_path / "sites").parent
    text = (OLD / "new" / "federation.toml").read_text()
    quick = '["ML", "P-KM", "MLwKM", "FL", "FLwKM", "FL+mask", "lore"]'
    assert quick in text
    (home / "federation.toml").write_text(text.replace(quick, '["P-KM"]'))
    assert "simulated coke" in cli("run", home / "federation.toml", "--out", home / "results")
    before = scores(OLD / "run")
    found = scores(home)
    assert found == {key: before[key] for key in found} and len(found) == 3


@pytest.mark.parametrize("written", ["deployed", "init"])
def test_a_federation_goes_on_with_its_old_file(home, written):
    """Sites are added and renewed; their kits carry today's version and the old authority."""
    shutil.copy(OLD / written / "federation.toml", home)
    cli("federation", "add-site", "mine-4", "--dir", home)
    cli("federation", "renew", "mine-1", "--dir", home)
    cli("federation", "renew", "--dir", home)
    assert (home / "server.pem").read_bytes() != (OLD / "deployed" / "server.pem").read_bytes()
    for name in ("mine-1", "mine-4"):
        terms = json.loads(member(home, name, "terms.json"))
        assert terms["version"] == fedlore.__version__
        assert terms["federation"] == "mines" and terms["schema"]["classes"] == ["C", "B", "A"]
        assert member(home, name, "ca.crt") == (OLD / "deployed" / "ca.crt").read_bytes()


def member(home, site, name):
    with zipfile.ZipFile(home / "kits" / f"{site}.zip") as kit:
        return kit.read(f"{site}/{name}")


@pytest.mark.parametrize("where", ["kits/mine-1.zip", "sites/mine-1"])
def test_an_old_kit_is_told_what_to_do(home, where):
    done = CliRunner().invoke(app, ["doctor", str(home / where)])
    lines = dict(line[6:].split(": ", 1) for line in done.output.splitlines())
    assert done.exit_code == 1
    assert lines["private key"] == "readable by its owner only"
    assert lines["versions"] == (
        f"this site runs fedlore {fedlore.__version__}, the coordinator 0.1.0: install the same "
        "version on both sides; if the coordinator has a newer one since, let it make a new kit "
        "(fedlore federation renew mine-1)"
    )
    if where == "sites/mine-1":
        assert lines["data"].startswith("40 rows to learn from, 20 to score on")
        assert lines["knowledge"].endswith("(2 errors: fedlore lint)")  # read, and found wanting


def test_a_training_of_another_version_is_not_resumed(home):
    assert refused("train", home, "--resume") == (
        f"round 4 was trained with fedlore 0.1.0, this is {fedlore.__version__}: finish the run "
        "with fedlore 0.1.0 on all sides, or start anew with fedlore train, without --resume"
    )
    assert len(list((home / "journal").iterdir())) == 4


def test_the_journal_is_read(home):
    entry, wrong = Journal(home / "journal").last()
    assert wrong == []
    assert entry.run.round == 4
    assert entry.run.accepted == {"mine-1": 4, "mine-2": 4, "mine-3": 4}


def test_state_files_hold_what_was_written():
    """Journal, shared and personal weights, a site's memory and its last reply."""
    told = json.loads((OLD / "deployed" / "digests.json").read_text())["states"]
    assert len(told) == 11
    for name, digest in told.items():
        found = hashlib.sha256()
        for key, tensors in sorted(read_state(OLD / "deployed" / name)[1].items()):
            for part, values in sorted(tensors.items()):
                found.update(f"{key} {part} {tuple(values.shape)} {values.dtype}".encode())
                found.update(values.contiguous().numpy().tobytes())
        assert found.hexdigest() == digest, name


def test_the_status_of_an_old_training_is_shown(home):
    found = json.loads(cli("status", home, "--json"))
    assert (found["state"], found["round"], found["rounds"]) == ("finished", 4, 4)
    assert sorted(found["sites"]) == ["mine-1", "mine-2", "mine-3"]


def test_a_site_exports_the_weights_it_trained_before(home, tmp_path):
    cli("export", home / "sites" / "mine-1", "--out", tmp_path / "a.lore")
    cli("predict", tmp_path / "a.lore", BUNDLES / "rows.csv", "--why", "--out", tmp_path / "a.csv")
    assert_same_answers(tmp_path / "a.csv", "deployed")


def test_a_newcomer_gets_the_shared_weights_of_before(home, tmp_path):
    knowledge = OLD / "run" / "sites" / "mine-2" / "knowledge.toml"
    cli("export", home, "--knowledge", knowledge, "--out", tmp_path / "a.lore")
    weights = read_state(home / "shared.weights")[1]["model"]
    model = fedlore.load(tmp_path / "a.lore").model
    assert all(torch.equal(p, weights[n]) for n, p in model.named_parameters())


def test_what_was_spent_stays_spent(home):
    pytest.importorskip("dp_accounting")
    told = json.loads((home / "digests.json").read_text())["spent"]
    ledger = Ledger(home / "sites" / "mine-1" / "ledger.json")
    assert ledger.spent("site", 1e-5) == pytest.approx(told, rel=1e-9)
    last = ledger.entries()[-1]
    again = LedgerEntry("another run", 1, last.level, last.noise, last.steps, last.sample)
    with pytest.raises(BudgetSpent, match="ε = 8 of 8 at δ = 1e-05 after 4 answers"):
        ledger.spend(again, epsilon=8.0, delta=1e-5)


def test_the_audit_log_goes_on(home):
    path = home / "sites" / "mine-1" / "audit.jsonl"
    before = check_audit(path)
    AuditLog(path).write(event="refused", reason="a test")
    added = json.loads(path.read_text().splitlines()[-1])
    assert added["previous"] == before
    check_audit(path)
