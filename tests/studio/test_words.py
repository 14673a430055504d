"""Every language says everything, with the same blanks to fill; no word is left over."""

import ast
import json
import re
from pathlib import Path

import pytest

import fedlore.bundle.serve
import fedlore.studio
from fedlore.report import write_report
from fedlore.report.benefit import benefit_page
from fedlore.studio import make_studio
from fedlore.studio.book import write_book
from fedlore.words import LANGUAGE, TAGS, read_language

from ..bundle.serve.asking import ask
from ..report.rows import table
from .sites import desk

PAGE = Path(fedlore.studio.__file__).parent / "page"
ENGLISH = json.loads((PAGE / "words.en.json").read_text())
SCRIPTS = {path.name: path.read_text() for path in PAGE.glob("*.js")}


def blanks(text):
    return sorted(re.findall(r"\{(\w+)\}", text))


@pytest.mark.parametrize("path", sorted(PAGE.glob("words.*.json")), ids=lambda p: p.name)
def test_a_catalogue_is_whole(path):
    words = json.loads(path.read_text(encoding="utf-8"))
    assert words.keys() == ENGLISH.keys()
    assert {k for k in words if blanks(words[k]) != blanks(ENGLISH[k])} == set()
    assert all(text.strip() for text in words.values())


def test_every_word_that_a_script_says_is_there():
    said = {key for text in SCRIPTS.values() for key in re.findall(r"""say\("([^"]+)"[,)]""", text)}
    assert said - ENGLISH.keys() == set()


def test_no_word_waits_for_a_script_that_never_says_it():
    everything = "\n".join(SCRIPTS.values())
    starts = set(re.findall(r"""say\("([\w.]+\.)" \+""", everything))
    unused = {key for key in ENGLISH if f'"{key}"' not in everything
              and not any(key.startswith(start) for start in starts)}  # fmt: skip
    # words of one piece, asked by a value: a severity, a side, a heading of a table
    assert unused <= {"error", "warning", "info", "predict", "range", "predict.long", "range.long"}


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_scripts_are_short_and_make_no_code_of_texts(name):
    assert len(SCRIPTS[name].splitlines()) <= 260
    assert not re.search(
        r"innerHTML|outerHTML|document\.write|\beval\(|new Function", SCRIPTS[name]
    )


def asked_of(text, parts):
    """The arguments that a sentence asks for, those of the parts that it names among them."""
    found = set()
    for name in re.findall(r"\{([\w./-]+)", text):
        inner = (
            asked_of(parts[name], parts) if name in parts else {re.sub("_(count|more)$", "", name)}
        )
        found |= inner
    return found - {"0", "1", "item", "name", "value", "link"}


@pytest.mark.parametrize("language", sorted(set(TAGS) - {"en"}))
def test_findings_and_reasons_are_said_in_every_language(language):
    """A third language is one file more: the same keys, and arguments that English asks for too."""
    english, other = read_language("en"), read_language(language)
    for mine, theirs in ((english.findings, other.findings), (english.reasons, other.reasons)):
        assert mine.keys() == theirs.keys()
        for key in mine:
            for one, two in zip(
                *(s[key] if isinstance(s[key], list) else [s[key]] for s in (mine, theirs)),
                strict=True,
            ):
                assert asked_of(two, other.parts) <= asked_of(one, english.parts), key
    named = {f"{s}." for s in re.findall(r":@(\w+)", str([english, other]))}
    assert {p for p in english.parts if p not in other.parts} == set()
    assert {
        p for p in other.parts if p not in english.parts and not p.startswith(tuple(named))
    } == set()


def said_texts():
    """What code gives to `say` as a literal, and what the page of a service says in its HTML."""
    found = set()
    for path in (Path(fedlore.__file__).parent).rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"words import .*\bsay\b", text):
            continue
        for node in ast.walk(ast.parse(text)):
            called = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "say"
            if called and node.args and isinstance(node.args[0], ast.Constant):
                found.add(node.args[0].value)
    page = Path(fedlore.bundle.serve.__file__).parent / "page"
    for path in page.glob("*.js"):
        text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
        for call in re.findall(r"""say\(([^()]*?)(?:,|\)|$)""", text):
            found |= set(re.findall(r'"([^"]+)"', call))
        found |= set(re.findall(r'^  \w+: "([^"]+)",$', text, re.M))  # who decided
    html = (page / "page.html").read_text(encoding="utf-8")
    texts = re.findall(r">([^<]+)<", html) + re.findall(r'placeholder="([^"]+)"', html)
    return found | {text.strip() for text in texts if re.search("[a-z]", text)} - {"fedlore"}


@pytest.mark.parametrize("language", sorted(set(TAGS) - {"en"}))
def test_every_text_of_a_page_is_said_in_every_language(language):
    texts = read_language(language).texts
    missing = {text for text in said_texts() if text not in texts and not text.startswith("/*")}
    assert missing == set()
    assert {text for text in texts if blanks(text) != blanks(texts[text])} == set()


#: Three English words in a row, which no name or formula has.
SENTENCE = re.compile(r"\b[A-Za-z']{2,} [a-z']{2,} [a-z']{2,}\b")


def shown_text(html):
    body = re.sub(r"(?s)<(style|figure|script).*?</\1>", " ", html)
    return re.sub(r"<[^>]+>", " | ", body)


def test_pages_in_chinese_show_no_english_sentence(tmp_path):
    place = desk(tmp_path, predict="ash,seam,then\n> 14,,I\n").place
    told = {
        "site": "plant-1",
        "measure": "accuracy",
        "rows": 40,
        "sentence": "。",
        "costs": {"network": 0.05},
    }
    told |= {
        "lines": [
            {"name": n, "value": 0.5, "low": 0.4, "high": 0.6}
            for n in ("local best", "network", "mixture")
        ]
    }
    told |= {
        "weights": {"network": 1.0},
        "gain": {"name": "gain", "value": 0.1, "low": -0.1, "high": 0.3},
    }
    token = LANGUAGE.set("zh")
    try:
        members = {
            path.name: path.read_bytes() for path in place.folder.iterdir() if path.is_file()
        }
        book = write_book(members, "plant-1", place.folder / "knowledge.toml")
        report = write_report(
            table(dataset="coke"), tmp_path / "report", title="t", facts={}
        ).read_text()
        pages = {"book": book, "benefit": benefit_page(told), "report": report}
    finally:
        LANGUAGE.reset(token)
    found = {name: SENTENCE.findall(shown_text(html)) for name, html in pages.items()}
    # errors are in English everywhere
    assert found == {"book": ["nobody has signed"], "benefit": [], "report": []}


def test_the_page_gets_findings_in_its_language(tmp_path):
    app = make_studio(desk(tmp_path, predict="ash,seam,then\n> 14,,I\n"))
    said = {
        language: ask(app, "GET", "/api/desk", headers={"Accept-Language": language}).json()
        for language in ("en", "zh", "xx")
    }
    english, chinese, unknown = (one["findings"][0]["message"] for one in said.values())
    assert english == unknown and "forbids" in english
    assert "不允许" in chinese and chinese != english
