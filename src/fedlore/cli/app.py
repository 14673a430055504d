"""The `fedlore` command and its one way of reporting errors."""

import errno
import importlib
import os
import sys
import tempfile
import traceback
from typing import Annotated

import click
import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup

from ..errors import FedloreError
from .codes import ExitCode
from .doors import check_doors
from .teller import add_options, keeping
from .versions import print_versions

#: Command -> where it stands in this package, and its line in the help. A command is loaded when
#: it is called, so that `fedlore --help` waits for nothing.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": (
        "demo:demo",
        "Four simulated coking plants: what each gets alone, and what eight approaches bring.",
    ),
    "new": (
        "run:new",
        "Write a federation to start from: four simulated plants, or one like your own rows.",
    ),
    "draft": (
        "draft:draft_command",
        "Write a knowledge.toml with the columns, levels, units and scope of a table.",
    ),
    "run": (
        "run:run",
        "Train and compare approaches on your own files; a finished approach is not run again.",
    ),
    "lint": (
        "lint:lint",
        "Check a knowledge file: its tables, its formulas, and how they fit the data.",
    ),
    "studio": (
        "studio:studio_command",
        "Write, check and try a site's knowledge in a browser, on this machine.",
    ),
    "calibrate": (
        "calibrate:calibrate",
        "Add a statistical range, calibrated on data, to knowledge without rules for one.",
    ),
    "tune": (
        "tune:tune_sites",
        "Let each site choose its λ on rows of its own; nothing about it leaves the site.",
    ),
    "algorithms": (
        "algorithms:algorithms",
        "List the federated algorithms: paper, settings, traffic, and what each needs.",
    ),
    "bench": (
        "bench:bench",
        "Train simulated clients with every engine and show how long one step of one client takes.",
    ),
    "leak": (
        "leak:leak_command",
        "Attack what the coordinator sees of a training run, setting by setting.",
    ),
    "server": (
        "federation:server_command",
        "Run the coordinator's server, and a page to watch it by, until Ctrl-C.",
    ),
    "join": ("site:join_command", "Take part as a site until Ctrl-C."),
    "accept": (
        "site:accept",
        "Show the terms that a site is asked to agree to, and agree to them.",
    ),
    "train": (
        "federation:train_command",
        "Train, with a line per round and for every site in trouble.",
    ),
    "status": (
        "status:status",
        "Where a training stands and which sites are here; of a site, what was asked and sent.",
    ),
    "doctor": (
        "site:doctor",
        "Check a site before it joins; exit code 1 if anything must be mended.",
    ),
    "up": (
        "federation:up",
        "A whole federation on this machine: server, sites and one training.",
    ),
    "export": (
        "export:export",
        "Write one site's model with its knowledge, schema and scaling to one file.",
    ),
    "predict": (
        "predict:predict_command",
        "Grade, probabilities, allowed classes, the expert's word and who decided, for each row.",
    ),
    "certify": (
        "certify:certify_command",
        "Write a range certificate for a bundle whose knowledge is tables and formulas.",
    ),
    "reknow": (
        "reknow:reknow_command",
        "Swap the rules or λ of a bundle, after an audit, with scores before and after.",
    ),
    "serve": (
        "serve:serve_command",
        "Answer predictions over HTTP, and show a page where a person can type or paste a row.",
    ),
    "watch": (
        "watch:watch_command",
        "Hold measured rows against what rules, range and inputs were: is it still true?",
    ),
    "blend": (
        "blend:blend_command",
        "Find the cheapest blend whose predicted grade reaches a target.",
    ),
    "paper": ("paper:paper_app", "Run the paper's experiments again."),
    "federation": (
        "enrolling:federation_app",
        "Set up a federation of sites and hand out their kits.",
    ),
}


#: Who needs a command, in the order of the help.
GROUPS: dict[str, tuple[str, ...]] = {
    "First steps": ("demo", "new", "run"),
    "Knowledge, for those who have it": ("draft", "studio", "lint", "calibrate", "tune"),
    "A federation over machines": (
        *("federation", "server", "join", "accept", "train", "status", "doctor", "up"),
    ),
    "A site's model at work": ("export", "predict", "serve", "watch", "blend", "certify", "reknow"),
    "Research": ("paper", "leak", "algorithms", "bench"),
}


class Commands(TyperGroup):
    """The commands by name and line; the one that is called is loaded then."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in GROUPS.values() for name in names]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        # enough for a line of help, and for a near miss to be named
        group = next((title for title, names in GROUPS.items() if cmd_name in names), None)
        return self.commands.setdefault(
            cmd_name, TyperCommand(cmd_name, help=COMMANDS[cmd_name][1], rich_help_panel=group)
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        for known in COMMANDS:
            self.get_command(ctx, known)
        name, found, rest = super().resolve_command(ctx, args)
        if name is None:
            return name, found, rest
        with keeping("nothing was begun"):  # what a command needs may take a second to load
            return name, load_command(name), rest


def load_command(name: str) -> click.Command:
    """The command behind a name, from its own module."""
    module, _, what = COMMANDS[name][0].partition(":")
    found = getattr(importlib.import_module(f".{module}", __package__), what)
    holder = typer.Typer(add_completion=False)
    holder.callback()(_root)  # one command with a callback stays a group of one
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name)(found)
    group = typer.main.get_command(holder)
    assert isinstance(group, click.Group)
    add_options(group.commands[name], name)
    _guard(group.commands[name], name)
    return group.commands[name]


def _guard(command: click.Command, name: str) -> None:
    """Every command looks at its inputs first, and says a sentence when it is stopped."""
    if isinstance(command, click.Group):
        for below, one in command.commands.items():
            _guard(one, f"{name} {below}")
        return
    inner = command.callback
    assert inner is not None

    def guarded(**given: object) -> object:
        with keeping("files are written whole or not at all; the same command begins anew"):
            check_doors(name, given)
            return inner(**given)

    command.callback = guarded


def _root() -> None:
    """Federated learning that knows what your experts know."""


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
        _end(_with_code(error), ExitCode.UNUSABLE)
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


def _with_code(error: FedloreError) -> str:
    """The sentence with its code, by which the list of errors says what to do."""
    between = "\n" if "\n" in str(error) else " "
    return f"{error}{between}[{error.code}]"


def _end(sentence: str, code: ExitCode) -> None:
    told = sentence if code is ExitCode.STOPPED else f"error: {sentence}"
    Console(stderr=True, highlight=False, soft_wrap=True).print(told, markup=False)
    sys.exit(code)


def _tell_fault(error: Exception) -> str:
    """A sentence for what should not happen, and a file with what a report of it needs."""
    handle, path = tempfile.mkstemp(prefix="fedlore-fault-", suffix=".txt")
    with open(handle, "w", encoding="utf-8") as file:
        traceback.print_exception(error, file=file)
    return (
        f"this is a fault of fedlore, not yours ({type(error).__name__}: {error}); please report "
        f"it with '{path}' and what fedlore --version --json says"
    )
