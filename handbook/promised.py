"""What the reference promises: commands with their options, keys of files, names and columns.

`python -m handbook.promised` writes the list that a test holds the source to.
"""

import functools
from collections.abc import Iterator
from pathlib import Path

import click

from .columns import COLUMNS
from .commands import commands
from .fields import keys_of
from .keys import file_pages
from .names import MODULES, public_names

KEPT = Path(__file__).with_name("promised.txt")


@functools.cache
def promised() -> frozenset[str]:
    """One line for everything that the reference lists."""
    return frozenset((*_commands(), *_keys(), *_names(), *_columns()))


def _commands() -> Iterator[str]:
    for _, name, command in commands():
        yield f"command {name}"
        for one in command.params:
            if isinstance(one, click.Option) and one.name != "help":
                yield f"command {name} {one.opts[0]}"


def _keys() -> Iterator[str]:
    for page in file_pages():
        tables = [root for _, root in page.roots] + [part for *_, part in page.parts]
        seen: set[type] = set()
        while tables:
            table = tables.pop()
            if table in seen:
                continue
            seen.add(table)
            for key in keys_of(table):
                yield f"key {page.name} {table.__name__}.{key.name}"
                tables += key.below


def _names() -> Iterator[str]:
    for module in MODULES:
        yield from (f"name {module}.{name}" for name in public_names(module))


def _columns() -> Iterator[str]:
    yield from (f"column {name}" for columns in COLUMNS.values() for name in columns)


if __name__ == "__main__":
    KEPT.write_text("".join(f"{line}\n" for line in sorted(promised())), encoding="utf-8")
