"""Knowledge becomes tensors at the door, and bad knowledge does not pass it."""

import pytest
import torch

from fedlore import Examples, Knowledge, KnowledgeError, Lookup, Mask, MaxPool
from fedlore.answers import Classes

ROWS = Examples(torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([0, 1, 2]))


def says(*rows):
    return lambda x: torch.tensor(rows, dtype=torch.float32)


def permits(*rows):
    return lambda x: torch.tensor(rows).bool()


def test_annotate_evaluates_both_models_once():
    calls = []

    def pkm(x):
        calls.append(len(x))
        return torch.eye(3)

    known = Knowledge(pkm, permits([1, 1, 0], [1, 1, 0], [0, 1, 1])).annotate(ROWS)
    assert calls == [3]
    assert torch.equal(known.prior, torch.eye(3)) and known.allowed.dtype == torch.bool


@pytest.mark.parametrize("trust", [-0.1, 1.3, float("nan")])
def test_trust_must_lie_between_0_and_1(trust):
    with pytest.raises(KnowledgeError, match=r"trust must lie in \[0, 1\], got"):
        Knowledge(trust=trust)
    with pytest.raises(KnowledgeError, match=r"reliance must lie in \[0, 1\], got"):
        Knowledge(reliance=trust)


def test_policies_are_names():
    with pytest.raises(KnowledgeError, match="outside must be error, widen or drop, got 'ignore'"):
        Knowledge(outside="ignore")
    with pytest.raises(KnowledgeError, match="conflict must be one of .* got 'ignore'"):
        Knowledge(conflict="ignore")


@pytest.mark.parametrize(
    ("knowledge", "message"),
    [
        (Knowledge(says([1, 0, 0])), r"P-KM must return shape \(3, k\), got \(1, 3\)"),
        (Knowledge(lambda x: torch.zeros(3)), r"P-KM must return shape \(3, k\), got \(3,\)"),
        (Knowledge(says([1, 0, 0], [1, 1, 0], [0, 0, 0])), r"row 1 is \[1.0, 1.0, 0.0\]"),
        (Knowledge(says([1, 0, 0], [1.5, -0.5, 0], [0, 0, 0])), "row 1 is"),
        (Knowledge(says([1, 0, 0], [float("nan"), 0, 0], [0, 0, 0])), "row 1 is"),
        (
            Knowledge(range=permits([1, 1, 1], [0, 0, 0], [1, 1, 1])),
            "1 rows are empty, first row 1",
        ),
        (Knowledge(range=says([1, 1, 1], [0.5, 0, 0], [1, 1, 1])), "booleans"),
        (
            Knowledge(says([1, 0, 0], [0, 1, 0], [0, 0, 1]), lambda x: torch.ones(3, 2).bool()),
            "the P-KM knows 3 classes, the R-KM 2",
        ),
    ],
)
def test_bad_knowledge_is_refused_with_the_row(knowledge, message):
    with pytest.raises(KnowledgeError, match=message):
        knowledge.annotate(ROWS)


def test_a_known_number_of_classes_is_checked():
    with pytest.raises(KnowledgeError, match=r"shape \(3, 4\), got \(3, 3\)"):
        Knowledge(says([1, 0, 0], [0, 1, 0], [0, 0, 1])).annotate(
            ROWS, Classes(("a", "b", "c", "d"))
        )


def test_an_expert_who_leaves_the_range_is_silenced_and_counted():
    pkm = says([1, 0, 0], [1, 0, 0], [0, 0, 1])
    rkm = permits([1, 0, 0], [0, 1, 1], [0, 0, 1])
    knowledge = Knowledge(pkm, rkm)
    assert knowledge.annotate(ROWS).prior.sum(1).tolist() == [1.0, 0.0, 1.0]
    audit = knowledge.audit(ROWS)
    assert (audit.conflicts, audit.abstained, audit.outside) == (1, 1, 0)
    with pytest.raises(KnowledgeError, match="leaves the range in 1 rows, first row 1"):
        Knowledge(pkm, rkm, conflict="error").annotate(ROWS)


def test_a_soft_expert_can_be_restricted_to_the_range():
    pkm = says([0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0])
    rkm = permits([0, 1, 1], [0, 1, 1], [0, 1, 1])
    data = Examples(ROWS.x)
    known = Knowledge(pkm, rkm, conflict="restrict").annotate(data)
    assert known.prior.tolist() == [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


def test_a_label_outside_the_range_is_an_error_unless_the_policy_says_otherwise():
    rkm = permits([1, 0, 0], [1, 0, 0], [0, 0, 1])
    with pytest.raises(KnowledgeError, match="1 labels lie outside their range, first row 1"):
        Knowledge(range=rkm).annotate(ROWS)
    known = Knowledge(range=rkm, outside="widen").annotate(ROWS)
    assert known.allowed[1].tolist() == [True, False, False]  # the range itself never changes
    audit = Knowledge(range=rkm).audit(ROWS)
    assert audit.outside == 1 and audit.width == 1.0
    assert "1 labels outside their range" in str(audit)


def test_an_audit_without_labels_or_rows_counts_what_it_can():
    knowledge = Knowledge(lambda x: torch.zeros(len(x), 2), lambda x: torch.ones(len(x), 2).bool())
    assert knowledge.audit(Examples(torch.rand(2, 1))).abstained == 2
    assert knowledge.audit(Examples(torch.rand(0, 1))).width is None


def test_a_mask_shows_the_chosen_columns_in_order():
    assert Mask((2, 0), lambda x: x)(torch.tensor([[1.0, 2.0, 3.0]])).tolist() == [[3.0, 1.0]]
    with pytest.raises(KnowledgeError, match=r"needs columns \(5,\), rows have 3"):
        Mask((5,), lambda x: x)(torch.rand(1, 3))


def test_max_pool_shows_the_largest_of_each_patch():
    image = torch.arange(16.0).reshape(1, 4, 4)
    assert MaxPool(2, lambda x: x)(image).tolist() == [[[5.0, 7.0], [13.0, 15.0]]]
    assert MaxPool(2, lambda x: x)(image.unsqueeze(1)).shape == (1, 1, 2, 2)
    with pytest.raises(KnowledgeError, match="cannot be pooled by 3"):
        MaxPool(3, lambda x: x)(image)


def test_a_lookup_knows_what_was_written_and_defaults_elsewhere():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    pkm = Lookup.of(x, torch.eye(2))
    assert pkm(torch.tensor([[3.0, 4.0], [9.0, 9.0]])).tolist() == [[0.0, 1.0], [0.0, 0.0]]
    rkm = Lookup.of(x, torch.eye(2).bool())
    assert rkm(torch.tensor([[9.0, 9.0]])).tolist() == [[True, True]]
    assert rkm(x[:0]).shape == (0, 2)
    assert Lookup.of(x[:0], torch.eye(2)[:0])(x).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_equal_rows_join_their_ranges_and_must_agree_on_predictions():
    x = torch.zeros(2, 1)
    assert Lookup.of(x, torch.eye(2).bool())(x[:1]).tolist() == [[True, True]]
    with pytest.raises(KnowledgeError, match="different predictions"):
        Lookup.of(x, torch.eye(2))
