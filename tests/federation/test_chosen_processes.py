"""A recipe that is chosen between real processes, with TLS and secure aggregation."""

import pytest

from fedlore.coke.trial import trial_sites
from fedlore.federation.coordinator.training import Reports, train_federation

from .test_chosen import MENU, check_same, inprocess  # noqa: F401
from .test_masked import HIDDEN
from .test_processes import running, trial

pytestmark = pytest.mark.slow


def test_four_processes_give_each_site_the_model_of_one_process(tmp_path, inprocess):  # noqa: F811
    changes = [("hidden = [64, 64]", "hidden = [6]"), ("epochs = 5", "epochs = 1"), HIDDEN]
    changes += [('recipe = "none"', 'recipe = "lore"'), ("\n[model]", MENU)]
    folder = trial(tmp_path / "fed", *changes, sites=4, rounds=3)
    lines = []
    with running(folder):
        run = train_federation(folder, reports=Reports(line=lines.append))
    assert lines[-1] == "every site has its own model"
    assert [row["merged"] for row in run.rows if "merged" in row] == [4, 4, 4]
    check_same(folder, inprocess, within=1e-3)
    assert len(trial_sites(folder)) == 4
