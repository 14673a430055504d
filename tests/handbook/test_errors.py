"""Every error has a code and a place in the reference, and none goes away unnoticed."""

import pickle

import pytest

from fedlore import ConfigError, FedloreError, Knowledge, KnowledgeError, Plan
from fedlore.config import build
from fedlore.errors.listed import listed
from fedlore.errors.sentences import SourceText, has_words
from handbook.errors import Said, assign, error_pages, kept, sentences
from handbook.remedies import LETTERS, REMEDIES, remedy

from ..cli.test_demo import fedlore

COMMAND = "python -m handbook.errors"


def test_every_error_of_the_source_has_a_code():
    lacking = [one for one in sentences() if one.sentence not in listed()]
    assert not lacking, f"{lacking[0].path} says '{lacking[0].sentence}', without a code: {COMMAND}"


def test_no_error_of_the_list_is_gone_from_the_source():
    said = {one.sentence for one in sentences()}
    gone = {code: sentence for code, sentence in kept()["codes"].items() if sentence not in said}
    assert not gone, f"nobody says {min(gone.items())} any more; meant so: {COMMAND}"


def test_the_list_is_what_the_command_writes():
    codes = kept()["codes"]
    assert len(set(codes.values())) == len(codes) > 900
    assert assign(sentences(), kept()) == kept()
    for code in codes:
        assert code[:3] == "FL-" and int(code[4:]) <= kept()["last"][code[3]]


def test_every_error_stands_on_a_page_with_what_to_do():
    pages = error_pages()
    rooms = {letter: room for room, (letter, _) in LETTERS.items()}
    for code in kept()["codes"]:
        assert f"| {code} | " in pages[f"reference/errors/{rooms[code[3]]}.md"]
    for one in sentences():
        assert remedy(one.path) in REMEDIES.values()
    unused = set(REMEDIES.values()) - {remedy(one.path) for one in sentences()}
    assert not unused


def test_an_error_knows_its_code():
    with pytest.raises(KnowledgeError) as found:
        Knowledge(trust=1.3)
    assert kept()["codes"][found.value.code] == "… must lie in [0, 1], got …"
    assert found.value.code.startswith("FL-K")
    assert pickle.loads(pickle.dumps(found.value)).code == found.value.code


def test_an_error_that_passes_another_on_has_the_code_of_that_one():
    with pytest.raises(ConfigError, match=r"\[plan\] lr must") as found:
        build(Plan, {"lr": -1.0}, "plan")
    assert found.value.code.startswith("FL-A")
    try:
        try:
            Knowledge(trust=2.0)
        except KnowledgeError as error:
            raise FedloreError("something else altogether") from error
    except FedloreError as error:
        assert error.code is None  # of nobody's list, and not about what it was raised from


def test_a_multiline_call_in_a_branch_is_found_by_its_first_line():
    text = 'def f(x):\n    if x:\n        raise E(\n            f"a row {x} b"\n        )\n'
    assert SourceText(text).sentence_at(3, ("E",)) == "a row … b"
    assert SourceText(text).sentence_at(4, ("E",)) is None


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ('raise E("plain")', "plain"),
        ('raise E(f"{a}{b} has " + str(c))', "… has …"),
        ('m = f"row {a}"\n    raise E(m)', "row …"),
        ("raise E(unknown('key', a, b))", "unknown key '…'…"),
        ("raise E(f\"at {a}: {unknown('key', a, b)}\")", "at …: unknown key '…'…"),
        ("raise E(g())", "from g"),
        ("raise E(str(a))", "… (What f does)"),
    ],
)
def test_the_sentence_of_an_error_is_read_from_the_source(code, sentence):
    text = f'def g():\n    return "from g"\ndef f(a, b, c):\n    """What f does."""\n    {code}\n'
    source = SourceText(text)
    (call,) = (call for call, name in source.calls() if name == "E")
    assert source.sentence(call) == sentence
    assert has_words(sentence)


def test_codes_stay_with_reworded_sentences_and_are_not_given_out_again():
    def said(*texts: str) -> list[Said]:
        return [Said(text, "FedloreError", "data/x.py") for text in texts]

    first = assign(said("rows must be numbers, got …", "there is no file"), _EMPTY)
    assert list(first["codes"]) == ["FL-D001", "FL-D002"]
    second = assign(said("rows have to be numbers, got …", "the disk is full"), first)
    assert second["codes"] == {
        "FL-D001": "rows have to be numbers, got …",
        "FL-D003": "the disk is full",
    }


_EMPTY: dict[str, dict] = {"codes": {}, "last": {}}


def test_the_command_line_shows_the_code_at_the_end(tmp_path):
    (tmp_path / "knowledge.toml").write_text("trusted = 3\n")
    done = fedlore("lint", "knowledge.toml", cwd=tmp_path)
    code = listed()["…unknown key '…'…"]
    assert done.returncode == 2 and done.stderr.rstrip().endswith(f"({code})")
