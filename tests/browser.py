"""A headless Chromium for tests: open a page, ask it, look at it. Needs no other package.

The browser is spoken to in its DevTools protocol over two pipes, so no port is opened.
"""

import fcntl
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .programs import find

SWITCHES = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run
    --disable-background-networking --disable-component-update --disable-sync --disable-extensions
    --disable-dev-shm-usage --hide-scrollbars --remote-debugging-pipe""".split()
PATIENCE = 60.0  # seconds for one answer of a busy machine


class Browser:
    """One tab of a running browser."""

    def __init__(self, to: int, out: int) -> None:
        self._to, self._out, self._buffer, self._last = to, out, b"", 0
        self._session: str | None = None
        self.complaints: list[str] = []  # errors and warnings of the console
        self.requests: list[str] = []  # every address that a page asked for
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, page: str | Path, *, width: int = 1280, dark: bool = False) -> None:
        """Load a file or an address in a window of this width."""
        address = page.resolve().as_uri() if isinstance(page, Path) else page
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        failure = self.call("Page.navigate", url=address).get("errorText")
        assert not failure, f"{address}: {failure}"
        end = time.monotonic() + PATIENCE
        while self.ask("document.readyState") != "complete":
            assert time.monotonic() < end, f"{address} did not finish loading"
            time.sleep(0.02)

    def ask(self, script: str) -> Any:
        """The value of a JavaScript expression in the page; a promise is waited for."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str) -> Any:
        """The value of an expression once it is true, also of a page that comes meanwhile."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                if found := self.ask(script):
                    return found
            except AssertionError as error:
                if "navigated" not in str(error):
                    raise
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)

    def text(self, element: str) -> str:
        """What an element, by its id, shows to a person."""
        return str(self.ask(f"document.getElementById({json.dumps(element)}).innerText"))

    def fill(self, element: str, text: str) -> None:
        """Put a text into a field as typing or pasting it would."""
        script = """(() => { const field = document.getElementById(%s); field.value = %s;
            field.dispatchEvent(new Event('input')); return true; })()"""
        self.ask(script % (json.dumps(element), json.dumps(text)))

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command of the DevTools protocol and wait for its answer."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == self._last:
                assert "error" not in heard, f"{method}: {heard['error']}"
                return heard["result"]
            self._note(heard.get("method"), heard.get("params", {}))

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._out], [], [], PATIENCE)
            data = os.read(self._out, 1 << 20) if ready else b""
            assert data, "the browser went silent"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, event: str | None, params: dict[str, Any]) -> None:
        if event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(str([a.get("value") for a in params["args"]]))
        elif event == "Runtime.exceptionThrown":
            thrown = params["exceptionDetails"]
            self.complaints.append(thrown.get("exception", thrown).get("description", "thrown"))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(str(params["entry"]["text"]))
        elif event == "Network.requestWillBeSent":
            self.requests.append(str(params["request"]["url"]))


@contextmanager
def browsing(profile: Path) -> Iterator[Browser]:
    """A fresh browser with its profile in this folder, closed at the end."""
    program = find("chromium")
    read_in, to = os.pipe()
    out, write_out = os.pipe()
    # the browser reads from 3 and writes to 4; it is put there by a process of its own, since
    # here these numbers may be taken, and copies high above them survive the moving
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (read_in, write_out)]
    move = "import os, sys; os.dup2({}, 3); os.dup2({}, 4); os.execv(sys.argv[1], sys.argv[1:])"
    command = [program, *SWITCHES, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", move.format(*ends), *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=ends,
    )
    for end in (read_in, write_out, *ends):
        os.close(end)
    try:
        browser = Browser(to, out)
        yield browser
        os.write(to, b'{"id": 0, "method": "Browser.close"}\0')
        process.wait(10)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(to)
        os.close(out)
