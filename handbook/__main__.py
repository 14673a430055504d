"""python -m handbook: the site below build/site, from docs/ and from the source. No network."""

import subprocess
import sys
import time
from pathlib import Path

from .pages import ROOT, stage_pages

SITE = ROOT / "build" / "site"
#: A reader who opens the site from a folder searches by a script that Zensical would fetch.
_FETCHED = "https://unpkg.com/iframe-worker/shim"


def main() -> int:
    """Stage, build strictly, and leave nothing to be fetched."""
    begun = time.monotonic()
    stage_pages(ROOT / "build" / "handbook")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    built = subprocess.run(command, cwd=ROOT, check=False)
    if built.returncode:
        return built.returncode
    for page in SITE.rglob("*.html"):
        page.write_text(mend(page), encoding="utf-8")
    count = len(list(SITE.rglob("*.html")))
    print(f"{count} pages in {SITE.relative_to(ROOT)}, {time.monotonic() - begun:.1f} s")
    return 0


def mend(page: Path) -> str:
    """A page that fetches nothing, and whose empty table headings are no headings."""
    above = "../" * (len(page.relative_to(SITE).parts) - 1)
    text = page.read_text(encoding="utf-8").replace(_FETCHED, f"{above}worker.js")
    return text.replace("<th></th>", "<td></td>")


if __name__ == "__main__":
    sys.exit(main())
