"""python -m handbook: the site below build/site, from docs/ and from the source. No network."""

import subprocess
import sys
import time

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
        text = page.read_text(encoding="utf-8")
        depth = len(page.relative_to(SITE).parts) - 1
        page.write_text(text.replace(_FETCHED, "../" * depth + "worker.js"), encoding="utf-8")
    count = len(list(SITE.rglob("*.html")))
    print(f"{count} pages in {SITE.relative_to(ROOT)}, {time.monotonic() - begun:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
