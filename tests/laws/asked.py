"""Rows with holes as a person has them, asked by file and over HTTP."""

import csv
import io
import os

from fedlore.bundle.files import predict_file
from fedlore.bundle.serve import make_app
from fedlore.knowledge.door import hide_others
from fedlore.knowledge.sources.unapplied import count_unapplied

from ..bundle.onnx.worlds import HOLED
from ..bundle.serve.asking import ask_all


def named(row):
    """A row as a person has it; a level that is none is told by its number."""
    levels = {0.0: "north", 1.0: "south", 2.0: "west", 3.0: "the new one"}
    values = [None if v != v else v for v in row]
    return dict(zip(HOLED.names, [*values[:3], levels.get(values[3], values[3])], strict=True))


def agree_on_rules(made, x, unapplied):
    """That a graph counts the rules which missing values left open as Python does."""
    known = made.personal.knowledge
    seen = hide_others(x, made.schema)
    assert (unapplied == count_unapplied((known.range, known.prediction), seen).numpy()).all()


def answers_of_file(made, x):
    """What `fedlore predict` writes of a CSV file, whose wrong rows are marked."""
    folder = os.environ.get("TMPDIR", "/tmp")
    source, out = (f"{folder}/law-{os.getpid()}-{name}.csv" for name in ("rows", "answers"))
    text = io.StringIO()
    writer = csv.DictWriter(text, HOLED.names)
    writer.writeheader()
    rows = [named(row) for row in x.tolist()]
    # a number is no level's name, but in a file it would be one that nobody named
    for row in rows:
        if isinstance(row["mine"], float):
            row |= {"mine": "north", "heat": ""}
    writer.writerows(rows)
    try:
        with open(source, "w") as file:
            file.write(text.getvalue())
        predict_file(made, source, out, on_error="mark")
        with open(out) as lines:
            return list(csv.DictReader(lines))
    finally:
        for path in (source, out):
            if os.path.exists(path):
                os.remove(path)


def answers_over_http(made, x):
    """What the service says of each row; None where it refuses."""
    rows = [("POST", "/predict", {"json": named(row)}) for row in x.tolist()]
    return [
        None if answer.status_code in (409, 422) else answer.json()["answers"][0]
        for answer in ask_all(make_app(made), rows)
    ]
