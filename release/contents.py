"""What is inside the two archives: what users need, and nothing of ours besides."""

import base64
import hashlib
import tarfile
import zipfile
from pathlib import Path

from .steps import ROOT, Found

DATA = "data/files/"  # public rows, 5.2 MB, which the paper's tables are made from
MOST = {"wheel": 7_000_000, "sdist": 7_000_000, "code": 1_500_000}  # bytes, as packed
OURS = ("tests/", "studies/", "benchmarks/", "results/", "handbook/", "release/", ".github/")
NEEDED = (
    "fedlore/py.typed",
    "fedlore/configs/",
    "fedlore/bundle/serve/page/",
    "fedlore/__main__.py",
)
COMPILED = (".so", ".pyd", ".dll", ".dylib", ".pyc")


def check_contents(dist: Path) -> Found:
    """Names and sizes of both archives, and the wheel's own record of itself."""
    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as file:
        inside = file.namelist()
        record = _check_record(file)
        code = sum(i.compress_size for i in file.infolist() if DATA not in i.filename)
    with tarfile.open(sdist) as archive:
        below = [name.partition("/")[2] for name in archive.getnames()]
    modules = {p.relative_to(ROOT / "src").as_posix() for p in _package().rglob("*.py")}
    wrong = [f"the wheel lacks {name}" for name in sorted(modules - set(inside))]
    wrong += [f"the wheel has {name}" for name in inside if not _belongs(name)]
    wrong += [f"the sdist has {name}" for name in below if name.startswith(OURS)]
    wrong += [f"{name} is compiled" for name in inside if name.endswith(COMPILED)]
    wrong += [
        f"the wheel lacks {need}"
        for need in NEEDED
        if not any(name.startswith(need) for name in inside)
    ]
    wrong += record
    if not wheel.name.endswith("-py3-none-any.whl"):
        wrong.append(f"{wheel.name} is not for every machine")
    for what, path in (("wheel", wheel), ("sdist", sdist)):
        if path.stat().st_size > MOST[what]:
            wrong.append(f"{path.name} has {path.stat().st_size} bytes, more than {MOST[what]}")
    if code > MOST["code"]:
        wrong.append(f"{code} bytes without {DATA}, more than {MOST['code']}")
    sizes = f"{code / 1000:,.0f} kB without {DATA}"
    said = tuple(wrong) or (
        f"{len(inside)} files in the wheel, {sizes}; {len(below)} in the sdist",
    )
    return Found("contents", not wrong, said)


def _package() -> Path:
    return ROOT / "src" / "fedlore"


def _belongs(name: str) -> bool:
    return name.startswith("fedlore/") or ".dist-info/" in name


def _check_record(file: zipfile.ZipFile) -> list[str]:
    """Files whose digest is not the one that pip will check."""
    (place,) = (name for name in file.namelist() if name.endswith(".dist-info/RECORD"))
    wrong = []
    for line in file.read(place).decode().splitlines():
        name, digest, _ = line.rsplit(",", 2)
        if digest:
            found = base64.urlsafe_b64encode(hashlib.sha256(file.read(name)).digest())
            if f"sha256={found.decode().rstrip('=')}" != digest:
                wrong.append(f"{name} is not what RECORD says")
    return wrong
