"""Ctrl-C on a real process: a sentence that is true, exit code 130, nothing left running."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from fedlore.cli.screen import explain_stop

from .tasks import write_federation


def stopped(
    *arguments: object, when: Callable[[str], bool], home: Path, code: int = 130
) -> tuple[str, str]:
    """Start a command, press Ctrl-C once it is so far, and give what it said."""
    out, err = home / "stdout", home / "stderr"
    with open(out, "w") as told, open(err, "w") as wrong:
        process = subprocess.Popen(
            [sys.executable, "-m", "fedlore", *map(str, arguments)],
            stdout=told,
            stderr=wrong,
            cwd=home,
            start_new_session=True,  # a terminal sends it to all processes of the command
            env=os.environ | {"COLUMNS": "200", "PYTHONUNBUFFERED": "1"},
        )
    try:
        until = time.monotonic() + 240
        while not when(out.read_text()):
            assert process.poll() is None, err.read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        assert _press(process) == code, err.read_text()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    said = err.read_text()
    assert "Traceback" not in said and said.count("stopped: ") == 1
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    return out.read_text(), said


def _press(process: subprocess.Popen) -> int:
    """Ctrl-C, and once more where nothing happens, as a person would."""
    for _ in range(12):
        os.killpg(process.pid, signal.SIGINT)
        try:
            return process.wait(10)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError("it does not stop")


def long_federation(home: Path, *approaches: str) -> Path:
    path = write_federation(home, "classes", *approaches)
    path.write_text(path.read_text().replace("rounds = 2", "rounds = 1000000"))
    return path


@pytest.mark.slow
def test_a_run_keeps_what_is_finished(tmp_path):
    config, results = long_federation(tmp_path, "P-KM", "FLwKM"), tmp_path / "r"
    rows = results / "results.jsonl"
    _, said = stopped("run", config, "--out", results, when=lambda _: rows.exists(), home=tmp_path)
    assert said == (
        f"stopped: 1 of 2 approaches are finished (P-KM) and kept in {results}; run the same "
        "command to continue\n"
    )
    assert rows.read_text().count("P-KM") == 2 and not list(results.glob(".*"))


@pytest.mark.slow
def test_tune_keeps_nothing(tmp_path):
    config = long_federation(tmp_path, "FLwKM")
    began = time.monotonic()
    _, said = stopped("tune", config, when=lambda _: time.monotonic() > began + 8, home=tmp_path)
    assert said.startswith("stopped: nothing was kept or written")


@pytest.mark.slow
def test_the_demo_says_that_it_writes_at_its_end(tmp_path):
    _, said = stopped("demo", "--out", "o", when=lambda out: "simulated" in out, home=tmp_path)
    assert "nothing was kept" in said and not list((tmp_path / "o").iterdir())


@pytest.mark.slow
def test_an_audit_goes_on_where_it_was_stopped(tmp_path):
    cells = tmp_path / "o" / "cells"
    _, said = stopped(
        *("leak", "--out", "o", "--seeds", "1"),
        when=lambda _: any(cells.glob("*.npz")),
        home=tmp_path,
    )
    assert "settings were looked at and are kept in o/cells" in said
    assert int(said.split()[1]) >= 1


@pytest.mark.slow
def test_a_case_of_the_paper_goes_on_where_it_was_stopped(tmp_path):
    began = time.monotonic()
    _, said = stopped(
        *("paper", "case", "--out", "o", "--seeds", "2"),
        when=lambda _: time.monotonic() > began + 10,
        home=tmp_path,
    )
    assert said == "stopped: finished cells are kept in o; run the same command to continue\n"


@pytest.mark.slow
def test_a_service_says_how_it_starts_again(tmp_path):
    config = write_federation(tmp_path, "classes", "FLwKM")
    for call in (
        ["run", config, "--out", tmp_path / "r"],
        ["export", tmp_path / "r", "--client", "east", "--out", tmp_path / "east.lore"],
    ):
        subprocess.run([sys.executable, "-m", "fedlore", *map(str, call)], check=True)
    _, said = stopped(
        "serve", "east.lore", "--port", "0", when=lambda out: "http://" in out, home=tmp_path
    )
    assert said == "stopped: a service keeps nothing; fedlore serve east.lore starts it again\n"


@pytest.mark.slow
def test_a_whole_federation_is_resumed_after_its_last_round(tmp_path):
    _, said = stopped(
        *("up", "f", "--sites", "2", "--rounds", "400"),
        when=lambda out: "round 2/" in out,
        home=tmp_path,
    )
    assert "is journalled in f; fedlore up f --resume continues" in said


def test_a_stop_that_a_library_turned_into_another_error_is_still_one(capsys):
    with pytest.raises(typer.Exit) as end, explain_stop("nothing is lost"):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as stop:
            raise ValueError("is not a valid PEP 3118 buffer format string") from stop
    assert end.value.exit_code == 130
    assert "stopped: nothing is lost" in capsys.readouterr().err
    with pytest.raises(ValueError, match="bad"), explain_stop("nothing is lost"):
        raise ValueError("bad")
