"""Walk through a page as a reader would: run its blocks in order, in one folder.

`python -m handbook.walk docs/how-to/run.md` says what differs, `--write` puts what was printed into
the page, `--fill` also where it shows `...` alone, `--record` notes that its blocks were run today.
"""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import fedlore
from fedlore.version import __version__

from .blocks import Block, Command, pages_to_walk, read_blocks, read_commands
from .compare import same
from .pages import RAN, ROOT

LIMIT = 600  # seconds that one command may take on a busy machine
PATIENCE = 60  # seconds until a service says that it is there

#: fedlore without its line a minute, which a page cannot show: only a slow machine prints it.
_FEDLORE = """import sys
from fedlore.cli import main, progress
progress.MINUTE = 1e6
sys.argv[0] = "fedlore"
main()
"""

#: For pages that begin where `fedlore run` ended: `trained PLANTS RESULTS`, computed once.
_TRAINED = """set -e
cd "$SHARED"
[ -d results ] || { fedlore new plants; fedlore run plants/federation.toml --out results; }
cd - > /dev/null
cp -r "$SHARED/plants" "$1"
cp -r "$SHARED/results" "$2" """


@dataclass(frozen=True)
class Difference:
    """What a page shows and what happened instead."""

    line: int
    what: str
    shown: str
    printed: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}\n--- the page\n{self.shown}\n--- now\n{self.printed}"


@dataclass
class Walk:
    """One reader with one folder."""

    folder: Path
    shared: Path  # what pages prepare once and other pages copy, as $SHARED
    names: dict[str, object] = field(default_factory=lambda: {"__name__": "page"})
    services: list[subprocess.Popen[bytes]] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    printed: dict[int, str] = field(default_factory=dict)  # by the line of the command
    open: set[int] = field(default_factory=set)  # lines where the page shows nothing but ...
    last: str = ""  # what the last Python block printed

    def take(self, block: Block) -> None:
        """Do what a block says."""
        if block.kind == "file":
            path = self.folder / block.about
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.kind == "setup":
            self._command(Command(block.text, "...", block.line))
        elif block.kind == "console":
            for command in read_commands(block):
                self._command(command)
        elif block.kind in ("python", "hidden"):
            self._python(block)
        elif block.kind == "printed":
            self.printed[block.line] = self.last
            self._compare(block.line, "what Python printed", block.text, self.last)

    def _command(self, command: Command) -> None:
        if command.text.endswith("&"):
            said = self._service(command.text.rstrip("& "))
        else:
            run = subprocess.run(
                ["sh", "-c", command.text],
                cwd=self.folder,
                env=self._world(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT,
                check=False,
            )
            said = run.stdout.rstrip("\n")
            if run.returncode and command.printed.strip() in ("", "..."):  # a failure is shown
                self.differences.append(Difference(command.line, command.text, "success", said))
                return
        self.printed[command.line] = said
        self._compare(command.line, command.text, command.printed, said)

    def _service(self, text: str) -> str:
        """Start what runs until the page ends; its first line says that it is there."""
        heard = self.folder / ".tools" / f"service-{len(self.services)}.txt"
        with open(heard, "w", encoding="utf-8") as file:
            started = subprocess.Popen(
                ["sh", "-c", f"exec {text}"],
                cwd=self.folder,
                env=self._world(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.services.append(started)
        end = time.monotonic() + PATIENCE
        while "\n" not in heard.read_text() and time.monotonic() < end and started.poll() is None:
            time.sleep(0.05)
        return heard.read_text().rstrip("\n")

    def _python(self, block: Block) -> None:
        heard = io.StringIO()
        code = block.text
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(heard):
            try:
                exec(compile(code, f"line {block.line}", "exec"), self.names)
            except Exception:
                said = traceback.format_exc(limit=-1)
                self.differences.append(Difference(block.line, "Python", code, said))
        self.last = heard.getvalue().rstrip("\n")

    def _compare(self, line: int, what: str, shown: str, printed: str) -> None:
        if shown.strip() == "...":
            self.open.add(line)
        elif not same(shown, printed):
            self.differences.append(Difference(line, what, shown, printed))

    def _world(self) -> dict[str, str]:
        ours = Path(fedlore.__file__).parent.parent  # the source, or where a wheel was installed
        source = os.pathsep.join([str(ours), *os.environ.get("PYTHONPATH", "").split(":")])
        tools = self.folder / ".tools"
        paths = f"{tools}{os.pathsep}{os.environ['PATH']}"
        plain = {"NO_COLOR": "1", "COLUMNS": "100", "OMP_NUM_THREADS": "1", "TERM": "dumb"}
        places = {"REPO": str(ROOT), "SHARED": str(self.shared)}
        return os.environ | plain | places | {"PYTHONPATH": source, "PATH": paths}


@contextlib.contextmanager
def walking(folder: Path, shared: Path) -> Iterator[Walk]:
    """A reader whose services end with the page, however it ends."""
    tools = folder / ".tools"
    tools.mkdir(parents=True)
    shared.mkdir(parents=True, exist_ok=True)
    for name, code in (
        ("fedlore", f'exec "{sys.executable}" "{tools / "without_minutes.py"}" "$@"'),
        ("python", f'exec "{sys.executable}" "$@"'),
        ("trained", _TRAINED),
        ("pip", f'exec "{sys.executable}" "{Path(__file__).with_name("extras.py")}" "$@"'),
    ):
        (tools / name).write_text(f"#!/bin/bash\n{code}\n")
        (tools / name).chmod(0o755)
    (tools / "without_minutes.py").write_text(_FEDLORE)
    walk = Walk(folder, shared)
    try:
        yield walk
    finally:
        for service in walk.services:
            service.send_signal(signal.SIGINT)
            try:
                service.wait(20)
            except subprocess.TimeoutExpired:
                service.kill()
                service.wait()


def walk_page(
    page: Path, folder: Path, *, shared: Path | None = None, first: int | None = None
) -> Walk:
    """Run a page's blocks, or the first few of them."""
    with walking(folder, shared or folder.with_name("shared")) as walk:
        for block in read_blocks(page.read_text(encoding="utf-8"))[:first]:
            walk.take(block)
    return walk


def rewrite(page: Path, walk: Walk, *, fill: bool = False) -> None:
    """Put what commands printed in place of what differs, and with `fill` in place of `...`."""
    lines = page.read_text(encoding="utf-8").splitlines()
    blocks = read_blocks("\n".join(lines))
    differing = {difference.line for difference in walk.differences} | (
        walk.open if fill else set()
    )
    for block in reversed(blocks):
        if block.kind == "console":
            for command in reversed(read_commands(block)):
                if command.line in differing and command.line in walk.printed:
                    start = command.line
                    while lines[start - 1].endswith("\\"):
                        start += 1
                    end = start + len(command.printed.splitlines())
                    lines[start:end] = walk.printed[command.line].splitlines()
        elif block.kind == "printed" and block.line in differing:
            end = block.line - 1 + len(block.text.splitlines())
            lines[block.line - 1 : end] = walk.printed[block.line].splitlines()
    page.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Walk the pages that are named, or all."""
    named = [Path(one).resolve() for one in arguments if not one.startswith("--")]
    ran = json.loads(RAN.read_text()) if RAN.exists() else {}
    failed = 0
    shared = Path(os.environ.get("SHARED") or tempfile.mkdtemp())
    for page in named or pages_to_walk(ROOT / "docs"):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            walk = walk_page(page, Path(folder) / "work", shared=shared)
        name = str(page.relative_to(ROOT / "docs"))
        print(f"{name}: {len(walk.differences)} differ, {time.monotonic() - begun:.0f} s")
        for difference in walk.differences:
            print(difference)
        if "--write" in arguments:
            rewrite(page, walk, fill="--fill" in arguments)
        failed += bool(walk.differences)
        if not walk.differences and "--record" in arguments:
            ran[name] = {"date": date.today().isoformat(), "version": __version__}
    if "--record" in arguments:
        RAN.write_text(json.dumps(ran, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
