"""Where a site keeps what the studio works on."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..config import read_toml
from ..data.rows import ROW_KINDS
from ..errors import FedloreError, KnowledgeError
from ..knowledge.content import FILE


@dataclass(frozen=True)
class Workplace:
    """A site's folder: its knowledge file, and rows and a model where there are some."""

    folder: Path
    knowledge: Path  # knowledge.toml, or what site.toml calls it
    data: Path | None = None
    bundle: Path | None = None

    @property
    def beside(self) -> Path:
        """The folder of the knowledge file: its tables are named relative to it."""
        return self.knowledge.parent

    @property
    def state(self) -> Path:
        """What the studio keeps for itself: drafts and versions."""
        return self.beside / "studio"


def find_workplace(
    folder: Path, *, data: Path | None = None, bundle: Path | None = None
) -> Workplace:
    """The files of a site's folder, as `fedlore run` or a deployed federation has them."""
    if not folder.is_dir():
        raise FedloreError(f"'{folder}' is no folder: name the one of your site")
    site = folder / "site.toml"
    said = read_toml(site) if site.exists() else {}
    knowledge = folder / str(said.get("knowledge") or FILE)
    if data is None:
        named = [folder / str(said["data"])] if "data" in said else []
        data = next((path for path in (*named, *_train_files(folder)) if path.exists()), None)
    if bundle is None:
        bundle = next(iter(sorted(folder.glob("*.lore"))), None)
    return Workplace(folder, knowledge, data, bundle)


def _train_files(folder: Path) -> Iterator[Path]:
    return (folder / f"train{kind}" for kind in ROW_KINDS)


class Overlay(Mapping[str, bytes]):
    """The files beside a knowledge file as they are on disk, some of them replaced."""

    def __init__(self, place: Workplace, changed: Mapping[str, bytes]) -> None:
        self._place, self._changed = place, dict(changed)

    def __getitem__(self, name: str) -> bytes:
        if name in self._changed:
            return self._changed[name]
        try:
            return path_of(self._place, name).read_bytes()
        except OSError as error:
            raise KnowledgeError(f"cannot read '{name[:200]}': {error.strerror}") from None

    def __contains__(self, name: object) -> bool:
        if name in self._changed:
            return True
        return isinstance(name, str) and path_of(self._place, name).is_file()

    def __iter__(self) -> Iterator[str]:
        return iter({FILE: None, **dict.fromkeys(self._changed)})

    def __len__(self) -> int:
        return len(list(iter(self)))


def path_of(place: Workplace, name: str) -> Path:
    """Where a file that the knowledge names lies; knowledge.toml is the site's knowledge file."""
    return place.knowledge if name == FILE else place.beside / name


def is_own(place: Workplace, name: str) -> bool:
    """Whether a file lies in the site's own folder, so that the studio may write to it."""
    root = place.beside.resolve()
    return path_of(place, name).resolve().is_relative_to(root)
