"""The report in a real browser, wide and narrow."""

import pytest

from fedlore.report import write_report

from ..accessible import axe, violations
from .rows import confusion, history, table
from .test_write import EVIL

pytestmark = pytest.mark.program("chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A full report with one client whose name is long and unfriendly."""
    rows = [r | {"client": EVIL if r["client"] == "b" else "a"} for r in table()]
    return write_report(
        rows,
        tmp_path_factory.mktemp("report"),
        title="A trial",
        facts={"settings": "x" * 300},
        confusion=confusion(20),
        history=history(),
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_fits_its_window_and_complains_of_nothing(browser, page, width, dark):
    browser.open(page, width=width, dark=dark)
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.complaints == []
    assert {address.split(":")[0] for address in browser.requests} == {"file"}


def test_ink_differs_from_paper_in_light_and_dark(browser, page):
    shades = []
    for dark in (False, True):
        browser.open(page, dark=dark)
        style = "getComputedStyle(document.querySelector('{}')).{}"
        paper = browser.ask(style.format("body", "backgroundColor"))
        ink = browser.ask(style.format("figure svg text", "fill"))
        assert ink != paper
        shades.append((ink, paper))
    assert shades[0] != shades[1]


def test_every_figure_has_a_title_a_legend_and_a_caption(browser, page):
    browser.open(page)
    assert browser.ask("document.querySelectorAll('figure').length") == 6
    lacking = """[...document.querySelectorAll('figure')].filter(f =>
        !f.querySelector('svg[aria-label]') || !f.querySelector('[id*=legend]') ||
        !f.querySelector('figcaption').textContent).length"""
    assert browser.ask(lacking) == 0


@pytest.mark.parametrize("width", [1280, 400])
def test_text_in_figures_stays_inside_and_large_enough(browser, page, width):
    browser.open(page, width=width)
    outside = """[...document.querySelectorAll('figure svg')].flatMap(svg => {
        const box = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].filter(text => {
            const t = text.getBoundingClientRect();
            return t.left < box.left - 1 || t.right > box.right + 1 || t.top < box.top - 1 ||
                t.bottom > box.bottom + 1;
        }).map(text => text.textContent);
    })"""
    assert browser.ask(outside) == []
    smallest = """Math.min(...[...document.querySelectorAll('figure svg text')].map(t =>
        parseFloat(getComputedStyle(t).fontSize) * t.ownerSVGElement.getBoundingClientRect().width
        / t.ownerSVGElement.viewBox.baseVal.width))"""
    assert browser.ask(smallest) >= 7


def test_wide_tables_scroll_in_their_box(browser, page):
    browser.open(page, width=400)
    wider = "[...document.querySelectorAll('.box')].some(b => b.scrollWidth > b.clientWidth)"
    assert browser.ask(wider)


def test_the_helper_hears_errors_and_requests(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<script>console.error('heard'); missing()</script><img src='nowhere.png'>")
    before = len(browser.complaints)
    browser.open(bad)
    browser.ask("1")
    assert any("heard" in text for text in browser.complaints[before:])
    assert any(address.endswith("nowhere.png") for address in browser.requests)
    del browser.complaints[before:]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_page_breaks_no_rule_of_accessibility(browser, page, dark):
    script = axe()
    browser.open(page, width=400, dark=dark)
    assert violations(browser, script) == []
