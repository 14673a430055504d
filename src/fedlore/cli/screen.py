"""How a command speaks: to people in words and tables, to programs in one JSON document."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

import click
import typer
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text
from typer.core import TyperOption

from ..look.tables import TextTable, plain_values

__all__ = ["ExitCode", "Screen", "current_screen", "explain_stop", "show_report"]


class ExitCode(IntEnum):
    """What a command says to the shell when it ends."""

    FINE = 0
    NO = 1
    UNUSABLE = 2
    FAULT = 70  # EX_SOFTWARE of sysexits.h
    STOPPED = 130  # 128 + SIGINT, as shells have it


#: What each stands for, as the manual and the pages say it.
CODE_MEANINGS: dict[ExitCode, str] = {
    ExitCode.FINE: "Success.",
    ExitCode.NO: "The command ran and the answer is no: findings of severity error, rows without "
    "an answer, no blend that reaches the target, an unproved claim, a failed check, terms not "
    "accepted.",
    ExitCode.UNUSABLE: "The input cannot be used: one sentence on stderr says what is wrong.",
    ExitCode.FAULT: "A bug in fedlore; the message names a file with the details.",
    ExitCode.STOPPED: "Stopped by Ctrl-C; one sentence on stderr says what was kept.",
}


_KEY = "fedlore.screen"
#: Commands that run until they are stopped, and so have no result to print.
SERVICES = ("server", "join", "serve", "studio")


@dataclass(frozen=True)
class Screen:
    """What is shown where: results on stdout; remarks, progress and errors on stderr."""

    as_json: bool = False
    quiet: bool = False
    colour: bool = True

    def say(self, text: str | Text) -> None:
        """A line of the result."""
        if not self.as_json:
            self._out.print(text, markup=False, highlight=False, soft_wrap=True)
            sys.stdout.flush()

    def show(self, *tables: TextTable | Table) -> None:
        """Tables of the result."""
        if not self.as_json:
            self._out.print(*map(_renderable, tables))

    def remark(self, text: str) -> None:
        """What one may do next, or should know: not part of the result."""
        if not self.quiet:
            where = self._err if self.as_json else self._out
            where.print(text, markup=False, highlight=False, soft_wrap=True)

    def aside(self, text: str | TextTable, *, result: bool = False) -> None:
        """What is shown beside answers that themselves go to stdout."""
        if result or not self.quiet:
            shown = _renderable(text)
            self._err.print(shown, markup=False, highlight=False, soft_wrap=shown is text)

    def give(self, result: Mapping[str, object] | Sequence[object]) -> None:
        """The whole result, for programs that asked for it."""
        if self.as_json:
            print(json.dumps(plain_values(result), indent=2, ensure_ascii=False, allow_nan=False))

    @cached_property
    def _out(self) -> Console:
        return self.console()

    @cached_property
    def _err(self) -> Console:
        return self.console(stderr=True)

    def console(self, *, stderr: bool = False) -> Console:
        """A console that keeps to what was asked for."""
        if self.colour:
            return Console(stderr=stderr)
        return Console(stderr=stderr, color_system=None)


def current_screen() -> Screen:
    """How the command that runs now was asked to speak."""
    context = click.get_current_context(silent=True)
    found = None if context is None else context.meta.get(_KEY)
    return found if isinstance(found, Screen) else Screen()


@contextmanager
def explain_stop(kept: str | Callable[[], str]) -> Iterator[None]:
    """On Ctrl-C say what was kept and how to go on, and end with its exit code."""
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if not _was_stopped(error):
            raise
        Screen().aside(f"stopped: {kept() if callable(kept) else kept}")
        raise typer.Exit(ExitCode.STOPPED) from None


def _was_stopped(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: compiled code of libraries makes others of it."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        # what was raised `from None` has been explained
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error is not None


def show_report(screen: Screen, write: Callable[[], Path]) -> Path | None:
    """Write a report where it can be drawn, and say where it is; else say what is missing."""
    if find_spec("matplotlib") is None:
        screen.remark("For a report with plots: pip install 'fedlore[plot]'")
        return None
    page = write()
    screen.remark(f"Report written to {page}")
    return page


def leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """A command, or those below it, by their whole names."""
    if isinstance(command, click.Group):
        for below, one in command.commands.items():
            yield from leaves(one, f"{name} {below}")
    else:
        yield name, command


def add_options(command: click.Command, name: str) -> None:
    """The options that every command has."""
    if name not in SERVICES:
        command.params.append(_flag("--json", "as_json", "The result as one JSON document."))
    command.params.append(_flag("--quiet", "quiet", "No progress, no remarks: only the result."))
    command.params.append(_flag("--no-color", "colour", "No colours and no styles."))


def _flag(option: str, field: str, help: str) -> click.Option:
    def note(context: click.Context, parameter: click.Parameter, given: bool) -> None:
        if given:
            screen = context.meta.get(_KEY, Screen())
            kept = {"as_json": screen.as_json, "quiet": screen.quiet, "colour": screen.colour}
            context.meta[_KEY] = Screen(**kept | {field: field != "colour"})

    return TyperOption(
        param_decls=[option],
        is_flag=True,
        expose_value=False,
        callback=note,
        help=help,
        rich_help_panel="What is shown",
    )


class Grid(Table):
    """A table that becomes one block of lines per row where the terminal is too narrow."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        needed = Measurement.get(console, options.update(width=10_000), self).minimum
        if needed <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        if self.title:
            yield Text.from_markup(self.title) if isinstance(self.title, str) else self.title
        for at in range(self.row_count):
            for place, column in enumerate(self.columns):
                title, cell = _text(column.header), _text(list(column.cells)[at])
                named = Text.assemble(title, ": ", cell) if title else cell
                if place:
                    named = Text.assemble("  ", named)
                else:
                    named.stylize("bold")
                yield named


def grid_of(table: TextTable) -> Grid:
    """A table as a terminal shows it: words to the left, numbers to the right."""
    grid = Grid(title=Text(table.title), title_justify="left")
    for i, head in enumerate(table.head):
        grid.add_column(Text(head), justify="left" if i in table.words else "right")
    for line in table.body:
        grid.add_row(*(Text(cell.text, style="bold" if cell.best else "") for cell in line))
    return grid


def _renderable(part: str | TextTable | Table) -> RenderableType:
    return grid_of(part) if isinstance(part, TextTable) else part


def _text(cell: object) -> Text:
    """A cell or a title in one line."""
    found = cell.copy() if isinstance(cell, Text) else Text.from_markup(str(cell))
    return Text(" ").join(found.split("\n"))
