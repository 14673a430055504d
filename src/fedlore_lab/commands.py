"""The commands of this application, as `fedlore --help` lists them."""

from fedlore.cli.commands import Command

paper = Command("fedlore_lab.cli.paper:paper_app", "Run the paper's experiments again.", "Research")
leak = Command(
    "fedlore_lab.cli.leak:leak_command",
    "Attack what the coordinator sees of a training run, setting by setting.",
    "Research",
    {"sites": ("federation",)},
)
