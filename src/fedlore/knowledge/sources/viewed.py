"""What a source sees of a row, as keys of its table: some columns, or images in low resolution."""

from typing import Any

from ...kernel.schema import Schema
from ..views import Mask, MaxPool


def look_through(
    model: Any, *, columns: tuple[str, ...], pool: int | None = None, schema: Schema
) -> Any:
    """The model behind its view; itself where it sees everything."""
    if columns:
        model = Mask(tuple(schema.column(name) for name in columns), model)
    return model if pool is None else MaxPool(pool, model)


def view_keys(model: Any, schema: Schema) -> tuple[Any, dict[str, Any]]:
    """The model behind its views, and those as keys."""
    if isinstance(model, MaxPool):
        inner, keys = view_keys(model.model, schema)
        return inner, keys | {"pool": model.size}
    if isinstance(model, Mask) and not isinstance(model.model, Mask):
        inner, keys = view_keys(model.model, schema)
        return inner, keys | {"columns": [schema.names[column] for column in model.columns]}
    return model, {}
