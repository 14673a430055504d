"""Own members as plain values and named tensors, and back, with everything checked on the way in.

The values are JSON: what kind of member, how it uses the expert, its width. The tensors go into a
safetensors file beside the network's weights. Nothing is ever pickled.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from ...errors import FedloreError, unknown
from .linear import Linear
from .members import Body, ClassMember, NumberMember, OrderMember, OwnMember
from .trees import LEAF, Trees

MOST_BYTES = 20_000_000  # of all own members of a bundle
_DEEPEST = 512
KINDS: dict[str, type[NumberMember] | type[OrderMember] | type[ClassMember]] = {
    "number": NumberMember,
    "order": OrderMember,
    "classes": ClassMember,
}
BODIES: dict[str, type[Linear] | type[Trees]] = {"linear": Linear, "trees": Trees}
TYPES = {
    "feature": torch.int16,
    "threshold": torch.float32,
    "child": torch.int32,
    "roots": torch.int32,
    "values": torch.float32,
    "output": torch.int16,
}  # every other tensor is float64


def write_own_members(
    members: Sequence[OwnMember],
) -> tuple[list[dict[str, Any]], dict[str, Tensor]]:
    """Members as values for JSON and as tensors by name, `0.feature` and so on."""
    said, tensors = [], {}
    for place, member in enumerate(members):
        body = member.body
        own = {f.name: getattr(body, f.name) for f in fields(body)}
        for name, value in own.items():
            if isinstance(value, Tensor):
                tensors[f"{place}.{name}"] = value.contiguous()
        plain = {f.name: getattr(member, f.name) for f in fields(member) if f.name != "body"}
        shape = {"quadratic": body.quadratic} if isinstance(body, Linear) else {}
        said.append({"kind": _name(KINDS, member), "body": _name(BODIES, body), **shape, **plain})
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    if size > MOST_BYTES:
        raise FedloreError(f"own members may take {MOST_BYTES} bytes, these take {size}")
    return said, tensors


def read_own_members(
    said: Sequence[Mapping[str, Any]], tensors: Mapping[str, Tensor], *, columns: int, heard: int
) -> list[OwnMember]:
    """The members again; `columns` are the features of a row and `heard` the expert's numbers."""
    if sum(t.numel() * t.element_size() for t in tensors.values()) > MOST_BYTES:
        raise FedloreError(f"own members may take {MOST_BYTES} bytes")
    left = dict(tensors)
    made = []
    for place, one in enumerate(said):
        values = dict(one)
        kind = _look_up(KINDS, "kind of member", values.pop("kind", None))
        body_kind = _look_up(BODIES, "body of a member", values.pop("body", None))
        quadratic = values.pop("quadratic", False)
        own = {n.partition(".")[2]: t for n, t in left.items() if n.startswith(f"{place}.")}
        left = {n: t for n, t in left.items() if not n.startswith(f"{place}.")}
        wanted = {f.name for f in fields(kind)} - {"body"}
        if set(values) != wanted:
            raise FedloreError(
                f"member {place} must say {', '.join(sorted(wanted))}, it says "
                f"{', '.join(sorted(values))}"
            )
        _check_values(place, values)
        inputs = columns + (heard if values["hears"] else 0)
        body = (
            _linear(place, own, inputs, bool(quadratic))
            if body_kind is Linear
            else _trees(place, own, inputs)
        )
        made.append(kind(body=body, **values))
    if left:
        raise FedloreError(f"no member has the tensor '{min(left)}'")
    return made


def _linear(place: int, own: Mapping[str, Tensor], inputs: int, quadratic: bool) -> Linear:
    _check_tensors(place, own, {"mean": 1, "scale": 1, "weight": 2, "constant": 1})
    terms = inputs * (inputs + 3) // 2 if quadratic else inputs
    shapes = {name: tuple(t.shape) for name, t in own.items()}
    fits = shapes["mean"] == shapes["scale"] == (inputs,)
    if not fits or shapes["weight"] != (terms, *shapes["constant"]):
        raise FedloreError(f"member {place} does not fit {inputs} inputs: {shapes}")
    if not (own["scale"] > 0).all():
        raise FedloreError(f"member {place} has a scale that is not above 0")
    return Linear(own["mean"], own["scale"], own["weight"], own["constant"], quadratic)


def _trees(place: int, own: Mapping[str, Tensor], inputs: int) -> Trees:
    ranks = {"values": 2, **dict.fromkeys(("feature", "threshold", "child", "roots"), 1)}
    _check_tensors(place, own, {**ranks, "output": 1, "base": 1, "scale": 1})
    feature, child, roots = own["feature"].long(), own["child"].long(), own["roots"].long()
    nodes, leaves, width = len(feature), *own["values"].shape
    inner = feature >= 0
    here = torch.arange(nodes)
    sound = (
        len(own["threshold"]) == len(child) == nodes
        and len(own["output"]) == len(roots)
        and len(own["base"]) == len(own["scale"])
        and width in (1, len(own["base"]))
        and bool(((feature >= LEAF) & (feature < inputs)).all())
        and bool(((child > here) & (child + 1 < nodes))[inner].all())  # downwards: no circles
        and bool(((child >= 0) & (child < leaves))[~inner].all())
        and bool(((roots >= 0) & (roots < nodes)).all())
        and bool(((own["output"] >= 0) & (own["output"] < len(own["base"]))).all())
    )
    if not sound:
        raise FedloreError(f"member {place} is no set of trees over {inputs} inputs")
    return Trees(**own, depth=_depth(place, feature, child, roots))


def _depth(place: int, feature: Tensor, child: Tensor, roots: Tensor) -> int:
    """How many steps lead from the roots to the last leaf."""
    level, depth = torch.unique(roots), 0
    while True:
        inner = level[feature[level] >= 0]
        if len(inner) == 0:
            return depth
        level = torch.unique(torch.cat([child[inner], child[inner] + 1]))
        depth += 1
        if depth > _DEEPEST:
            raise FedloreError(
                f"trees of a member may be {_DEEPEST} deep, those of {place} are not"
            )


def _check_tensors(place: int, own: Mapping[str, Tensor], ranks: Mapping[str, int]) -> None:
    if set(own) != set(ranks):
        raise FedloreError(f"member {place} must have {sorted(ranks)}, it has {sorted(own)}")
    for name, t in own.items():
        kind = TYPES.get(name, torch.float64)
        if t.dtype != kind or t.ndim != ranks[name]:
            raise FedloreError(
                f"'{place}.{name}' must be {kind} with {ranks[name]} axes, got {t.dtype} of shape "
                f"{tuple(t.shape)}"
            )
        # a threshold may be infinite, a value may not
        if t.is_floating_point() and (t.isnan() if name == "threshold" else ~t.isfinite()).any():
            raise FedloreError(f"'{place}.{name}' must be finite")


def _check_values(place: int, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if name == "name":
            good = isinstance(value, str) and 0 < len(value) <= 100
        elif name in ("hears", "over", "votes"):
            good = isinstance(value, bool)
        elif name == "classes":
            good = isinstance(value, int) and 2 <= value <= 1 << 16
        else:  # width, sharpness
            good = isinstance(value, int | float) and 0 < value < float("inf")
        if not good:
            raise FedloreError(f"{name} of member {place} cannot be {value!r}")


def _look_up(table: Mapping[str, Any], what: str, name: object) -> Any:
    if not isinstance(name, str) or name not in table:
        raise FedloreError(unknown(what, str(name), table))
    return table[name]


def _name(table: Mapping[str, type], one: OwnMember | Body) -> str:
    return next(name for name, kind in table.items() if type(one) is kind)
