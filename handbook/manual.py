"""python -m handbook.manual: the manual page fedlore(1), from what the commands say of themselves.

`python -m handbook.manual > fedlore.1 && man ./fedlore.1` shows it.
"""

import sys

import click

from fedlore.cli.screen import CODE_MEANINGS
from fedlore.version import __version__

from .commands import commands


def write_manual() -> str:
    """The whole page as roff."""
    lines = [
        f'.TH FEDLORE 1 "" "fedlore {__version__}" "fedlore"',
        *(".SH NAME", "fedlore \\- federated learning that knows what your experts know"),
        *(".SH SYNOPSIS", "\\fBfedlore\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] ..."),
        *(".SH DESCRIPTION", "Results go to stdout; remarks, progress and errors to stderr."),
    ]
    last = ""
    for group, name, command in commands():
        if group != last:
            lines.append(f'.SH "{group.upper()}"')
            last = group
        lines += _tell_command(name, command)
    lines.append('.SH "EXIT STATUS"')
    for code, meaning in CODE_MEANINGS.items():
        lines += [".TP", f"\\fB{int(code)}\\fR", _roff(meaning)]
    return "\n".join(lines) + "\n"


def _tell_command(name: str, command: click.Command) -> list[str]:
    lines = [f'.SS "fedlore {name}"']
    for paragraph in (command.help or "").replace("\f", "").split("\n\n"):
        lines += [".PP", _roff(" ".join(paragraph.split()))]
    if isinstance(command, click.Group):
        return lines
    for one in command.params:
        if one.name == "help" or getattr(one, "hidden", False):
            continue
        if isinstance(one, click.Option):
            head = ", ".join(f"\\fB{_roff(flag)}\\fR" for flag in (*one.opts, *one.secondary_opts))
            head += "" if one.is_flag else f" \\fI{_roff(one.type.name.split()[0].upper())}\\fR"
        else:
            head = f"\\fI{_roff((one.name or '').upper())}\\fR"
        lines += [".TP", head, _roff(getattr(one, "help", None) or "")]
    return lines


def _roff(text: str) -> str:
    """Text that roff takes for text.

    >>> print(_roff(".x -y"))
    \\&.x \\-y
    """
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


if __name__ == "__main__":
    sys.stdout.write(write_manual())
