"""No command writes over what it reads, nor over a file of another kind."""

import pytest

from fedlore.cli.commands import OWN

from .spoken import refused

KINDS = {
    "bundle": ("site.lore", b"PK"),
    "rows": ("rows.csv", b"a,b\n1,2\n"),
    "knowledge": ("knowledge.toml", b'classes = ["I", "II"]\n[predict]\n'),
    "federation": ("federation.toml", b"rounds = 3\n"),
}
WRITES = [(name, out) for name, command in OWN.items() for out in command.writes]


@pytest.fixture
def files(tmp_path):
    for name, data in KINDS.values():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def line(command, folder, out, place):
    """A call with one input of each kind, and this output."""
    words = [command]
    for name, kinds in OWN[command].paths.items():
        there = folder / KINDS[kinds[0] if kinds[0] in KINDS else "bundle"][0]
        positional = name in ("bundle", "file", "knowledge", "rows", "source", "config", "measured")
        optional = command in ("export",) and name == "knowledge"
        words += [there] if positional and not optional else [f"--{name}", there]
    if command == "draft":
        words += ["--label", "b"]
    return [*words, f"--{out}", place]


@pytest.mark.parametrize(("command", "out"), WRITES)
def test_no_input_is_written_over(files, command, out):
    for kinds in OWN[command].paths.values():
        place = files / KINDS[kinds[0] if kinds[0] in KINDS else "bundle"][0]
        before = place.read_bytes()
        assert "is an input of this command" in refused(*line(command, files, out, place))
        assert place.read_bytes() == before


@pytest.mark.parametrize(("command", "out"), [w for w in WRITES if w[1] != "record"])
def test_nothing_of_another_kind_is_written_over(files, command, out):
    for kind, (name, data) in KINDS.items():
        if kind == OWN[command].writes[out]:
            continue
        place = files / "other" / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(data)
        assert "over it: name another file" in refused(*line(command, files, out, place))
        assert place.read_bytes() == data
