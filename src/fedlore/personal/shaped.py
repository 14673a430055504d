"""What of a site's model must keep its shapes, checked before anybody relies on them."""

from typing import TypeVar

from torch import nn

from ..core.inputs import Inputs
from ..core.lipschitz import keeps_shapes
from ..errors import FedloreError
from ..knowledge.models import Knowledge
from .beside import Beside, NumberBeside, with_expert
from .own.signs import input_signs, keeps_signs

_B = TypeVar("_B", bound=Beside | NumberBeside)


def admit_shapes(
    model: nn.Module,
    known: Knowledge,
    beside: _B | None,
    inputs: Inputs | None,
) -> _B | None:
    """The members beside the network, the expert only where he is shown to move as shapes say.

    A network or a member that cannot keep the shapes is refused.
    """
    if known.shapes is None:
        return beside
    said = ", ".join(map(str, known.shapes))
    if not keeps_shapes(model):
        raise FedloreError(
            f"this network cannot keep the shapes ({said}): that needs one of [model] lipschitz = "
            "true, agreed by all"
        )
    signs = input_signs(known, inputs)
    if beside is None or signs is None:
        return beside
    for member in beside.members:
        if not keeps_signs(member, signs):
            name = getattr(member, "name", type(member).__name__)
            raise FedloreError(
                f"'{name}' beside the network does not keep the shapes ({said}): a site that has "
                "them when it settles leaves such members out"
            )
    assert known.orders is not None
    return beside if known.orders.hears_prediction else with_expert(beside, 0.0)
