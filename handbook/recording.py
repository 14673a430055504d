"""A terminal as a moving picture: python -m handbook.recording writes docs/img/terminal.svg.

What it shows are the console blocks of docs/how-to/case.md, which a test runs; lines appear one by
one, within half a minute, and stay where a reader prefers no motion.
"""

import io
import re

from rich.console import Console
from rich.text import Text

from .blocks import read_blocks, read_commands
from .pages import ROOT

SCREEN = ROOT / "docs" / "img" / "terminal.svg"
PAGE = ROOT / "docs" / "how-to" / "case.md"
LONG = 30.0  # seconds
WIDTH = 100
#: Beginnings of the commands that are shown, and how many lines of each answer at most.
SHOWN = {
    "fedlore new": 2,
    "fedlore run": 15,
    "fedlore export": 1,
    "fedlore predict": 2,
    "fedlore certify": 6,
}


def screen_lines() -> list[tuple[str, str]]:
    """What is typed and what is printed, line by line."""
    lines: list[tuple[str, str]] = []
    for block in read_blocks(PAGE.read_text(encoding="utf-8")):
        if block.kind != "console":
            continue
        for command in read_commands(block):
            most = next((n for name, n in SHOWN.items() if command.text.startswith(name)), 0)
            if not most:
                continue
            lines.append(("typed", f"$ {command.text}"))
            said = [line for line in command.printed.splitlines() if line.strip(". ")]
            lines += [("printed", _fit(line)) for line in said[:most]]
            lines.append(("printed", ""))
    return lines


def _fit(line: str) -> str:
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 4]} ..."


def write_screen() -> str:
    """The picture as SVG."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for kind, line in screen_lines():
        console.print(Text(line, style="bold green" if kind == "typed" else ""), soft_wrap=True)
    picture = console.export_svg(title="fedlore", unique_id="fedlore")
    return move(picture, len(screen_lines()))


def move(picture: str, count: int) -> str:
    """Let the lines of a picture appear one after the other."""
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.S)  # would be fetched
    rules = [
        "@keyframes appear { from { opacity: 0 } to { opacity: 1 } }",
        "@media (prefers-reduced-motion: no-preference) {",
        "  text[clip-path] { animation: appear 0.3s both }",
        *(
            f'  text[clip-path="url(#fedlore-line-{n})"] '
            f"{{ animation-delay: {LONG * n / (count + 1):.1f}s }}"
            for n in range(count)
        ),
        "}",
    ]
    return picture.replace("</style>", "\n".join(rules) + "\n</style>", 1)


if __name__ == "__main__":
    SCREEN.write_text(write_screen(), encoding="utf-8")
