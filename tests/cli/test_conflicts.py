"""One judgement of conflicts: what lint calls an error stops every command, unless one insists."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedlore import FedloreError
from fedlore.cli.app import app

from .spoken import refused, typed
from .tasks import write_federation

WORDS = "has 1 error and is not used, first error: "
CLASH = {"classes": "age,then\n< 2,top\n", "number": "age,then\n> 9.99,>= 12\n> 9.99,<= 11\n"}


def spoil(site: Path, task: str) -> None:
    """The expert says what his range forbids, or two rules leave no number."""
    name = "predict.csv" if task == "classes" else "range.csv"
    (site / name).write_text(CLASH[task])


@pytest.fixture(scope="module", params=["classes", "number"])
def world(request, tmp_path_factory) -> tuple[Path, str]:
    """A federation with a conflict at one site, run although lint finds it."""
    home = tmp_path_factory.mktemp(request.param)
    write_federation(home, request.param)
    spoil(home / "sites" / "east", request.param)
    asked = ["run", home / "federation.toml", "--out", home / "out"]
    assert refused(*asked).startswith(f"knowledge.toml of 'east' {WORDS}")
    assert not (home / "out" / "results.jsonl").exists()
    typed(*asked, "--accept-conflicts")
    take = ["export", home / "out", "--client", "east", "--out", home / "east.lore"]
    assert refused(*take).startswith(f"the knowledge of 'east' {WORDS}")
    assert not (home / "east.lore").exists()
    typed(*take, "--accept-conflicts")
    return home, request.param


@pytest.mark.parametrize(
    ("command", "made"),
    [
        (["certify", "{home}/east.lore", "--out", "{home}/c.json"], "c.json"),
        (["export", "{home}/east.lore", "--onnx", "{home}/e.onnx"], "e.onnx"),
        (["update", "{home}/east.lore", "{k}", "--out", "{home}/n.lore"], "n.lore"),
        (["serve", "{home}/east.lore"], None),
    ],
    ids=["certify", "export", "update", "serve"],
)
def test_every_command_refuses_what_lint_calls_an_error(world, command, made, monkeypatch):
    home, _ = world
    started = []
    monkeypatch.setattr("fedlore.bundle.serve.serve_bundle", lambda *a, **k: started.append(a))
    known = home / "sites" / "east" / "knowledge.toml"
    asked = [word.format(home=home, k=known) for word in command]
    done = CliRunner().invoke(app, asked)
    assert isinstance(done.exception, FedloreError) and WORDS in str(done.exception)
    assert not started and (made is None or not (home / made).exists())
    done = CliRunner().invoke(app, [*asked, "--accept-conflicts"])
    assert not isinstance(done.exception, Exception) or done.exit_code in (0, 1), done.exception
    assert "1 error, which is accepted" in done.output + done.stderr
    assert started if made is None else (home / made).exists()


def test_lint_and_run_agree_where_there_is_no_conflict(world, tmp_path):
    home, _ = world
    shutil.copytree(home / "sites" / "west", tmp_path / "west")
    assert "0 errors" in typed("lint", tmp_path / "west" / "knowledge.toml")
