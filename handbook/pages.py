"""All pages of the site in one folder: those that people write, and those made from the source."""

import functools
import json
import re
import shutil
from pathlib import Path

from .columns import write_columns_page
from .commands import write_commands_page
from .keys import file_pages, write_file_page
from .names import MODULES, page_path, write_building_page, write_names_page

ROOT = Path(__file__).parent.parent
RAN = Path(__file__).with_name("ran.json")  # when the blocks of a page were last run, and by what
_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)\s]+)\)")


@functools.cache
def made_pages() -> dict[str, str]:
    """Path -> text of every page that the source writes."""
    return {
        "reference/commands.md": write_commands_page(),
        "reference/columns.md": write_columns_page(),
        **{page.path: write_file_page(page) for page in file_pages()},
        "reference/api/building.md": write_building_page(),
        **{page_path(module): write_names_page(module) for module in MODULES},
    }


def stage_pages(folder: Path) -> None:
    """Write every page of the site below a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.jsonl"))
    ran = json.loads(RAN.read_text(encoding="utf-8")) if RAN.exists() else {}
    for page in folder.rglob("*.md"):
        name = str(page.relative_to(folder))
        text = name_files(page.read_text(encoding="utf-8"), (ROOT / "docs" / name).parent)
        if name in ran:
            told = "last run on {date}, by fedlore {version}".format(**ran[name])
            text += f"\n---\n\nThe blocks of this page were {told}.\n"
        page.write_text(text, encoding="utf-8")
    for notebook in folder.rglob("*.ipynb"):
        text = write_notebook_page(json.loads(notebook.read_text(encoding="utf-8")))
        notebook.with_suffix(".md").write_text(text, encoding="utf-8")
    for name, text in made_pages().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def name_files(text: str, home: Path) -> str:
    """A page whose links to files beside docs/ became their names: the site does not hold them."""

    def name(found: re.Match[str]) -> str:
        target = (home / found[2].partition("#")[0]).resolve()
        if target.is_relative_to(ROOT / "docs"):
            return found[0]
        path = f"`{target.relative_to(ROOT)}`"
        return path if found[1].strip("`") == path.strip("`") else f"{found[1]} ({path})"

    return _LINK.sub(name, text)


def write_notebook_page(notebook: dict) -> str:
    """A notebook's cells as Markdown, with the text that they last printed."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        printed = "".join("".join(out.get("text", "")) for out in cell.get("outputs", []))
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"
