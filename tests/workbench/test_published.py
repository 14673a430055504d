"""The paper's printed means, recomputed from its printed columns."""

import pytest

from fedlore.report.published import BY_SHARE, POV, TA, mean_ta


@pytest.mark.parametrize(
    ("dataset", "means"),
    [("covtype", (77.0, 75.8, 82.4, 80.4, 85.8)), ("fmnist", (75.0, 68.4, 79.0, 80.0, 84.8))],
)
def test_means_of_the_five_approaches(dataset, means):
    found = [mean_ta(dataset, name) for name in ("ML", "P-KM", "MLwKM", "FL", "FLwKM")]
    assert found == pytest.approx(list(means))


@pytest.mark.parametrize(
    ("dataset", "means"),
    [("covtype", (85.8, 89.8, 91.2, 92.6)), ("fmnist", (84.8, 89.4, 90.4, 93.2))],
)
def test_means_by_share(dataset, means):
    found = [mean_ta(dataset, "FLwKM", share) for share in (0.01, 0.05, 0.1, 0.3)]
    assert found == pytest.approx(list(means))
    assert BY_SHARE[dataset][0.01] == TA[dataset]["FLwKM"]


def test_only_approaches_without_knowledge_leave_the_range():
    assert all(set(by_approach) <= {"ML", "FL"} for by_approach in POV.values())


def test_where_the_paper_is_silent_there_is_no_number():
    assert mean_ta("covtype", "FL", 0.3) is None
    assert mean_ta("covtype", "FLwKM", 0.02) is None
    assert mean_ta("mnist", "FL") is None
