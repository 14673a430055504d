"""The check of a release notices what it is there to notice."""

import base64
import hashlib
import json
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from release.building import normalise_sdist
from release.contents import NEEDED, check_contents
from release.dependencies import binds, check_licences, count_holes, write_bill
from release.installing import EXTRAS, readme_commands
from release.steps import ROOT, Found, call
from release.versions import check_version


def dist(tmp: Path, *, extra: dict[str, str] | None = None, without: str = "") -> Path:
    """A wheel with the names of all our modules, and an sdist, each with a little in it."""
    names = [
        p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src" / "fedlore").rglob("*.py")
    ]
    names += [need + ("x" if need.endswith("/") else "") for need in NEEDED]
    files = {name: "x" for name in sorted(set(names)) if name != without} | (extra or {})
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(b'x').digest()).decode()[:-1]},1\n"
        for name in files
    )
    out = tmp / "dist"
    out.mkdir()
    with zipfile.ZipFile(out / "fedlore-0-py3-none-any.whl", "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
        wheel.writestr("fedlore-0.dist-info/RECORD", record)
    (tmp / "README.md").write_text("x")
    with tarfile.open(out / "fedlore-0.tar.gz", "w:gz") as sdist:
        sdist.add(tmp / "README.md", "fedlore-0/README.md")
    return out


def test_good_archives_pass(tmp_path):
    assert check_contents(dist(tmp_path)).fine


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"extra": {"tests/test_x.py": "x"}}, "the wheel has tests/test_x.py"),
        ({"extra": {"fedlore/fast.so": "x"}}, "fedlore/fast.so is compiled"),
        ({"extra": {"fedlore/errors.py": "y"}}, "fedlore/errors.py is not what RECORD says"),
        ({"without": "fedlore/version.py"}, "the wheel lacks fedlore/version.py"),
        ({"without": "fedlore/py.typed"}, "the wheel lacks fedlore/py.typed"),
    ],
)
def test_what_does_not_belong_there_is_named(tmp_path, change, said):
    found = check_contents(dist(tmp_path, **change))
    assert found.fine is False and said in found.lines


def test_tests_in_the_sdist_are_named(tmp_path):
    out = dist(tmp_path)
    with tarfile.open(out / "fedlore-0.tar.gz", "w:gz") as sdist:
        sdist.add(tmp_path / "README.md", "fedlore-0/tests/test_x.py")
    assert "the sdist has tests/test_x.py" in check_contents(out).lines


@pytest.mark.slow
def test_an_sdist_has_the_same_bits_at_any_time(tmp_path):
    digests = set()
    for name in ("a", "b"):
        path = tmp_path / f"{name}.tar.gz"
        (tmp_path / "file").write_text("text")
        with tarfile.open(path, "w:gz") as archive:
            archive.add(tmp_path / "file", "x/file")
        normalise_sdist(path, 1_700_000_000)
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
        time.sleep(1.1)  # gzip counts whole seconds
    assert len(digests) == 1


def test_every_extra_is_tried():
    import tomllib

    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS) == set(told["optional-dependencies"]) - {"dev", "docs"}


def test_the_version_stands_in_one_place():
    assert check_version().fine, check_version()


def test_a_licence_that_binds_others_fails(tmp_path):
    packages = [{"name": "a", "version": "1", "licence": "GPL-3.0-only"}]
    assert check_licences(packages, tmp_path).fine is False
    assert not binds("Apache-2.0") and not binds("LGPL-3.0-or-later")


def test_the_bill_is_a_cyclonedx_document_that_stays_the_same(tmp_path):
    packages = [{"name": "torch", "version": "2.13.0", "licence": "BSD-3-Clause"}]
    about = {"version": "0.2.0", "sha256": "00"}
    texts = []
    for _ in range(2):
        write_bill(packages, tmp_path, about)
        texts.append((tmp_path / "sbom.cdx.json").read_text())
    bill = json.loads(texts[0])
    assert texts[0] == texts[1] and (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["components"][0]["purl"] == "pkg:pypi/torch@2.13.0"


def test_commands_of_the_readme_are_found():
    text = "```\n$ fedlore demo --out x  # seconds\n```\nplain words about fedlore run\n"
    assert readme_commands(text) == ["fedlore demo --out x"]


def test_what_hangs_or_is_not_there_has_failed():
    assert call(["sleep", "5"], seconds=0.1).returncode == 124
    assert call(["no-such-program"]).returncode == 127
    assert str(Found("x", None, ("why",))).startswith("not looked x\n")


def test_holes_that_could_not_be_looked_up_are_no_good_news():
    seen = {"name": "a", "version": "1", "vulns": []}
    holed = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1"}]}
    blind = {"name": "c", "skip_reason": "unreachable"}
    assert count_holes([seen]).fine is True
    assert count_holes([seen, blind]).fine is None and "c" in count_holes([blind]).lines[0]
    assert count_holes([holed, blind]).fine is False and "b 2: CVE-1" in count_holes([holed]).lines
