"""sdist and wheel, built twice from what is committed, and the same bits both times."""

import gzip
import hashlib
import io
import shutil
import sys
import tarfile
from pathlib import Path

from .steps import ROOT, Found, call, last_line

BACKEND = (
    "import sys, setuptools.build_meta as backend\n"
    "out = sys.argv[1]  # the backend puts its own words there\n"
    "backend.build_sdist(out); backend.build_wheel(out)"
)


def build_twice(home: Path, python: Path) -> tuple[Found, Path | None]:
    """Build in two clean copies; give the folder of the first pair where both are alike."""
    epoch = call(["git", "log", "-1", "--format=%ct"], cwd=ROOT).stdout.strip()
    folders = []
    for name in ("first", "second"):
        copy, out = home / name / "tree", home / name / "dist"
        copy.mkdir(parents=True)
        out.mkdir()
        archive = home / name / "tree.tar"
        call(["git", "archive", "-o", archive, "HEAD"], cwd=ROOT)
        with tarfile.open(archive) as file:
            file.extractall(copy, filter="data")
        env = {"SOURCE_DATE_EPOCH": epoch, "PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "random"}
        done = call([python, "-c", BACKEND, out], cwd=copy, env=env)
        if done.returncode:
            return Found("build", False, (last_line(done),)), None
        (sdist,) = out.glob("*.tar.gz")
        normalise_sdist(sdist, int(epoch))
        folders.append(out)
        shutil.rmtree(copy)
    lines, alike = [], True
    for one in sorted(folders[0].iterdir()):
        digests = [hashlib.sha256((out / one.name).read_bytes()).hexdigest() for out in folders]
        alike &= digests[0] == digests[1]
        size = one.stat().st_size / 1000
        lines.append(f"{one.name}, {size:,.0f} kB, sha256 {digests[0][:16]}")
    return Found("built twice, the same bits", alike, tuple(lines)), folders[0]


def normalise_sdist(path: Path, epoch: int) -> None:
    """The archive anew with one date and no owner: tarfile writes the time of day into it."""
    with tarfile.open(path) as old:
        members = sorted(old.getmembers(), key=lambda m: m.name)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
            for member in members:
                member.mtime, member.uid, member.gid = epoch, 0, 0
                member.uname = member.gname = ""
                member.mode = 0o755 if member.isdir() else 0o644
                member.pax_headers = {}
                new.addfile(member, old.extractfile(member) if member.isfile() else None)
    with open(path, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as squeezed:
        squeezed.write(packed.getvalue())


def builder(home: Path) -> Path:
    """A Python of its own with setuptools, so that no installed package has a say."""
    call([sys.executable, "-m", "venv", home / "builder"])
    python = home / "builder" / "bin" / "python"
    call([python, "-m", "pip", "install", "-q", "setuptools>=77"])
    return python
