"""The one table of commands: quick to show, and true to what it stands for."""

import inspect

import pytest
import typer
from typer.testing import CliRunner

from fedlore.cli.app import COMMANDS, app, load_command

from ..test_public import loaded, rooms


def test_help_needs_no_torch_and_no_numpy():
    code = (
        "import sys; sys.argv = ['fedlore', '--help']\n"
        "from fedlore.cli import main\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert done.code == 0"
    )
    modules = loaded(code)
    assert not modules & {"torch", "numpy", "matplotlib", "flwr"}
    assert rooms(modules) == {"version", "errors", "cli"}


def test_help_shows_every_command_with_its_line():
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    for name, (_, line) in COMMANDS.items():
        assert name in shown.stdout and line in shown.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_table_is_the_first_of_the_command(name):
    command = load_command(name)
    first = inspect.cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ")
    assert (command.name, first) == (name, COMMANDS[name][1])


def test_a_near_miss_is_named():
    found = CliRunner().invoke(app, ["predcit"])
    assert found.exit_code == 2 and "Did you mean 'predict'?" in found.output


def test_commands_of_a_group_are_reached():
    found = CliRunner().invoke(app, ["federation", "--help"], env={"COLUMNS": "200"})
    assert found.exit_code == 0 and "add-site" in found.stdout
    assert isinstance(app, typer.Typer)
