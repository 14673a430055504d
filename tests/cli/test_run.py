"""fedlore new, run and tune, as a newcomer types them."""

from fedlore.cli.tune import _with_trust
from fedlore.core.history import read_rows
from fedlore.engine.tuning import Trust
from fedlore.knowledge import Knowledge

from .spoken import refused, typed

QUICK = """
rounds = 2
[run]
approaches = ["FL", "FLwKM"]
[model]
hidden = [4]
[plan]
epochs = 1
"""


def test_new_then_run_then_tune(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    assert "Next: fedlore run d/federation.toml" in typed("new", "d")
    (tmp_path / "d" / "federation.toml").write_text(QUICK)
    said = typed("run", "d/federation.toml", "--out", "o")
    for word in ("plant-1", "FLwKM", "4 sites, 17 features, 20 ordered classes", "report.html"):
        assert word in said
    assert len(read_rows(tmp_path / "o" / "results.jsonl")) == 8
    assert (tmp_path / "o" / "report.html").exists()
    said = typed("tune", "d/federation.toml", "--folds", "2")
    assert "Nothing was written" in said
    assert Knowledge.read(tmp_path / "d/sites/plant-1/knowledge.toml").trust == 0.3
    typed("tune", "d/federation.toml", "--write")
    known = Knowledge.read(tmp_path / "d/sites/plant-1/knowledge.toml")
    assert known.reliance is not None and known.trust in (0.0, 0.3)


def test_a_folder_without_sites_is_named(tmp_path):
    assert "a site is a folder with a train.csv and a knowledge.toml" in refused("tune", tmp_path)


def test_only_the_two_lambdas_of_a_file_change():
    text = 'trust = 0.3\nlabel = "y"\n\n[card]\nnote = "trust"\ntrust = 1\n'
    told = _with_trust(text, Trust(0.0, 0.25, 0.8, 10))
    assert (
        told == 'trust = 0.0\nreliance = 0.25\nlabel = "y"\n\n[card]\nnote = "trust"\ntrust = 1\n'
    )
    assert _with_trust(told, Trust(0.0, 0.25, 0.8, 10)) == told


def test_what_a_person_wrote_behind_the_lambdas_stays():
    """And so do lines of their own, wherever they stand."""
    text = "# ours\ntrust = 0.3  # Eva, in May\n# the file\nreliance = 0.2 # too low?\n[card]\n"
    assert _with_trust(text, Trust(0.0, 0.25, 0.8, 10)) == (
        "trust = 0.0  # Eva, in May\nreliance = 0.25  # too low?\n# ours\n# the file\n[card]\n"
    )


def test_a_federation_that_is_not_there_leaves_no_folder_behind(tmp_path):
    said = refused("run", tmp_path / "no.toml", "--out", tmp_path / "o")
    assert "there is no" in said and not list(tmp_path.iterdir())
