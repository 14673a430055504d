"""Whether a page can be used by everybody: axe-core's rules, run in the browser of the tests.

axe-core (MPL-2.0, 0.5 MB) is not kept here. `npm install --prefix tests/axe` fetches the version
that package.json pins; `FEDLORE_AXE` names another axe.min.js.
"""

import os
from pathlib import Path

import pytest

from .browser import Browser

INSTALLED = Path(__file__).parent / "axe" / "node_modules" / "axe-core" / "axe.min.js"
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


def axe() -> str:
    """The script; skips the test where it is not installed."""
    path = Path(os.environ.get("FEDLORE_AXE", INSTALLED))
    if not path.is_file():
        pytest.skip("axe-core is not installed: npm install --prefix tests/axe, or FEDLORE_AXE")
    return path.read_text(encoding="utf-8")


def violations(browser: Browser, script: str) -> list[str]:
    """What the page that is open breaks: rule, how bad, and the first place of each."""
    browser.ask(f"{script}; true")
    found = browser.ask(
        f"axe.run(document, {{runOnly: {LEVELS}}}).then(r => r.violations.map(v => "
        "`${v.id} (${v.impact}): ${v.help}: ${v.nodes.length} times, first ${v.nodes[0].html}: "
        "${v.nodes[0].failureSummary}`))"
    )
    return [str(line) for line in found]
