"""What of the public names changed since the last version, as griffe sees it."""

from pathlib import Path

from .installing import install, make_environment
from .steps import ROOT, Found, call, last_line


def list_changes(home: Path, out: Path, *, since: str) -> Found:
    """Breaking changes against a tag, listed; before 1.0 they are told, not forbidden."""
    python = make_environment(home / "griffe")
    failed = install(python, "griffe")
    if failed is not None:
        return Found("changes of names", None, (f"griffe cannot be installed: {failed}",))
    command = [python.parent / "griffe", "check", "fedlore", "--search", "src", "--against", since]
    done = call([*command, "--format", "oneline"], cwd=ROOT)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if ": " in line]
    if done.returncode not in (0, 1) or (done.returncode == 1 and not lines):
        return Found("changes of names", None, (last_line(done),))
    (out / "changes.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    named = f"{len(lines)} since {since}, in changes.txt; CHANGELOG.md says what replaces them"
    return Found("changes of names", True, (named,))
