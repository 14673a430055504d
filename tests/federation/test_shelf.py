"""What a site's part in lore keeps in its folder, and which questions it answers itself."""

from types import SimpleNamespace

import pytest
import torch

from fedlore.core.wire import Reply, Task
from fedlore.engine.lore.space import MAIN, Trial
from fedlore.federation.site.folder import Store
from fedlore.federation.site.lore import FolderShelf, LoreSite


@pytest.mark.parametrize("fold", [MAIN, 0, 2])
@pytest.mark.parametrize("rounds", [3, 9])
def test_only_the_whole_training_of_a_fold_leaves_its_network_behind(tmp_path, fold, rounds):
    """Short trainings of a search, and the last one of all rows, are not needed again."""
    kit, terms = SimpleNamespace(state=tmp_path), SimpleNamespace(run="run", rounds=9)
    trial, memory = Trial(1, fold, rounds), {"head": {"w": torch.ones(2)}}
    task = Task("train", 4, trial=str(trial))
    Store(tmp_path, "run", str(trial)).commit(task, 0, memory, Reply("a", 4, rows=3))
    shelf = FolderShelf(kit, terms, "terms")
    assert torch.equal(shelf.memory(trial, 4)["head"]["w"], torch.ones(2))
    assert (shelf.full_training(trial) is not None) == (fold != MAIN and rounds == 9)


def test_a_site_scores_its_own_ensemble_and_leaves_other_models_to_every_engine(tmp_path):
    site = LoreSite.__new__(LoreSite)
    site._kit = SimpleNamespace(path=tmp_path.joinpath)
    site._terms = SimpleNamespace(schema=SimpleNamespace(names=()), run="run")
    site._rows = SimpleNamespace(id="a", member=SimpleNamespace(data=range(7), test=None))
    own = site.answer(Task("evaluate", 3))
    assert (own.client, own.round, own.rows, own.upload, own.metrics) == ("a", 3, 7, {}, {})
    sent = {"model": {"w": torch.ones(1)}}
    assert site.answer(Task("evaluate", 3, sent)) is None
    assert site.answer(Task("train", 3)) is None and site.answer(Task("train", 3, sent)) is None
