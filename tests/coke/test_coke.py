"""The simulator against the published facts, and its knowledge against the truth."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedlore.errors import FedloreError
from fedlore_coke.experts import COKE
from fedlore_coke.plants import Plant, coking_plants

from .measure import SEEDS, column, over_seeds, plants, pooled, regress

LEVELS = (46.5, 54.8, 46.8, 38.2)  # mean CSR of sources 2, 3, 4 and CHN
ASH = (6.6, 12.6, 10.3, 12.1)
SLOPES = (-1.14, -1.54, -1.04, -1.01)
SEVEN = ("Mt", "Ad", "Vdaf", "St_d", "G", "X", "Y")  # what source 4 measured


# Shape


def test_four_plants_with_scarce_and_unequal_rows() -> None:
    mine = plants(0)
    assert [p.id for p in mine] == ["plant-1", "plant-2", "plant-3", "plant-4"]
    assert [len(p.train) for p in mine] == [40, 60, 80, 110]
    for p in mine:
        assert p.train.x.shape[1] == 17 and p.train.x.dtype == torch.float32
        assert len(p.test) == len(p.test_coke.csr) == len(p.test_coke.cri) == 400
        assert p.knowledge.trust == 0.3
        p.train.check(20)
        p.test.check(20)


def test_same_seed_same_bits_and_other_seed_other_rows() -> None:
    for a, b, c in zip(coking_plants(3), coking_plants(3), coking_plants(4), strict=True):
        assert torch.equal(a.train.x, b.train.x) and torch.equal(a.test.x, b.test.x)
        assert torch.equal(a.train_coke.csr, b.train_coke.csr)
        assert torch.equal(a.test_coke.cri, b.test_coke.cri)
        assert a.knowledge == b.knowledge
        assert not torch.equal(a.train.x, c.train.x)


def test_rows_leave_the_test_set_and_the_expert_alone() -> None:
    for a, b in zip(plants(0), coking_plants(0, rows=(7, 9, 11, 13)), strict=True):
        assert torch.equal(a.test.x, b.test.x) and torch.equal(a.test_coke.csr, b.test_coke.csr)
        assert a.knowledge == b.knowledge


def test_train_and_test_are_different_rows() -> None:
    for p in plants(0):
        assert not (p.train.x[:, None] == p.test.x[None]).all(2).any()


def test_every_feature_varies_within_its_scope() -> None:
    for seed in SEEDS:
        for p in plants(seed):
            x = torch.cat([p.train.x, p.test.x])
            for feature, values in zip(COKE.features, x.T, strict=True):
                assert float(values.std()) > 0, feature.name
                assert float(values.min()) >= feature.low, feature.name
                assert float(values.max()) <= feature.high, feature.name


def test_labels_are_the_grades_of_csr() -> None:
    for p in plants(0):
        low = 30 + 2 * p.test.y
        inner = (p.test.y > 0) & (p.test.y < 19)
        inside = (p.test_coke.csr >= low) & (p.test_coke.csr < low + 2)
        assert inside[inner].all()
        assert (p.test_coke.csr[p.test.y == 0] < 32).all()
        assert (p.test_coke.csr[p.test.y == 19] >= 68).all()


def test_many_grades_occur() -> None:
    for seed in SEEDS:
        seen = torch.cat([p.test.y for p in plants(seed)])
        assert len(seen.unique()) >= 16
        assert seen.bincount().max() < 0.2 * len(seen)


# Facts


@pytest.mark.parametrize("plant", range(4))
def test_levels_are_those_of_the_sources(plant: int) -> None:
    def csr(p: Plant) -> float:
        return float(p.test_coke.csr.mean())

    assert abs(over_seeds(plant, csr) - LEVELS[plant]) < 2.0
    assert all(abs(csr(plants(seed)[plant]) - LEVELS[plant]) < 5.0 for seed in SEEDS)
    assert abs(over_seeds(plant, lambda p: column(p.test.x, "Ad").mean()) - ASH[plant]) < 0.5


@pytest.mark.parametrize("plant", range(4))
def test_csr_falls_with_cri_as_in_the_plants_source(plant: int) -> None:
    for seed in SEEDS:
        coke = plants(seed)[plant].test_coke
        (_, slope), _, s = regress(coke.cri.numpy()[:, None], coke.csr.numpy())
        assert abs(slope - SLOPES[plant]) < 0.2
        assert 1.7 < s < 5.0


def test_csr_falls_with_cri_over_all_plants() -> None:
    for seed in SEEDS:
        _, csr, cri = pooled(seed)
        (_, slope), _, s = regress(cri[:, None], csr)
        assert -1.5 <= slope <= -1.0  # published: -1.21, s 4.8
        assert 2.0 <= s <= 5.0


def test_properties_go_together_as_they_should() -> None:
    for seed in SEEDS:
        x, csr, _ = pooled(seed)
        names = ("Vdaf", "Ro", "logMF", "inerts", "MBI", "G", "Y")
        r = np.corrcoef(np.c_[column(x, *names), csr].T)
        vdaf, ro, fluidity, inerts, mbi, g, y, strength = range(8)
        assert r[vdaf, ro] < -0.7
        assert r[vdaf, fluidity] > 0.2
        assert r[ro, fluidity] < -0.2
        assert r[inerts, fluidity] < -0.5
        assert r[g, fluidity] > 0.3 and r[y, fluidity] > 0.2
        assert r[ro, strength] > 0.5
        assert r[vdaf, strength] < -0.5
        assert r[mbi, strength] < 0.0


def test_volatile_matter_alone_over_all_plants() -> None:
    slopes, fits = [], []
    for seed in SEEDS:
        x, csr, _ = pooled(seed)
        (_, slope), fit, _ = regress(column(x, "Vdaf"), csr)
        slopes.append(slope)
        fits.append(fit)
    assert -2.2 < float(np.mean(slopes)) < -1.3  # published: -1.72
    assert 0.4 < float(np.mean(fits)) < 0.75  # 0.48


def test_a_narrow_plant_tells_little() -> None:
    def fit(p: Plant) -> float:
        return regress(column(p.test.x, *SEVEN), p.test_coke.csr.numpy())[1]

    narrow = over_seeds(2, fit)
    assert 0.1 < narrow < 0.45  # source 4: about 0.2
    assert all(over_seeds(plant, fit) > narrow for plant in (0, 1, 3))
    assert 2.3 < over_seeds(2, lambda p: float(p.test_coke.csr.std())) < 4.0  # 3.3
    assert 0.7 < over_seeds(2, lambda p: column(p.test.x, "Vdaf").std()) < 1.6  # 1.1


def test_rank_effect_is_an_arch() -> None:
    for seed in SEEDS:
        x, csr, _ = pooled(seed)
        ro = column(x, "Ro")
        beta, fit, _ = regress(np.c_[ro, ro**2], csr)
        assert beta[2] < 0
        assert fit > 0.5  # 0.68 on sources 1 and 2


# Knowledge


@given(st.integers(0, 100_000))
@settings(max_examples=15)
def test_the_range_holds_by_construction(seed: int) -> None:
    for p in coking_plants(seed, test_rows=200):
        for data in (p.train, p.test):
            audit = p.knowledge.audit(data)
            assert audit.outside == audit.conflicts == audit.abstained == 0


@pytest.mark.parametrize("plant", range(4))
def test_ranges_are_useful_and_experts_fallible(plant: int) -> None:
    for seed in SEEDS:
        p = plants(seed)[plant]
        audit = p.knowledge.audit(p.test)
        assert audit.width is not None and 4.0 <= audit.width <= 8.0
        assert audit.hits is not None and 0.15 < audit.hits < 0.55


def test_an_expert_sees_five_features_only() -> None:
    for p in plants(0):
        x = p.test.x
        known = p.knowledge.annotate(p.test)
        pkm, rkm = p.knowledge.prediction, p.knowledge.range
        assert pkm is not None and rkm is not None
        told = []
        for i in range(17):
            other = x.clone()
            other[:, i] = other[:, i].flip(0)
            same = torch.equal(pkm(other), known.prior) and torch.equal(rkm(other), known.allowed)
            told.append(not same)
        assert sum(told) == 5


def test_experts_do_better_than_the_plants_commonest_grade() -> None:
    for plant in range(4):
        common = over_seeds(plant, lambda p: float(p.test.y.bincount().max()) / len(p.test))
        assert over_seeds(plant, lambda p: p.knowledge.audit(p.test).hits) > common + 0.05


# Sensitivity


def summary(**options: float) -> tuple[float, float]:
    """Mean P-KM accuracy and range width; the range must hold."""
    audits = []
    for seed in (0, 1):
        for p in coking_plants(seed, **options):  # type: ignore[arg-type]
            audits.append(p.knowledge.audit(p.test))
    assert all(a.outside == a.conflicts == 0 for a in audits)
    return float(np.mean([a.hits for a in audits])), float(np.mean([a.width for a in audits]))


def test_each_knob_moves_what_it_names_and_stays_honest() -> None:
    hits, width = summary()
    better, narrower = summary(unseen=1.5)
    assert better > hits + 0.05 and narrower < width - 1.5
    worse, same = summary(blur=4.0)
    assert worse < hits - 0.08 and same == width
    equal, wider = summary(slack=1.5)
    assert equal == hits and wider > width + 2.0


@pytest.mark.parametrize(
    "options, message",
    [
        ({"rows": (40, 60)}, "rows must be 4 positive numbers"),
        ({"rows": (40, 60, 0, 80)}, "got (40, 60, 0, 80)"),
        ({"test_rows": 0}, "and 0"),
        ({"slack": 0.9}, "slack must be at least 1, or the range is not honest, got 0.9"),
        ({"slack": float("nan")}, "got nan"),
        ({"blur": 6.5}, "blur must lie in [0, 6] to stay in the range, got 6.5"),
        ({"unseen": 0.0}, "unseen must be positive and finite, got 0"),
        ({"trust": 1.5}, "trust must lie in [0, 1], got 1.5"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(FedloreError) as error:
        coking_plants(0, **options)  # type: ignore[arg-type]
    assert message in str(error.value)
