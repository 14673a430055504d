"""The manual page is made from what the commands say of themselves."""

import subprocess

import pytest

from fedlore.cli.screen import ExitCode
from handbook.commands import commands
from handbook.manual import write_manual


def test_the_manual_has_every_command_option_and_exit_code():
    text = write_manual().replace("\\-", "-")
    for _, name, command in commands():
        assert f'.SS "fedlore {name}"' in text
        for one in command.params:
            assert all(f"\\fB{flag}\\fR" in text for flag in one.opts if flag.startswith("--"))
    for code in ExitCode:
        assert f"\\fB{int(code)}\\fR" in text


@pytest.mark.program("groff")
def test_the_manual_is_what_groff_takes():
    command = ["groff", "-man", "-ww", "-K", "utf8", "-T", "utf8"]
    done = subprocess.run(command, input=write_manual(), capture_output=True, text=True, check=True)
    assert done.stderr == "" and "what was kept" in done.stdout
