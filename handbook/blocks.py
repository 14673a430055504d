"""The blocks of a page that can be run, in order, and what a comment before one says of it.

<!-- setup: COMMAND -->           run before, not shown
<!-- file: NAME -->               the next block is what this file holds
<!-- not run: DATE, COMMAND -->   the next block is not run; when it last was, and by what
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

BlockKind = Literal["console", "python", "printed", "file", "setup", "hidden", "skipped"]

_FENCE = re.compile(r"^```(\w*)\s*$")
_COMMENT = re.compile(r"^<!-- (setup|file|not run): (.*?) -->$")
_DATED = re.compile(r"\d{4}-\d\d-\d\d, \S")


@dataclass(frozen=True)
class Block:
    """Some lines of a page."""

    kind: BlockKind
    text: str
    line: int  # of its first line of text, from 1
    about: str = ""  # the file's name, or why it is not run

    @property
    def counts(self) -> bool:
        """Whether it is one of the blocks that a reader would run."""
        return self.kind in ("console", "python", "skipped")


def read_blocks(page: str) -> list[Block]:
    """The blocks of a page."""
    found: list[Block] = []
    lines = page.splitlines()
    told: tuple[str, str] | None = None
    place = 0
    last_end = -2
    while place < len(lines):
        line = lines[place]
        comment, fence = _COMMENT.match(line), _FENCE.match(line)
        if line == "<!-- python:":
            end = lines.index("-->", place)
            found.append(Block("hidden", "\n".join(lines[place + 1 : end]), place + 2))
            place = end
        elif comment and comment[1] == "setup":
            found.append(Block("setup", comment[2], place + 1))
        elif comment:
            told = (comment[1], comment[2])
        elif fence:
            end = next(i for i in range(place + 1, len(lines) + 1) if lines[i] == "```")
            text = "\n".join(lines[place + 1 : end])
            block = _block(fence[1], text, place + 2, told)
            after = found and found[-1].kind == "python" and not "".join(lines[last_end:place])
            if block is None and fence[1] == "text" and after:
                block = Block("printed", text, place + 2)
            if block is not None:
                found.append(block)
            told, place, last_end = None, end, end + 1
        place += 1
    return found


def _block(word: str, text: str, line: int, told: tuple[str, str] | None) -> Block | None:
    if told is not None and told[0] == "file":
        return Block("file", text + "\n", line, told[1])
    if told is not None:
        if not _DATED.match(told[1]):
            raise ValueError(f"line {line}: not run needs a date and a command, got '{told[1]}'")
        return Block("skipped", text, line, told[1])
    if word == "console":
        return Block("console", text, line)
    return Block("python", text, line) if word == "python" else None


@dataclass(frozen=True)
class Command:
    """One command of a console block, and what the page says that it prints."""

    text: str
    printed: str
    line: int  # of the command


def read_commands(block: Block) -> list[Command]:
    """The commands of a console block: `$ ` before each, a backslash where it goes on."""
    found: list[Command] = []
    lines = block.text.splitlines()
    place = 0
    while place < len(lines):
        if not lines[place].startswith("$ "):
            raise ValueError(f"line {block.line + place}: a console block begins with $")
        start = place
        text = lines[place][2:]
        while text.endswith("\\"):
            place += 1
            text = text[:-1] + lines[place].strip()
        place += 1
        begun = place
        while place < len(lines) and not lines[place].startswith("$ "):
            place += 1
        found.append(Command(text, "\n".join(lines[begun:place]), block.line + start))
    return found


def pages_to_walk(docs: Path) -> list[Path]:
    """The pages with something to run; those of extend/ are installed and run by their own test."""
    pages = sorted(docs.rglob("*.md"))
    return [
        page
        for page in pages
        if page.parent.name != "extend" and any(b.counts for b in read_blocks(page.read_text()))
    ]
