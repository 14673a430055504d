"""What a site's members said of rows that none had seen, as plain values and tensors."""

from collections.abc import Mapping
from typing import Any

from ...core.tree import Params
from ...engine.lore.private import Unseen, Voice


def describe_unseen(unseen: Unseen) -> tuple[dict[str, Any], Params]:
    """Values for JSON, and tensors."""
    values = {
        "voices": [{"name": v.name, "shared": v.shared, "firm": v.firm} for v in unseen.voices],
        "share": dict(unseen.share),
        "ordered": unseen.ordered,
        "factor": unseen.factor,
    }
    held = {str(place): v.held.double() for place, v in enumerate(unseen.voices)}
    said = {"prior": unseen.prior, "lean": unseen.lean}
    return values, {**held, "y": unseen.y, **{n: t for n, t in said.items() if t is not None}}


def restore_unseen(values: Mapping[str, Any], tensors: Params) -> Unseen:
    """The same again."""
    voices = tuple(
        Voice(one["name"], tensors[str(place)], one["shared"], firm=one["firm"])
        for place, one in enumerate(values["voices"])
    )
    told = (values["share"], tensors["y"], values["ordered"], values["factor"])
    return Unseen(voices, *told, tensors.get("prior"), tensors.get("lean"))
