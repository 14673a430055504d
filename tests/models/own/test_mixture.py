"""What the paper promises of two members, promised of any number of them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore.answers import Bins, Measured, Sets
from fedlore.core.examples import Examples
from fedlore.core.inject import inject
from fedlore.errors import FedloreError
from fedlore.models.own import Mixture, NumberMixture
from tests.strategies import Case, cases


class Net:
    """A network behind the mask: logits that are given."""

    def __init__(self, logits):
        self.logits = logits

    def log_probs(self, known):
        return inject(self.logits, None, known.allowed)


class Says:
    """A member that names given numbers."""

    def __init__(self, numbers, width=1.0):
        self.numbers, self.width = numbers, width

    def number(self, known):
        return known.sets.nearest(self.numbers)


@st.composite
def mixtures(draw) -> tuple[Case, Mixture, Examples]:
    case = draw(cases(least_rows=1))
    count = draw(st.integers(1, 4))
    g = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    n, k = case.logits.shape
    nets = [Net(case.logits)]
    nets += [Net(20 * torch.randn(n, k, generator=g).to(case.logits)) for _ in range(count - 1)]
    raw = torch.rand(count + 1, generator=g, dtype=torch.float64)
    raw = raw * draw(st.sampled_from((torch.ones(1), torch.rand(count + 1, generator=g).round())))
    raw[0] += 1e-3
    *weights, expert = (raw / raw.sum()).tolist()
    known = Examples(torch.zeros(n, 1), None, case.prior, case.allowed)
    return case, Mixture(tuple(nets), tuple(weights), expert), known


@given(mixtures())
def test_a_it_is_a_distribution(made):
    _, mixture, known = made
    p = mixture.probabilities(known)
    assert (p >= 0).all()
    assert torch.allclose(p.sum(1), torch.ones(len(p), dtype=torch.float64), atol=1e-9)


@given(mixtures())
def test_b_the_experts_class_has_at_least_his_weight(made):
    case, mixture, known = made
    p = mixture.probabilities(known)
    speaks = case.prior.sum(1) > 0
    assert ((p * case.prior).sum(1)[speaks] >= mixture.expert * (1 - 1e-12)).all()
    if mixture.expert > 0.5:
        assert (mixture.predict(known) == case.prior.argmax(1))[speaks].all()


@given(mixtures())
def test_c_outside_the_range_is_exactly_nothing(made):
    case, mixture, known = made
    assert (mixture.probabilities(known)[~case.allowed] == 0).all()
    assert (mixture.log_probs(known)[~case.allowed] == -torch.inf).all()
    assert case.allowed.gather(1, mixture.predict(known).unsqueeze(1)).all()


@given(mixtures())
def test_d_the_jacobian_of_a_member_is_its_weight_times_its_own(made):
    case, mixture, known = made
    logits = case.logits.double()[:1]
    one = known[:1]

    def of(values):
        nets = (Net(values), *(Net(m.logits.double()[:1]) for m in mixture.members[1:]))
        return Mixture(nets, mixture.weights, mixture.expert).probabilities(one)[0]

    found = torch.autograd.functional.jacobian(of, logits)[:, 0]  # (k, k)
    s = inject(logits, None, one.allowed).exp()[0]
    weight = mixture.weights[0]
    if case.prior[0].sum() == 0:  # his part goes to those who speak
        weight = weight / (1 - mixture.expert)
    assert torch.allclose(found, weight * (s.diag() - torch.outer(s, s)), atol=1e-9)


@given(cases(least_rows=1, trusts=(0.0, 0.3, 0.9)))
def test_two_members_are_the_papers_model(case):
    known = Examples(torch.zeros(len(case.y), 1), None, case.prior, case.allowed)
    ours = Mixture((Net(case.logits),), (1 - case.trust,), case.trust).probabilities(known)
    papers = inject(case.logits, case.prior, case.allowed, case.trust).exp().double()
    assert torch.allclose(ours, papers, atol=1e-5)


def test_an_expert_with_all_the_weight_who_is_silent_leaves_it_to_the_others():
    known = Examples(torch.zeros(1, 1), None, torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool))
    nets = (Net(torch.tensor([[0.0, 0.0]])), Net(torch.tensor([[50.0, 0.0]])))
    assert Mixture(nets, (0.0, 0.0), 1.0).probabilities(known)[0].tolist() == pytest.approx(
        [0.75, 0.25]
    )


def told(said, low, high):
    x = torch.zeros(len(said), 1)
    return Measured(x, None, torch.tensor(said).double(), Sets.of(low, high), Bins(0.0, 10.0, 5))


@given(st.integers(0, 2**31), st.integers(1, 4))
def test_numbers_never_leave_their_set(seed, count):
    g = torch.Generator().manual_seed(seed)
    ends = (10 * torch.rand(6, 4, generator=g, dtype=torch.float64)).sort(1).values
    known = told([1.0] * 6, ends[:, ::2], ends[:, 1::2])
    members = tuple(Says(20 * torch.rand(6, generator=g) - 5) for _ in range(count))
    mixture = NumberMixture(members, (1.0 / count,) * count, width=0.5)
    assert known.sets.holds(mixture.number(known)).all()
    p = mixture.probabilities(known)
    assert torch.allclose(p.sum(1), torch.ones(6, dtype=torch.float64))
    assert (p[~known.allowed] == 0).all()


def test_numbers_are_weighed_by_hand():
    low, high = torch.zeros(2).double(), torch.full((2,), 10.0).double()
    known = told([2.0, float("nan")], low, high)
    members = (Says(torch.tensor([4.0, 4.0])), Says(torch.tensor([8.0, 8.0])))
    mixture = NumberMixture(members, (0.5, 0.25), expert=0.25)
    # 2 + 2 + 0.5; and where the expert is silent (4·2 + 8)/3
    assert mixture.number(known).tolist() == pytest.approx([4.5, 16 / 3])


def test_a_gap_of_the_set_is_left_for_its_nearer_end():
    known = told([1.0], torch.tensor([[0.0, 7.0]]), torch.tensor([[3.0, 10.0]]))
    members = (Says(torch.tensor([3.0])), Says(torch.tensor([8.0])))
    assert NumberMixture(members, (0.5, 0.5)).number(known).tolist() == [7.0]


@pytest.mark.parametrize(
    ("members", "weights", "rule"),
    [
        ((), (), "at least one member"),
        ((Net(torch.zeros(1, 2)),), (0.5, 0.5), "1 members have 2 weights"),
        ((Net(torch.zeros(1, 2)),), (0.9,), "sum to 1, got 0.9"),
        ((Net(torch.zeros(1, 2)),) * 2, (1.5, -0.5), r"lie in \[0, 1\], got 1.5"),
    ],
)
def test_what_is_no_mixture(members, weights, rule):
    with pytest.raises(FedloreError, match=rule):
        Mixture(members, weights)


def test_a_distribution_needs_a_width():
    known = told([1.0], torch.tensor([0.0]), torch.tensor([9.0]))
    with pytest.raises(FedloreError, match="width above 0, got 0"):
        NumberMixture((Says(torch.tensor([4.0])),), (1.0,)).probabilities(known)
