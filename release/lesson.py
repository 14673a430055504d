"""The first lesson as someone follows it who has the wheel and the site, and nothing else."""

import os
from pathlib import Path

from .steps import ROOT, Found, call, last_line

LESSON = ROOT / "docs" / "learn" / "data-scientist.md"  # own CSV to a served model
NEEDS = ("plot", "serve", "sklearn")  # what its first line installs


def follow_lesson(python: Path, page: Path = LESSON) -> Found:
    """Every command of the page, copied and run with an installed fedlore; nothing is skipped."""
    world = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    place = call([python, "-c", "import fedlore; print(fedlore.__file__)"], cwd=ROOT, env=world)
    if place.returncode or Path(place.stdout.strip()).is_relative_to(ROOT / "src"):
        return Found("the lesson from the wheel", False, (f"not installed: {last_line(place)}",))
    done = call([python, "-m", "handbook.walk", page], cwd=ROOT, env=world, seconds=900)
    said = tuple(done.stdout.splitlines()[:40]) or (last_line(done),)
    return Found("the lesson from the wheel", done.returncode == 0, said)
