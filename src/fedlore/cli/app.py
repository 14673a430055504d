"""The `fedlore` command and its one way of reporting errors."""

import errno
import importlib
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, TypeVar

import click
import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup, TyperOption

from ..errors import FedloreError
from ..version import __version__
from .commands import OWN, Command, all_commands, find_command
from .paths import CONTINUED, check_doors, check_outputs
from .screen import ExitCode, add_options, explain_stop, leaves

T = TypeVar("T")


class Commands(TyperGroup):
    """The commands by name and line; the one that is called is loaded then."""

    @cached_property
    def known(self) -> dict[str, Command]:
        return all_commands()

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.known:
            return None
        # enough for a line of help, and for a near miss to be named
        one = self.known[cmd_name]
        return self.commands.setdefault(
            cmd_name, TyperCommand(cmd_name, help=one.help, rich_help_panel=one.panel)
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name not in OWN:  # a near miss among all names is worth looking for
            for known in self.known:
                self.get_command(ctx, known)
            found, _, rest = super().resolve_command(ctx, args)
            if found is None:
                return found, None, rest
        with explain_stop("nothing was started"):  # what a command needs may take a second to load
            return name, load_command(name), args[1:]


def load_command(name: str) -> click.Command:
    """The command behind a name, from its own module."""
    known = find_command(name)
    assert known is not None
    module, _, what = known.place.partition(":")
    found = getattr(importlib.import_module(module), what)
    holder = typer.Typer(add_completion=False)
    holder.callback()(lambda: None)  # one command with a callback stays a group of one
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name)(found)
    group = typer.main.get_command(holder)
    assert isinstance(group, click.Group)
    for whole, command in leaves(group.commands[name], name):
        add_options(command, whole)
        below = whole.removeprefix(name).lstrip()
        _guard(command, whole, _below(below, known.paths), _below(below, known.writes))
    return group.commands[name]


def _guard(
    command: click.Command,
    name: str,
    paths: Mapping[str, tuple[str, ...]],
    writes: Mapping[str, str],
) -> None:
    """Every command looks at its paths first, and says a sentence when it is stopped."""
    inner = command.callback
    assert inner is not None
    if set(writes.values()) - set(CONTINUED):
        help = "Overwrite an output of the same kind."
        command.params.append(TyperOption(param_decls=["--force"], is_flag=True, help=help))

    def guarded(force: bool = False, **given: object) -> object:
        with explain_stop("no file is half written; run the same command to start again"):
            check_doors(name, paths, given)
            check_outputs(name, paths, writes, given, force=force)
            return inner(**given)

    command.callback = guarded


def _below(below: str, named: Mapping[str, T]) -> dict[str, T]:
    """What is said of one command of a group, or of a command itself, by its parameters."""
    start = f"{below} " if below else ""
    return {k.removeprefix(start): v for k, v in named.items() if k.startswith(start)}


def _open(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --version: extras and their versions, as JSON.")
    ] = False,
) -> None:
    """Federated learning that knows what your experts know."""
    if show_version:
        print_versions(as_json=as_json)
        raise typer.Exit
    if as_json:
        raise typer.BadParameter("it goes with --version, or after a command", param_hint="--json")


app = typer.Typer(
    name="fedlore",
    help="Federated learning that knows what your experts know.",
    cls=Commands,
    no_args_is_help=True,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)
app.callback()(_open)


def main() -> None:
    """Run a command; whatever goes wrong is one sentence on stderr and a code of `ExitCode`."""
    try:
        app()
    except FedloreError as error:
        between = "\n" if "\n" in str(error) else " "
        _end(f"{error}{between}[{error.code}]", ExitCode.UNUSABLE)  # a code of docs' list of errors
    except OSError as error:
        if error.errno == errno.EPIPE:  # whoever read our output has gone: nobody is left to tell
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(ExitCode.NO)
        where = f"'{error.filename}': " if error.filename else ""
        _end(f"{where}{error.strerror or error}", ExitCode.UNUSABLE)
    except MemoryError:
        _end("there is not enough memory for this", ExitCode.UNUSABLE)
    except KeyboardInterrupt:
        _end("stopped", ExitCode.STOPPED)
    except Exception as error:
        _end(_tell_fault(error), ExitCode.FAULT)


def _end(sentence: str, code: ExitCode) -> None:
    text = sentence if code is ExitCode.STOPPED else f"error: {sentence}"
    Console(stderr=True, highlight=False, soft_wrap=True).print(text, markup=False)
    sys.exit(code)


def _tell_fault(error: Exception) -> str:
    """A sentence for what should not happen, and a file with what a report of it needs."""
    import tempfile
    import traceback

    handle, path = tempfile.mkstemp(prefix="fedlore-fault-", suffix=".txt")
    with open(handle, "w", encoding="utf-8") as file:
        traceback.print_exception(error, file=file)
    return (
        f"this is a fault of fedlore, not yours ({type(error).__name__}: {error}); please report "
        f"it with '{path}' and what fedlore --version --json says"
    )


_NEED = re.compile(r"([A-Za-z0-9._-]+).*?;\s*extra\s*==\s*[\"'](\w+)[\"']")
_FOR_DEVELOPERS = "dev"


def installed_versions() -> dict[str, object]:
    """Version, Python, system, and per extra the version of each package, or None."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        needs = requires("fedlore") or []
    except PackageNotFoundError:  # run from its source without an installation
        needs = []
    core = [re.split(r"[^A-Za-z0-9._-]", n, maxsplit=1)[0] for n in needs if "extra" not in n]
    extras: dict[str, dict[str, str | None]] = {}
    for need in needs:
        found = _NEED.match(need)
        if found and found[2] != _FOR_DEVELOPERS:
            extras.setdefault(found[2], {})[found[1]] = _installed_version(found[1])
    return {
        "fedlore": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "core": {name: _installed_version(name) for name in core},
        "extras": extras,
    }


def print_versions(*, as_json: bool) -> None:
    """One line for people, or everything for a report of a fault."""
    if as_json:
        print(json.dumps(installed_versions(), indent=2))
    else:
        print(f"fedlore {__version__}")


def _installed_version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None
