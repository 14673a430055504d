"""The page in a real browser: typed and pasted rows, wide and narrow, with and without a token."""

import re
from dataclasses import replace

import httpx
import pytest

from fedlore.bundle import write_bundle

from .process import INSIST, serving
from .sites import SCHEMA, TOKEN, grades, number
from .test_monitor import drawn

pytestmark = pytest.mark.program("chromium")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The address of a service for grades."""
    path = tmp_path_factory.mktemp("bundle") / "plant.lore"
    write_bundle(grades(), path)
    with serving(path, *INSIST) as service:
        yield service.address


def visit(browser, place, **window):
    browser.open(place, **window)
    browser.wait("!document.getElementById('main').hidden")


def press(browser):
    """Ask for a prediction and wait until it and what would change it, or a complaint, is there."""
    browser.ask("document.getElementById('ask').click()")
    browser.wait("document.getElementById('busy').textContent === ''")
    settle(browser)


def settle(browser):
    browser.wait("!document.getElementById('problem').hidden || "
         "!document.getElementById('change').hidden")  # fmt: skip


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_a_typed_row_is_answered_and_everything_fits(browser, place, width, dark):
    visit(browser, place, width=width, dark=dark)
    for name, value in (("ash", "13"), ("heat", "1000"), ("seam", "A")):
        browser.fill(f"f-{name}", value)
    press(browser)
    assert browser.text("predicted") in ("III", "II")
    assert "ash > 12" in browser.text("why")
    assert browser.ask("document.querySelectorAll('#bars tr').length") == 2
    assert browser.ask("document.querySelector('.chip.no').textContent") == "I"
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("document.getElementById('title').textContent") == "plant <1>: which grade?"
    assert browser.complaints == []
    assert all(address.startswith((place, "data:", "about:")) for address in browser.requests)


@pytest.mark.parametrize(
    "pasted",
    [
        "13\t1000\tA",
        "13,0\t1000,0\tA",
        "13;1000;A",
        "13, 1000, A",
        "seam\tash [%]\theat\tother\nA\t13\t1000\t7",
    ],
    ids=["tabs", "decimal commas", "semicolons", "commas", "with names"],
)
def test_a_pasted_row_fills_the_fields(browser, place, pasted):
    visit(browser, place)
    browser.fill("paste", pasted)
    values = browser.ask(
        "['ash', 'heat', 'seam'].map(n => document.getElementById('f-' + n).value).join(' ')"
    )
    assert values.replace(",0", "") == "13 1000 A"
    press(browser)
    assert browser.text("predicted") in ("III", "II")
    assert browser.complaints == []


def test_titles_of_data_files_are_known_to_the_page(browser, tmp_path):
    ash, *others = SCHEMA.features
    schema = replace(SCHEMA, features=(replace(ash, column="ash content"), *others))
    write_bundle(grades(schema=schema), tmp_path / "plant.lore")
    with serving(tmp_path / "plant.lore", *INSIST) as service:
        visit(browser, service.address)
        assert browser.ask("document.querySelector('[for=f-ash]').textContent").startswith(
            "ash content"
        )
        browser.fill("paste", "heat (K)\tseam\tash content [%]\n1000\tA\t13")
        press(browser)
        assert browser.text("predicted") in ("III", "II") and browser.complaints == []


def test_what_is_missing_wrong_or_out_of_scope_is_shown_at_its_field(browser, place):
    visit(browser, place)
    press(browser)
    assert browser.text("problem") == "ash is missing"
    assert browser.ask("document.activeElement.id") == "f-ash"
    browser.fill("paste", "13\t1000")
    assert browser.text("problem") == "The row has 2 values, 3 are needed: ash, heat, seam"
    browser.fill("paste", "a lot\t1000\tA")
    press(browser)
    assert browser.text("problem") == "ash is not a number: a lot"
    browser.fill("paste", "99\t1000\tA")
    assert browser.ask("document.getElementById('f-ash').className") == "off"
    press(browser)
    assert "outside the scope" in browser.text("scope")
    assert browser.complaints == []


def test_the_answer_follows_the_values_and_none_stands_beside_a_changed_one(browser, place):
    visit(browser, place)
    browser.fill("paste", "13\t1000\tA")  # nobody pressed anything
    browser.wait("!document.getElementById('found').hidden")
    assert browser.text("predicted") in ("III", "II")
    browser.wait("!document.getElementById('change').hidden")
    assert browser.text("smallest").startswith("Smallest change to another answer: ")
    changed = browser.ask(
        "(() => { const bar = document.getElementById('s-ash'); bar.value = 6;"
        "bar.dispatchEvent(new Event('input')); return [document.getElementById('f-ash').value,"
        "document.getElementById('found').className, document.getElementById('change').hidden] })()"
    )
    assert changed == ["6", "old", True]  # what was answered before is taken away at once
    browser.wait("document.getElementById('found').className === ''")
    assert browser.text("predicted") in ("II", "I")
    browser.fill("f-ash", "")
    browser.wait("document.getElementById('found').hidden")
    assert browser.text("hint") == "ash is missing"
    assert browser.complaints == []


def test_a_slider_without_a_number_is_pale_and_in_the_middle(browser, place):
    visit(browser, place)
    bar = "document.getElementById('s-ash')"
    place_of = f"({bar}.value - {bar}.min) / ({bar}.max - {bar}.min)"
    assert browser.ask(f"[{place_of}, {bar}.className]") == [0.5, "unset"]
    browser.fill("f-ash", "13")
    assert browser.ask(f"[{bar}.value, {bar}.className]") == ["13", ""]
    browser.fill("f-ash", "")
    assert browser.ask(f"{bar}.className") == "unset"


def test_a_change_that_is_named_brings_the_answer_it_names(browser, place):
    visit(browser, place)
    browser.fill("paste", "13\t1000\tA")
    browser.wait("!document.getElementById('change').hidden")
    label = browser.ask("document.querySelector('#changes button').textContent")
    browser.ask("document.querySelector('#changes button').click()")
    browser.wait("document.getElementById('found').className === ''")
    assert label.endswith(f": {browser.text('predicted')}")


def test_the_page_speaks_chinese_where_it_is_asked_to(browser, place):
    visit(browser, place + "?lang=zh")
    browser.fill("paste", "13\t1000\tA")
    browser.wait("!document.getElementById('change').hidden")
    shown = browser.ask("document.body.innerText")
    assert re.findall(r"\b[A-Za-z']{2,} [a-z']{2,} [a-z']{2,}\b", shown) == []
    assert "中文" not in shown and "English" in shown and "为什么" in shown
    assert browser.complaints == []


def test_what_the_service_says_is_never_run_as_code(browser, place):
    visit(browser, place)
    browser.fill("paste", "<img src=x onerror=alert(1)>\t1\tA")
    press(browser)
    assert browser.ask("document.querySelectorAll('img').length") == 0
    assert "<img" in browser.text("problem")
    assert browser.complaints == []


def test_a_number_is_shown_with_the_ends_of_its_range(browser, tmp_path):
    write_bundle(number(), tmp_path / "number.lore")
    with serving(tmp_path / "number.lore") as service:
        visit(browser, service.address, width=400)
        browser.fill("paste", "0.5\t0")
        press(browser)
        assert browser.text("allowed").startswith("0 to 2; with 90 % from ")
        assert 0 <= float(browser.text("predicted")) <= 2
        assert browser.text("chances") == "Where it lies"
        # one axis with the allowed band, the interval, the expert and the number; no bars of bins
        shapes = (
            "['allowed', 'interval', 'expert', 'number'].map(n => "
            "document.querySelectorAll('#axis .' + n).length).join(' ')"
        )
        assert browser.ask(shapes) == "1 1 1 1"
        assert browser.ask("document.querySelectorAll('#bars tr').length") == 0
        assert browser.ask("document.documentElement.scrollWidth") <= 400
        assert browser.complaints == []


@pytest.mark.parametrize("width", [1280, 400])
def test_what_was_measured_is_written_down_and_alarms_are_shown(browser, tmp_path, width):
    write_bundle(grades(), tmp_path / "plant.lore")
    monitor = ("--monitor", str(tmp_path / "a.monitor"))
    with serving(tmp_path / "plant.lore", *INSIST, *monitor) as service:
        httpx.post(service.address + "measured", json=drawn(120)).raise_for_status()
        visit(browser, service.address, width=width)
        browser.wait("document.querySelectorAll('#questions tr').length")
        assert "practice.csv, row 2: no longer right" in browser.text("alarms")
        bring = "document.querySelector('#bring button').click()"
        browser.ask(bring)
        assert browser.text("brought") == "The measured grade is missing."
        browser.fill("paste", "13\t1000\tA")
        settle(browser)
        browser.fill("label-measured", "II")
        browser.fill("day", "<b>today</b>")
        for said in ("Recorded: 121 rows.", "This row is already recorded"):
            browser.ask(bring)
            browser.wait(f"document.getElementById('brought').textContent.startsWith('{said}')")
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.ask("document.querySelectorAll('#monitor b').length") == 0
        assert browser.complaints == []


def test_a_page_without_a_record_asks_for_nothing_measured(browser, place):
    visit(browser, place)
    assert browser.ask("document.getElementById('monitor').hidden")
    assert f"{place}monitor" not in browser.requests


def test_a_token_is_asked_for_and_used(browser, tmp_path):
    write_bundle(grades(), tmp_path / "plant.lore")
    token = {"FEDLORE_TOKEN": TOKEN}
    with serving(tmp_path / "plant.lore", *INSIST, environment=token) as service:
        browser.open(service.address)
        browser.wait("!document.getElementById('door').hidden")
        assert browser.ask("document.getElementById('main').hidden")
        assert browser.complaints == []
        browser.fill("token", TOKEN)
        browser.ask("document.querySelector('#door button').click()")
        browser.wait("!document.getElementById('main').hidden")
        browser.fill("paste", "13\t1000\tA")
        press(browser)
        assert browser.text("predicted") in ("III", "II")
        assert browser.complaints == []
