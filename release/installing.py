"""The wheel in fresh environments: every extra, every Python at hand, the demo and the README."""

import re
import shutil
import sys
from pathlib import Path

from .steps import ROOT, Found, call, last_line

TORCH = "torch==2.13.0"
#: Extra -> what it is for; each line runs with that extra and the core alone.
EXTRAS = {
    "blend": "from fedlore_coke.blend import plan; import scipy",
    "data": "import pooch, fedlore.data",
    "dp": "import opacus, dp_accounting; from fedlore import Dp",
    "flower": "import flwr, cryptography, h11; import fedlore.federation.coordinator.server",
    "he": "import tenseal; import fedlore.privacy.ckks",
    "mlflow": "from mlflow.tracking import MlflowClient; import fedlore.experiments.trackers",
    "onnx": "import onnx, onnxruntime; import fedlore.bundle.onnx",
    "parquet": "import pyarrow.parquet",
    "plot": "import matplotlib; from fedlore.report import write_report",
    "secagg": "import cryptography; import fedlore.privacy.secagg",
    "serve": "from fedlore.bundle.serve import make_app",
    "studio": "import fastapi, uvicorn; import fedlore.studio",
    "sklearn": "import sklearn; import fedlore.sklearn",
    "tensorboard": "from torch.utils.tensorboard import SummaryWriter",
    "xlsx": "import openpyxl",
}
#: What the rest of the wheel needs from elsewhere: enough where there is no torch.
LIGHT = ("typer>=0.16,<0.21", "rich>=13.7,<15", "numpy>=2,<3")
LINTED = ROOT / "examples" / "coke" / "plant-1"  # knowledge in tables alone


def core_environment(home: Path, wheel: Path) -> tuple[Found, Path]:
    """A venv with torch and the wheel without extras."""
    python = make_environment(home / "core")
    for what in (TORCH, str(wheel)):
        done = install(python, what)
        if done is not None:
            return Found("install", False, (f"{what}: {done}",)), python
    said = call([python.parent / "fedlore", "--version"], cwd=home)
    return Found("install", said.returncode == 0, (said.stdout.strip() or last_line(said),)), python


def check_extras(home: Path, wheel: Path, core: Path) -> list[Found]:
    """Each extra in an environment that sees the core's packages, and no other extra's."""
    found = []
    for name, code in EXTRAS.items():
        python = make_environment(home / f"extra-{name}", below=core)
        failed = install(python, f"{wheel}[{name}]")
        if failed is None:
            done = call([python, "-c", code], cwd=home)
            failed = last_line(done) if done.returncode else None
        shutil.rmtree(home / f"extra-{name}", ignore_errors=True)
        found.append(Found(f"extra {name}", failed is None, () if failed is None else (failed,)))
    return found


def check_pythons(home: Path, wheel: Path) -> list[Found]:
    """Other Pythons: it compiles there, and what needs no torch runs."""
    found = []
    for version in ("3.12", "3.13", "3.14"):
        step = f"Python {version}"
        other = _find_python(version)
        if other is None:
            found.append(Found(step, None, ("no such Python is here",)))
            continue
        python = make_environment(home / f"python-{version}", python=other)
        failed = install(python, *LIGHT) or install(python, "--no-deps", str(wheel))
        if failed is None:
            shutil.copytree(LINTED, home / "linted", dirs_exist_ok=True)
            for words in (
                ["-W", "error", "-m", "compileall", "-q", _package(python)],
                ["-m", "fedlore", "--help"],
                ["-m", "fedlore", "lint", home / "linted" / "knowledge.toml"],
            ):
                done = call([python, *words], cwd=home)
                failed = failed or (last_line(done) if done.returncode else None)
        resolved = call(
            [python, "-m", "pip", "install", "-q", "--dry-run", str(wheel)], cwd=home, seconds=300
        )
        said = (
            "all resolves"
            if not resolved.returncode
            else f"cannot resolve here: {last_line(resolved)}"
        )
        found.append(
            Found(
                step,
                failed is None,
                (failed or "compiles, --help and lint of a table run without torch; " + said,),
            )
        )
    return found


def check_demo(home: Path, core: Path) -> Found:
    """The demo from the installed package, in a folder that knows nothing of the source."""
    place = home / "elsewhere"
    place.mkdir(exist_ok=True)
    done = call([core.parent / "fedlore", "demo", "--out", "demo"], cwd=place, seconds=600)
    rows = place / "demo" / "results.jsonl"
    fine = done.returncode == 0 and rows.exists()
    count = len(rows.read_text().splitlines()) if rows.exists() else 0
    return Found("demo from the wheel", fine, (f"{count} rows" if fine else last_line(done),))


def check_readme(home: Path, core: Path) -> Found:
    """The examples of the README, with the installed package."""
    place = home / "elsewhere"
    place.mkdir(exist_ok=True)
    shutil.copy(ROOT / "README.md", place)
    code = (
        "import doctest, sys; found = doctest.testfile(sys.argv[1], module_relative=False, "
        "optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS); "
        "print(found.attempted, 'examples'); sys.exit(found.failed > 0)"
    )
    done = call([core, "-c", code, place / "README.md"], cwd=place)
    told = [last_line(done)]
    fine = done.returncode == 0
    for command in readme_commands((ROOT / "README.md").read_text()):
        words = [core.parent / "fedlore", *command.split()[1:]]
        one = call(words, cwd=place, seconds=600)
        fine &= one.returncode == 0
        told.append(f"{command}: {'ok' if one.returncode == 0 else last_line(one)}")
    return Found("README from the wheel", fine, tuple(told))


def readme_commands(text: str) -> list[str]:
    """Lines of code blocks that call the command, in their order.

    >>> readme_commands("```sh\\n$ fedlore new a   # makes it\\n    fedlore run a\\n```")
    ['fedlore new a', 'fedlore run a']
    """
    found = re.findall(r"^\s*(?:\$ )?(fedlore [a-z][^#`\n]*?)\s*(?:#.*)?$", text, re.M)
    return [line for line in found if "FOLDER" not in line]


def make_environment(home: Path, *, below: Path | None = None, python: str = "") -> Path:
    """A fresh venv; with `below` it sees the packages of another."""
    call([python or sys.executable, "-m", "venv", home])
    own = home / "bin" / "python"
    if below is not None:
        (_package(own).parent / "below.pth").write_text(f"{_package(below).parent}\n")
    return own


def install(python: Path, *what: str) -> str | None:
    """Install, and say what went wrong if anything did."""
    done = call([python, "-m", "pip", "install", "-q", "--no-input", *what])
    return None if done.returncode == 0 else last_line(done)


def _package(python: Path) -> Path:
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    return Path(call(asked).stdout.strip()) / "fedlore"


def _find_python(version: str) -> str | None:
    """An interpreter of this version that starts: a shim of pyenv may name one that is not set."""
    places = [shutil.which(f"python{version}")]
    places += sorted(map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    for place in filter(None, places):
        if call([place, "-c", "import venv"]).returncode == 0:
            return place
    return None
