"""Which way the inputs of a site's own models may move its answer, where it has shapes."""

import torch
from torch import Tensor

from ...core.lipschitz import HEARD_PLACES, columns_of_features
from ...core.scaler import Inputs
from ...knowledge.models import Knowledge
from ...knowledge.shapes.shape import ears_for
from .linear import Linear
from .members import NumberMember, OrderMember
from .sight import HEARD_OF_ORDER
from .trees import Trees


def input_signs(known: Knowledge, inputs: Inputs | None) -> Tensor | None:
    """For each input of a member and what it hears behind: 1, -1, 0 (free), NaN (withheld).

    A feature that raises here and lowers there is withheld: a member knows no regions.
    """
    shapes, orders = known.shapes, known.orders
    if shapes is None or orders is None:
        return None
    d = len(shapes.schema.features)
    found = torch.zeros(d if inputs is None else inputs.width, dtype=torch.float64)
    places = columns_of_features(d, inputs)
    for column in shapes.columns:
        ways = {s.sign for s in shapes if shapes.schema.column(s.feature) == column}
        found[places[column]] = ways.pop() if len(ways) == 1 else torch.nan
    middle, told = ears_for(found.new_zeros(1, 0), orders)[0, -HEARD_PLACES:].tolist()
    # how wide a range is follows no order where its ends move
    wide = 0.0 if orders.range == "constant" else torch.nan
    return torch.cat([found, found.new_tensor([told, middle, wide])])


def keeps_signs(member: object, signs: Tensor) -> bool:
    """Whether a member moves as the signs say for every row: read off its weights and trees."""
    if not isinstance(member, NumberMember | OrderMember):
        return False
    if member.over and bool(signs[-HEARD_OF_ORDER].isnan()):
        return False
    own = signs if member.hears else signs[:-HEARD_OF_ORDER]
    body = member.body
    return _linear_keeps(body, own) if isinstance(body, Linear) else _trees_keep(body, own)


def _linear_keeps(body: Linear, signs: Tensor) -> bool:
    weight = body.weight[:, 0]
    if body.quadratic or len(weight) != len(signs):
        return False
    return bool(torch.where(signs.isnan(), weight == 0, signs * weight >= 0).all())


def _trees_keep(body: Trees, signs: Tensor) -> bool:
    """Of each split by such an input, no leaf on one side may lie beyond any on the other."""
    feature, child = body.feature.long(), body.child.long()
    inner = feature >= 0
    if len(body.base) != 1 or bool((body.scale < 0).any()):
        return False
    leaf = body.values[:, 0].double()[torch.where(inner, 0, child)]
    low = torch.where(inner, torch.inf, leaf)
    high = torch.where(inner, -torch.inf, leaf)
    left, right = child[inner], child[inner] + 1
    for _ in range(body.depth):  # leaves are told upwards, a level at a time
        low[inner] = torch.minimum(low[left], low[right])
        high[inner] = torch.maximum(high[left], high[right])
    way = signs[feature[inner]]
    rises, falls = high[left] <= low[right], low[left] >= high[right]
    return bool(torch.where(way > 0, rises, torch.where(way < 0, falls, way == 0)).all())
