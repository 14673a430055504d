"""scikit-learn estimators for one site's own data (extra `sklearn`)."""

try:
    from .classifier import KnowledgeClassifier
    from .regressor import KnowledgeRegressor
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "sklearn":
        raise
    raise ModuleNotFoundError(
        "scikit-learn is missing: pip install 'fedlore[sklearn]'", name="sklearn"
    ) from None

__all__ = ["KnowledgeClassifier", "KnowledgeRegressor"]
