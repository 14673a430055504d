"""The pages in a real browser: 4 and 20 sites, wide and narrow, light and dark."""

import time

import pytest

from fedlore.federation.pages.app import PagePlace, showing_folder

from ...accessible import axe, violations
from .stage import KINDS, stage

pytestmark = pytest.mark.program("chromium")

TWENTY = ["training"] * 5 + ["sent"] * 6 + list(KINDS)


def test_the_page_fits_its_window_and_complains_of_nothing(browser, tmp_path):
    folder = stage(tmp_path / "fed", TWENTY, now=time.time())
    with showing_folder(folder, PagePlace("127.0.0.1", 0), token=None, say=print) as address:
        browser.open(f"{address}/", width=390, dark=True)
        assert browser.ask("document.documentElement.scrollWidth") <= 390
        assert browser.ask("document.querySelectorAll('tbody tr').length") == 20
        assert browser.ask("document.querySelectorAll('.chart').length") == 4
        assert browser.complaints == []
        assert all(asked.startswith((address, "data:", "about:")) for asked in browser.requests)


def test_the_page_follows_what_changes_until_it_is_paused(browser, tmp_path):
    folder = stage(tmp_path / "fed", TWENTY, now=time.time())
    with showing_folder(folder, PagePlace("127.0.0.1", 0), token=None, say=print) as address:
        browser.open(f"{address}/")
        stage(folder, ["lost"] * 3, now=time.time())
        browser.wait("document.querySelectorAll('tbody tr').length === 3")
        browser.ask("document.getElementById('pause').click()")
        stage(folder, ["sent"] * 2, now=time.time())
        time.sleep(2.5)
        assert browser.ask("document.querySelectorAll('tbody tr').length") == 3
        browser.ask("document.getElementById('pause').click()")
        browser.wait("document.querySelectorAll('tbody tr').length === 2")
        assert browser.ask("document.getElementById('away').hidden")
        assert browser.complaints == []
    browser.wait("!document.getElementById('away').hidden")
    assert "what is shown below is old" in browser.text("away")
    browser.complaints.clear()  # the browser says, too, that nobody answered


def test_a_token_is_asked_for_and_used(browser, tmp_path):
    folder, token = stage(tmp_path / "fed", ["sent"], now=time.time()), "a-token-of-16-letters"
    with showing_folder(folder, PagePlace("127.0.0.1", 0), token=token, say=print) as address:
        browser.open(f"{address}/")
        browser.wait("!document.getElementById('door').hidden")
        assert "plant-01" not in browser.ask("document.body.innerText")
        browser.fill("token", token)
        browser.ask("document.querySelector('#door button').click()")
        browser.wait("document.body.innerText.includes('plant-01')")
        assert browser.ask("document.getElementById('door').hidden")
    browser.complaints.clear()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("sites", [4, 20])
def test_the_page_breaks_no_rule_of_accessibility(browser, tmp_path, sites, width, dark):
    script = axe()
    folder = stage(tmp_path / "fed", TWENTY[-sites:], now=time.time())
    with showing_folder(folder, PagePlace("127.0.0.1", 0), token=None, say=print) as address:
        browser.open(f"{address}/", width=width, dark=dark)
        assert violations(browser, script) == []
        browser.ask("document.getElementById('pause').click()")
    assert browser.ask("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("site", ["plant-1", "plant-3"])  # one that answers, one that refuses
def test_a_site_s_page_breaks_no_rule_of_accessibility(browser, trained, site, width, dark):
    script, home = axe(), trained / "sites" / site
    with showing_folder(home, PagePlace("127.0.0.1", 0), token=None, say=print) as address:
        browser.open(f"{address}/", width=width, dark=dark)
        assert violations(browser, script) == []
        browser.ask("document.getElementById('pause').click()")
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.complaints == []
