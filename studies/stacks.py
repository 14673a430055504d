"""What the members of sites' ensembles say, kept so that weights can be tried without a training.

    python -m studies.stacks FOLDER glass:100-111 concrete:100-104 coke:100-107

A name is a table of `studies.tables` or a set of `studies.evidence`; of each drawing one file holds
the rows of local best and lore, and of every site the members, what they say of its own rows out of
fold and of its test rows, and the labels of both. Test rows are there to compare ways to weigh on
development drawings; no way to weigh may look at them.
"""

import argparse
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fedlore.answers import Line
from fedlore.core.inject import inject
from fedlore.engine.lore import client as room
from fedlore.engine.lore.rows import SiteRows
from fedlore.engine.lore.stacking import ClassStack, SiteModel, StackedMembers
from fedlore.engine.lore.temperature import EXPERT, NETWORK
from fedlore.experiments.runs import run_federation
from fedlore.experiments.sites import gather
from fedlore.models.client import NumberClient
from fedlore.models.regressor import network_number

from .evidence import block
from .seeds import parse_seeds
from .tables import TABLES, rivals, write_folder

Stack = dict[str, Any]


@contextmanager
def kept_stacks() -> Iterator[list[Stack]]:
    """The stacks of all ensembles that are fitted in this block."""
    found: list[Stack] = []
    usual = room.fit_ensemble

    def fit(rows: SiteRows, stacked: StackedMembers, start: Any = None) -> SiteModel:
        model = usual(rows, stacked, start)
        if stacked.stack is not None:
            found.append(describe(rows, stacked, model, start))
        return model

    room.fit_ensemble = fit
    try:
        yield found
    finally:
        room.fit_ensemble = usual


@torch.no_grad()
def describe(rows: SiteRows, found: StackedMembers, model: SiteModel, start: Any) -> Stack:
    """A stack as plain values: its members, and what they say of own rows and of test rows."""
    stack = found.stack
    assert stack is not None
    params = found.main if found.finished is None else found.finished
    shared = (stack.candidate, params)
    say = say_classes(rows, stack, *shared) if isinstance(stack, ClassStack) else None
    said, about = (say or say_numbers(rows, *shared))(found.members)
    return {
        "site": rows.id,
        "recipe": str(stack.candidate),
        "start": start,
        "share": {} if model.benefit is None else model.benefit.weights,
        "names": [member.name for member in found.members],
        "out of fold": [member.oof for member in found.members],
        "test": said,
        "y": stack.y,
        **about,
    }


Say = Callable[[Any], tuple[list[torch.Tensor], dict[str, Any]]]


def say_classes(rows: SiteRows, stack: ClassStack, candidate: Any, params: Any) -> Say:
    """What members say of test rows, (n, k) log-probabilities each."""
    test = stack.client.test
    assert test is not None
    network = inject(stack.factor * rows.logits(candidate, params, test), None, test.allowed)
    about = {"test y": test.y, "test prior": test.prior, "prior": stack.heard.prior}

    def say(member: Any) -> torch.Tensor:
        if member.name == NETWORK:
            return network.double()
        if member.name != EXPERT:
            return member.model.log_probs(test).double()
        said = test.prior.double()
        total = said.sum(1, keepdim=True)
        return torch.where(total > 0, said / total.clamp(min=1e-12), network.double().exp()).log()

    def every(members: Any) -> tuple[list[torch.Tensor], dict[str, Any]]:
        own = [] if stack._own is None else stack._own.candidates
        ways = [(c.member.name, c.held, c.member.log_probs(test).double()) for c in own]
        return [say(member) for member in members], {**about, "ways": ways}

    return every


def say_numbers(rows: SiteRows, candidate: Any, params: Any) -> Say:
    """What members say of test rows, (n,) numbers each."""
    member, common = rows.member, rows.common
    assert isinstance(member, NumberClient) and member.test is not None and common.bins is not None
    test = member.knowledge.annotate(member.test, Line(common.bins))
    if common.scaler is not None and not member.numeric:
        test = replace(test, x=common.scaler.encode(test.x))
    seen = rows.client(candidate).test
    assert seen is not None
    network = network_number(rows.logits(candidate, params, seen), test).double()

    def say(one: Any) -> torch.Tensor:
        if one.name == NETWORK:
            return network
        if one.name == EXPERT:
            assert test.said is not None
            return torch.where(test.said.isnan(), network, test.said)
        return one.model.number(test)

    return lambda members: ([say(one) for one in members], {"test y": test.y})


def run(name: str, seed: int) -> dict[str, Any]:
    """The rows and the stacks of one drawing."""
    table = next((table for table in TABLES if table.name == name), None)
    with kept_stacks() as found, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if table is None:
            return {"rows": block(name, seed, short=True), "stacks": found}
        with tempfile.TemporaryDirectory() as home:
            folder = Path(home)
            write_folder(table, folder, seed, run=("local best", "lore"))
            rows = run_federation(gather(folder / "federation.toml"), folder / "results").rows
            return {"rows": [*rows, *rivals(table, folder)], "stacks": found}


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("out", type=Path)
    parse.add_argument("drawings", nargs="+", help="NAME:FIRST-LAST")
    args = parse.parse_args()
    torch.set_num_threads(1)
    for drawing in args.drawings:
        name, _, seeds = drawing.partition(":")
        for seed in parse_seeds(seeds):
            torch.save(run(name, seed), args.out / f"{name}-{seed}.pt")
            print(name, seed, flush=True)


if __name__ == "__main__":
    main()
