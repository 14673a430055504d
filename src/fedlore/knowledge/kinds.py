"""Two kinds of range: an expert's is certain, one measured on data is statistical."""

from typing import Literal

RangeKind = Literal["certain", "statistical"]


def kind_of(model: object) -> RangeKind:
    """The kind of a range: what it says itself, else what the model behind a view says.

    A range that says nothing is an expert's, as the paper has it: certain.
    """
    said = getattr(model, "kind", None)
    if said is not None:
        return "statistical" if said == "statistical" else "certain"
    inner = getattr(model, "model", None)
    return "certain" if inner is None else kind_of(inner)
