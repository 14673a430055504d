"""The site itself: built strictly, asking for nothing outside, searched and looked at."""

import json
import subprocess
import sys

import pytest

from handbook.__main__ import SITE
from handbook.pages import ROOT

from ..accessible import axe, violations
from ..browser import browsing

pytestmark = pytest.mark.program("chromium")

MAIN = (
    *("index", "how-to/run", "explain/privacy", "reference/federation", "reference/commands"),
    "reference/errors",
)
#: Without a way out: every name but this machine's own is unknown, so a request would fail.
ALONE = ("unshare", "--user", "--net")


@pytest.fixture(scope="module")
def site():
    """The site as `make docs` builds it, cut off from any network where that can be done."""
    able = subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0
    command = [*(ALONE if able else ()), sys.executable, "-m", "handbook"]
    built = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert "No issues found" in built.stderr
    return SITE


def test_no_page_names_anything_to_fetch(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        for mark in ('<script src="http', '<link rel="stylesheet" href="http', "fonts.g", "unpkg"):
            assert mark not in text, f"{page.name} fetches: {mark}"


@pytest.mark.parametrize("word", ["λ", "trust", "SecAgg"])
def test_search_finds(site, word, tmp_path):
    with browsing(tmp_path / "profile") as page:
        page.open(site / "index.html")
        page.ask("document.querySelector('.md-search__button').click()")
        inside = "[...document.querySelectorAll('*')].find(e => e.shadowRoot).shadowRoot"
        page.wait(f"{inside}.querySelector('input')")
        page.ask(
            f"(() => {{ const field = {inside}.querySelector('input'); "
            f"field.value = {json.dumps(word)}; "
            "field.dispatchEvent(new Event('input', {bubbles: true})) })()"
        )
        page.wait(f"{inside}.querySelectorAll('a').length")
        found = page.ask(f"[...{inside}.querySelectorAll('a')].map(a => a.textContent).join(' ')")
        assert word.lower() in found.lower()
        assert all(address.startswith(("file:", "data:", "about:")) for address in page.requests)
        assert not page.complaints


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", MAIN)
def test_no_page_is_wider_than_its_window(site, name, width, tmp_path):
    with browsing(tmp_path / "profile") as page:
        page.open(site / f"{name}.html", width=width)
        assert page.ask("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_pages_break_no_rule_of_accessibility(site, dark, tmp_path):
    script = axe()
    with browsing(tmp_path / "profile") as page:
        for name in MAIN:
            page.open(site / f"{name}.html", dark=dark)
            assert violations(page, script) == [], name
