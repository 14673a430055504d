"""Knowledge about numbers at the door: lifted to classes, sets kept, policies with row numbers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import FedloreError, Knowledge, KnowledgeError
from fedlore.answers import Bins, Line, Measured, Sets
from fedlore.answers.measured import normal
from fedlore.kernel.schema import name_columns
from fedlore.knowledge.combine import AllOf
from fedlore.knowledge.conformal import ConformalInterval
from fedlore.knowledge.estimators import Lookup
from fedlore.knowledge.formulas import Formula
from fedlore.knowledge.intervals import Band, Between
from fedlore.knowledge.protocols import kind_of

CUT = Bins(0.0, 10.0, 5)


def first(x):
    return x[:, 0]


def rows(*values: float) -> torch.Tensor:
    return torch.tensor(values).unsqueeze(1)


def test_a_point_becomes_its_class_and_a_set_the_bins_it_touches():
    known = Knowledge(first, Band(first, 1.0, 0.5), trust=0.3)
    told = known.annotate(Measured(rows(2.5, 9.9), torch.tensor([2.0, 9.5])), Line(CUT))
    examples = told.examples()
    assert examples.y.tolist() == [1, 4]
    assert examples.prior.tolist() == [[0, 1, 0, 0, 0], [0, 0, 0, 0, 1]]
    assert examples.allowed.tolist() == [
        [True, True, False, False, False],
        [False, False, False, False, True],
    ]
    assert told.sets.upper[1].item() == 10.0  # kept within the bounds


def test_formulas_are_point_and_range():
    schema = name_columns(["ash", "water"], ["low", "high"])
    point = Formula.parse("10 - ash / 2", schema)
    lower = Formula.parse("where(ash > 10, 0, 2)", schema)
    known = Knowledge(point, Between(lower, 8.0))
    told = known.annotate(Measured(torch.tensor([[12.0, 1.0], [6.0, 1.0]])), Line(CUT))
    assert told.said.tolist() == [4.0, 7.0]
    assert told.sets.lower.flatten().tolist() == [0.0, 2.0]
    assert told.sets.upper.flatten().tolist() == [8.0, 8.0]


def test_an_undefined_point_is_silent_and_an_undefined_side_does_not_limit():
    def undefined(x):
        return torch.where(x[:, 0] > 0, x[:, 0], torch.nan)

    known = Knowledge(undefined, Between(undefined, 9.0))
    told = known.annotate(Measured(rows(-1.0, 3.0)), Line(CUT))
    assert told.prior[0].sum() == 0
    assert told.sets.lower.flatten().tolist() == [0.0, 3.0]
    assert Band(undefined, 1.0, 1.0)(rows(-1.0)).lower.item() == -math.inf


@pytest.mark.parametrize(
    ("policy", "expected"), [("abstain", [math.nan, 4.0]), ("project", [6.0, 4.0])]
)
def test_a_point_outside_its_set_is_silenced_or_moved(policy, expected):
    known = Knowledge(first, Between(None, 6.0), conflict=policy)
    told = known.annotate(Measured(rows(7.0, 4.0)), Line(CUT))
    torch.testing.assert_close(
        told.said, torch.tensor(expected, dtype=torch.float64), equal_nan=True
    )
    assert told.conflicts == 1


def test_a_point_beyond_the_bounds_is_a_conflict_too():
    assert Knowledge(first).annotate(Measured(rows(12.0)), Line(CUT)).said.isnan().all()
    moved = Knowledge(first, conflict="project").annotate(Measured(rows(12.0)), Line(CUT))
    assert moved.said.item() == 10.0


def test_an_infinite_point_is_silent_and_not_moved_to_a_bound():
    moved = Knowledge(first, conflict="project").annotate(
        Measured(rows(math.inf, -math.inf)), Line(CUT)
    )
    assert moved.said.isnan().all() and moved.conflicts == 0


def test_a_point_outside_can_be_refused_with_its_row():
    known = Knowledge(first, Between(None, 6.0), conflict="error")
    with pytest.raises(KnowledgeError, match="leaves the range in 1 rows, first row 1"):
        known.annotate(Measured(rows(4.0, 7.0)), Line(CUT))


def test_a_label_outside_its_set_is_refused_with_its_row_even_inside_a_touched_bin():
    known = Knowledge(range=Between(2.5, 6.0))
    data = Measured(rows(0.0, 0.0), torch.tensor([3.0, 2.25]))  # 2.25 is in bin 1, as 2.5 is
    with pytest.raises(
        KnowledgeError, match="1 labels lie outside their set, first row 1 with 2.25"
    ):
        known.annotate(data, Line(CUT))


def test_a_label_outside_can_widen_or_drop():
    data = Measured(rows(0.0, 1.0), torch.tensor([3.0, 9.0]))
    widened = Knowledge(range=Between(2.5, 6.0), outside="widen").annotate(data, Line(CUT))
    assert len(widened) == 2 and widened.missed.tolist() == [False, True]
    dropped = Knowledge(range=Between(2.5, 6.0), outside="drop").annotate(data, Line(CUT))
    assert dropped.x.flatten().tolist() == [0.0] and len(dropped.sets) == 1
    with pytest.raises(FedloreError, match="nothing is left"):
        Knowledge(range=Between(2.5, 6.0), outside="drop").annotate(data[1:], Line(CUT))


def test_an_empty_set_is_refused_with_its_row_or_allows_all():
    known = Knowledge(range=Between(11.0, 12.0))
    with pytest.raises(KnowledgeError, match="1 do not, first row 0 is"):
        known.annotate(Measured(rows(1.0)), Line(CUT))
    told = Knowledge(range=Between(11.0, 12.0), empty="all").annotate(
        Measured(rows(1.0)), Line(CUT)
    )
    assert told.allowed.all()


def test_labels_that_are_no_numbers_or_out_of_bounds_are_refused_with_their_row():
    with pytest.raises(FedloreError, match="finite: 1 are not, first row 1"):
        Knowledge().annotate(Measured(rows(0.0, 1.0), torch.tensor([1.0, math.nan])), Line(CUT))
    with pytest.raises(
        FedloreError, match=r"lie in \[0.0, 10.0\]: 1 are not, first row 0 has 11.0"
    ):
        Knowledge().annotate(Measured(rows(0.0), torch.tensor([11.0])), Line(CUT))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Knowledge(conflict="perhaps", line=Line(CUT)), "one of abstain, project, error"),
        (lambda: Knowledge(empty="first", line=Line(CUT)), "empty must be one of error, all"),
        (lambda: Knowledge(first, spread=0.0), "spread must be a positive number, got 0"),
        (lambda: Between(), "a lower or an upper side"),
        (lambda: Band(first, -1.0, 1.0), "below must not be negative"),
        (lambda: Between(5.0, 1.0)(rows(0.0)), "first row 0: 5.0 > 1.0"),
        (lambda: Measured(torch.zeros(3)), "row axis"),
        (lambda: Measured(rows(1.0), torch.tensor([1])), "one number per row"),
        (lambda: Measured(rows(1.0), torch.zeros(2)), "one number per row"),
        (lambda: Measured(rows(1.0)).numbers(), "no measured numbers"),
        (
            lambda: Knowledge(lambda x: x).annotate(Measured(rows(1.0)), Line(CUT)),
            "one number per row",
        ),
        (
            lambda: Knowledge(range=lambda x: x).annotate(Measured(rows(1.0)), Line(CUT)),
            "must give Sets for 1 rows, got Tensor",
        ),
        (lambda: Band(lambda x: x, 1.0, 1.0)(rows(1.0)), "one number per row"),
    ],
)
def test_bad_knowledge_is_refused(make, says):
    with pytest.raises(FedloreError, match=says):
        make()


def test_a_soft_prior_is_a_normal_within_the_set():
    known = Knowledge(first, Between(2.0, 6.0), spread=1.0)
    prior = known.annotate(Measured(rows(4.0).double()), Line(CUT)).prior[0]
    assert prior.sum().item() == pytest.approx(1.0)
    assert prior[[0, 3, 4]].tolist() == [0, 0, 0]  # nothing outside: no conflict can arise
    assert prior[1].item() == pytest.approx(0.5)
    hard = Knowledge(first, Between(4.0, 4.0), spread=1.0)
    assert hard.annotate(Measured(rows(4.0)), Line(CUT)).prior.tolist() == [[0, 0, 1, 0, 0]]


@given(st.floats(0, 10), st.floats(0.05, 20))
def test_the_normal_of_the_bins_is_that_of_the_error_function(centre, spread):
    found = normal(torch.tensor([centre], dtype=torch.float64), spread, CUT)[0].tolist()

    def below(v: float) -> float:
        return 0.5 * (1 + math.erf((v - centre) / spread / math.sqrt(2)))

    total = below(10.0) - below(0.0)
    expected = [
        (below(b) - below(a)) / total for a, b in zip(CUT.edges, CUT.edges[1:], strict=False)
    ]
    assert found == pytest.approx(expected, abs=1e-9)


def test_an_ordinal_target_reaches_the_neighbours_in_the_order_of_their_distance():
    data = Measured(rows(0.0), torch.tensor([4.1]))
    target = Knowledge().annotate(data, Line(CUT)).examples(ordinal=0.75).target[0]
    assert target.sum().item() == pytest.approx(1.0)
    assert target[2] > target[1] > target[3] > target[0] > target[4] > 0
    assert Knowledge().annotate(data, Line(CUT)).examples().target is None


def test_what_was_written_down_is_found_again_and_the_rest_is_free():
    x = rows(1.0, 2.0, 1.0)
    sets = Sets.of(torch.tensor([0.0, 3.0, 5.0]), torch.tensor([1.0, 4.0, 6.0]))
    found = Lookup.of(x, sets)(rows(1.0, 2.0, 3.0))
    assert found.lower[0].tolist() == [0.0, 5.0]  # two notes on the same row: both hold
    assert found.upper[1, 0].item() == 4.0
    assert (found.lower[2, 0].item(), found.upper[2, 0].item()) == (-math.inf, math.inf)


def test_ranges_meet_and_the_statistical_part_marks_the_whole():
    band = Band(first, 2.0, 2.0)
    calibrated = ConformalInterval(first, 1.0, 0.1)
    both = AllOf((band, calibrated))
    assert (kind_of(band), kind_of(calibrated), kind_of(both)) == (
        "certain",
        "statistical",
        "statistical",
    )
    assert both(rows(5.0)).lower.item() == 4.0


def test_the_conformal_radius_is_the_finite_sample_quantile():
    y = torch.arange(1.0, 20.0)  # residuals 1 to 19
    data = Measured(torch.zeros(19, 1), y)
    found = ConformalInterval.calibrate(first, data, alpha=0.1)
    assert (found.radius, found.rows) == (18.0, 19)  # the 18th of 19: ceil(20 · 0.9)
    assert ConformalInterval.calibrate(first, data[:5], alpha=0.1).radius == math.inf
    everything = ConformalInterval.calibrate(first, data[:5], alpha=0.1)(rows(1.0))
    assert everything.upper.item() == math.inf


def test_calibration_shows_no_hole_to_who_knows_nothing_of_holes():
    def whole(x):
        assert not x.isnan().any()
        return x[:, 0]

    data = Measured(torch.tensor([[math.nan], *[[0.0]] * 9]), torch.arange(10.0))
    found = ConformalInterval.calibrate(whole, data, alpha=0.1)
    assert (found.radius, found.rows) == (9.0, 9)  # the row that he is silent on does not count


def test_conformal_intervals_cover_as_promised():
    g = torch.Generator().manual_seed(0)
    covered = []
    for _ in range(200):
        x = torch.zeros(60, 1)
        y = torch.randn(60, generator=g).abs() * torch.rand(60, generator=g)
        known = ConformalInterval.calibrate(first, Measured(x[:39], y[:39]), alpha=0.1)
        covered.append(known(x[39:]).holds(y[39:]).double().mean())
    assert 0.88 < float(torch.stack(covered).mean()) < 0.92  # exactly 0.9 in expectation


def test_calibration_refuses_what_it_cannot_use():
    with pytest.raises(KnowledgeError, match="alpha must lie between 0 and 1, got 2"):
        ConformalInterval.calibrate(first, Measured(rows(1.0), torch.tensor([1.0])), alpha=2.0)
    with pytest.raises(KnowledgeError, match="finite: row 0"):
        ConformalInterval.calibrate(first, Measured(rows(1.0), torch.tensor([math.inf])))


def test_measured_rows_can_be_split_and_indexed():
    data = Measured(rows(*map(float, range(10))), torch.arange(10.0))
    assert data.y.dtype == torch.float64
    a, b = data.split(0.3, torch.Generator().manual_seed(0))
    assert sorted([*a.y.tolist(), *b.y.tolist()]) == list(range(10)) and len(a) == 3
    assert data.to("cpu")[:2].x.flatten().tolist() == [0.0, 1.0]


def test_a_number_between_bins_loses_nothing_and_silence_stays_silent():
    bins = Bins(0.0, 10.0, 5)
    said = torch.tensor([3.7, float("nan"), 10.0], dtype=torch.float64)
    told = Measured(torch.zeros(3, 1), said.nan_to_num(nan=6.1), said, None, bins)
    rows, at = told.between.double(), torch.arange(5.0, dtype=torch.float64)
    assert float(rows[0] @ at) == pytest.approx(1.35)  # 0.85 of the second bin, from its middle
    assert rows.sum(1).tolist() == pytest.approx([1.0, 0.0, 1.0])
    assert (rows > 0).sum(1).tolist() == [2, 0, 1]  # beyond the last middle there is one bin left
    assert torch.equal(told.prior.argmax(1)[[0, 2]], rows.argmax(1)[[0, 2]])
    aimed = told.examples(between=True)
    assert torch.equal(aimed.prior, told.between)
    assert float(aimed.target[1].double() @ at) == pytest.approx(2.55)
    assert told.examples().target is None and torch.equal(told.examples().prior, told.prior)
