"""The commands of this application, as `fedlore --help` lists them."""

from fedlore.cli.commands import Command

_TABLES = ("approaches", "data", "lambda", "case", "regression")

paper = Command(
    "fedlore_lab.paper.command:paper_app",
    "Run the paper's experiments again.",
    "Research",
    writes={f"{table} out": "study" for table in _TABLES},
)
leak = Command(
    "fedlore_lab.leak.command:leak_command",
    "Attack what the coordinator sees of a training run, setting by setting.",
    "Research",
    {"sites": ("federation",)},
    {"out": "study"},
)
