"""Conformal sets: the definition, the promise, and what makes them fit to be ranges."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.core.examples import Examples
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.knowledge import Knowledge, Mask
from fedlore.knowledge.conformal import ConformalRange, quantile, strangeness
from fedlore.knowledge.protocols import kind_of


def identity(x):
    """A scorer whose probabilities are the rows themselves."""
    return x


def drawn(n, k, seed, inverse_temperature=2.0):
    """Rows of probabilities and labels drawn from them after a distortion: a scorer that errs."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, k, generator=generator) * inverse_temperature
    y = torch.multinomial((0.5 * logits).softmax(1), 1, generator=generator).squeeze(1)
    return Examples(logits.softmax(1), y)


def by_definition(calibration, p, *, alpha, per_class, score):
    """Split-conformal sets written out: allowed if strange enough calibration labels are common."""
    assert calibration.y is not None

    def strange(row, label):
        if score == "lac":
            return 1 - row[label]
        order = sorted(range(len(row)), key=lambda c: (-row[c], c))
        return sum(row[c] for c in order[: order.index(label) + 1])

    rows = [[float(v) for v in row] for row in calibration.x.double()]
    labels = calibration.y.tolist()
    allowed = []
    for row in p.double().tolist():
        likeliest = row.index(max(row))
        line = []
        for label in range(len(row)):
            pool = [
                strange(r, y)
                for r, y in zip(rows, labels, strict=True)
                if not per_class or y == label
            ]
            at_least = sum(s >= strange(row, label) - 1e-12 for s in pool) + 1
            line.append(
                label == likeliest or Fraction(at_least, len(pool) + 1) > Fraction(str(alpha))
            )
        allowed.append(line)
    return allowed


@pytest.mark.parametrize("score", ["lac", "aps"])
@pytest.mark.parametrize("per_class", [False, True])
@given(
    n=st.integers(1, 40),
    seed=st.integers(0, 10_000),
    alpha=st.sampled_from([0.01, 0.05, 0.1, 0.25, 0.5, 0.9]),
)
def test_sets_are_those_of_the_definition(score, per_class, n, seed, alpha):
    """A class is left out if its p-value, counted over the calibration rows, is at most α."""
    calibration = drawn(n, 3, seed)
    fresh = torch.cat([drawn(8, 3, seed + 1).x, calibration.x])  # some at the very end
    found = ConformalRange.calibrate(
        identity, calibration, alpha=alpha, per_class=per_class, score=score
    )
    wanted = by_definition(calibration, fresh, alpha=alpha, per_class=per_class, score=score)
    assert found(fresh).tolist() == wanted


@pytest.mark.parametrize("score", ["lac", "aps"])
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_the_label_is_in_the_set_as_often_as_promised(score, alpha):
    rows, seeds, n = 200, 150, 99
    hits = 0
    for seed in range(seeds):
        data = drawn(n + rows, 4, seed)
        rkm = ConformalRange.calibrate(identity, data[:n], alpha=alpha, score=score)
        test = data[n:]
        assert test.y is not None
        hits += int(rkm(test.x).gather(1, test.y.unsqueeze(1)).sum())
    # each seed's coverage is Beta(n + 1 - m, m) with m = ⌊α(n + 1)⌋, then binomial over its rows
    variance = alpha * (1 - alpha) * (1 / (n + 2) + 1 / rows) / seeds
    assert hits / (seeds * rows) >= 1 - alpha - 4 * math.sqrt(variance)
    if score == "lac":  # continuous scores and few empty sets: hardly more than promised
        assert hits / (seeds * rows) <= 1 - alpha + 1 / (n + 1) + 4 * math.sqrt(variance) + 0.02


def test_per_class_calibration_keeps_the_promise_to_rare_classes():
    alpha, miss, count = 0.1, {True: 0, False: 0}, 0
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        y = (torch.rand(1200, generator=generator) < 0.1).long()  # class 1 is rare
        p = torch.sigmoid(torch.randn(1200, generator=generator) * 1.5 + 2.0 * y - 2.5)
        data = Examples(torch.stack([1 - p, p], 1), y)
        rare = data[600:][y[600:] == 1]
        count += len(rare)
        for per_class in miss:
            rkm = ConformalRange.calibrate(identity, data[:600], alpha=alpha, per_class=per_class)
            miss[per_class] += int((~rkm(rare.x)[:, 1]).sum())
    assert miss[True] / count <= alpha + 4 * math.sqrt(alpha * (1 - alpha) * 2 / count)
    assert miss[False] / count > 2 * alpha


def test_the_quantile_is_the_finite_sample_one():
    scores = torch.arange(1.0, 20.0)  # 1 to 19
    assert quantile(scores, 0.05) == 19  # ⌈20 · 0.95⌉
    assert quantile(torch.arange(1.0, 150.0), 0.18) == 123  # although 150 · 0.82 rounds up
    assert quantile(scores, 0.1) == 18
    assert quantile(scores[:18], 0.05) == math.inf
    assert quantile(scores[:0], 0.5) == math.inf
    assert quantile(scores, 0.99) == 1


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_where_the_scorer_abstains_everything_is_allowed(score):
    data = drawn(200, 3, 0)
    silent = Examples(torch.zeros(100, 3), torch.zeros(100).long())
    mixed = Examples(torch.cat([data.x, silent.x]), torch.cat([data.y, silent.y]))
    rkm = ConformalRange.calibrate(identity, mixed, alpha=0.3, score=score)
    assert rkm.rows == 200
    alone = ConformalRange.calibrate(identity, data, alpha=0.3, score=score)
    assert rkm.thresholds == alone.thresholds
    assert rkm(silent.x).all()
    assert not rkm(data.x).all()


def test_scores_by_hand():
    p = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.2, 0.4]], dtype=torch.float64)
    assert strangeness(p, "lac").tolist() == [[0.8, 0.5, 0.7], [0.6, 0.8, 0.6]]
    expected = torch.tensor([[1.0, 0.5, 0.8], [0.4, 1.0, 0.8]]).double()
    assert torch.allclose(strangeness(p, "aps"), expected)


def test_conformal_ranges_are_statistical_and_plain():
    rkm = ConformalRange.calibrate(identity, drawn(99, 3, 0), alpha=0.1)
    assert kind_of(rkm) == "statistical"
    assert kind_of(Mask((0, 1, 2), rkm)) == "statistical"
    assert rkm == ConformalRange(identity, rkm.thresholds, 0.1, "lac", 99)


def test_a_conformal_range_is_an_rkm():
    data = drawn(300, 3, 5)
    rkm = ConformalRange.calibrate(identity, data[:150], alpha=0.1)
    audit = Knowledge(range=rkm).audit(data[150:])
    assert 0 < audit.outside < 40
    assert audit.width is not None and 1 <= audit.width < 3


def test_the_door():
    data = drawn(30, 3, 0)
    for alpha in (0.0, 1.0, -1.0):
        with pytest.raises(KnowledgeError, match="alpha must lie"):
            ConformalRange.calibrate(identity, data, alpha=alpha)
    with pytest.raises(KnowledgeError, match="lac or aps"):
        ConformalRange.calibrate(identity, data, score="raps")  # type: ignore[arg-type]
    with pytest.raises(KnowledgeError, match="needs labels"):
        ConformalRange.calibrate(identity, Examples(data.x))
    assert data.y is not None
    with pytest.raises(FedloreError, match="labels must lie in 0 to 2"):
        ConformalRange.calibrate(identity, Examples(data.x, data.y + 5))
    rkm = ConformalRange.calibrate(identity, data)
    with pytest.raises(KnowledgeError, match="must know 3 classes"):
        rkm(torch.zeros(2, 4))


def test_sets_are_those_of_mapie():
    mapie = pytest.importorskip("mapie.classification", reason="MAPIE is not installed")
    linear = pytest.importorskip("sklearn.linear_model")
    from fedlore.knowledge.estimators import from_sklearn

    generator = torch.Generator().manual_seed(3)
    y = torch.randint(0, 4, (900,), generator=generator)
    x = torch.randn(900, 4, generator=generator) + 1.2 * torch.eye(4)[y]
    fitted = linear.LogisticRegression(max_iter=500).fit(x[:300].double().numpy(), y[:300].numpy())
    pkm = from_sklearn(fitted, classes=4, soft=True)
    for alpha in (0.05, 0.2):
        theirs = mapie.SplitConformalClassifier(
            fitted, confidence_level=1 - alpha, conformity_score="lac", prefit=True
        ).conformalize(x[300:600].double().numpy(), y[300:600].numpy())
        _, sets = theirs.predict_set(x[600:].double().numpy())
        sets = torch.as_tensor(sets[:, :, 0])
        calibration = Examples(x[300:600].double(), y[300:600])
        ours = ConformalRange.calibrate(pkm, calibration, alpha=alpha)(x[600:].double())
        filled = sets.any(1)  # theirs may be empty, ours never
        assert filled.float().mean() > 0.9
        assert torch.equal(ours[filled], sets[filled])
        assert (ours[~filled].sum(1) == 1).all()
