"""A step of the check: what it found, whether that is fine, and the processes it runs."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Found:
    """What a step found; `fine` is None where it could not look."""

    step: str
    fine: bool | None
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        word = {True: "ok", False: "FAIL", None: "not looked"}[self.fine]
        return "\n".join([f"{word:10} {self.step}", *(f"           {line}" for line in self.lines)])


def call(
    command: Sequence[object],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    seconds: float = 900,
) -> subprocess.CompletedProcess[str]:
    """A process with its output; one that takes too long has failed."""
    words = [str(word) for word in command]
    try:
        return subprocess.run(
            words, cwd=cwd, env=env, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 124, "", f"took longer than {seconds:g} s")
    except OSError as error:
        return subprocess.CompletedProcess(words, 127, "", str(error))


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """The end of what a process said, in one line."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1][:300] if lines else f"exit code {done.returncode}"
