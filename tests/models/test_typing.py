"""What a type checker says of `fit`: mypy reads this file too, where a wrong call must be wrong."""

from typing import assert_type

import pytest
import torch

from fedlore import (
    HEARD,
    Bins,
    Client,
    ConfigError,
    Examples,
    Fitted,
    Measured,
    NumberClient,
    Personal,
    PersonalRegressor,
    Plan,
    Regression,
    fit,
    mlp,
)

X = torch.linspace(0, 1, 24).reshape(12, 2)
GRADED = [Client("a", Examples(X, torch.arange(12) % 3))]
MEASURED = [NumberClient("a", Measured(X, X.sum(1).double()))]
CUT = Bins(0.0, 2.0, 4)
PLAN = Plan(epochs=1)


def test_clients_of_classes_get_a_classifier() -> None:
    fitted = fit(GRADED, mlp(2, 3, hidden=()), plan=PLAN, rounds=1, trust="own")
    assert_type(fitted, Fitted[Personal])
    assert_type(fitted.model("a"), Personal)
    assert fitted.model("a").predict_proba(X).shape == (12, 3)


def test_clients_of_numbers_get_a_regressor_that_hears() -> None:
    model = mlp(2 + HEARD, 4, hidden=())
    fitted = fit(MEASURED, model, task="regression", bins=CUT, hears=True, plan=PLAN, rounds=1)
    assert_type(fitted, Fitted[PersonalRegressor])
    assert fitted.model("a").hears and fitted.model("a").quantiles(X, [0.5]).shape == (12, 1)
    given = fit(MEASURED, model, task=Regression(CUT, hears=True), plan=PLAN, rounds=1)
    assert_type(given.model("a"), PersonalRegressor)


def test_a_wrong_call_is_wrong_for_a_checker_too() -> None:
    """Each ignore is needed: mypy reports one that is not."""
    model = mlp(2, 3, hidden=())
    with pytest.raises(TypeError, match="round"):
        fit(GRADED, model, round=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="task must be"):
        fit(GRADED, model, task="ranking")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs clients of type NumberClient"):
        fit(GRADED, model, task=Regression(CUT))  # type: ignore[misc]
