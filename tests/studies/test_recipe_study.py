"""The recipe and private λ as rows of an experiment, and the study's own words."""

import pytest

from fedlore import Plan
from fedlore.core.history import read_rows
from fedlore.core.nets import mlp
from fedlore.engine.lore import Candidate, Menu
from fedlore.engine.tuning import Tuning
from fedlore.workbench.paper.drawings import StudyDrawing, drawing
from fedlore.workbench.recipe import auto_rows, lore_rows
from studies import recipe_study
from studies.recipe_study import measure, run_recipe_study
from studies.recipe_summary import recipe_means, recipe_summary_text

from ..engine.federation import CLASSES, FEATURES, federation
from ..workbench.test_approaches import with_models

pytestmark = pytest.mark.usefixtures("short_recipe")

SETTINGS = {"plan": Plan(epochs=1, batch=16), "rounds": 2, "seed": 0}
FEW = Menu((Candidate(), Candidate(True, 0.5, True)), folds=2, finishes=(0, 2))


def make_model(hears):
    return mlp(FEATURES, CLASSES, hidden=(4,), hears=hears)


def test_lore_has_a_row_per_client_with_what_was_chosen():
    rows, fitted = lore_rows(federation(), make_model, menu=FEW, **SETTINGS)
    assert [r["client"] for r in rows] == ["site-0", "site-1", "site-2"]
    assert {r["chosen"] for r in rows} < {str(one) for one in FEW.candidates}
    assert all(r["approach"] == "lore" and r["pov"] == 0 and 0 <= r["ta"] <= 1 for r in rows)
    for row in rows:
        told = fitted.brought(str(row["client"])).weights
        assert row["weights"] == "; ".join(f"{name} {w:.3f}" for name, w in told.items())


def test_private_trust_has_a_row_per_client_with_both_lambdas():
    rows = auto_rows(federation(), make_model, tuning=Tuning(folds=2), **SETTINGS)
    assert len(rows) == 3
    assert {r["trained"] for r in rows} <= {0.0, 0.3}
    assert all(r["pov"] == 0 for r in rows)


@pytest.mark.slow
def test_a_study_measures_every_part_on_the_same_clients(monkeypatch):
    short = {"menu": FEW}
    monkeypatch.setattr(recipe_study, "lore_rows", lambda *a, **k: lore_rows(*a, **k, **short))
    it = StudyDrawing(with_models(), make_model, SETTINGS["plan"], 1, 0, True)
    rows = measure(it, parts=["paper", "fixed", "auto", "lore"])
    names = list(dict.fromkeys(r["approach"] for r in rows))
    assert names == [
        *("own best", "ML", "P-KM", "MLwKM", "FL", "FLwKM", "FL+mask", "lore 1"),
        *(f"FLwKM {t:g}" for t in recipe_study.TRUSTS),
        *("FLwKM auto", "lore"),
    ]
    told = {r["approach"]: r["ta"] for r in rows if r["client"] == "site-0"}
    assert told["FLwKM"] == told["FLwKM 0.3"]


@pytest.mark.slow
def test_the_command_skips_finished_seeds_and_sums_up(tmp_path, monkeypatch, capsys):
    drawn = []

    def small(dataset, share, kind, seed, protocol):
        drawn.append(seed)
        return StudyDrawing(with_models(), make_model, SETTINGS["plan"], 1, seed, True)

    monkeypatch.setattr(recipe_study, "drawing", small)
    out = tmp_path / "rows.jsonl"
    for seeds in ("0-0", "0-1"):
        run_recipe_study(
            ["--dataset", "coke", "--seeds", seeds, "--parts", "paper", "--out", str(out)]
        )
    assert drawn == [0, 1]
    assert len(read_rows(out)) == 2 * 8 * 3
    run_recipe_study(["--summary", str(out)])
    said = capsys.readouterr().out
    assert "coke, share 1.0, expert ranges, 2 seeds" in said
    assert "violations with knowledge: none" in said


def test_the_coking_case_is_drawn_as_the_demo_draws_it():
    it = drawing("coke", 1.0, "expert", 3)
    assert [len(c.data) for c in it.clients] == [40, 60, 80, 110]
    assert it.make_model(True).hears
    assert (it.rounds, it.scale) == (40, True)


def test_means_count_clients_equally_and_differences_are_paired():
    rows = [
        {"dataset": "d", "approach": a, "client": c, "seed": s, "ta": ta}
        for a, base in (("FLwKM", 0.5), ("lore", 0.6))
        for s, shift in ((0, 0.0), (1, 0.1))
        for c, ta in (("x", base + shift), ("y", base + shift + 0.2))
    ]
    assert recipe_means(rows)["lore"][0] == pytest.approx(70)
    assert "lore - FLwKM: +10.00 (+10.00 to +10.00)" in recipe_summary_text(rows)
