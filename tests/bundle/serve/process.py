"""A service in a process of its own."""

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import NamedTuple

INSIST = ("--accept-conflicts",)  # an expert of `sites` says what his range forbids


class Service(NamedTuple):
    process: subprocess.Popen
    port: int
    line: str  # what it said of itself

    @property
    def address(self):
        return f"http://127.0.0.1:{self.port}/"


@contextmanager
def serving(path, *options, environment=None):
    """A running service; it is gone at the end, whatever happened."""
    command = [sys.executable, "-m", "fedlore", "serve", str(path), "--port", "0", *options]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", **(environment or {})},
    )
    try:
        line = process.stdout.readline()
        line = process.stdout.readline() if "accepted" in line else line
        assert " at http://127.0.0.1:" in line, line + process.stderr.read()
        yield Service(process, int(line.split("http://127.0.0.1:")[1].split(",")[0]), line)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
