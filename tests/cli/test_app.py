"""The one table of commands: quick to show, and true to what it stands for."""

import inspect
import json

import pytest
import torch
import typer
from click.shell_completion import ShellComplete
from typer.testing import CliRunner

from fedlore import __version__
from fedlore.cli.app import app, load_command
from fedlore.cli.commands import PANELS, all_commands

from ..test_public import loaded, rooms

COMMANDS = all_commands()


def test_help_needs_no_torch_and_no_numpy():
    code = (
        "import sys; sys.argv = ['fedlore', '--help']\n"
        "from fedlore.cli import main\n"
        "try:\n    main()\nexcept SystemExit as done:\n    assert done.code == 0"
    )
    modules = loaded(code)
    assert not modules & {"torch", "numpy", "matplotlib", "flwr"}
    assert rooms(modules) == {"version", "errors", "config", "core", "look", "cli"}


def test_help_shows_every_command_with_its_line():
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    for name, command in COMMANDS.items():
        assert name in shown.stdout and command.help in shown.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_the_line_in_the_table_is_the_first_of_the_command(name):
    command = load_command(name)
    first = inspect.cleandoc(command.help or "").split("\n\n")[0].replace("\n", " ")
    assert (command.name, first) == (name, COMMANDS[name].help)


def test_a_near_miss_is_named():
    found = CliRunner().invoke(app, ["predcit"])
    assert found.exit_code == 2 and "Did you mean 'predict'?" in found.output


def test_every_command_stands_in_one_group_of_the_help():
    panels = {command.panel for command in COMMANDS.values()}
    assert panels == set(PANELS[:-1])  # the last is for other packages
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"})
    places = [shown.stdout.index(title) for title in PANELS[:-1]]
    assert places == sorted(places)


def test_the_version_is_told_to_people_and_to_programs():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"fedlore {__version__}\n"
    told = json.loads(CliRunner().invoke(app, ["--version", "--json"]).stdout)
    assert told["fedlore"] == __version__ and told["core"]["torch"] == torch.__version__
    assert "scikit-learn" in told["extras"]["sklearn"] and "dev" not in told["extras"]


def test_json_alone_says_where_it_belongs():
    found = CliRunner().invoke(app, ["--json"], env={"COLUMNS": "120"})
    assert found.exit_code == 2 and "it goes with --version" in found.output


def test_the_shell_completes_commands_and_options():
    complete = ShellComplete(typer.main.get_command(app), {}, "fedlore", "_FEDLORE_COMPLETE")
    assert [c.value for c in complete.get_completions([], "pre")] == ["predict"]
    assert [c.value for c in complete.get_completions(["lint"], "--dat")] == ["--data"]
