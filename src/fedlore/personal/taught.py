"""A site's model after more tests: its one-round model takes them in at once, at home.

The other members stay as they were trained. What the one-round model knew of the site's blends and
what the tests say are weighed by its own variances, inflated as its doubts are, so a single
test moves it by as much as it should, and what it did not know there shrinks.
"""

from dataclasses import replace

import torch
from torch import Tensor

from ..errors import FedloreError
from .classifier import Personal
from .doubt import INFLATION, find_foreseen


@torch.no_grad()
def take_tests(personal: Personal, x: Tensor, y: Tensor) -> Personal:
    """The same model after tests of rows in raw units, (n, d), and the classes they gave, (n,)."""
    sure, beside = find_foreseen(personal), personal.beside
    if sure is None or beside is None:
        raise FedloreError(
            "tests can be taken in by a mixture with a one-round model, and this model has none: "
            'train it with recipe = "lore" on ordered classes'
        )
    known = personal.annotate(x)
    scaled = known.x if sure.scaler is None else sure.scaler(known.x)
    weight = INFLATION[sure.foresight.exact.basis.terms]
    taught = sure.foresight.taught(scaled, y, known.prior, known.allowed, weight=weight)
    members = tuple(replace(m, foresight=taught) if m is sure else m for m in beside.members)
    mixed = replace(beside, members=members)
    return Personal(personal.model, personal.knowledge, scaler=personal.scaler, beside=mixed)
