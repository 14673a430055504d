"""Which commands there are: fedlore's own, and those that installed packages bring.

A package offers a command by an entry point of the group `fedlore.commands` that names a `Command`.
Nothing that a command needs is imported before it is called, so `fedlore --help` waits for nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from ..core.plugins import Offer, find_plugins
from ..errors import ConfigError

__all__ = ["Command"]

GROUP = "fedlore.commands"
FIRST, KNOWING, MACHINES, AT_WORK, RESEARCH, OTHERS = PANELS = (
    "First steps",
    "Knowledge, for those who have it",
    "A federation over machines",
    "A site's model at work",
    "Research",
    "Of other packages",
)  # who needs a command, in the order of the help


@dataclass(frozen=True)
class Command:
    """Where a command stands, its line in the help, and what its paths must be."""

    place: str  # module:function, or module:app for a Typer of several
    help: str
    panel: str = OTHERS
    # parameter -> kinds of `paths.PATH_KINDS`; of a command below another "below parameter"
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    writes: Mapping[str, str] = field(default_factory=dict)  # the same -> the kind it writes


def _own(
    place: str, panel: str, help: str, writes: Mapping[str, str] | None = None, **paths: str
) -> Command:
    kinds = {name: tuple(said.split()) for name, said in paths.items()}
    return Command(f"fedlore.cli.{place}", help, panel, kinds, writes or {})


OWN: dict[str, Command] = {
    "run": _own(
        "run:run",
        FIRST,
        "Train and compare approaches on your own files; a finished approach is not run again.",
        config="federation",
        writes={"out": "run"},
    ),
    "track": _own(
        "run:track",
        FIRST,
        "Record a finished run in MLflow or TensorBoard: parameters, rounds, scores, files.",
        folder="run coordinator kit",
    ),
    "draft": _own(
        "knowledge:draft_command",
        KNOWING,
        "Write a knowledge.toml with the columns, levels, units and scope of a table.",
        rows="rows",
        writes={"out": "knowledge"},
    ),
    "studio": _own(
        "serve:studio_command",
        KNOWING,
        "Write, check and try a site's knowledge in a browser, on this machine.",
        site="site kit",
        data="rows",
        bundle="bundle",
        token_file="token",
    ),
    "lint": _own(
        "lint:lint",
        KNOWING,
        "Check a knowledge file: its tables, its formulas, and how they fit the data.",
        knowledge="knowledge",
        data="rows",
        monitored="record",
        writes={"out": "knowledge"},
    ),
    "import": _own(
        "knowledge:import_command",
        KNOWING,
        "Import the decision tables of a DMN file, and list what cannot be translated.",
        file="tables",
    ),
    "calibrate": _own(
        "knowledge:calibrate",
        KNOWING,
        "Add a statistical range, calibrated on data, to knowledge without rules for one.",
        knowledge="knowledge",
        data="rows",
        writes={"out": "knowledge"},
    ),
    "tune": _own(
        "tune:tune_sites",
        KNOWING,
        "Let each site choose its trust λ on its own rows; nothing about them leaves the site.",
        config="federation",
    ),
    "federation": Command(
        "fedlore.cli.federation:federation_app",
        "Set up a federation of sites and hand out their kits.",
        MACHINES,
        {
            "init schema": ("knowledge",),
            "add-site folder": ("coordinator",),
            "enrol key": ("public key",),
            "enrol folder": ("coordinator",),
            "remove-site folder": ("coordinator",),
            "renew folder": ("coordinator",),
            "key kit": ("kit",),
        },
    ),
    "flower": Command(
        "fedlore.cli.federation:flower_app",
        "Train with knowledge on a Flower grid that you already run.",
        MACHINES,
        {"init schema": ("knowledge",)},
    ),
    "server": _own(
        "federation:server_command",
        MACHINES,
        "Run the coordinator's server and its status page until Ctrl-C.",
        folder="coordinator",
        token_file="token",
    ),
    "join": _own(
        "site:join_command",
        MACHINES,
        "Take part as a site until Ctrl-C.",
        kit="kit",
        token_file="token",
    ),
    "accept": _own(
        "site:accept",
        MACHINES,
        "Show the terms that a site is asked to agree to, and agree to them.",
        kit="kit",
    ),
    "train": _own(
        "federation:train_command",
        MACHINES,
        "Run a training, with a line per round and for every site in trouble.",
        folder="coordinator",
    ),
    "status": _own(
        "site:status",
        MACHINES,
        "Show how far a training is and who is online; of a site, what was asked and sent.",
        folder="coordinator kit",
        token_file="token",
    ),
    "doctor": _own(
        "site:doctor",
        MACHINES,
        "Check a site before it joins; exit code 1 if anything must be mended.",
        kit="kit",
    ),
    "export": _own(
        "export:export",
        AT_WORK,
        "Write one site's model with its knowledge, schema and scaling to one file.",
        source="run kit coordinator bundle knowledge",
        knowledge="knowledge",
        writes={"out": "bundle", "onnx": "graph", "dmn": "tables"},
    ),
    "predict": _own(
        "predict:predict_command",
        AT_WORK,
        "Predict each row: class, probabilities, allowed classes, expert's answer, who decided.",
        bundle="bundle",
        file="rows",
        calibrate="rows",
        writes={"out": "rows", "store": "bundle"},
    ),
    "serve": _own(
        "serve:serve_command",
        AT_WORK,
        "Serve predictions over HTTP, with a page where a person can type or paste a row.",
        bundle="bundle",
        token_file="token",
        reference="rows",
        writes={"monitor": "record"},
    ),
    "monitor": _own(
        "monitor:monitor_command",
        AT_WORK,
        "Check on measured rows whether a bundle's rules, range and inputs still hold.",
        bundle="bundle",
        measured="rows",
        reference="rows",
        writes={"record": "record", "page": "page", "metrics": "metrics"},
    ),
    "certify": _own(
        "export:certify_command",
        AT_WORK,
        "Write a range certificate for a bundle whose knowledge is tables and formulas.",
        bundle="bundle",
        writes={"out": "certificate"},
    ),
    "update": _own(
        "export:update_command",
        AT_WORK,
        "Replace the rules or λ of a bundle, after an audit, with scores before and after.",
        bundle="bundle",
        knowledge="knowledge",
        data="rows",
        writes={"out": "bundle"},
    ),
    "algorithms": _own(
        "engines:algorithms",
        RESEARCH,
        "List the federated algorithms: paper, settings, traffic, and what each needs.",
    ),
    "bench": _own(
        "engines:bench",
        RESEARCH,
        "Measure how long a training step of one client takes with each engine.",
    ),
}


@cache
def offered() -> dict[str, Offer]:
    """What installed packages bring; nothing is imported yet."""
    return find_plugins(GROUP, OWN)


def find_command(name: str) -> Command | None:
    """The command of a name; packages are asked only where fedlore has none."""
    if name in OWN or name not in offered():
        return OWN.get(name)
    offer = offered()[name]
    found = offer()
    if not isinstance(found, Command):
        raise ConfigError(f"{offer.place} ({GROUP}) must be a Command, got {type(found).__name__}")
    return found


def all_commands() -> dict[str, Command]:
    """Every command in the order of the help; one that cannot be loaded says so in its line."""
    found = dict(OWN)
    for name in offered():
        try:
            one = find_command(name)
        except ConfigError as error:
            one = Command("", str(error))
        if one is not None:
            found[name] = one
    order = {panel: place for place, panel in enumerate(PANELS)}
    return dict(sorted(found.items(), key=lambda item: order.get(item[1].panel, len(order))))
