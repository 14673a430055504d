"""Logs of a server and of a site: by level, in text or JSON, and never larger than agreed."""

import json
import logging
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from ..errors import ConfigError, unknown

LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class LogForm:
    """How logs are written."""

    level: str = "info"  # what is less grave is left out
    as_json: bool = False  # an object on each line, in place of text
    size: int = 5_000_000  # bytes of a file; then a new one is begun
    kept: int = 3  # older files

    def __post_init__(self) -> None:
        if self.level not in LOG_LEVELS:
            raise ConfigError(unknown("log level", self.level, LOG_LEVELS))

    def shows(self, level: str) -> bool:
        """Whether a line of this level is written."""
        return LOG_LEVELS.index(level) >= LOG_LEVELS.index(self.level)

    def line(self, text: str, level: str = "info") -> str:
        """A line as it is printed."""
        return _as_json(datetime.now(UTC), level, "fedlore", text) if self.as_json else text


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC)
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        level = record.levelname.lower()
        return _as_json(when, level, record.name, record.getMessage(), trace=trace)


def _as_json(when: datetime, level: str, who: str, text: str, **more: str) -> str:
    told = {"time": when.isoformat(timespec="milliseconds"), "level": level, "who": who}
    return json.dumps(told | {"message": text} | {k: v for k, v in more.items() if v})


class _Rotating(RotatingFileHandler):
    """A log that cannot be written is one sentence on the screen, not a traceback for each line."""

    _trouble = ""  # that was told already

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        reason = str(getattr(error, "strerror", None) or error)
        if reason != self._trouble:
            self._trouble = reason
            print(f"cannot write '{self.baseFilename}': {reason}", file=sys.stderr, flush=True)

    def close(self) -> None:
        with suppress(OSError):  # what could not be written was told already
            super().close()


def log_handler(path: Path, form: LogForm) -> logging.Handler:
    """A file that makes room for a new one when it has grown."""
    handler = _Rotating(
        path, maxBytes=form.size, backupCount=form.kept, encoding="utf-8", delay=True
    )
    handler.setLevel(form.level.upper())
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(_Json() if form.as_json else text)
    return handler


@contextmanager
def write_log(
    path: Path, form: LogForm | None = None, level: str = "warning"
) -> Iterator[Callable[[str], None]]:
    """Lines with the time of day, all of one level."""
    handler = log_handler(path, form or LogForm())
    number = logging.getLevelNamesMapping()[level.upper()]

    def write(line: str) -> None:
        known = {"name": f"fedlore.{path.stem}", "levelno": number, "levelname": level.upper()}
        record = logging.makeLogRecord({"msg": line, **known})
        if number >= handler.level:
            handler.handle(record)

    try:
        yield write
    finally:
        handler.close()


def cut_log(path: Path, form: LogForm | None = None) -> bool:
    """Make room in the log of a running child, which goes on writing at the end of its file."""
    form = form or LogForm()
    if not path.exists() or path.stat().st_size <= form.size:
        return False
    shutil.copyfile(path, path.with_name(f"{path.name}.1"))
    with open(path, "r+b") as file:
        file.truncate(0)
    return True
