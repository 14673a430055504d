"""The grid in a real browser: a spreadsheet by keyboard alone."""

import time

import pytest

from .keys import (
    READY,
    copied,
    focus_grid,
    leave,
    paste,
    press,
    rows_of,
    settled,
    type_row,
    type_text,
)
from .process import opened
from .sites import site

pytestmark = pytest.mark.program("chromium")


FIRST = "document.querySelector('rule-grid').sheet.rows[0][0]"
FOCUSED = "document.activeElement.classList.contains('sheet')"


@pytest.fixture
def page(browser, tmp_path):
    with opened(site(tmp_path)) as (address, _):
        browser.open(address)
        browser.wait(READY)
        focus_grid(browser)
        browser.complaints.clear()
        yield browser
        assert browser.complaints == []
        leave(browser)


def test_cells_are_typed_changed_and_taken_back(page):
    type_text(page, "> 15")
    press(page, "Enter")
    assert rows_of(page)[0][0] == "> 15"
    press(page, "z", control=True)
    page.wait(f"{FIRST} === '> 14' && {FOCUSED}")
    press(page, "y", control=True)
    page.wait(f"{FIRST} === '> 15' && {FOCUSED}")
    press(page, "ArrowUp")
    press(page, "F2")
    page.call("Input.insertText", text=".5")
    press(page, "Tab")
    assert rows_of(page)[0][0] == "> 15.5"
    type_text(page, "B")
    press(page, "Escape")
    assert rows_of(page)[0][1] == ""
    press(page, "Delete")
    settled(page)
    assert page.text("state") == "Draft kept, not saved"


def test_rows_are_added_moved_filled_and_removed(page):
    press(page, "ArrowDown", control=True)
    press(page, "ArrowDown")
    type_row(page, ["< 6", "A", "I"])
    assert rows_of(page)[3] == ["< 6", "A", "I"]
    press(page, "ArrowUp")
    press(page, "ArrowUp", alt=True)
    assert [row[0] for row in rows_of(page)] == ["> 14", "<= 14", "< 6", "< 9"]
    press(page, "d", control=True)  # fills from the rule above
    assert rows_of(page)[2][0] == "<= 14"
    press(page, "-", control=True)
    assert [row[0] for row in rows_of(page)] == ["> 14", "<= 14", "< 9"]
    press(page, "+", control=True)
    assert [row[0] for row in rows_of(page)] == ["> 14", "<= 14", "", "< 9"]


def test_excel_is_pasted_with_decimal_commas_and_copied_back(page):
    paste(page, '> 14,5\tA\tIII\r\n[8,5..9,25)\t"in A, B"\tII\r\n')
    assert rows_of(page)[:2] == [["> 14.5", "A", "III"], ["[8.5..9.25)", '"in A, B"', "II"]]
    assert copied(page) == '> 14.5\tA\tIII\n[8.5..9.25)\t"in A, B"\tII'
    paste(page, "in 3,5")  # which of the two is meant, nobody can know: the linter asks
    settled(page)
    page.wait("document.querySelectorAll('.cell.error').length > 0")


def test_a_fault_is_marked_in_its_cell_and_its_row_leads_to_the_try_out(page):
    press(page, "End")
    type_text(page, "I")
    press(page, "Enter")
    settled(page)
    page.wait("document.querySelector('.number.error') !== null")
    page.ask("document.querySelector('.finding.error p button').click()")
    page.wait("document.getElementById('expert') !== null")
    assert page.text("expert") == "not used"
    assert page.ask("document.querySelectorAll('.state.unheard').length") == 1
    page.wait("document.querySelector('svg rect[fill=\"url(#hatch)\"]') !== null")
    legend = page.ask("[...document.querySelectorAll('.legend span')].map((s) => s.textContent)")
    assert "I: forbidden by the range" in legend


def test_one_tab_leads_in_and_one_out_until_somebody_types(page):
    press(page, "Tab")
    assert not page.ask("document.querySelector('.sheet').contains(document.activeElement)")
    focus_grid(page)
    type_row(page, ["> 15", ""])
    assert page.ask("document.querySelector('.sheet').contains(document.activeElement)")
    press(page, "Escape")
    press(page, "Tab")
    assert not page.ask("document.querySelector('.sheet').contains(document.activeElement)")


def test_the_answer_stays_in_sight_beside_wide_conditions(page):
    page.ask(
        "document.querySelector('rule-grid').style"
        ".setProperty('--columns', '4rem 90rem 20rem 8rem')"
    )
    place = "document.querySelector('.rows .then').getBoundingClientRect()"
    assert page.ask(
        f"{place}.right <= document.querySelector('.sheet').getBoundingClientRect().right + 1"
    )


def test_signs_of_input_methods_and_spans_are_understood(page):
    paste(page, "＞ 14，5\n12-14\n≧ 3")
    assert [row[0] for row in rows_of(page)[:3]] == ["> 14.5", "12..14", ">= 3"]


def test_what_was_typed_survives_a_reload_before_it_was_kept(page):
    page.ask("import('/page/desk.js').then(({desk}) => { desk.send = () => Promise.resolve(); })")
    type_text(page, "> 15")
    press(page, "Enter")
    page.ask("import('/page/desk.js').then(({desk}) => { desk.pending = null; })")
    page.call("Page.reload")
    page.wait(READY)
    focus_grid(page)
    page.wait("document.querySelector('rule-grid').sheet.rows[0][0] === '> 15'")
    settled(page)


def test_another_programs_change_is_shown_without_a_key(page, tmp_path):
    (tmp_path / "predict.csv").write_text("ash [%],seam,then\n> 13,,III\n")
    page.wait("document.querySelector('rule-grid').sheet.rows[0][0] === '> 13'")


def test_the_grid_follows_the_aria_pattern(page):
    about = page.ask(
        "(() => { const s = document.querySelector('.sheet'); return [s.getAttribute('role'), "
        "s.getAttribute('aria-rowcount'), s.getAttribute('aria-colcount'), "
        "document.getElementById(s.getAttribute('aria-activedescendant')).getAttribute('role'), "
        "s.querySelectorAll('[role=row]').length, s.querySelectorAll('[role=columnheader]').length]"
        "; })()"
    )
    assert about == ["grid", "5", "4", "gridcell", 5, 4]


def test_two_windows_do_not_overwrite_each_other(page):
    type_text(page, "> 15")
    press(page, "Enter")
    settled(page)
    page.ask("import('/page/desk.js').then(({desk}) => { desk.now.token = 'old'; })")
    type_text(page, "> 3")
    press(page, "Enter")
    page.wait("document.getElementById('state').className === 'stale'")
    assert "changed 'predict.csv'" in page.text("banner")
    page.ask("[...document.querySelectorAll('#banner button')].at(-1).click()")  # keep my table
    settled(page)
    assert rows_of(page)[1][0] == "> 3"
    page.ask("import('/page/desk.js').then(({desk}) => { desk.now.token = 'old'; })")
    type_text(page, "> 4")
    press(page, "Enter")
    page.wait("document.getElementById('state').className === 'stale'")
    page.ask("document.querySelector('#banner button').click()")  # load the newer state
    page.wait("document.getElementById('banner').hidden")
    assert [row[0] for row in rows_of(page)[1:3]] == ["> 3", "< 9"]
    page.complaints.clear()  # the browser writes down the 409


def test_a_dead_studio_loses_nothing(browser, tmp_path):
    with opened(site(tmp_path)) as (address, stop):
        browser.open(address)
        browser.wait(READY)
        focus_grid(browser)
        stop()
        type_text(browser, "> 15")
        press(browser, "Enter")
        browser.wait("document.getElementById('state').className === 'away'")
    with opened(tmp_path, port=int(address.split(":")[-1].strip("/"))):
        settled(browser)
        assert rows_of(browser)[0][0] == "> 15"
        assert "> 15" in (tmp_path / "studio" / "draft.json").read_text()
    browser.complaints.clear()


def test_five_thousand_rules_stay_light(browser, tmp_path):
    rules = "".join(f"[{i / 500:.3f}..{(i + 1) / 500:.3f}),A,II\n" for i in range(5_000))
    with opened(site(tmp_path, predict="ash [%],seam,then\n" + rules)) as (address, _):
        browser.open(address)
        browser.wait(READY)
        focus_grid(browser)
        assert browser.ask("document.querySelectorAll('.rows .row').length") < 80
        began = time.monotonic()
        press(browser, "End", control=True)
        assert browser.ask("document.querySelector('rule-grid').row") == 4_999
        assert time.monotonic() - began < 5
        type_text(browser, "garbage")
        press(browser, "Enter")
        settled(browser)  # a table of any size is checked
        browser.wait("document.querySelector('aside').innerText.includes('garbage')")
    browser.complaints.clear()
