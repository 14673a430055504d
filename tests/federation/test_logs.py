"""Logs: by level, in text or JSON, and never larger than agreed."""

import json
import logging

import pytest

from fedlore.errors import ConfigError
from fedlore.federation.logs import LogForm, cut_log, log_handler, write_log


def test_lines_have_a_time_and_a_level(tmp_path):
    with write_log(tmp_path / "gateway.log") as log:
        log("refused 10.0.0.1: not signed")
    line = (tmp_path / "gateway.log").read_text()
    assert line.endswith(" WARNING refused 10.0.0.1: not signed\n") and line.startswith("20")


def test_every_line_of_json_is_an_object_also_with_line_breaks_and_a_trace(tmp_path):
    handler = log_handler(tmp_path / "site.log", LogForm(as_json=True))
    logger = logging.Logger("fedlore.site")
    logger.addHandler(handler)
    logger.info('a "quoted"\nline')
    try:
        raise ValueError("why")
    except ValueError:
        logger.exception("round %s", 3)
    handler.close()
    first, second = map(json.loads, (tmp_path / "site.log").read_text().splitlines())
    assert (first["message"], first["level"], first["who"]) == (
        'a "quoted"\nline',
        "info",
        "fedlore.site",
    )
    assert second["message"] == "round 3" and "ValueError: why" in second["trace"]


def test_what_is_less_grave_is_left_out(tmp_path):
    with write_log(tmp_path / "gateway.log", LogForm("error")) as log:
        log("a refusal")
    assert not (tmp_path / "gateway.log").exists()
    form = LogForm("warning")
    assert [form.shows(level) for level in ("debug", "info", "warning", "error")] == [
        False,
        False,
        True,
        True,
    ]
    with pytest.raises(ConfigError, match="unknown log level 'loud'"):
        LogForm("loud")


def test_a_log_never_outgrows_its_files(tmp_path):
    form = LogForm(size=1000, kept=2)
    with write_log(tmp_path / "gateway.log", form) as log:
        for number in range(500):
            log(f"line {number}")
    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["gateway.log", "gateway.log.1", "gateway.log.2"]
    assert sum(path.stat().st_size for path in files) <= 3000
    assert "line 499" in files[0].read_text()


def test_room_is_made_in_the_log_of_a_child_that_goes_on_writing(tmp_path):
    path = tmp_path / "superlink.log"
    with open(path, "ab") as child:
        child.write(b"x" * 2000)
        child.flush()
        assert not cut_log(path, LogForm(size=3000))
        assert cut_log(path, LogForm(size=1000))
        child.write(b"after")
        child.flush()
    assert path.read_bytes() == b"after"  # nothing lost, and no hole before it
    assert (tmp_path / "superlink.log.1").read_bytes() == b"x" * 2000


def test_a_log_that_cannot_be_written_is_one_sentence(tmp_path, capsys):
    (tmp_path / "site.log").symlink_to("/dev/full")
    with write_log(tmp_path / "site.log") as write:
        for number in range(5):
            write(f"line {number}")
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "site.log': No space left on device" in told
