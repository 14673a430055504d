"""Children that end with us: no process is left behind, whatever happens to the parent."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ..errors import FedloreError

__all__ = ["free_port"]

_WINDOWS: bool = sys.platform == "win32"
QUIET = {  # what keeps flwr at home and silent
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
}


class Child:
    """A process in a group of its own, which the kernel ends when this process ends."""

    def __init__(
        self, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        if _WINDOWS:
            raise FedloreError(
                "a federation over machines needs Linux or macOS, where it can end what it "
                "started: on Windows use WSL; run, predict and serve work there as they are"
            )
        self.log = log
        parent = os.getpid()
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **QUIET, **(env or {})},
                start_new_session=True,
                preexec_fn=lambda: _tie(parent),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float | None = None) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def ask_to_end(self) -> None:
        self._signal(signal.SIGTERM)

    def stop(self, patience: float = 3.0) -> None:
        """Ask it to end, then end it and all that it started."""
        for sign, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
            if self.code() is None:
                self._signal(sign)
                self.wait(seconds)
        self._signal(signal.SIGKILL)  # what it started and left

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self.wait(5.0)

    def _signal(self, sign: signal.Signals) -> None:
        try:
            os.killpg(self.pid, sign)
        except (ProcessLookupError, PermissionError):
            pass

    def tail(self, lines: int = 15) -> str:
        """The end of what it printed."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def _tie(parent: int) -> None:
    """In the child: die with the parent (Linux; elsewhere stop() has to do)."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None, use_errno=True).prctl(set_death_signal, signal.SIGKILL)
        if os.getppid() != parent:  # it was gone before we asked
            os._exit(1)


def fedlore_command(*arguments: str) -> list[str]:
    """A command line of this very installation."""
    return [sys.executable, "-m", "fedlore", *arguments]


class Stop(threading.Event):
    """Set by a signal, which it remembers."""

    by: int | None = None

    @property
    def typed(self) -> bool:
        """Whether it was Ctrl-C."""
        return self.by == signal.SIGINT


@contextmanager
def catch_signals(*, interrupt: bool = False) -> Iterator[Stop]:
    """An event that Ctrl-C and SIGTERM set; whoever cannot wait sends a second signal.

    With `interrupt` the first one interrupts at once, and the event is for loops to look at: an
    interrupt that comes while something is being thrown away is lost in Python.
    """
    stop = Stop()

    def handle(number: int, frame: FrameType | None) -> None:
        again, stop.by = stop.is_set(), number
        stop.set()
        if interrupt or again:
            raise KeyboardInterrupt

    before = {s: signal.signal(s, handle) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for sign, old in before.items():
            signal.signal(sign, old)


class TookTooLong(FedloreError):
    """Work that was cut off at its time."""

    kind = "timeout"


@contextmanager
def cut_after(seconds: float) -> Iterator[None]:
    """Cut off what takes longer; only the main thread can, elsewhere nothing is done."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def cut(number: int, frame: FrameType | None) -> None:
        raise TookTooLong(f"it took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, cut)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def limit_memory(more: int) -> None:
    """Refuse this process more than so many megabytes beyond what it has; a task then fails."""
    if sys.platform != "linux":
        return
    import resource

    has = next(
        int(line.split()[1]) * 1024
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmData")
    )
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = has + more * 1_000_000
    soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def spare_loopback() -> None:
    """Let no proxy stand between processes of one machine, whatever the environment names."""
    names = ("NO_PROXY", "no_proxy")  # the one in small letters counts where there are both
    told = ",".join(os.environ.get(name, "") for name in names)
    spared = dict.fromkeys([*told.split(","), "127.0.0.1", "localhost", "::1"])
    for name in names:
        os.environ[name] = ",".join(one for one in spared if one)


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
