"""The whole command in this process, errors and exit codes included: no seconds to load torch."""

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

import click
from typer.testing import CliRunner

from fedlore.cli.app import app, load_command, main
from fedlore.cli.commands import all_commands


@dataclass(frozen=True)
class Spoken:
    """What a shell would see of a command."""

    code: int
    out: str
    err: str


def spoken(*arguments: object, columns: int = 120) -> Spoken:
    """Run `fedlore` with these arguments, as the installed script does."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    settings = {"COLUMNS": str(columns), "NO_COLOR": "1"}
    code: object = 0
    with (
        mock.patch.object(sys, "argv", ["fedlore", *map(str, arguments)]),
        mock.patch.dict(os.environ, settings),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    texts = (one.buffer.getvalue().decode() for one in (out, err))
    return Spoken(int(str(code or 0)), *texts)


def typed(*arguments: object, code: int = 0) -> str:
    """What a command that ends well says, or one that ends with this code."""
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == code, (arguments, done.exception, done.output)
    return done.output


def refused(*arguments: object) -> str:
    """The sentence with which a command refuses."""
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code, done.output
    return f"{done.exception} {done.output}"


def leaves() -> dict[str, click.Command]:
    """Every command that can be called, by its name; those of groups by both words."""
    found: dict[str, click.Command] = {}
    for name in all_commands():
        command = load_command(name)
        if isinstance(command, click.Group):
            found |= {f"{name} {below}": one for below, one in command.commands.items()}
        else:
            found[name] = command
    return found
