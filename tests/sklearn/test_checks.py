"""scikit-learn's own conformance suite: no check is expected to fail."""

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from fedlore.sklearn import KnowledgeClassifier, KnowledgeRegressor, LoreClassifier, LoreRegressor


@parametrize_with_checks(
    [KnowledgeClassifier(estimator="network"), KnowledgeRegressor(estimator="network")],
    expected_failed_checks=lambda estimator: {},
)
def test_scikit_learn_finds_nothing(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [
        KnowledgeClassifier(),
        KnowledgeRegressor(),
        LoreClassifier(rounds=2),
        LoreRegressor(rounds=2),
    ],
    expected_failed_checks=lambda estimator: {},
)
def test_nor_where_many_models_are_tried(estimator, check):
    check(estimator)
