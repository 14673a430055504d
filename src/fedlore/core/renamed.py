"""Old names of fields, understood for one more version."""

import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

_C = TypeVar("_C", bound=type)


def renamed(**names: str) -> Callable[[_C], _C]:
    """Let a class be made and read by old names of its fields, with a warning.

    >>> from fedlore import Knowledge
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", DeprecationWarning)
    ...     Knowledge(rely=0.25).reliance
    0.25
    """

    def decorate(cls: _C) -> _C:
        plain: Callable[..., None] = vars(cls)["__init__"]

        @functools.wraps(plain)
        def init(self: Any, *args: Any, **values: Any) -> None:
            for old in names.keys() & values.keys():
                _warn(cls, old, names[old])
                if names[old] in values:
                    raise TypeError(f"{cls.__name__}: '{old}' is the old name of '{names[old]}'")
                values[names[old]] = values.pop(old)
            plain(self, *args, **values)

        def make_reader(old: str, new: str) -> property:
            def read(self: Any) -> Any:
                _warn(cls, old, new)
                return getattr(self, new)

            return property(read, doc=f"The old name of `{new}`.")

        setattr(cls, "__init__", init)  # noqa: B010
        for old, new in names.items():
            setattr(cls, old, make_reader(old, new))
        return cls

    return decorate


def _warn(cls: type, old: str, new: str) -> None:
    said = f"{cls.__name__}.{old} is called '{new}' since version 0.2; '{old}' ends with 0.3"
    warnings.warn(said, DeprecationWarning, stacklevel=3)
