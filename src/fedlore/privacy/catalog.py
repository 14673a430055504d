"""All filters by name: fedlore's own, and those of installed packages."""

from collections.abc import Mapping
from typing import Any

from ..core.plugins import make_named
from ..errors import ConfigError
from .ckks.filter import Encryption
from .defence import Defence
from .dp.filter import Noise
from .secagg.filter import Masks

_GROUP = "fedlore.filters"
FACES = ("name", "hides", "kinds", "make")

#: A new filter of fedlore's own is its file and one line here.
FILTERS: dict[str, type[Any]] = {"dp": Noise, "secagg": Masks, "ckks": Encryption}

#: Tasks that these add to those of `core.wire`, and what the replies hold.
ADDED: dict[str, str] = {
    kind: holds for filter in FILTERS.values() for kind, holds in filter.kinds.items()
}


def defence_of(name: str, table: Mapping[str, Any]) -> Defence:
    """The defence of this name with its settings; a package's own is loaded here and not before."""
    found: Defence = make_named("filter", name, table, FILTERS, _GROUP)
    missing = [face for face in FACES if not hasattr(found, face)]
    if missing:
        raise ConfigError(f"filter '{name}' lacks {', '.join(missing)} (see Defence)")
    return found
