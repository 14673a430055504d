"""The rule book on paper: nothing that the screen shows is cut off."""

import base64
import subprocess

import pytest

from fedlore.studio.book import write_book

from ..browser import browsing

pytestmark = pytest.mark.program("chromium")


@pytest.mark.program("pdftotext")
@pytest.mark.parametrize("inches", [(8.27, 11.69), (8.5, 11)], ids=["A4", "Letter"])
def test_the_rule_book_on_paper_loses_no_cell(tmp_path, inches):
    """Fourteen features, examples with what is expected, a long note: every word is in the PDF."""
    names = [f"feature{i}" for i in range(14)]
    text = (
        'classes = ["III", "II", "I"]\nordered = true\nlabel = "grade"\nexamples = "examples.csv"\n'
    )
    text += "".join(f'[[features]]\nname = "{name}"\nlow = 0\nhigh = 100\n' for name in names)
    text += '[[predict.sources]]\ntable = "predict.csv"\n[trust]\nvalue = 0.2\n'
    text += '[[shape.sources]]\nfeature = "feature1"\neffect = "lowers"\n'
    examples = ",".join([*names, "expect", "allowed", "note"])
    examples += "\n" + ",".join(
        [*(f"{11 + i}" for i in range(14)), "I", "all", "remembered-by-Ann"]
    )
    files = {
        "knowledge.toml": text.encode(),
        "predict.csv": b"feature0,then\n> 10,I\n",
        "examples.csv": examples.encode(),
    }
    book = tmp_path / "book.html"
    book.write_text(write_book(files, "plant", tmp_path / "knowledge.toml"))
    with browsing(tmp_path / "profile") as browser:
        browser.open(book)
        width, height = inches
        made = browser.call("Page.printToPDF", paperWidth=width, paperHeight=height)
    (tmp_path / "book.pdf").write_bytes(base64.b64decode(made["data"]))
    found = subprocess.run(
        ["pdftotext", "-raw", tmp_path / "book.pdf", "-"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    plain = "".join(found.split())
    words = [*names, *(str(11 + i) for i in range(14)), "expect", "allowed", "note"]
    for word in [*words, "remembered-by-Ann", "lowers", "0.2"]:
        assert word in plain, word
