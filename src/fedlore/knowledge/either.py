"""A knowledge file about classes or about a number, whichever it is."""

from dataclasses import dataclass

from ..answers import Bins
from ..kernel.schema import Schema
from .content import Where, files_at, toml_in
from .models import Knowledge
from .numbers.files import read_numbers
from .numbers.numbers import Numbers


@dataclass(frozen=True)
class Held:
    """Knowledge as it was read from a bundle or from a file of the site's own."""

    knowledge: Knowledge | Numbers
    schema: Schema
    bins: Bins | None = None  # of a number


def is_number_file(where: Where) -> bool:
    """Whether a knowledge file has a [target] in place of classes."""
    return "target" in toml_in(*files_at(where))


def read_either(where: Where) -> Held:
    """The knowledge of a file, with its schema, and how a number is cut."""
    if is_number_file(where):
        found = read_numbers(where)
        return Held(found.knowledge, found.schema, found.bins)
    known = Knowledge.read(where)
    assert known.schema is not None  # a knowledge file always has one
    return Held(known, known.schema)
