"""`fedlore --version`: this version, and what of its extras is installed."""

import json
import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version

from ..version import __version__

_NEED = re.compile(r"([A-Za-z0-9._-]+).*?;\s*extra\s*==\s*[\"'](\w+)[\"']")
_FOR_DEVELOPERS = "dev"


def installed_versions() -> dict[str, object]:
    """Version, Python, system, and per extra the version of each package, or None."""
    try:
        needs = requires("fedlore") or []
    except PackageNotFoundError:  # run from its source without an installation
        needs = []
    core = [re.split(r"[^A-Za-z0-9._-]", n, maxsplit=1)[0] for n in needs if "extra" not in n]
    extras: dict[str, dict[str, str | None]] = {}
    for need in needs:
        found = _NEED.match(need)
        if found and found[2] != _FOR_DEVELOPERS:
            extras.setdefault(found[2], {})[found[1]] = _installed_version(found[1])
    return {
        "fedlore": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "core": {name: _installed_version(name) for name in core},
        "extras": extras,
    }


def print_versions(*, as_json: bool) -> None:
    """One line for people, or everything for a report of a fault."""
    if as_json:
        print(json.dumps(installed_versions(), indent=2))
    else:
        print(f"fedlore {__version__}")


def _installed_version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
