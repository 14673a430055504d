"""The reference is made from the source and lists all of it."""

import json
from dataclasses import dataclass, field

import pytest

from handbook.columns import COLUMNS
from handbook.commands import commands
from handbook.fields import keys_of, kind_of
from handbook.keys import file_pages, write_file_page
from handbook.names import MODULES, public_names, write_names_page
from handbook.pages import ROOT, made_pages, name_files, stage_pages, write_notebook_page

SOURCE = "\n".join(p.read_text() for d in ("src", "studies") for p in (ROOT / d).rglob("*.py"))
OLD = {"part", "finish", "union chance"}  # columns of kept studies alone


@dataclass(frozen=True)
class Inner:
    """[inner]: what lies below. More."""

    width: int | None = None  # of something


@dataclass(frozen=True)
class Outer:
    """A table."""

    # how it is called
    name: str
    share: float = 0.5  # between 0 and 1
    silent: bool = False
    inner: Inner = field(default_factory=Inner)
    many: tuple[str, ...] = ("a", "b")  # or more


def test_a_key_has_the_default_of_its_field_and_the_comment_beside_it():
    keys = {key.name: key for key in keys_of(Outer)}
    assert list(keys) == ["name", "share", "silent", "inner", "many"]
    assert (keys["name"].default, keys["name"].meaning) == ("needed", "how it is called")
    assert (keys["share"].default, keys["share"].meaning) == ("`0.5`", "between 0 and 1")
    assert (keys["silent"].default, keys["silent"].meaning) == ("`false`", "")
    assert (keys["inner"].meaning, keys["inner"].below) == ("what lies below", (Inner,))
    assert keys["many"].default == '`["a", "b"]`'
    assert kind_of(tuple[float, ...] | None) == "list of numbers"


@pytest.mark.parametrize("page", file_pages(), ids=lambda page: page.name)
def test_the_page_of_a_file_has_every_key(page):
    text = write_file_page(page)
    tables = [root for _, root in page.roots] + [part for *_, part in page.parts]
    for table in tables:
        for key in keys_of(table):
            assert f"| `{key.name}` |" in text
            assert all(f"`{inner.name}`" in text for one in key.below for inner in keys_of(one))


def test_every_command_and_option_is_on_the_page_with_a_sentence():
    text = made_pages()["reference/commands.md"]
    for _, name, command in commands():
        assert f"### fedlore {name}\n" in text
        assert command.help, f"fedlore {name} has no help"
        part = text.partition(f"### fedlore {name}\n")[2].partition("### ")[0]
        for one in command.params:
            if one.name != "help" and not getattr(one, "hidden", False):
                assert f"| `{one.opts[0] if one.opts[0].startswith('-') else ''}" in part


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_on_the_page_of_its_module_and_has_a_docstring(module):
    text = write_names_page(module)
    for name in public_names(module):
        part = text.partition(f"## {name}\n")[2].partition("\n## ")[0]
        assert part.strip(), f"{module}.{name} says nothing"
        assert " at 0x" not in part


def test_every_column_of_the_kept_rows_is_listed():
    known = {name for columns in COLUMNS.values() for name in columns}
    for path in (ROOT / "results").glob("*.jsonl"):
        with open(path) as file:
            used = set().union(*(json.loads(line) for line in file))
        assert used <= known, f"{path.name}: {min(used - known)} is not listed"


def test_every_listed_column_is_written_somewhere():
    for columns in COLUMNS.values():
        for name in columns:
            word = name.removesuffix(" error").removesuffix(" chance")
            there = any(form in SOURCE for form in (f'"{word}"', f"{word}="))
            assert there or name in OLD, f"no source writes the column '{name}'"


def test_made_pages_are_staged_beside_the_written_ones(tmp_path):
    stage_pages(tmp_path)
    for name in ("index.md", "reference/commands.md", "reference/api/fedlore.md"):
        assert (tmp_path / name).exists()
    assert "../../results" not in (tmp_path / "explain" / "paper.md").read_text()


def test_links_to_files_beside_the_pages_become_names():
    home = ROOT / "docs" / "how-to"
    text = "[rows](../../results/README.md), [it](../explain/lore.md), [examples](../../examples)"
    expected = "rows (`results/README.md`), [it](../explain/lore.md), `examples`"
    assert name_files(text, home) == expected


def test_a_notebook_becomes_a_page():
    out = {"output_type": "stream", "text": ["2\n"]}
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["print(2)"], "outputs": [out]},
    ]
    expected = "# Title\n\n```python\nprint(2)\n```\n\n```text\n2\n```\n"
    assert write_notebook_page({"cells": cells}) == expected
