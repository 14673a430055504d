"""A person's way in a real browser: from a table of rows to rules that train, by keyboard alone."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fedlore.kernel.findings import errors
from fedlore.knowledge.findings.checkup import check_file
from fedlore.knowledge.signing import check_signed
from fedlore.knowledge.tables.sheets import csv_bytes

from ..accessible import axe, violations
from ..browser import browsing
from .keys import (
    READY,
    compose,
    focus_grid,
    leave,
    paste,
    press,
    rows_of,
    settled,
    type_row,
    type_text,
)
from .process import ended, opened
from .sites import TOML, site
from .test_moving import lore

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.program("chromium")

TABLE = """> 14,,III|(13..14],A,II|(13..14],B,II|(13..14],C,III|(12..13],A,II|(12..13],B,II
(11..12],A,II|(11..12],C,II|(9..10],A,II|< 7,,I|[7..8),A,I|(8..9],,I"""
RULES = [rule.split(",") for rule in re.split(r"[|\n]", TABLE)]
DOUBTFUL = TOML.replace(
    'table = "predict.csv"', 'formula = "-ash"\nedges = [-13.4, -8]\nspread = 1.5'
)
EDIT = "import('/page/desk.js').then(({desk}) => desk.edit([{path: PATH, value: VALUE}], 'x'))"


def rows():
    """Labelled rows: much ash is III, little is I."""
    made = "ash,seam,grade\n"
    for i in range(120):
        ash = 5.2 + (i * 37 % 100) / 10
        grade = "III" if ash > 13.4 else "I" if ash < 8 else "II"
        made += f"{ash:.1f},{'ABC'[i % 3]},{grade}\n"
    return made


def click(page, text):
    """Press the button or the link that says this."""
    every = "[...document.querySelectorAll('button, nav a')]"
    one = f"{every}.find(b => b.textContent.startsWith('{text}'))"
    page.wait(f"{one} !== undefined")
    page.ask(f"{one}.click()")


def edit(page, path, value):
    """Another value in knowledge.toml, as the forms of the page send it."""
    page.ask(EDIT.replace("PATH", json.dumps(path)).replace("VALUE", json.dumps(value)))


def save(page, who, why, button="Save"):
    click(page, button)
    page.wait("document.querySelector('dialog form') !== null")
    page.ask(
        "(() => { const [who, why] = document.querySelectorAll('dialog input'); "
        f"who.value = '{who}'; why.value = '{why}'; "
        "document.querySelector('dialog button.main').click(); })()"
    )
    page.wait("document.getElementById('state').className === 'clean'")


def test_from_rows_to_rules_that_train(tmp_path):
    home = tmp_path / "sites" / "plant"
    site(home, train=rows())
    for name in ("knowledge.toml", "predict.csv", "range.csv"):
        (home / name).unlink()
    with opened(home) as (address, _), browsing(tmp_path / "profile") as page:
        page.open(address)
        page.wait(READY)
        page.wait("document.getElementById('begin') !== null")
        page.ask("document.getElementById('label').value = 'grade'")
        page.ask("document.getElementById('begin').click()")

        # the classes in their order, then a table of predictions with two columns
        page.wait("document.querySelector('rules-view') !== null")
        edit(page, ["classes"], ["III", "II", "I"])
        click(page, "New table")
        page.wait("document.querySelectorAll('dialog input[type=checkbox]').length === 2")
        page.ask("document.querySelectorAll('dialog input[type=checkbox]').forEach(b => b.click())")
        page.ask("document.querySelector('dialog button.main').click()")
        focus_grid(page)
        for rule in RULES:  # twelve rules by keyboard alone
            type_row(page, rule)
        assert rows_of(page) == RULES
        settled(page)

        # a range between formulas, which one of the rules contradicts
        bounds = {"lower": "0", "upper": "where(ash > 8.5, 1.5, 2.5)", "edges": [1, 2]}
        edit(page, ["range", "sources", 0], bounds)
        grave = "[...document.querySelectorAll('.finding.error')]"
        wrong = f"{grave}.find(f => f.innerText.includes('row 13'))"
        page.wait(f"{wrong} !== undefined")
        page.ask(f"{wrong}.querySelector('p button').click()")
        page.wait("document.querySelector('.state.speaks') !== null")  # its row, tried
        click(page, "Rules")
        focus_grid(page)
        press(page, "End", control=True)
        type_text(page, "II")
        press(page, "Enter")
        settled(page)
        page.wait("document.querySelectorAll('.finding.error').length === 0")

        # three examples, from rows at thresholds
        click(page, "Examples")
        click(page, "Begin a list")
        click(page, "Propose rows")
        page.wait("document.querySelector('rule-grid')?.sheet.rows.length > 3")
        three = "g.did(g.sheet.remove(3, g.sheet.rows.length - 1))"
        page.ask(f"(() => {{ const g = document.querySelector('rule-grid'); {three}; }})()")
        settled(page)
        assert "All 3 examples" in page.ask("document.querySelector('aside').innerText")
        save(page, "Ann", "first rules")

        # a rule from the data, accepted, and what it changes
        click(page, "Data")
        page.wait("document.getElementById('suggest') !== null")
        page.ask("document.getElementById('suggest').click()")
        page.wait("document.getElementById('accept') !== null")
        page.ask("document.getElementById('accept').click()")
        page.wait("document.querySelector('rules-view rule-grid')?.sheet.rows.length === 13")
        save(page, "Ann", "a rule from the rows")
        click(page, "Versions")
        page.wait("document.querySelector('versions-view .finding') !== null")
        told = page.ask("document.querySelector('versions-view').innerText")
        assert "rows are answered otherwise" in told and "a rule from the rows" in told
        page.ask(
            "(() => { const [who, words] = document.querySelectorAll('section form input'); "
            "who.value = 'Ann'; words.value = 'coke and coal'; "
            "document.querySelector('section form button').click(); })()"
        )
        page.wait("document.getElementById('signed').textContent.startsWith('Signed by Ann')")
        assert page.complaints == []
        leave(page)
    assert check_signed(home / "knowledge.toml").signer == "Ann"
    found = check_file(home / "knowledge.toml")
    assert errors(found.findings) == [] and len(found.tables[0].rules) == 13
    shutil.copytree(home, home.with_name("other"))  # a federation needs two
    (tmp_path / "federation.toml").write_text(
        'name = "walk"\nrounds = 2\n[run]\nsites = "sites"\napproaches = ["P-KM", "FLwKM"]\n'
    )
    for command in (
        ["lint", home / "knowledge.toml", "--data", home / "train.csv"],
        ["run", tmp_path / "federation.toml", "--out", tmp_path / "out"],
    ):
        done = subprocess.run([sys.executable, "-m", "fedlore", *command], capture_output=True)
        assert done.returncode == 0, done.stdout + done.stderr


def tab_to(page, what, most=80):
    """Press Tab until the focus is on an element of which this is true."""
    for _ in range(most):
        if page.ask(f"(() => {{ const e = document.activeElement; return Boolean({what}); }})()"):
            return
        press(page, "Tab")
    raise AssertionError(f"Tab does not come to {what}")


def tab_press(page, text, key="Enter"):
    tab_to(page, f"e.matches('a, button') && e.textContent.startsWith({json.dumps(text)})")
    press(page, key)


def make_table(page, side, columns):
    """A new table by keyboard: its side, its columns, and the button that makes it."""
    tab_press(page, "New table")
    page.wait("document.querySelector('dialog form') !== null")
    if side == "range":
        tab_to(page, "e.tagName === 'SELECT' && e.closest('dialog')")
        press(page, "ArrowDown")
    for name in columns:
        tab_to(page, f"e.type === 'checkbox' && e.value.startsWith('{name}')")
        press(page, " ")
    tab_press(page, "Make the table")
    page.wait("document.querySelector('dialog') === null")
    page.wait(f"document.querySelector('rule-grid')?.sheet.header?.length === {len(columns) + 1}")
    tab_to(page, "e.classList.contains('sheet')")


@pytest.mark.slow
def test_the_lesson_is_done_by_keyboard_alone(tmp_path):
    """What docs/learn/expert.md says, with nothing but keys once the address was opened."""
    home = tmp_path / "lesson"
    shutil.copytree(ROOT / "examples" / "lesson", home)
    with opened(home) as (address, _), browsing(tmp_path / "profile") as page:
        page.open(address)
        page.wait(READY)
        page.wait("document.getElementById('begin') !== null")
        tab_press(page, "Begin")  # the last column, grade, is offered
        page.wait("document.querySelector('rules-view') !== null")
        tab_press(page, "Settings")
        tab_to(page, "e.tagName === 'INPUT' && e.value.includes('I, II')")
        press(page, "a", control=True)
        type_text(page, "III, II, I")
        press(page, "Enter")
        settled(page)
        tab_press(page, "Rules")
        make_table(page, "range", ["ash"])
        for rule in (["> 14", "III"], ["(12..14]", "III, II"]):
            type_row(page, rule)
        press(page, "Escape")
        settled(page)
        make_table(page, "predict", ["ash", "sulphur"])
        for rule in (["> 13", "", "II"], ["<= 11", "<= 1", "I"]):
            type_row(page, rule)
        settled(page)
        page.wait("document.querySelectorAll('.finding.error').length === 1")
        said = page.ask("document.querySelector('.finding.error').innerText")
        lesson = (ROOT / "docs" / "learn" / "expert.md").read_text()
        sentence = "row 2 says II, which range.csv, row 2 forbids where ash > 14"
        assert sentence in said and sentence in lesson
        press(page, "Escape")
        tab_press(page, "Try this row")
        page.wait("document.querySelector('try-view')?.innerText.includes('forbid')")
        tab_press(page, "Rules")
        tab_to(page, "e.classList.contains('sheet')")
        press(page, "Home", control=True)
        type_text(page, "(13..14]")
        press(page, "Enter")
        settled(page)
        page.wait("document.querySelectorAll('.finding.error').length === 0")
        press(page, "s", control=True)
        page.wait("document.querySelector('dialog form') !== null")
        type_text(page, "Ann")
        press(page, "Enter")
        page.wait("document.getElementById('state').className === 'clean'")
        tab_press(page, "Data")
        page.wait("document.querySelector('data-view')?.innerText.includes('predict.csv')")
        assert page.complaints == []
        leave(page)
    assert errors(check_file(home / "knowledge.toml").findings) == []
    assert (home / "predict.csv").read_text().splitlines()[1] == "(13..14],,II"


FORMS = """ordered = true
[trust]
value = 0.3
[[trust.regions]]
where = "seam != 'C'"
trust = 0.8
[[shape.sources]]
feature = "ash"
effect = "lowers"
[[range.sources]]
lower = "0"
upper = "3"
edges = [1, 2]
confidence = 0.9
"""


@pytest.mark.parametrize(
    ("width", "dark", "language"),
    [
        pytest.param(1280, False, "en", id="wide"),
        pytest.param(390, False, "zh", id="narrow-zh"),
        pytest.param(390, True, "en", id="narrow-dark"),
        pytest.param(640, True, "zh", id="zoom-dark-zh"),
    ],
)
def test_no_view_breaks_a_rule_of_accessibility(tmp_path, width, dark, language):
    """640 pixels are a window of 1280 at twice the size."""
    script, found = axe(), {}
    views = ("rules", "formulas", "try", "examples", "data", "versions", "settings")
    many = "ash [%],seam,then\n" + "".join(f"> {5 + i % 900 / 100},,II\n" for i in range(2_000))
    homes = {
        "faulty": site(tmp_path / "f", predict="ash [%],seam,then\n> 14,,I\noops,A,II\n"),
        "forms": site(tmp_path / "forms", train=rows(), knowledge=FORMS.partition("[trust]")[0]
                      + TOML.replace("trust = 0.3  # careful", "")
                      + "[trust]" + FORMS.partition("[trust]")[2]),
        "model": site(tmp_path / "model", knowledge=DOUBTFUL, train=rows()),
        "few": site(tmp_path / "few", predict="\n".join(many.split("\n")[:201])),
        "many": site(tmp_path / "many", predict=many),
    }  # fmt: skip
    lore(homes["model"])  # a model, so that there is a curve over λ
    shown = {"faulty": views, "forms": views, "model": ("formulas", "data")}
    curves = (("model", "data"), ("forms", "formulas"))
    with browsing(tmp_path / "profile") as page:
        for name, home in homes.items():
            with opened(home) as (address, _):
                page.open(f"{address}health")
                page.ask(f"localStorage.setItem('language', '{language}')")
                for view in shown.get(name, ("rules",)):
                    page.open("about:blank")
                    page.open(f"{address}#{view}", width=width, dark=dark)
                    page.wait(READY)
                    page.wait(f"document.querySelector('{view}-view')?.children.length > 0")
                    if (name, view) in curves:
                        page.wait(f"document.querySelector('{view}-view .curve') !== null")
                    found[name, view] = violations(page, script)
                    assert page.ask("document.documentElement.scrollWidth") <= width, (name, view)
                leave(page)
    assert {view: some for view, some in found.items() if some} == {}


def wine(folder):
    """178 wines under titles that are no words, and limits of two of them in a workbook."""
    titles = ["Alcohol [% vol]", "Malic acid (g/l)", "Ash", "Alcalinity of ash", "Mg²⁺", "Phenols",
              "Flavanoïds", "Non-flavanoid phenols", "Proanthocyanins", "Colour, intensity", "Hue",
              "OD280/OD315", "Proline"]  # fmt: skip
    found = pytest.importorskip("sklearn.datasets").load_wine()
    names = ["Barolo", "Grignolino", "Barbera"]
    lines = [
        [*map(repr, row), names[y]]
        for row, y in zip(found.data.tolist(), found.target, strict=True)
    ]
    folder.mkdir(parents=True)
    (folder / "train.csv").write_bytes(csv_bytes([[*titles, "cultivar"], *lines]))
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (["Malic acid (g/l)", "Flavanoïds", "then", "note"], ["> 4", None, "not Barolo", ""],
                [None, "> 3", "not Barbera", "seen"]):  # fmt: skip
        book.active.append(row)
    book.save(folder / "limits.xlsx")


def test_a_wine_table_by_keyboard_two_windows_and_a_killed_server(tmp_path):
    home = tmp_path / "wine"
    wine(home)
    first, second = browsing(tmp_path / "one"), browsing(tmp_path / "two")
    with ended(home) as start, first as page, second as other:
        address = start()
        page.open(address, width=1366)
        page.wait("document.getElementById('begin') !== null")
        page.ask("document.getElementById('label').value = 'cultivar'")
        page.ask("document.getElementById('begin').click()")
        page.wait("document.querySelector('rules-view') !== null")
        click(page, "New table")
        page.wait("document.querySelectorAll('dialog input[type=checkbox]').length === 13")
        six = "document.querySelectorAll('dialog input[type=checkbox]')"
        page.ask(f"[0, 1, 3, 6, 9, 12].forEach((i) => {six}[i].click())")
        page.ask("document.querySelector('dialog button.main').click()")
        focus_grid(page)
        for rule in (["> 13", "<= 4", "", "> 2.5", "", "> 700", "Barolo"], ["", "", "", "< 1.2", "",
                     "", "Barbera"], ["< 12.5", "", "", "", "< 4", "", "Grignolino"]):  # fmt: skip
            type_row(page, rule)
        settled(page)
        then, sheet = (f"document.querySelector('{one}').getBoundingClientRect()"
                       for one in (".rows .then", ".sheet"))  # fmt: skip
        assert page.ask(f"{then}.right <= {sheet}.right && {then}.left > {sheet}.left")
        shown = page.ask("[...document.querySelectorAll('.finding p .soft')].map(s => s.innerText)")
        assert shown and all(text.count("=") <= 5 for text in shown)  # not all 13 features

        # a workbook under the data's own titles; one cell of it is changed
        edit(page, ["range", "sources", 0], {"table": "limits.xlsx"})
        page.wait("document.querySelectorAll('.tabs button').length === 3")
        page.ask("document.querySelectorAll('.tabs button')[1].click()")
        page.wait("document.querySelector('rule-grid').sheet.header[0] === 'Malic acid (g/l)'")
        assert page.ask("document.querySelectorAll('.finding.error').length") == 0
        focus_grid(page)
        type_text(page, "> 4.5")
        press(page, "Enter")
        press(page, "End")
        compose(page, "涩味")  # as an input method writes
        press(page, "Enter")
        settled(page)
        assert rows_of(page)[0][0] == "> 4.5" and rows_of(page)[1][3] == "涩味"
        save(page, "Ann", "rules and limits")
        assert page.ask("document.activeElement !== document.body")
        cells = openpyxl_rows(home / "limits.xlsx")
        assert cells[1][0] == "> 4.5" and cells[2][1:] == ["> 3", "not Barbera", "涩味"]

        # what the tried row becomes as an example: only features that some rule looks at
        click(page, "Examples")
        click(page, "Begin a list")
        page.wait("document.querySelector('examples-view rule-grid') !== null")
        paste(page, "14,1.5,,15,,,3,,,5,1,3,900,Barolo,,".replace(",", "\t"))
        settled(page)
        page.wait("document.querySelector('aside').innerText.includes('All 1 examples')")

        # a second window sees it, and neither writes over the other
        other.open(f"{address}#rules")
        other.wait(READY)
        focus_grid(other)
        type_text(other, "> 13.1")
        press(other, "Enter")
        settled(other)
        click(page, "Rules")
        page.ask("document.querySelectorAll('.tabs button')[0].click()")
        page.wait("document.querySelector('rule-grid').sheet.rows[0][0] === '> 13.1'")
        leave(other)

        # the server is killed while somebody types, and comes back
        focus_grid(page)
        start.kill()
        type_text(page, "> 13.2")
        press(page, "Enter")
        page.wait("document.getElementById('state').className === 'away'")
        start()
        settled(page)
        assert "> 13.2" in (home / "studio" / "draft.json").read_text()

        # a rule from the rows, accepted and taken back; the rows on which a rule is wrong
        click(page, "Data")
        page.wait("document.querySelector('data-view td button') !== null")
        page.ask("document.querySelector('data-view td button').click()")
        page.wait("document.querySelector('data-view').innerText.includes('wrong on')")
        page.ask("document.getElementById('suggest').click()")
        page.wait("document.getElementById('accept') !== null")
        page.ask("document.getElementById('accept').click()")
        page.wait("document.querySelector('rules-view rule-grid')?.sheet.rows.length === 4")
        page.ask("document.getElementById('undo').click()")
        page.wait("document.querySelector('rules-view rule-grid')?.sheet.rows.length === 3")

        # the page in Chinese, findings included
        page.ask("document.getElementById('language').value = 'zh'")
        page.ask("document.getElementById('language').dispatchEvent(new Event('change'))")
        ready = READY.replace("Element.", "Element?.")  # the page is loaded again
        page.wait("document.documentElement?.lang === 'zh-CN' && " + ready)
        page.wait("document.querySelector('aside')?.innerText.includes('没有规则')")
        save(page, "Ann", "again", button="保存")
        leave(page)
    assert errors(check_file(home / "knowledge.toml").findings) == []


def openpyxl_rows(path):
    book = pytest.importorskip("openpyxl").load_workbook(path)
    return [[cell.value for cell in row] for row in book.active.iter_rows()]


def test_a_range_is_calibrated_and_trust_is_drawn(tmp_path):
    home = site(tmp_path / "plant", knowledge=DOUBTFUL, train=rows())
    lore(home)
    with opened(home) as (address, _), browsing(tmp_path / "profile") as page:
        page.open(f"{address}#formulas")
        page.wait(READY)
        page.wait("document.getElementById('calibrate') !== null")
        page.ask("document.getElementById('calibrate').click()")
        page.wait("document.querySelector('formulas-view').innerText.includes('Holds the label')")
        click(page, "Data")
        page.wait("document.querySelector('data-view .curve') !== null")
        told = page.ask("document.querySelector('data-view').innerText")
        assert "Right most often at λ" in told
        click(page, "Versions")
        page.wait("document.querySelector('versions-view').innerText.includes('predictions of')")
        assert page.complaints == []
        leave(page)
