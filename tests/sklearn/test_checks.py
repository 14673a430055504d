"""scikit-learn's own conformance suite: no check is expected to fail."""

import pytest

pytest.importorskip("sklearn")

from sklearn.utils.estimator_checks import parametrize_with_checks

from fedlore.sklearn import KnowledgeClassifier, KnowledgeRegressor


@parametrize_with_checks(
    [KnowledgeClassifier(), KnowledgeRegressor()],
    expected_failed_checks=lambda estimator: {},
)
def test_scikit_learn_finds_nothing(estimator, check):
    check(estimator)
