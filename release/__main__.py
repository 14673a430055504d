"""python -m release: every step, a report in build/release, and exit code 1 if anything failed."""

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from fedlore.version import __version__

from .building import build_twice, builder
from .changes import list_changes
from .contents import check_contents
from .dependencies import audit_holes, check_licences, list_packages, write_bill
from .installing import (
    EXTRAS,
    check_demo,
    check_extras,
    check_pythons,
    check_readme,
    core_environment,
    install,
    make_environment,
)
from .lesson import NEEDS, follow_lesson
from .steps import ROOT, Found
from .versions import check_version

OUT = ROOT / "build" / "release"
LAST = "0.1.0"


def main() -> int:
    """Go through all steps; a later one runs although an earlier one failed, where it can."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    report: list[Found] = []

    def tell(*found: Found) -> None:
        for one in found:
            print(one, flush=True)
            report.append(one)

    with tempfile.TemporaryDirectory(prefix="fedlore-release-") as folder:
        home = Path(folder)
        tell(check_version())
        built, dist = build_twice(home, builder(home))
        tell(built)
        if dist is not None:
            tell(check_contents(dist))
            (wheel,) = dist.glob("*.whl")
            for file in dist.iterdir():
                shutil.copy(file, OUT)
            installed, core = core_environment(home, wheel)
            tell(installed)
            tell(check_readme(home, core), check_demo(home, core))
            reader = make_environment(home / "reader", below=core)
            lacking = install(reader, f"{wheel}[{','.join(NEEDS)}]")
            step = "the lesson from the wheel"
            tell(follow_lesson(reader) if lacking is None else Found(step, False, (lacking,)))
            tell(*check_pythons(home, wheel), *check_extras(home, wheel, core))
            whole = make_environment(home / "whole", below=core)
            failed = install(whole, f"{wheel}[{','.join(EXTRAS)}]")
            tell(Found("all extras together", failed is None, () if failed is None else (failed,)))
            packages = list_packages(whole)
            about = {
                "version": __version__,
                "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
            }
            tell(write_bill(packages, OUT, about), check_licences(packages, OUT))
            tell(audit_holes(home, packages))
        tell(list_changes(home, OUT, since=LAST))
    text = "\n".join(map(str, report))
    (OUT / "report.txt").write_text(f"fedlore {__version__}\n{text}\n", encoding="utf-8")
    failed_steps = [one.step for one in report if one.fine is False]
    print(f"{len(report)} steps, {len(failed_steps)} failed; {OUT.relative_to(ROOT)}/report.txt")
    return 1 if failed_steps else 0


if __name__ == "__main__":
    sys.exit(main())
