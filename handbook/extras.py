"""Stands for pip while a page is walked: nothing is installed, but the extras must exist."""

import re
import sys
import tomllib
from pathlib import Path


def missing_extras(words: list[str]) -> list[str]:
    """The extras of fedlore that a command names and that there are none of."""
    path = Path(__file__).parent.parent / "pyproject.toml"
    known = tomllib.loads(path.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = [
        one
        for word in words
        for part in re.findall(r"fedlore\[(.*?)\]", word)
        for one in part.split(",")
    ]
    return [one for one in named if one not in known]


if __name__ == "__main__":
    lacking = missing_extras(sys.argv[1:])
    if lacking:
        sys.exit(f"no such extra: {', '.join(lacking)}")
