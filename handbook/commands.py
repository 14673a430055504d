"""Every command with its arguments and options, asked of the command itself."""

import functools
from collections.abc import Iterator

import click
import typer

from fedlore.cli.app import app

from .keys import escape


@functools.cache
def commands() -> tuple[tuple[str, str, click.Command], ...]:
    """Group, full name and command, as the help lists them; those inside others included."""
    return tuple(_commands())


def _commands() -> Iterator[tuple[str, str, click.Command]]:
    root = typer.main.get_command(app)
    assert isinstance(root, click.Group)
    context = click.Context(root, info_name="fedlore")
    for name in root.list_commands(context):
        line = root.get_command(context, name)
        group = getattr(line, "rich_help_panel", None) or "Commands"
        found = root.resolve_command(context, [name])[1]
        assert found is not None
        yield group, name, found
        if isinstance(found, click.Group):
            inner = click.Context(found, info_name=name, parent=context)
            for below in found.list_commands(inner):
                one = found.get_command(inner, below)
                assert one is not None
                yield group, f"{name} {below}", one


def write_commands_page() -> str:
    """All commands on one page as Markdown."""
    lines = ["# Commands\n", "`fedlore COMMAND --help` says the same in a terminal.\n"]
    last = ""
    for group, name, command in commands():
        if group != last:
            lines.append(f"## {group}\n")
            last = group
        lines.append(f"### fedlore {name}\n")
        lines.append((command.help or "").replace("\f", "").strip() + "\n")
        usage = " ".join(["fedlore", name, *_usage(command)])
        lines.append(f"```text\n{usage}\n```\n")
        rows = [_row(one) for one in command.params if not getattr(one, "hidden", False)]
        rows = [row for row in rows if row is not None]
        if rows:
            head = "| argument or option | default | meaning |\n|---|---|---|\n"
            lines.append(head + "".join(rows))
    return "\n".join(lines)


def _usage(command: click.Command) -> list[str]:
    if isinstance(command, click.Group):
        return ["COMMAND ..."]
    return command.collect_usage_pieces(click.Context(command))


def _row(one: click.Parameter) -> str | None:
    if one.name == "help":
        return None
    if isinstance(one, click.Option):
        flags = ", ".join([*one.opts, *one.secondary_opts])
        value = "" if one.is_flag else f" {_metavar(one)}"
        said = one.help or ""
    else:
        flags, value = (one.metavar or one.name or "").upper(), ""
        said = getattr(one, "help", None) or ""
    default = "needed" if one.required else _default(one)
    return f"| `{flags}{value}` | {default} | {escape(said)} |\n"


def _metavar(one: click.Option) -> str:
    if isinstance(one.type, click.Choice):
        return "/".join(map(str, one.type.choices)).replace("|", "/")
    return (one.metavar or one.type.name.removesuffix(" range")).upper().replace("|", "/")


def _default(one: click.Parameter) -> str:
    value = one.default
    if callable(value) or value in (None, "", (), []):
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, list | tuple):
        return ", ".join(f"`{part}`" for part in value)
    return f"`{value}`"
