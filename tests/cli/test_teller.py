"""Every command speaks alike: one JSON document for programs, one sentence for what is wrong."""

import ast
import json
import re
from pathlib import Path

import click
import pytest

from fedlore.cli import app as door
from fedlore.cli.commands import all_commands
from fedlore.cli.paths import PATH_KINDS, recognise
from fedlore.cli.screen import CODE_MEANINGS, SERVICES, ExitCode
from fedlore.look.tables import plain_values

from .spoken import leaves, spoken
from .tasks import write_federation

ROOT = Path(__file__).parents[2]
LEAVES = leaves()
EAST = "sites/east"
#: What prints a result -> a call of it in the world below; `make slow` has those that take long.
QUICK = {
    "new": ["new", "{tmp}/new", "--like", f"{{w}}/{EAST}/train.csv", "--label", "grade"],
    "draft": ["draft", f"{{w}}/{EAST}/train.csv", "--label", "grade"],
    "run": ["run", "{w}/federation.toml", "--out", "{w}/results"],
    "lint": ["lint", f"{{w}}/{EAST}/knowledge.toml", "--data", f"{{w}}/{EAST}/train.csv"],
    "calibrate": [
        *("calibrate", f"{{w}}/{EAST}/knowledge.toml", "--data", f"{{w}}/{EAST}/train.csv"),
        *("--out", "{tmp}/new.toml"),
    ],
    "tune": ["tune", "{w}/federation.toml", "--folds", "2"],
    "algorithms": ["algorithms"],
    "export": ["export", "{w}/east.lore", "--out", "{tmp}/again.lore", "--force"],
    "predict": ["predict", "{w}/east.lore", f"{{w}}/{EAST}/train.csv", "--score"],
    "certify": ["certify", "{w}/east.lore", "--out", "{tmp}/certificate.json"],
    "monitor": ["monitor", "{w}/east.lore", f"{{w}}/{EAST}/train.csv", "--record", "{tmp}/r"],
    "update": ["update", "{w}/east.lore", "--trust", "0.2", "--out", "{tmp}/other.lore"],
    "federation init": [
        *("federation", "init", "{tmp}/c", "--address", "127.0.0.1:9092"),
        *("--schema", f"{{w}}/{EAST}/knowledge.toml"),
    ],
    "federation add-site": ["federation", "add-site", "north", "--dir", "{w}/coordinator"],
    "federation enrol": [
        *("federation", "enrol", "south", "{w}/coordinator/kits/south/site.pub"),
        *("--dir", "{w}/coordinator"),
    ],
    "federation renew": ["federation", "renew", "--dir", "{w}/coordinator"],
    "federation remove-site": ["federation", "remove-site", "gone", "--dir", "{w}/coordinator"],
    "doctor": ["doctor", "{w}/coordinator/kits/south.zip"],
    "accept": ["accept", "{w}/coordinator/kits/south.zip", "--yes"],
    "flower init": [*("flower", "init", "{tmp}/app", "--schema", f"{{w}}/{EAST}/knowledge.toml")],
    "import": ["import", "{w}/rules.dmn", "{tmp}/rules"],
    "track": ["track", "{w}/results", "--to", "tensorboard", "--into", "{tmp}/runs"],
    "federation key": ["federation", "key", "{w}/coordinator/kits/south.zip"],
}
SMALL = "rounds = 2\nhidden = [8]\nrows = [30, 30, 30, 30]\ntest_rows = 30\n[plan]\nepochs = 1\n"
LONG = {
    "demo": ["demo", "--config", "{w}/small.toml", "--out", "{tmp}"],
    "bench": ["bench", "--seconds", "0.1", "--workers", "1"],
    "leak": ["leak", "--seeds", "1", "--settings", "plain", "--out", "{tmp}"],
    "paper approaches": ["paper", "approaches", "--seeds", "1", "--out", "{tmp}"],
    "paper data": ["paper", "data", "--seeds", "1", "--out", "{tmp}"],
    "paper lambda": ["paper", "lambda", "--seeds", "1", "--range", "oracle", "--out", "{tmp}"],
    "paper case": ["paper", "case", "--seeds", "1", "--out", "{tmp}"],
    "paper regression": ["paper", "regression", "--seeds", "1", "--bins", "5", "--out", "{tmp}"],
}
#: Asked for it where a bundle of coke or a whole federation is at hand.
ELSEWHERE = {"blend", "up", "train", "status"}


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """A small federation that has run, a bundle of one site, and a coordinator with a site."""
    home = tmp_path_factory.mktemp("world")
    write_federation(home, "classes", "FLwKM")
    (home / "small.toml").write_text(SMALL)
    calls = [
        ["run", home / "federation.toml", "--out", home / "results"],
        ["export", home / "results", "--client", "east", "--out", home / "east.lore"],
        *(
            ["federation", "init", home / "coordinator", "--address", "127.0.0.1:9092"],
            *(
                ["federation", "add-site", name, "--dir", home / "coordinator"]
                for name in ("south", "gone")
            ),
        ),
    ]
    calls[2] += ["--schema", home / EAST / "knowledge.toml"]
    calls.append(["export", home / EAST / "knowledge.toml", "--dmn", home / "rules.dmn"])
    calls.append(["accept", home / "coordinator" / "kits" / "south.zip", "--yes"])
    for call in calls:
        done = spoken(*call)
        assert done.code == 0, done
    return home


def filled(call: list[str], world: Path, tmp: Path) -> list[str]:
    return [part.format(w=world, tmp=tmp) for part in call]


def test_every_command_that_prints_a_result_is_asked_for_json():
    assert {*QUICK, *LONG, *ELSEWHERE, *SERVICES} == set(LEAVES)
    for name, command in LEAVES.items():
        options = {option for one in command.params for option in one.opts}
        assert {"--quiet", "--no-color"} <= options
        assert ("--json" in options) == (name not in SERVICES)


@pytest.mark.parametrize("name", QUICK)
def test_json_is_one_document_and_nothing_else(name, world, tmp_path):
    done = spoken(*filled(QUICK[name], world, tmp_path), "--json")
    assert done.code in (0, 1), done.err
    assert isinstance(json.loads(done.out), dict)


@pytest.mark.parametrize("name", ["run", "lint", "export"])
def test_quiet_leaves_the_result_alone(name, world, tmp_path):
    call = filled(QUICK[name], world, tmp_path)
    told, quiet = spoken(*call), spoken(*call, "--quiet")
    assert quiet.code == told.code and quiet.err == ""
    assert quiet.out and set(quiet.out.splitlines()) <= set(told.out.splitlines())
    assert name != "run" or "Report written" in told.out and "Report written" not in quiet.out


def test_numbers_that_are_none_are_null():
    assert plain_values({"a": float("nan"), "b": (1, float("inf")), 3: Path("x")}) == {
        "a": None,
        "b": [1, None],
        "3": "x",
    }


DOORS = {
    (" ".join((name, *place.split()[:-1])), place.split()[-1]): kinds
    for name, command in all_commands().items()
    for place, kinds in command.paths.items()
}


def test_every_path_that_is_read_has_a_door_and_no_other_has():
    paths = {
        (name, str(one.name))
        for name, command in LEAVES.items()
        for one in command.params
        if isinstance(one.type, click.Path)
    }
    written = {place for place in paths if place[1] in ("out", "onnx")}
    written |= {("monitor", name) for name in ("page", "metrics", "record")}
    written |= {("predict", "store"), ("serve", "monitor")}
    written |= {("import", "folder"), ("track", "into"), ("export", "dmn"), ("new", "folder")}
    written |= {("up", "folder"), ("federation init", "folder"), ("flower init", "folder")}
    assert paths - written == set(DOORS)
    read = {kind for kinds in DOORS.values() for kind in kinds}
    made = {kind for one in all_commands().values() for kind in one.writes.values()}
    assert read | made == set(PATH_KINDS)


def samples(world: Path) -> dict[str, Path]:
    """One of each kind that is there."""
    return {
        "knowledge": world / EAST / "knowledge.toml",
        "rows": world / EAST / "train.csv",
        "federation": world / "federation.toml",
        "bundle": world / "east.lore",
        "kit": world / "coordinator" / "kits" / "south.zip",
        "public key": world / "coordinator" / "kits" / "south" / "site.pub",
        "coordinator": world / "coordinator",
        "run": world / "results",
        "settings": world / "small.toml",
        "token": world / "small.toml",
        "site": world / EAST,
        "tables": world / "rules.dmn",
    }


def call_with(name: str, given: dict[str, Path], samples: dict[str, Path]) -> list[str]:
    """A call of a command with these paths, and with what it needs besides."""
    words, options = name.split(), []
    for one in LEAVES[name].params:
        kinds = DOORS.get((name, str(one.name)))
        value = given.get(str(one.name))
        if value is None and one.name == "out" and name in ("export", "update"):
            value = Path("x.lore")
        if value is None and one.required:
            value = samples[kinds[0]] if kinds else REQUIRED.get(str(one.name), Path("x"))
        if value is not None:
            is_option = isinstance(one, click.Option)
            options += [one.opts[-1], str(value)] if is_option else [str(value)]
    return [*words, *options, *EXTRA.get(name, [])]


REQUIRED = {"label": "grade", "target": "grade>=top", "address": "127.0.0.1:9092", "name": "a"}
EXTRA = {
    "new": ["--label", "grade"],
    "export": ["--client", "east"],
    "update": ["--trust", "0.1"],
    "serve": ["--port", "0"],
    "studio": ["--port", "0"],
}


def bad_paths(kinds: tuple[str, ...], tmp: Path, samples: dict[str, Path]) -> dict[str, Path]:
    """Paths that somebody might give by mistake."""
    (tmp / "file").write_text("")
    garbage = tmp / ("garbage" + {"knowledge": ".toml", "bundle": ".lore"}.get(kinds[0], ".csv"))
    garbage.write_bytes(bytes(range(256)) * 40)
    empty = tmp / "empty"
    empty.mkdir(exist_ok=True)
    bad = {
        "missing": tmp / "nothing.here",
        "below a file": tmp / "file" / "x.toml",
        "garbage": garbage,
        "an empty folder": empty,
        "a name too long": tmp / ("x" * 300),
    }
    wrong = next(k for k in ("bundle", "rows", "knowledge") if k not in kinds)
    if kinds not in (("token",), ("settings",)):
        bad["another kind"] = samples[wrong]
    if kinds == ("token",):  # any text is one
        del bad["garbage"]
    return bad


@pytest.mark.parametrize("name,parameter", DOORS, ids=str)
def test_a_bad_path_is_one_sentence(name, parameter, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    have = samples(world)
    bad = bad_paths(DOORS[name, parameter], tmp_path, have)
    if name == "studio":  # it opens to whoever begins, and shows what is wrong in a file
        bad = {k: v for k, v in bad.items() if k not in ("garbage", "an empty folder")}
    for what, path in bad.items():
        done = spoken(*call_with(name, {parameter: path}, have))
        assert done.code == ExitCode.UNUSABLE, (what, done)
        assert re.fullmatch(r"error: [^\n]+\n", done.err), (what, done)
        assert done.out == "" or name == "federation renew", (what, done)


@pytest.mark.parametrize(
    "name", [n for n, c in LEAVES.items() if "out" in {p.name for p in c.params}]
)
def test_a_place_that_cannot_be_written_is_one_sentence(name, world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / ("x.lore" if name in ("export", "update") else "x.csv")
    done = spoken(*call_with(name, {"out": place}, samples(world)))
    assert done.code == ExitCode.UNUSABLE, done
    assert re.fullmatch(r"error: [^\n]+\n", done.err), done


def test_the_sentence_names_what_was_probably_meant(world, tmp_path):
    site = world / EAST
    cases = {
        ("lint", site / "knowlege.toml"): f"did you mean '{site / 'knowledge.toml'}'?",
        ("lint", site): f"is a folder, and fedlore lint takes a knowledge.toml: did you mean "
        f"'{site / 'knowledge.toml'}'?",
        ("lint", site / "train.csv"): "fedlore draft ROWS.csv --label COLUMN writes one",
        ("serve", world / "results"): "is a folder of results, and fedlore serve takes a bundle; "
        "fedlore export RESULTS --client SITE --out NAME.lore writes one",
        ("run", tmp_path / "gone"): "fedlore new FOLDER writes one",
    }
    for call, sentence in cases.items():
        assert sentence in spoken(*call).err


def test_things_are_known_by_their_names_and_neighbours(world):
    for kind, path in samples(world).items():
        assert recognise(path) in (kind, None) or kind in ("settings", "token")


def test_whoever_stops_a_command_is_told_in_one_sentence(world, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(door, "check_doors", stopped)
    for name in LEAVES:
        done = spoken(*call_with(name, {}, samples(world)))
        assert done.code == ExitCode.STOPPED, (name, done)
        assert re.fullmatch(r"stopped: [^\n]+\n", done.err), (name, done)


def test_a_fault_is_a_sentence_and_a_file(world, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(door, "check_doors", broken)
    done = spoken("algorithms")
    assert done.code == ExitCode.FAULT and "Traceback" not in done.err
    assert re.fullmatch(r"error: this is a fault of fedlore[^\n]+\n", done.err)
    report = Path(re.search(r"with '([^']+)'", done.err)[1])
    assert "ZeroDivisionError" in report.read_text()
    report.unlink()


def test_a_full_disk_is_a_sentence(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "/data/x")

    monkeypatch.setattr(door, "check_doors", full)
    assert spoken("algorithms").err == "error: '/data/x': No space left on device\n"


def test_commands_end_with_codes_of_the_list_alone():
    for path in (ROOT / "src/fedlore/cli").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("typer.Exit", "sys.exit"):
                names = ast.unparse(node)
                assert "ExitCode." in names or names == "sys.exit(code)", (path.name, names)


def test_the_page_lists_every_exit_code():
    page = (ROOT / "docs/how-to/command.md").read_text()
    table = dict(re.findall(r"^\| (\d+) \| (.+) \|$", page, re.M))
    assert table == {str(int(code)): text for code, text in CODE_MEANINGS.items()}
    assert set(CODE_MEANINGS) == set(ExitCode)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_json_of_long_commands_is_one_document(name, world, tmp_path, short_recipe):
    done = spoken(*filled(LONG[name], world, tmp_path), "--json")
    if "FEDLORE_DATA" in done.err or "download" in done.err:
        pytest.skip(done.err)
    assert done.code in (0, 1), done.err
    assert isinstance(json.loads(done.out), dict)
