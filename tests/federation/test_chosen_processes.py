"""A recipe that is chosen between real processes: each site has the model of one process."""

import json

import pytest

from fedlore import Privacy
from fedlore.federation.coordinator.training import Reports, train_federation
from fedlore.federation.household import local_sites

from .test_chosen import MENU, at_once, check_same, own_models, scores
from .test_masked import HIDDEN
from .test_processes import running, trial

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("masked", [False, True], ids=["bare", "secure aggregation"])
def test_four_processes_give_each_site_the_model_of_one_process(tmp_path, masked):
    """The same bits without masks; with them all but the rounding of fixed points."""
    changes = [("hidden = [64, 64]", "hidden = [6]"), ("epochs = 5", "epochs = 1")]
    changes += [('recipe = "none"', 'recipe = "lore"'), ("\n[model]", MENU)]
    folder = trial(tmp_path / "fed", *changes, *([HIDDEN] if masked else []), sites=4, rounds=3)
    # on the same rows, in this process; where sums alone are seen, trainings have other starts
    fitted = at_once(folder, Privacy(secure_aggregation=True) if masked else None)
    lines = []
    with running(folder):
        run = train_federation(folder, reports=Reports(line=lines.append))
    assert lines[-1] == "every site has its own model"
    assert [row["merged"] for row in run.rows if "merged" in row] == [4, 4, 4]
    assert len(local_sites(folder)) == 4
    check_same(folder, fitted, within=1e-6 if masked else 0.0)
    there = {row["trial"]: row["loss"] for row in run.rows if "trial" in row}
    here = {row["trial"]: row["loss"] for row in fitted.run.rows if "trial" in row}
    assert there == (pytest.approx(here, abs=1e-6) if masked else here)
    for name, model in own_models(folder).items():
        mine, other = model.ensemble, fitted.model(name).ensemble
        close = 1e-4 if masked else 0.0
        assert mine.network == pytest.approx(other.network, abs=close)
        assert mine.weights == pytest.approx(other.weights, abs=close)
        assert json.loads((folder / "sites" / name / "benefit.json").read_text())["rows"] > 0
    if not masked:
        assert scores(run.rows) == scores(fitted.run.rows)
