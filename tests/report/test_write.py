"""The report as files: complete, self-contained, and safe whatever the rows say."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from fedlore import FedloreError
from fedlore.look.page import show_headline
from fedlore.report import write_report

from .rows import confusion, history, row, table

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;</style>"


class Page(HTMLParser):
    """Tags, ids, attributes and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    rows = table() + [r for r in table(share=0.3) if r["approach"] == "FLwKM"]
    facts = {"date": "2022-08-16", "data": "made up"}
    path = write_report(
        rows, out, title="A trial", facts=facts, confusion=confusion(), history=history()
    )
    return path, Page(path.read_text(encoding="utf-8"))


def test_it_says_what_was_run(written):
    path, page = written
    assert path.name == "report.html"
    for words in (
        *("A trial", "2022-08-16", "made up", "abc123", "fedlore 0.1.0", "0, 1"),
        *("Covertype · fair protocol · oracle ranges", "read these numbers as an upper bound"),
        *("The paper's own numbers", "lore minus the others", "85.8", "by share of the training"),
        *("each client trains alone, without knowledge", "half of the 95 % interval"),
    ):
        assert words in page.text


def test_it_needs_nothing_but_itself(written):
    path, page = written
    html = path.read_text(encoding="utf-8")
    assert not page.tags & {"script", "link", "iframe", "img", "object", "embed", "base"}
    links = [value for name, value in page.attributes if name in ("href", "src", "xlink:href")]
    assert links and all(value.startswith("#") for value in links)
    assert not re.findall(r"url\((?!#)|@import|@font-face", html)
    assert any("default-src 'none'" in value for name, value in page.attributes)
    assert len(page.ids) == len(set(page.ids)) > 100  # and every reference has its target
    wanted = set(re.findall(r'(?:url\(#|href="#)([^")]+)', html))
    assert wanted <= set(page.ids)


def test_plots_are_files_too_and_wellformed(written):
    folder = written[0].parent / "plots"
    names = {path.stem for path in folder.iterdir()}
    assert len(names) == 7 and "covertype-fair-protocol-oracle-ranges-rounds" in names
    for name in names:
        assert ElementTree.parse(folder / f"{name}.svg").getroot().tag.endswith("svg")
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_tables_are_there_as_markdown(written):
    text = (written[0].parent / "tables.md").read_text(encoding="utf-8")
    assert text.startswith("# A trial\n\n## Covertype · fair protocol · oracle ranges\n\n> Oracle")
    assert "| lore | shared | **80.5 ± 6.4** |" in text


def test_whatever_rows_say_stays_text(tmp_path):
    names = {key: EVIL for key in ("dataset", "protocol", "range", "model", "config", "versions")}
    rows = [row(EVIL, EVIL, s, 0.5, pov=0.1, **names) for s in (0, 1)]
    rows += [row("lore", EVIL, s, 0.6, pov=0.0, **names) for s in (0, 1)]
    mistakes = [{"approach": EVIL, "label": EVIL, "predicted": EVIL, "count": 1}]
    rounds = [row(EVIL, EVIL, 0, 0.5, round=1)]
    path = write_report(
        rows, tmp_path, title=EVIL, facts={EVIL: EVIL}, confusion=mistakes, history=rounds
    )
    page = Page(path.read_text(encoding="utf-8"))
    assert not page.tags & {"script", "img"}
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert page.text.count("<script>alert(1)</script>") > 10  # as text, everywhere
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plots", "report.html", "tables.md"]


def test_the_same_rows_give_the_same_bytes(tmp_path):
    one, two = (
        write_report([row(), row("lore")], tmp_path / name, title="t", facts={})
        for name in ("one", "two")
    )
    assert one.read_bytes() == two.read_bytes()


def test_one_seed_claims_no_intervals(tmp_path):
    path = write_report([row(), row("lore")], tmp_path, title="t", facts={})
    text = Page(path.read_text(encoding="utf-8")).text
    assert "There is only one seed" in text and "±" not in text and "95 %" not in text


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FedloreError, match=r"cannot write to '.*file"):
        write_report([row()], tmp_path / "file", title="t", facts={})


def test_a_long_answer_is_large_as_far_as_its_first_sentences_go():
    short, long = "Lore is first.", "ML, FL and FLwKM are behind it" + ", and so on" * 20 + "."
    assert show_headline(f"{short} {short}") == f'<p class="headline">{short} {short}</p>'
    assert show_headline(f"{short} {long}") == f'<p class="headline">{short}</p><p>{long}</p>'
    assert show_headline(f"{long} {short}") == f'<p class="headline">{long}</p><p>{short}</p>'
    assert show_headline(long) == f'<p class="headline">{long}</p>'
    assert show_headline("") == ""
