"""tree, rng, examples, scaler, lesson: the ground everything stands on."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import Examples, FedloreError
from fedlore.core import rng, tree
from fedlore.core.inject import teach
from fedlore.core.scaler import Scaler, from_moments, moments


def bundle(*values: float) -> tree.Params:
    return {"a": torch.tensor(values), "b": torch.tensor([[values[0]]])}


def test_tree_arithmetic_by_hand():
    one, two = bundle(1.0, 2.0), bundle(3.0, 5.0)
    assert tree.add(one, two)["a"].tolist() == [4.0, 7.0]
    assert tree.sub(two, one)["b"].tolist() == [[2.0]]
    assert tree.axpy(2.0, one, two)["a"].tolist() == [5.0, 9.0]
    assert tree.scale(one, 0.5)["a"].tolist() == [0.5, 1.0]
    assert tree.zeros(one)["a"].tolist() == [0.0, 0.0]
    assert tree.norm({"a": torch.tensor([3.0, 4.0])}) == 5.0


def test_scales_of_a_stack_go_client_by_client():
    stack = {"w": torch.ones(2, 3, 4)}
    scaled = tree.scale(stack, torch.tensor([2.0, 5.0]))["w"]
    assert scaled[0].unique().tolist() == [2.0] and scaled[1].unique().tolist() == [5.0]


def test_the_mean_is_weighted():
    payloads = [({"m": bundle(1.0, 0.0)}, 1.0), ({"m": bundle(5.0, 4.0)}, 3.0)]
    assert tree.mean(payloads)["m"]["a"].tolist() == [4.0, 3.0]


def test_a_single_nan_makes_a_payload_not_finite():
    assert tree.finite({"m": bundle(1.0)})
    assert not tree.finite({"m": bundle(float("nan"))})


def test_an_address_gives_the_same_numbers_and_another_address_others():
    def draw(*path):
        return torch.rand(4, generator=rng.stream(*path)).tolist()

    assert draw(0, 1, "a") == draw(0, 1, "a")
    assert draw(0, 1, "a") != draw(0, 2, "a")
    assert rng.key(1, 23) != rng.key(12, 3) != rng.key("1", 23)


@given(st.integers(0, 2**62), st.integers(1, 200))
def test_orders_are_permutations_and_do_not_depend_on_the_company(seed, rows):
    keys = torch.tensor([seed, seed + 1])
    both = rng.orders(keys, rows)
    assert both[0].sort().values.tolist() == list(range(rows))
    assert torch.equal(both[1], rng.orders(keys[1:], rows)[0])


def test_counter_based_bits_are_those_of_splitmix64():
    # the first outputs of SplitMix64 with seed 1234567, as published with the algorithm
    found = [v % 2**64 for v in rng.bits(torch.tensor([1234567]), 3)[0].tolist()]
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_orders_look_uniform():
    first = rng.orders(torch.arange(6000), 6)[:, 0]
    counts = torch.bincount(first, minlength=6).double()
    chi2 = ((counts - 1000) ** 2 / 1000).sum()
    assert chi2 < 20.5  # 99.9 % point with 5 degrees of freedom


def test_examples_index_and_split_all_their_parts():
    data = Examples(torch.rand(5, 2), torch.arange(5), torch.rand(5, 3), torch.ones(5, 3).bool())
    part = data[torch.tensor([3, 1])]
    assert part.y.tolist() == [3, 1] and torch.equal(part.prior[0], data.prior[3])
    left, right = data.split(0.4, rng.stream(0))
    assert len(left) == 2 and sorted(left.y.tolist() + right.y.tolist()) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(3), None, "row axis"),
        (torch.zeros(3, 2).long(), None, "floating point"),
        (torch.zeros(3, 2), torch.zeros(2).long(), "y has 2 rows, x has 3"),
        (torch.zeros(3, 2), torch.zeros(3), "int64"),
    ],
)
def test_misshapen_examples_are_refused(x, y, message):
    with pytest.raises(FedloreError, match=message):
        Examples(x, y)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (torch.zeros(0, 2), torch.zeros(0).long(), "no rows"),
        (torch.tensor([[0.0, 1.0], [0.0, torch.nan]]), torch.zeros(2).long(), "first row 1"),
        (torch.zeros(2, 2), torch.tensor([0, 3]), "labels must lie in 0 to 2: row 1 has 3"),
        (torch.zeros(2, 2), torch.tensor([-1, 0]), "row 0 has -1"),
    ],
)
def test_unusable_examples_are_named(x, y, message):
    with pytest.raises(FedloreError, match=message):
        Examples(x, y).check(3)


def test_the_scaler_of_two_sites_is_that_of_their_pooled_rows():
    x = torch.randn(50, 3, generator=rng.stream(1)) * torch.tensor([1.0, 100.0, 1e-3]) + 7
    pooled = Scaler.of(x)
    parts = [({"m": moments(x[:20])}, 1.0), ({"m": moments(x[20:])}, 1.0)]
    apart = from_moments(tree.mean(parts)["m"])
    torch.testing.assert_close(apart.shift, pooled.shift)
    torch.testing.assert_close(apart.spread, pooled.spread)
    scaled = pooled(x)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.ones(3), atol=1e-3, rtol=0)


def test_a_constant_feature_is_left_at_zero():
    x = torch.tensor([[5.0, 1.0], [5.0, 3.0]])
    assert Scaler.of(x)(x)[:, 0].tolist() == [0.0, 0.0]
    # numbers whose squares are rounded: their variance comes out as a speck above 0
    same = torch.linspace(0.1, 9.7, 50, dtype=torch.float64).expand(7, -1)
    assert (Scaler.of(same).spread == 1).all()


def out_of_range() -> Examples:
    allowed = torch.tensor([[True, False], [True, False]])
    return Examples(torch.rand(2, 1), torch.tensor([0, 1]), None, allowed)


def test_widening_touches_the_loss_and_not_what_the_network_hears():
    lesson = teach(out_of_range(), 2, outside="widen")
    assert (lesson.wall == 0).tolist() == [[True, False], [True, True]]
    assert lesson.allowed.tolist() == [[True, False], [True, False]]


def test_dropping_leaves_the_rows_inside():
    assert teach(out_of_range(), 2, outside="drop").y.tolist() == [[0]]
    with pytest.raises(FedloreError, match="1 labels lie outside their range, first row 1"):
        teach(out_of_range(), 2)
    with pytest.raises(FedloreError, match="nothing is left to learn"):
        teach(out_of_range()[torch.tensor([1])], 2, outside="drop")


def test_full_trust_is_refused_in_training():
    with pytest.raises(FedloreError, match="trust must be below 1 in training.*got 1"):
        teach(Examples(torch.rand(1, 1), torch.tensor([0])), 2, trust=1.0)


def test_a_floor_replaces_minus_infinity_in_the_loss_alone():
    lesson = teach(out_of_range(), 2, outside="widen", floor=0.25)
    torch.testing.assert_close(lesson.wall.exp(), torch.tensor([[1.0, 0.25], [1.0, 1.0]]))
    assert lesson.allowed.tolist() == [[True, False], [True, False]]
    with pytest.raises(FedloreError, match=r"floor must lie in \[0, 1\), got 1"):
        teach(out_of_range(), 2, outside="widen", floor=1.0)
