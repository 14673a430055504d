"""Members leave as plain values and tensors and come back the same; nothing else gets in."""

import json

import pytest
import torch

from fedlore.core.examples import Examples
from fedlore.core.rng import stream
from fedlore.errors import FedloreError
from fedlore.models.own import (
    ClassMember,
    NumberMember,
    OrderMember,
    read_own_members,
    write_own_members,
)
from fedlore.models.own.gaussian import GaussianLearner
from fedlore.models.own.linear import LogisticLearner, Ridge
from fedlore.models.own.trees import BoostedTrees, Boosting, ExtraTrees
from tests.models.own.test_best import numbers

pytest.importorskip("sklearn")


@pytest.fixture(scope="module")
def members():
    draw = stream("own", "stored")
    x, heard = torch.randn(40, 3, generator=draw), torch.randn(40, 6, generator=draw)
    y = x[:, :1].double()
    c = torch.randint(3, (40,), generator=draw)
    both = torch.cat([x, heard[:, :3]], 1)
    return [
        NumberMember("ridge", Ridge("", quadratic=True).fit(both, y, 0.1), True, True, 0.5),
        NumberMember("trees", ExtraTrees("", trees=5).fit(x, y, 1), False, False, 0.5),
        OrderMember(
            "steps", BoostedTrees("").fit(x, y, Boosting(0.1, 4, 5, 9)), False, True, 2.0, 3
        ),
        ClassMember("votes", ExtraTrees("", 3, trees=5).fit(x, c, 1), False, True, 1.0),
        ClassMember("logits", LogisticLearner("", 3).fit(x, c, 0.1), False, False, 1.0),
        NumberMember("waves", GaussianLearner("").fit(x, y, 0.25), False, True, 0.5),
        NumberMember("ranks", GaussianLearner("", ranks=True).fit(x, y, 0.25), False, True, 0.5),
    ]


def test_there_and_back(members, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    said, tensors = write_own_members(members)
    again = read_own_members(
        json.loads(json.dumps(said)),
        safetensors.load(safetensors.save(tensors)),
        columns=3,
        heard=3,
    )
    known = numbers(20)
    rows = Examples(known.x, None, None, torch.ones(20, 3, dtype=torch.bool))
    for old, new in zip(members, again, strict=True):
        assert type(new) is type(old) and new.name == old.name
        if isinstance(old, NumberMember):
            assert torch.equal(old.number(known), new.number(known))
        else:
            assert torch.equal(old.log_probs(rows), new.log_probs(rows))


def changed(tensors, name, value):
    other = {n: t.clone() for n, t in tensors.items()}
    other[name] = value(other[name])
    return other


def first(value):
    def change(t):
        t[0] = value
        return t

    return change


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("0.weight", first(torch.nan), "'0.weight' must be finite"),
        ("0.scale", first(0.0), "scale that is not above 0"),
        ("0.mean", lambda t: t[1:], "does not fit 6 inputs"),
        ("0.mean", lambda t: t.float(), "must be float64"),
        ("0.mean", lambda t: t.bfloat16(), "'0.mean' cannot be torch.bfloat16"),
        ("1.feature", first(3), "not a set of trees over 3 inputs"),
        ("1.child", first(0), "not a set of trees"),  # a circle
        ("1.child", lambda t: t + 10_000, "not a set of trees"),
        ("1.roots", first(-1), "not a set of trees"),
        ("1.threshold", lambda t: t[1:], "not a set of trees"),
        ("2.output", first(9), "not a set of trees"),
        ("3.values", lambda t: t[:, :2], "not a set of trees"),
        ("5.frequency", lambda t: t[:, 1:].contiguous(), "does not fit 3 inputs"),
        ("5.frequency", first(torch.inf), "'5.frequency' must be finite"),
        ("5.scale", first(-1.0), "scale that is not above 0"),
        ("6.column", first(3), "does not fit 3 inputs"),
        ("6.low", lambda t: t[1:], "does not fit 3 inputs"),
        ("6.high", first(-9e9), "ends that cross"),
    ],
)
def test_tables_that_were_tampered_with_are_refused(members, name, value, rule):
    said, tensors = write_own_members(members)
    with pytest.raises(FedloreError, match=rule):
        read_own_members(said, changed(tensors, name, value), columns=3, heard=3)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"kind": "pickle"}, "unknown kind of member 'pickle'"),
        ({"body": "code"}, "unknown body of a member 'code'"),
        ({"width": -1.0}, "width of member 0 cannot be -1.0"),
        ({"width": float("nan")}, "width of member 0 cannot be nan"),
        ({"hears": "yes"}, "hears of member 0 cannot be 'yes'"),
        ({"more": 1}, "member 0 must say"),
    ],
)
def test_values_that_were_tampered_with_are_refused(members, change, rule):
    said, tensors = write_own_members(members)
    with pytest.raises(FedloreError, match=rule):
        read_own_members([{**said[0], **change}, *said[1:]], tensors, columns=3, heard=3)


@pytest.mark.parametrize("classes", [1, True, 3.0, (1 << 16) + 1])
def test_no_member_predicts_more_classes_than_anybody_has(members, classes):
    said, tensors = write_own_members(members)
    said[2]["classes"] = classes
    with pytest.raises(FedloreError, match="classes of member 2 cannot be"):
        read_own_members(said, tensors, columns=3, heard=3)


def test_tensors_of_nobody_and_tensors_that_lack_are_refused(members):
    said, tensors = write_own_members(members)
    with pytest.raises(FedloreError, match="no member has the tensor '9.mean'"):
        read_own_members(said, {**tensors, "9.mean": torch.zeros(1)}, columns=3, heard=3)
    del tensors["1.child"]
    with pytest.raises(FedloreError, match="member 1 must have"):
        read_own_members(said, tensors, columns=3, heard=3)


def test_members_have_a_limit(members, monkeypatch):
    said, tensors = write_own_members(members)
    monkeypatch.setattr("fedlore.models.own.members.MOST_BYTES", 1000)
    with pytest.raises(FedloreError, match="may take 1000 bytes"):
        write_own_members(members)
    with pytest.raises(FedloreError, match="may take 1000 bytes"):
        read_own_members(said, tensors, columns=3, heard=3)
