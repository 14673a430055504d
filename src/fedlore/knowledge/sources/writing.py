"""From models back to the tables of a knowledge file, and what knowledge is made of."""

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import KnowledgeError
from ...kernel.schema import Schema
from ..combine import AllOf, AnyOf, Average, FirstOf
from ..soft import Softened
from ..views import Mask, MaxPool, Recalibrated
from .catalog import SOURCE_KINDS
from .found import plugin_of
from .kind import Attached, SourceKind
from .viewed import view_keys


def kind_of_model(model: object) -> SourceKind | None:
    """The kind of source that a model is, built in or of another package."""
    for kind in SOURCE_KINDS.values():
        if type(model) in kind.models:
            return kind
    return plugin_of(model)


def source_of(model: Any, schema: Schema) -> dict[str, Any]:
    """A model as an entry of a file; the files it needs stand for themselves, see `Attached`."""
    inner, keys = view_keys(model, schema)
    kind = kind_of_model(inner)
    said = None if kind is None else kind.write(inner, lambda one: source_of(one, schema))
    if said is None:
        raise KnowledgeError(
            f"a {type(inner).__name__} cannot be written to a file: use a table, a formula, an "
            "ONNX file or an entry point"
        )
    return said | keys


def leaves(*models: Any) -> Iterator[Any]:
    """The sources that models are combined from, those inside sources included."""
    for model in models:
        parts = parts_of(model)
        if parts is None:
            yield model
            kind = kind_of_model(model)
            parts = () if kind is None else kind.inside(model)
        yield from leaves(*parts)


def plugins_of(*models: Any) -> tuple[str, ...]:
    """The kinds of other packages that models use, by name: what a site's policy must allow."""
    kinds = (kind_of_model(model) for model in leaves(*models))
    found = {kind.name for kind in kinds if kind is not None and kind not in SOURCE_KINDS.values()}
    return tuple(sorted(found))


def parts_of(model: Any) -> tuple[Any, ...] | None:
    """What a combination or a view is made of; None for a source."""
    if model is None:
        return ()
    if isinstance(model, AllOf | AnyOf):
        return tuple(model.ranges)
    if isinstance(model, FirstOf | Average):
        return tuple(model.predictions)
    if isinstance(model, Mask | MaxPool):
        return (model.model,)
    if isinstance(model, Softened):
        return (*(() if model.expert is None else (model.expert,)), *model.ranges)
    return (model.expert,) if isinstance(model, Recalibrated) else None


def plain(values: Any) -> Any:
    """Described knowledge to be compared or hashed: files by what they say, tuples as lists."""
    if isinstance(values, Attached):
        return plain(values.said)
    if isinstance(values, Mapping):
        return {key: plain(value) for key, value in values.items()}
    if isinstance(values, list | tuple):
        return [plain(value) for value in values]
    return values


def pack_sources(values: Any, files: dict[str, bytes], *, check: bool) -> Any:
    """The same values with a name in place of each file, and those files by name.

    With `check` a file that would not read back as it was is refused.
    """
    if isinstance(values, Attached):
        name = values.called(len(files) + 1)
        if check:
            values.check()
        files[name] = values.pack()
        return name
    if isinstance(values, Mapping):
        return {key: pack_sources(value, files, check=check) for key, value in values.items()}
    if isinstance(values, list):
        return [pack_sources(value, files, check=check) for value in values]
    return values
