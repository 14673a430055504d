"""One version: in the source, the changelog and the citation."""

import re

from fedlore.version import __version__

from .steps import ROOT, Found


def check_version() -> Found:
    """Every place that names the version reads it, or says the same."""
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)
    changed = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    declared = 'version = { attr = "fedlore.version.__version__" }'
    wrong = []
    if cited is not None and cited[1] != __version__:
        wrong.append(f"CITATION.cff says {cited[1]}")
    if changed is None or changed[1] != __version__:
        wrong.append(f"CHANGELOG.md begins with {changed and changed[1]}")
    if declared not in (ROOT / "pyproject.toml").read_text():
        wrong.append("pyproject.toml has a version of its own")
    return Found(f"version {__version__} everywhere", not wrong, tuple(wrong))
