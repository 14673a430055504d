"""What a mutant is, and the kept list of those made by hand."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = Path("src/fedlore")
KEPT = Path(__file__).with_name("kept.toml")


@dataclass(frozen=True)
class Mutant:
    """One change of one file, and the tests that are asked about it, stage by stage."""

    name: str
    file: str  # below src/fedlore
    start: int  # where in its text the change begins
    old: str
    new: str
    stages: tuple[tuple[str, ...], ...]  # tests; the next stage only where one passes

    @property
    def change(self) -> str:
        """The change on one line."""
        old, new = (" ".join(text.split()) for text in (self.old, self.new))
        return f"{self.file}: `{old}` to `{new}`"

    def apply(self, text: str) -> str:
        """The text of the file with the fault in it."""
        end = self.start + len(self.old)
        if text[self.start : end] != self.old:
            raise ValueError(f"{self.name}: {self.file} does not read {self.old!r} there")
        return text[: self.start] + self.new + text[end:]


def read_kept(path: Path = KEPT, *, root: Path = ROOT) -> list[Mutant]:
    """The mutants of the list; each text to change must stand in its file exactly once."""
    found = []
    for entry in tomllib.loads(path.read_text())["mutant"]:
        name, file, old, new = (entry[key] for key in ("ships", "file", "old", "new"))
        text = (root / SOURCE / file).read_text()
        if text.count(old) != 1:
            raise ValueError(f"{name!r}: {file} holds {old!r} {text.count(old)} times, not once")
        if old == new:
            raise ValueError(f"{name!r} changes nothing")
        found.append(Mutant(name, file, text.index(old), old, new, (tuple(entry["tests"]),)))
    return found
