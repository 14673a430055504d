"""Whatever is put before the studio: a sentence, and nothing that was typed is lost."""

import errno

import pytest

import fedlore.studio.draft as module
from fedlore.studio import find_workplace, make_studio

from ..bundle.serve.asking import ask
from .sites import FILES, TOML, desk, site

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
HALF = b'ash [%],seam,then\n> 14,,III\n"<= 14,C'


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("predict.csv", PICTURE),
        ("predict.csv", b""),
        ("predict.csv", HALF),
        ("predict.csv", "ash,then\n> 14,III\n".encode("utf-16")[:-1]),
        ("predict.csv", b"then\n" * 3),
        ("range.csv", b"PK\x03\x04 no zip"),
        ("knowledge.toml", b"classes = [\n"),
        ("knowledge.toml", PICTURE),
        ("knowledge.toml", b""),
        ("knowledge.toml", b"features = 3\n"),
        ("knowledge.toml", FILES["knowledge.toml"].replace(b"range.csv", b"range.xlsx")),
        ("knowledge.toml", FILES["knowledge.toml"].replace(b"range.csv", b"../../etc/passwd")),
        ("train.csv", PICTURE),
        ("train.csv", b"ash;seam\n1"),
    ],
)
def test_wrong_files_and_half_a_table_are_told_and_left_alone(tmp_path, name, data):
    site(tmp_path)
    (tmp_path / name).write_bytes(data)
    app = make_studio(module.Workspace(find_workplace(tmp_path)))
    assert ask(app, "GET", "/api/desk").status_code == 200
    row = {"row": {"ash": 10, "seam": "A"}}
    for path, body in (
        ("/api/data", {}),
        ("/api/try", row),
        ("/api/map", {**row, "features": ["ash", "seam"]}),
        ("/api/compare", {"before": "saved", "after": "draft"}),
    ):
        answer = ask(app, "POST", path, json=body)
        assert answer.status_code in (200, 422), (path, answer.text)
        if answer.status_code == 422:
            said = answer.json()["error"]
            assert said and "Traceback" not in said and len(said) < 1_000
    assert ask(app, "GET", "/api/book").status_code in (200, 422)
    assert (tmp_path / name).read_bytes() == data


@pytest.mark.parametrize(
    "text",
    [
        "ash + " * 1_666 + "ash",
        "(" * 5_000 + "ash" + ")" * 4_997,
        "-" * 9_999 + "1",
        "a" * 10_000,
        "1" * 10_000,
        "where(" * 1_600 + "ash",
        "\0" * 10_000,
    ],
)
def test_a_formula_of_ten_thousand_characters_is_answered(tmp_path, text):
    one = desk(tmp_path)
    app = make_studio(one)
    said = ask(app, "POST", "/api/formula", json={"text": text}).json()
    assert said["ok"] or (said["message"] and len(said["message"]) < 1_000)
    entry = {"path": ["predict", "sources", 0], "value": {"formula": text, "edges": [1, 2]}}
    put = ask(app, "PUT", "/api/document", json={"token": one.token, "edits": [entry]})
    assert put.status_code in (200, 422)  # kept as a draft with its finding, or refused in words
    if put.status_code == 200 and not said["ok"]:
        assert any(f["severity"] == "error" for f in put.json()["findings"]) or put.json()["fault"]
    assert (tmp_path / "knowledge.toml").read_bytes() == FILES["knowledge.toml"]


@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_a_full_disk_says_so_through_the_page_and_keeps_what_was_there(
    tmp_path, monkeypatch, fault
):
    one = desk(tmp_path)
    app = make_studio(one)

    def full(path, data):
        raise OSError(fault, "No space left on device")

    rows = [["> 13", "", "III"]]
    change = {"token": one.token, "grid": 0, "header": ["ash [%]", "seam", "then"], "rows": rows}
    with monkeypatch.context() as broken:
        broken.setattr(module, "write_whole", full)
        answer = ask(app, "PUT", "/api/table", json=change)
        said = answer.json()["error"]
        assert answer.status_code >= 400 and "No space left on device; what you typed is in" in said
    assert ask(app, "PUT", "/api/table", json=change).status_code == 200  # once there is room
    saving = {"token": one.token, "why": "", "who": "", "anyway": True}
    with monkeypatch.context() as broken:
        broken.setattr(module, "write_whole", full)
        answer = ask(app, "POST", "/api/save", json=saving)
        assert answer.status_code >= 400 and "No space left" in answer.json()["error"]
    assert (tmp_path / "predict.csv").read_bytes() == FILES["predict.csv"]
    assert one.draft.changed  # what was typed is still the draft
    assert ask(app, "POST", "/api/save", json=saving).status_code == 200


def test_the_second_of_two_windows_is_refused_on_every_change(tmp_path):
    one = desk(tmp_path)
    app = make_studio(one)
    old = one.token
    rows = [["> 13", "", "III"]]
    change = {"grid": 0, "header": ["ash [%]", "seam", "then"], "rows": rows, "who": "Ann"}
    assert ask(app, "PUT", "/api/table", json={**change, "token": old}).status_code == 200
    late = {"token": old, "who": "Bo"}
    said = ask(app, "PUT", "/api/table", json=change | late).json()["error"]
    assert said.startswith("Ann changed 'predict.csv' at ")
    for method, path, body in (
        ("PUT", "/api/table", change | late),
        ("PUT", "/api/document", {**late, "edits": [{"path": ["trust"], "value": 0.9}]}),
        ("POST", "/api/table", {**late, "side": "range", "file": "more.csv", "columns": ["ash"]}),
        ("POST", "/api/save", late),
        ("POST", "/api/discard", late),
        ("POST", "/api/examples", late),
        ("POST", "/api/calibrate", {**late, "alpha": 0.1}),
    ):
        answer = ask(app, method, path, json=body)
        assert answer.status_code == 409 and "Ann" in answer.json()["error"], (path, answer.text)
    assert b"> 13" in one.members["predict.csv"]


def test_no_python_is_run_whatever_the_document_says(tmp_path, capsys):
    """A file with entry points runs their code when it is opened; the studio must not."""
    text = FILES["knowledge.toml"].decode().replace('table = "predict.csv"', 'entry = "this:d"')
    app = make_studio(desk(tmp_path, knowledge=f"entry_points = true\n{text}"))
    findings = ask(app, "GET", "/api/desk").json()["findings"]
    assert [one["severity"] for one in findings] == ["error"]
    assert "the studio does not" in str(findings)
    assert ask(app, "POST", "/api/try", json={"row": {"ash": 10, "seam": "A"}}).status_code == 422
    assert "Beautiful is better than ugly" not in capsys.readouterr().out


def test_nothing_outside_the_folder_of_the_site_is_read(tmp_path):
    outside = tmp_path / "secret.csv"
    outside.write_text("ash,then\n> 12,III\n")
    for name in (str(outside), "../secret.csv"):
        text = FILES["knowledge.toml"].decode().replace("range.csv", name)
        app = make_studio(desk(tmp_path / "site", knowledge=text))
        shown = ask(app, "GET", "/api/desk").text
        assert "outside the site's folder" in shown and "> 12,III" not in shown


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ('\n[[shape.sources]]\nfeature = "nothing"\neffect = "raises"\n', "[shape]"),
        ('\n[[range.sources]]\ntable = "gone.csv"\n', "[range] source 2 gone.csv"),
    ],
)
def test_one_part_that_cannot_be_used_locks_nothing_else(tmp_path, part, name):
    app = make_studio(desk(tmp_path, knowledge=TOML + part))
    shown = ask(app, "GET", "/api/desk").json()
    assert shown["schema"]["classes"] and len(shown["grids"]) >= 2 and shown["findings"]
    tried = ask(app, "POST", "/api/try", json={"row": {"ash": 15, "seam": "A"}})
    assert tried.status_code == 200, tried.text
    assert (tried.json()["expert"], tried.json()["without"]) == ("III", name)
