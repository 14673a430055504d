"""The commands of this application, as `fedlore --help` lists them."""

from fedlore.cli.commands import Command

_FIRST, _AT_WORK, _MACHINES = "First steps", "A site's model at work", "A federation over machines"

demo = Command(
    "fedlore_coke.demo:demo",
    "Compare eight approaches on four simulated coking plants, in half a minute.",
    _FIRST,
    {"config": ("settings",), "sites": ("federation",)},
    {"out": "demo"},
)
new = Command(
    "fedlore_coke.demo:new",
    "Write a federation to start from: four simulated plants, or one like your own rows.",
    _FIRST,
    {"like": ("rows",)},
)
up = Command(
    "fedlore_coke.demo:up",
    "Run a whole federation on this machine: server, sites and one training.",
    _MACHINES,
)
blend = Command(
    "fedlore_coke.blend.command:blend_command",
    "Find the cheapest blend whose predicted grade reaches a target.",
    _AT_WORK,
    {
        "coals": ("rows",),
        "model": ("bundle",),
        "mixing": ("settings",),
        "measured": ("rows",),
        "scenario": ("rows",),
        "change": ("rows",),
    },
    {"out": "plan"},
)
