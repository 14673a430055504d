"""No command writes over what it reads, over a file of another kind, or unasked over its own."""

import pytest

from fedlore.cli.commands import all_commands
from fedlore.cli.paths import CONTINUED, recognise
from fedlore.errors import FedloreError
from fedlore.knowledge import Knowledge
from fedlore.knowledge.files import FILE, write_knowledge
from fedlore.look.page import page

from .spoken import leaves, refused, spoken, typed

FILES = {
    "bundle": ("site.lore", b"PK"),
    "rows": ("rows.csv", b"a,b\n1,2\n"),
    "knowledge": ("knowledge.toml", b'classes = ["I", "II"]\n[predict]\n'),
    "federation": ("federation.toml", b"rounds = 3\n"),
    "settings": ("settings.toml", b"a = 1\n"),
    "graph": ("site.onnx", b"\x08"),
    "tables": ("rules.dmn", b"<definitions/>"),
    "certificate": ("c.json", b'{"format": "fedlore range certificate"}'),
    "record": ("site.monitor", b'{"format": "fedlore monitor 1"}\n'),
    "metrics": ("site.prom", b"# HELP fedlore_monitor_rows Rows.\n"),
    "page": ("p.html", page("P", facts={}, reading=(), terms={}, sections=()).encode()),
    "token": ("token.txt", b"secret\n"),
    None: ("notes.txt", b"mine\n"),
}
FOLDERS = {
    "run": ("results.jsonl", "weights/lore/a"),
    "demo": ("results.jsonl",),
    "plan": ("plan.json",),
    "kit": ("site.toml",),
    "coordinator": ("ca.crt",),
    "federation": ("federation.toml",),
}
KNOWN = all_commands()
WRITES = [
    (name, *(out.split() if " " in out else ("", out)), kind)
    for name, command in KNOWN.items()
    for out, kind in command.writes.items()
]
IN_FOLDERS = ("run", "demo", "plan", "study")
everything = pytest.mark.parametrize(("command", "below", "out", "kind"), WRITES)


@pytest.fixture
def files(tmp_path):
    for name, data in FILES.values():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def of(home, kinds):
    return home / FILES[next((kind for kind in kinds if kind in FILES), "bundle")][0]


def line(command, home, below, out, place):
    """A call with one input of each kind, and this output."""
    words, written = [command, *filter(None, [below])], False
    for one in leaves()[" ".join(words)].params:
        kinds = KNOWN[command].paths.get(one.name)
        if kinds is not None:
            words += [*(one.opts[:1] if one.opts[0][0] == "-" else []), of(home, kinds)]
        elif one.name == out:
            words, written = [*words, one.opts[0], place], True
        elif one.required:
            words += [*(one.opts[:1] if one.opts[0][0] == "-" else []), "b"]
    assert written
    return words


def test_every_option_that_names_an_output_is_held_to_its_kind():
    named = {"out", "onnx", "store", "page", "metrics", "record"}
    for words, command in leaves().items():
        name, _, below = words.partition(" ")
        held = {out.split()[-1] for out in KNOWN[name].writes if not below or below in out.split()}
        options = {one.name for one in command.params if one.name in named}
        assert options - {"page"} == held & options - {"page"}, words
        assert ("force" in {one.name for one in command.params}) == any(
            KNOWN[name].writes[k] not in CONTINUED
            for k in KNOWN[name].writes
            if not below or below in k.split()
        )


@everything
def test_no_input_is_written_over(files, command, below, out, kind):
    for kinds in KNOWN[command].paths.values():
        place = of(files, kinds)
        before = place.read_bytes()
        for force in ([], ["--force"] if kind not in CONTINUED else []):
            said = refused(*line(command, files, below, out, place), *force)
            assert "is an input of this command" in said
            assert place.read_bytes() == before


@everything
def test_nothing_of_another_kind_is_written_over(files, command, below, out, kind):
    for other, (name, data) in FILES.items():
        if other != kind:
            place = files / "other" / name
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(data)
            assert "over it: name another file" in refused(*line(command, files, below, out, place))
            assert place.read_bytes() == data


@everything
def test_no_folder_of_another_kind_is_written_into(files, command, below, out, kind):
    for other, names in FOLDERS.items():
        if other != kind:
            place = files / "other" / other
            for name in names:
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).touch()
            assert recognise(place) == other
            assert "over it: name another file" in refused(*line(command, files, below, out, place))


@everything
def test_its_own_kind_is_replaced_when_that_is_said(files, command, below, out, kind):
    if kind in CONTINUED:
        return
    place = files / "other"
    if kind in IN_FOLDERS:
        place.mkdir()
        (place / FOLDERS[kind][0]).write_bytes(b"")
    else:
        place = place.with_suffix(f".{FILES[kind][0].rpartition('.')[2]}")
        place.write_bytes(FILES[kind][1])
    asked = line(command, files, below, out, place)
    assert "replace it with --force" in refused(*asked)
    assert "--force" not in spoken(*asked, "--force").err  # it stops at the inputs, or not at all


@pytest.mark.parametrize("command", ["new", "up"])
def test_a_federation_begins_in_an_empty_folder(tmp_path, command):
    (tmp_path / "notes.txt").write_text("mine")
    assert "is not empty" in refused(command, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_draft_replaces_a_draft(tmp_path):
    rows, out = tmp_path / "rows.csv", tmp_path / "knowledge.toml"
    rows.write_text("a,y\n1,u\n2,v\n3,u\n4,v\n")
    typed("draft", rows, "--label", "y", "--out", out)
    rows.write_text("b,y\n1,u\n2,v\n3,u\n4,v\n")
    assert "--force" in refused("draft", rows, "--label", "y", "--out", out)
    typed("draft", rows, "--label", "y", "--out", out, "--force")
    assert Knowledge.read(out).require_schema().names == ("b",)


def test_tables_of_another_file_are_not_written_over(tmp_path):
    write_knowledge({FILE: b"one", "table-1.csv": b"1"}, tmp_path / "one.toml")
    write_knowledge({FILE: b"two", "table-1.csv": b"1"}, tmp_path / "two.toml")  # the same cells
    with pytest.raises(FedloreError, match="table-1.csv' is another file's"):
        write_knowledge({FILE: b"three", "table-1.csv": b"3"}, tmp_path / "three.toml")
    assert not (tmp_path / "three.toml").exists()
    assert (tmp_path / "table-1.csv").read_bytes() == b"1"
