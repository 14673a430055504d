"""The audit of a knowledge file, with rows where there are some: lint and reknow share it."""

from pathlib import Path

from ..core.examples import Examples
from ..data import read_measured, read_table
from ..knowledge.lint.checkup import Checkup, check_data, check_file


def check_with_rows(knowledge: Path, data: Path | None) -> tuple[Checkup, Examples | None]:
    """What was found, and the labelled rows of classes that it was found on."""
    found = check_file(knowledge)
    schema = None if found.knowledge is None else found.knowledge.schema
    if data is None or schema is None:
        return found, None
    if found.bins is not None:
        return check_data(found, read_measured(data, schema, label=schema.label), data.name), None
    rows = read_table(data, schema, label=schema.label)
    return check_data(found, rows, data.name), rows
