"""Drafts are kept, nobody overwrites anybody, and what is written is what was typed."""

import json
import os

import pytest

from fedlore.errors import FedloreError
from fedlore.studio import Workspace, find_workplace, make_studio
from fedlore.studio import draft as module
from fedlore.studio.draft import Stale

from ..bundle.serve.asking import ask
from .sites import PREDICT, desk, place, site


def test_a_draft_survives_a_crash_and_leaves_the_files_alone(tmp_path):
    first = desk(tmp_path)
    first.change(first.token, {"predict.csv": b"ash,then\n> 1,I\n"}, who="Ann", what="rules")
    assert (tmp_path / "predict.csv").read_text() == PREDICT
    again = Workspace(find_workplace(tmp_path))  # as after a kill: nothing was closed
    assert again.members["predict.csv"] == b"ash,then\n> 1,I\n"
    assert again.token == first.token
    again.save(again.token, who="Ann")
    assert (tmp_path / "predict.csv").read_text() == "ash,then\n> 1,I\n"
    assert not (tmp_path / "studio" / "draft.json").exists()


def test_bytes_that_are_no_text_survive_too(tmp_path):
    first = desk(tmp_path)
    first.change(first.token, {"book.xlsx": b"PK\x03\xff\x00"}, who="", what="a book")
    assert Workspace(find_workplace(tmp_path)).members["book.xlsx"] == b"PK\x03\xff\x00"


def test_the_second_window_is_told_who_changed_what(tmp_path):
    one = desk(tmp_path)
    seen = one.token
    one.change(seen, {"predict.csv": b"a"}, who="Ann", what="'predict.csv'")
    with pytest.raises(Stale, match="Ann changed 'predict.csv' at "):
        one.change(seen, {"range.csv": b"b"}, who="Bob", what="'range.csv'")
    assert "range.csv" not in one.draft.changed
    with pytest.raises(Stale):
        one.save(seen, who="Bob")


def test_a_file_changed_by_another_program_is_not_overwritten(tmp_path):
    one = desk(tmp_path)
    one.change(one.token, {"predict.csv": b"mine"}, who="Ann", what="rules")
    (tmp_path / "predict.csv").write_text("theirs")
    with pytest.raises(Stale, match="'predict.csv' was changed on disk by another program"):
        one.save(one.token, who="Ann")
    assert (tmp_path / "predict.csv").read_text() == "theirs"
    assert one.members["predict.csv"] == b"mine"


def test_a_change_on_disk_is_noticed_where_there_is_no_draft(tmp_path):
    one = desk(tmp_path)
    seen = one.token
    (tmp_path / "predict.csv").write_text("theirs, and longer")
    with pytest.raises(Stale, match="another program changed the files"):
        one.change(seen, {"predict.csv": b"mine"}, who="", what="rules")


def test_everything_is_taken_back_and_done_again_by_one_history(tmp_path):
    """Cells, settings, a new table, one that is removed, a save and a discarded draft."""
    one = desk(tmp_path)
    app = make_studio(one)
    start = dict(one.members.items())

    def ask_for(method, path, **body):
        answer = ask(app, method, path, json={"token": one.token, "who": "Ann", **body})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def edit(path, value):
        return ask_for("PUT", "/api/document", edits=[{"path": path, "value": value}])

    rows = [["> 13", "", "III"]]
    seen = [None]  # texts after each change
    for change in (
        lambda: ask_for("PUT", "/api/table", grid=0, header=["ash [%]", "seam", "then"], rows=rows),
        lambda: edit(["trust"], 0.9),
        lambda: ask_for("POST", "/api/table", side="range", file="more.csv", columns=["ash"]),
        lambda: edit(["range", "sources", 0], None),
        lambda: ask_for("POST", "/api/save", why="", anyway=True),
        lambda: edit(["conflict"], "error"),
        lambda: ask_for("POST", "/api/discard"),
    ):
        change()
        texts = {name: one.members[name] for name in (*start, "predict.csv")}
        if texts != seen[-1]:  # what is saved is what was typed
            seen.append(texts)
    for texts in [*reversed(seen[1:-1]), {**start, "predict.csv": PREDICT.encode()}]:
        ask_for("POST", "/api/undo")
        assert {name: one.members[name] for name in texts} == texts
    assert ask_for("POST", "/api/undo")["undo"] == ""  # nothing is left, and nothing happens
    for texts in seen[1:]:
        shown = ask_for("POST", "/api/redo")
        assert {name: one.members[name] for name in texts} == texts
    assert shown["redo"] == "" and shown["undo"]
    (tmp_path / "knowledge.toml").write_text("# theirs")
    refused = ask(app, "POST", "/api/undo", json={"token": one.token})
    assert refused.status_code == 422 and "another program" in refused.json()["error"]


def test_what_is_typed_back_is_no_draft(tmp_path):
    one = desk(tmp_path)
    settled = one.token
    one.change(settled, {"predict.csv": b"x"}, who="", what="rules")
    one.change(one.token, {"predict.csv": PREDICT.encode()}, who="", what="rules")
    assert one.token == settled and not one.draft.changed
    assert not (tmp_path / "studio" / "draft.json").exists()


def test_saving_halfway_can_be_done_again(tmp_path, monkeypatch):
    """The disk fails after the first file: the draft is whole, and saving again ends it."""
    one = desk(tmp_path)
    new = {"predict.csv": b"p\n", "range.csv": b"r\n", "knowledge.toml": b"# k\n"}
    one.change(one.token, new, who="", what="all")
    write, written = module.write_whole, []

    def failing(path, data):
        written.append(path.name)
        if len(written) == 2:
            raise OSError(28, "No space left on device")
        write(path, data)

    monkeypatch.setattr(module, "write_whole", failing)
    with pytest.raises(FedloreError, match="No space left on device; the draft is kept"):
        one.save(one.token, who="")
    monkeypatch.setattr(module, "write_whole", write)
    again = Workspace(find_workplace(tmp_path))
    assert again.save(again.token, who="")[-1] == "knowledge.toml"  # the file that names the others
    assert {name: (tmp_path / name).read_bytes() for name in new} == new


@pytest.mark.parametrize("name", ["../out.csv", "/tmp/out.csv", "a/../../out.csv", "link/x.csv"])
def test_nothing_is_written_outside_the_folder(tmp_path, name):
    one = desk(tmp_path / "site")
    os.symlink(tmp_path, tmp_path / "site" / "link")
    with pytest.raises(FedloreError, match="lies outside this site's folder"):
        one.change(one.token, {name: b"x"}, who="", what="rules")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"files": {"a": {}}}', '{"token": 1}'])
def test_a_draft_that_is_none_is_said(tmp_path, text):
    site(tmp_path)
    (tmp_path / "studio").mkdir()
    (tmp_path / "studio" / "draft.json").write_text(text)
    with pytest.raises(FedloreError, match="is not a draft of the studio"):
        Workspace(find_workplace(tmp_path))


def test_a_kit_names_its_own_files(tmp_path):
    (tmp_path / "k").mkdir()
    (tmp_path / "site.toml").write_text('name = "a"\nknowledge = "k/known.toml"\ndata = "r.csv"\n')
    (tmp_path / "r.csv").write_text("a,b\n1,2\n")
    found = find_workplace(tmp_path)
    assert (found.knowledge, found.data) == (tmp_path / "k" / "known.toml", tmp_path / "r.csv")
    with pytest.raises(FedloreError, match="is not a folder"):
        find_workplace(tmp_path / "nowhere")


def test_the_draft_can_be_read_by_a_person(tmp_path):
    one = desk(tmp_path)
    one.change(one.token, {"predict.csv": "ash,then\n> 1,良\n".encode()}, who="安", what="rules")
    said = json.loads((tmp_path / "studio" / "draft.json").read_text())
    assert said["files"]["predict.csv"]["text"] == "ash,then\n> 1,良\n" and said["who"] == "安"


def test_a_place_has_rows_and_a_model_where_they_are(tmp_path):
    (tmp_path / "plant.lore").write_bytes(b"")
    found = place(tmp_path)
    assert found.data == tmp_path / "train.csv" and found.bundle == tmp_path / "plant.lore"
