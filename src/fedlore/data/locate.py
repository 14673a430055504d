"""Finding data files: a folder, the user's cache, the system; each is checked before it is used."""

import gzip
import hashlib
import importlib
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import FedloreError


@dataclass(frozen=True)
class DataFile:
    """A file whose content is known in advance."""

    name: str
    sha256: str  # of the content; for .gz of what is packed, since packers differ
    md5: str = ""  # of the original download, as its authors published it


def places(folder: str | Path | None = None) -> list[Path]:
    """Where to look, first to last: the folder given or FEDLORE_DATA, then the user's cache.

    In a checkout without either, `shared/data` beside it counts as FEDLORE_DATA.
    """
    given = folder or os.environ.get("FEDLORE_DATA")
    if given:
        if not Path(given).is_dir():
            raise FedloreError(f"the data folder '{given}' does not exist")
        return [Path(given), cache()]
    checkout = Path(__file__).parents[3]
    beside = checkout.parent / "shared" / "data"
    known = (checkout / "pyproject.toml").is_file() and beside.is_dir()
    return [beside, cache()] if known else [cache()]


def cache() -> Path:
    """The user's cache of downloaded data."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "fedlore"


def first_found(file: DataFile, folders: Iterable[Path]) -> Path | None:
    """The first of the folders' files of that name."""
    return next((f / file.name for f in folders if (f / file.name).is_file()), None)


def content(path: Path, file: DataFile) -> bytes:
    """What the file holds, unpacked, or an error if it is not what it should be."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FedloreError(f"cannot read '{path}': {error.strerror}") from None
    found = ""
    try:
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        found = hashlib.sha256(data).hexdigest()
    except (OSError, EOFError, zlib.error):
        found = "none, it cannot be unpacked"
    if found != file.sha256:
        packed = " (unpacked)" if path.suffix == ".gz" else ""
        raise FedloreError(
            f"'{path}' is damaged or another file: expected sha256{packed} {file.sha256}, "
            f"found {found}. Delete it and get it again"
        )
    return data


def missing(what: str, files: Sequence[DataFile], folders: Iterable[Path], get: str) -> str:
    """The message for data that is nowhere: which files, their checksums, how to get them."""
    names = ", ".join(f"{f.name} (sha256 {f.sha256})" for f in files)
    looked = ", ".join(f"'{folder}'" for folder in folders)
    return f"{what} was not found in {looked}. Needed: {names}. {get}"


def download(files: Sequence[DataFile], base: str) -> None:
    """Fetch original files into the cache by pooch, checked against the published sums."""
    try:
        pooch = importlib.import_module("pooch")
    except ImportError:
        raise FedloreError("a download needs: pip install 'fedlore[data]'") from None
    for file in files:
        try:
            pooch.retrieve(
                base + file.name,
                f"md5:{file.md5}",
                fname=file.name,
                path=cache(),
                progressbar=False,
            )
        except Exception as error:  # each transport raises classes of its own
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise FedloreError(f"could not download {base}{file.name}: {reason}") from error
