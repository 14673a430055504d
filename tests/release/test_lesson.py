"""Who has only the wheel gets to a served model by following the page, command by command."""

import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from release.building import BACKEND
from release.lesson import LESSON, NEEDS, follow_lesson
from release.steps import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python with the wheel of this tree, and the other packages of this one's."""
    home = tmp_path_factory.mktemp("wheel")
    tree, dist = home / "tree", home / "dist"
    dist.mkdir()
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, tree)
    built = subprocess.run(
        [sys.executable, "-c", BACKEND, dist], cwd=tree, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = dist.glob("*.whl")
    venv.create(home / "venv", with_pip=False)
    below = Path(sysconfig.get_path("purelib"))
    (own,) = (home / "venv" / "lib").glob("python*/site-packages")
    (own / "below.pth").write_text(f"{below}\n")  # its .pth files do not count: no editable fedlore
    with zipfile.ZipFile(wheel) as file:
        file.extractall(own)
    return home / "venv" / "bin" / "python"


def test_the_lesson_installs_what_it_needs():
    assert f"fedlore[{','.join(NEEDS)}]" in LESSON.read_text()


def test_the_first_lesson_is_followed_from_the_wheel_to_a_served_model(python):
    assert "fedlore serve" in LESSON.read_text()
    found = follow_lesson(python)
    assert found.fine, str(found)
    assert "0 differ" in found.lines[0]
