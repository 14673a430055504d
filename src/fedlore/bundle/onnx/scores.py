"""Scores of a learned expert as rows of a P-KM, in nodes."""

from .builder import INT64, SINGLE, Builder
from .formulas import finite_nodes
from .tables import Said


def prior_nodes(build: Builder, scores: str, *, soft: bool, gives: str) -> Said:
    """Scores (n, k) as float32 rows; what are no numbers, or no probabilities, is refused."""
    scores = build.cast(scores, SINGLE)
    top = build.op("ReduceMax", scores, axes=[1], keepdims=1)
    endless = build.op("Not", finite_nodes(build, top))
    broken = build.op("Or", build.any(build.op("IsNaN", scores)), endless)
    if not soft:
        best = build.op("ArgMax", scores, axis=1, keepdims=0)
        return Said(_one_hot(build, best, scores), broken)
    if gives == "logits":
        return Said(build.op("Softmax", scores, axis=1), broken)
    off = build.op("Abs", build.op("Sub", build.total(scores), build.constant(1.0)))
    wrong = build.op("Greater", off, build.constant(1e-4))
    negative = build.any(build.op("Less", scores, build.constant(0.0)))
    return Said(scores, build.either(broken, wrong, negative))


def label_scores(build: Builder, labels: str, classes: int) -> Said:
    """Labels 0 to classes - 1, of any shape with one number per row, as one-hot rows."""
    column = build.op("Reshape", labels, build.constant([-1, 1], INT64))
    low = build.op("Less", column, build.constant(0, INT64))
    high = build.op("GreaterOrEqual", column, build.constant(classes, INT64))
    places = build.constant([list(range(classes))], INT64)
    rows = build.cast(build.op("Equal", column, places), SINGLE)
    return Said(rows, build.op("Or", low, high))


def _one_hot(build: Builder, best: str, like: str) -> str:
    """Rows with a 1 at the index, (n,) -> (n, k)."""
    depth = build.op("Shape", like, start=1, end=2)
    return build.op("OneHot", best, depth, build.constant([0.0, 1.0]), axis=1)
