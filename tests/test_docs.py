"""What the pages name exists: modules, names to import, files, other pages."""

import importlib
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from handbook.fields import keys_of
from handbook.keys import file_pages
from handbook.names import MODULES, page_path

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
#: fedlore.NAME that is no module: groups of entry points, and keys in the metadata of a graph.
NO_MODULES = {"models", "algorithms", "sources", "filters", "classes", "client", "features"}
#: Where a path in a page may start: at the root, or at the package as pages about it do.
STARTS = (ROOT, ROOT / "src", ROOT / "src" / "fedlore")

#: Pages that the source writes when the site is built, and notebooks.
MADE = {
    "reference/commands.md",
    "reference/columns.md",
    "reference/api/building.md",
    *(page.path for page in file_pages()),
    *map(page_path, MODULES),
    *(f"notebooks/{path.stem}.md" for path in ROOT.glob("docs/notebooks/*.ipynb")),
}

DOTTED = re.compile(r"(?<![\w./-])fedlore((?:\.[A-Za-z_]\w*)+)(?![\w/-])")
IMPORTS = re.compile(r"^from (fedlore[\w.]*) import (?:\(([^)]*)\)|(.+))$", re.M)
PATHS = re.compile(r"(?<![\w/.-])((?:src|tests|studies|benchmarks|examples)/[\w./-]*\w/?)")
FILES = re.compile(r"(?<![\w./-])((?:[a-z_0-9]+/)+[a-z_0-9]+\.py)\b")
LINKS = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
ANCHORS = re.compile(r"\]\((?!https?:)([^)#\s]*)#([^)\s]+)\)")
HEADINGS = re.compile(r"^#+ (.+)$", re.M)


def shown(page: Path) -> str:
    return str(page.relative_to(ROOT))


each_page = pytest.mark.parametrize("page", PAGES, ids=shown)


def resolves(module: str, name: str | None = None) -> bool:
    """Whether a module exists, or a name in one."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("fedlore"):
            pytest.skip(f"{module} needs {error.name}")
        return False
    return name is None or hasattr(found, name) or find_spec(f"{module}.{name}") is not None


@each_page
def test_modules_that_a_page_names_exist(page):
    for rest in DOTTED.findall(page.read_text()):
        parts = rest.strip(".").split(".")
        if len(parts) == 1 and parts[0] in NO_MODULES:
            continue
        name = f"fedlore{rest}"
        above, _, last = name.rpartition(".")
        # a module, a name in a module, or a name in a class of a module
        assert resolves(name) or resolves(above, last), f"{shown(page)} names {name}"


@each_page
def test_names_that_a_page_imports_exist(page):
    for module, inside, line in IMPORTS.findall(page.read_text()):
        for name in re.sub(r"#.*", "", inside or line).replace("\n", " ").split(","):
            plain = name.split(" as ")[0].strip()
            if plain:
                assert resolves(module, plain), f"{shown(page)} imports {plain} from {module}"


@each_page
def test_files_that_a_page_names_exist(page):
    text = page.read_text()
    for path in {*PATHS.findall(text), *FILES.findall(text)}:
        there = any((start / path.rstrip("/.")).exists() for start in STARTS)
        assert there, f"{shown(page)} names {path}"


@each_page
def test_links_lead_somewhere(page):
    for link in LINKS.findall(page.read_text()):
        target = page.parent / link
        made = os.path.relpath(target, ROOT / "docs") in MADE
        assert target.exists() or made, f"{shown(page)} links to {link}"


def anchors_of(page: Path) -> set[str]:
    """What the headings of a page are called in addresses."""
    plain = (
        re.sub(r"[^\w\s-]", "", heading).strip() for heading in HEADINGS.findall(page.read_text())
    )
    return {re.sub(r"[-\s]+", "-", heading.lower()) for heading in plain}


@each_page
def test_anchors_lead_to_headings(page):
    for link, anchor in ANCHORS.findall(page.read_text()):
        target = page.parent / link if link else page
        if target.exists():
            assert anchor in anchors_of(target), f"{shown(page)} links to {link}#{anchor}"


def test_every_key_of_a_file_has_a_meaning():
    for page in file_pages():
        tables = [root for _, root in page.roots] + [part for *_, part in page.parts]
        seen = set()
        while tables:
            table = tables.pop()
            if table not in seen:
                seen.add(table)
                for key in keys_of(table):
                    place = f"{table.__module__}.{table.__name__}.{key.name}"
                    assert key.meaning, f"{place} needs a comment beside it: what it means"
                    tables += key.below


def test_the_navigation_of_the_site_has_every_page_once():
    written = {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}
    listed = re.findall(r": ([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
    assert len(listed) == len(set(listed))
    assert set(listed) == written | MADE, "mkdocs.yml lists the pages"
