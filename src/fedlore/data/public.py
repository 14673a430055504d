"""The paper's two data sets, complete, in their original order, and where files of data are found.

Blackard (1998), Covertype, UCI, doi:10.24432/C50K5N, CC BY 4.0: ships with the package. Xiao,
Rasul, Vollgraf (2017), Fashion-MNIST, arXiv:1708.07747, MIT licence: found on this machine or
downloaded. A file is checked before it is used.
"""

import gzip
import hashlib
import importlib
import io
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch

from ..core.examples import Examples
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


COVTYPE = DataFile(
    "covtype.npz", "a165fc21b19400b7bea83631f8808be89ba103d99ccfc76a092feda920bc78e8"
)
FASHION = DataFile(
    "fashion_mnist.npz", "5b6d2c4c694a91887af8ab7d039c04f80af3c29378d731c93a538d2e831aa469"
)
ORIGINALS = (  # as Zalando published them; Debian packs the same content again
    DataFile(
        "train-images-idx3-ubyte.gz",
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        md5="8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    ),
    DataFile(
        "train-labels-idx1-ubyte.gz",
        "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        md5="25c81989df183df01b3e8a0aad5dffbe",
    ),
    DataFile(
        "t10k-images-idx3-ubyte.gz",
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        md5="bef4ecab320f06d8554ea6380940ec79",
    ),
    DataFile(
        "t10k-labels-idx1-ubyte.gz",
        "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        md5="bb300cfdad3c16e7a12a480ee83cd310",
    ),
)
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
ZALANDO = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
GET = (
    "Install Debian's dataset-fashion-mnist, or allow the download (pip install 'fedlore[data]'), "
    "or name a folder with the files in FEDLORE_DATA"
)


@dataclass(frozen=True, eq=False)
class Split:
    """A data set that comes in two parts."""

    train: Examples
    test: Examples


def covtype(folder: str | Path | None = None) -> Examples:
    """Forest cover type: 581,012 rows, 54 columns in [0, 1], labels 0 to 6.

    The numbers are those of LIBSVM's covtype.scale01, which the paper's authors used: each
    column min-max scaled and rounded to six digits. In original order: shuffle or stratify.
    """
    shipped = Path(__file__).parent / "files"
    folders = [*places(folder), shipped]
    path = first_found(COVTYPE, folders)
    if path is None:
        again = "It ships with fedlore: install fedlore again"
        raise FedloreError(missing("Covertype", [COVTYPE], folders, again))
    stored = _arrays(path, COVTYPE)
    x = np.zeros((len(stored["label"]), 54), dtype=np.float32)
    rows = np.arange(len(x))
    for i, column in enumerate(stored["quant"].T):
        low, high = int(column.min()), int(column.max())
        grid = (np.arange(low, high + 1) - low) / (high - low)
        rounded = np.array([float(f"{value:.6g}") for value in grid], dtype=np.float32)
        x[:, i] = rounded[column.astype(np.int64) - low]
    x[rows, 10 + stored["wilderness"].astype(np.int64)] = 1.0
    x[rows, 14 + stored["soil"].astype(np.int64)] = 1.0
    y = torch.from_numpy(stored["label"].astype(np.int64) - 1)
    return Examples(torch.from_numpy(x), y)


def fashion_mnist(folder: str | Path | None = None, *, fetch: bool = True) -> Split:
    """Fashion-MNIST: 60,000 and 10,000 images of 28×28 in [0, 1], labels 0 to 9.

    Looked for as fashion_mnist.npz or as the four original archives; with `fetch` the latter
    are downloaded into the user's cache when nothing is found.
    """
    folders = [*places(folder), DEBIAN]
    for place in folders:
        path = first_found(FASHION, [place])
        if path is not None:
            stored = _arrays(path, FASHION)
            return Split(
                _images(stored["x_train"], stored["y_train"]),
                _images(stored["x_test"], stored["y_test"]),
            )
        if all(first_found(file, [place]) for file in ORIGINALS):
            return _originals(place)
    try:
        if not fetch:
            raise FedloreError("downloads are off")
        download(ORIGINALS, ZALANDO)
    except FedloreError as error:
        raise FedloreError(
            missing("Fashion-MNIST", [FASHION, *ORIGINALS], folders, f"{GET} ({error})")
        ) from error
    return _originals(cache())


def _originals(place: Path) -> Split:
    headers = (16, 8, 16, 8)  # bytes before the data: magic number and sizes
    parts = [
        np.frombuffer(content(place / file.name, file), np.uint8, offset=header)
        for file, header in zip(ORIGINALS, headers, strict=True)
    ]
    return Split(_images(*parts[:2]), _images(*parts[2:]))


def _images(x: np.ndarray, y: np.ndarray) -> Examples:
    scaled = x.reshape(-1, 28, 28).astype(np.float32) / 255
    return Examples(torch.from_numpy(scaled), torch.from_numpy(y.astype(np.int64)))


def _arrays(path: Path, file: DataFile) -> dict[str, np.ndarray]:
    """The arrays of a checked npz; no pickles."""
    try:
        with np.load(io.BytesIO(content(path, file)), allow_pickle=False) as stored:
            return dict(stored)
    except FedloreError:
        raise
    except (BadZipFile, ValueError) as error:
        raise FedloreError(f"'{path}' cannot be read: {error}") from error
