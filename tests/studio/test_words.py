"""Every language says everything, with the same blanks to fill; no word is left over."""

import json
import re
from pathlib import Path

import pytest

import fedlore.studio
from fedlore.studio import make_studio
from fedlore.words import LANGUAGES

from ..bundle.serve.asking import ask
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


@pytest.mark.parametrize("table", ["FINDINGS", "REASONS"])
@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_findings_and_reasons_are_said_in_every_language(language, table):
    """A third language is one file more: the same keys, and blanks that English fills too."""
    english, other = (getattr(LANGUAGES[one], table) for one in ("en", language))
    assert english.keys() == other.keys()
    for key in english:
        both = zip(
            *(s[key] if table == "FINDINGS" else (s[key],) for s in (english, other)), strict=True
        )
        for mine, theirs in both:
            if isinstance(mine, str) and isinstance(theirs, str):
                assert blanks(mine) == blanks(theirs), key


def test_the_page_gets_findings_in_its_language(tmp_path):
    app = make_studio(desk(tmp_path, predict="ash,seam,then\n> 14,,I\n"))
    said = {
        language: ask(app, "GET", "/api/desk", headers={"Accept-Language": language}).json()
        for language in ("en", "zh", "xx")
    }
    english, chinese, unknown = (one["findings"][0]["message"] for one in said.values())
    assert english == unknown and "forbids" in english
    assert "不允许" in chinese and chinese != english
