"""Another package, installed in a folder of its own for the length of a test."""

import importlib
import shutil
import sys
from pathlib import Path


def install(folder: Path, monkeypatch, **entries: str) -> None:
    """The veil as package `veiled`, offered under these names of `fedlore.filters`."""
    shutil.copy(Path(__file__).parent / "veil.py", folder / "veiled.py")
    about = folder / "veiled-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: veiled\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in entries.items()]
    (about / "entry_points.txt").write_text("\n".join(["[fedlore.filters]", *lines]) + "\n")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "veiled", raising=False)
    importlib.invalidate_caches()
