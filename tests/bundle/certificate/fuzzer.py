"""A forger with a machine: sites changed at random and sealed anew, and what of it is accepted.

For all that the checker accepts, onnxruntime, torch and a plain reading of the knowledge answer the
same rows: on thresholds and on every number in the graph, one step beside them, at the ends of the
scope, with holes, in batches of 1 and 3.

python -m tests.bundle.certificate.fuzzer --mutants 20000 --seed 1
"""

import argparse
import copy
import json
import random
import sys
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch

from fedlore import read_bundle
from fedlore.bundle.certify import certify
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.store import bundle_of, open_members
from fedlore.checker import outcome_of
from fedlore.errors import FedloreError

from ...golden import surface
from ...golden.cases import read_cases
from ...golden.frozen import write_files
from ...golden.rows import matrix_of, rows_of
from ..mixed import class_members, mixture
from ..onnx.test_mixtures import CALM, known
from ..test_signed import bundled, write_site
from .changes import BUNDLE, CERTIFICATE, GRAPH, OUTSIDE, TEXTS, Skip, claims_proved, other_trust
from .forging import Site
from .judges import Unanswered, judge, texts_of

ROWS = 500
ACCEPTED = (0,)  # exit codes
GOLDEN = (
    "whole-first-intersect whole-priority-union apart whole-formula whole-all-all whole-shape "
    "whole-soft-rules whole-row-trust holes-first-intersect number-tables number-formulas "
    "number-shape"
).split()
FALLS = {  # a range that falls along a shape, in a part of the scope where two columns are compared
    "knowledge.toml": 'trust = 0.0\nconflict = "error"\nclasses = ["w", "x", "y", "z"]\n'
    'ordered = true\nlabel = "grade"\n[[features]]\nname = "a"\nlow = 0\nhigh = 10\n'
    '[[features]]\nname = "b"\nlow = 0\nhigh = 10\n[[shape.sources]]\nfeature = "a"\n'
    'effect = "raises"\n[[range.sources]]\ntable = "r.csv"\n',
    "r.csv": "a,then\n< 9.9,y..z\n>= 9.9,w..x\n",
}
OPEN = {  # a range that rises until it overflows: no scope says that it does not get there
    "knowledge.toml": FALLS["knowledge.toml"]
    .replace('name = "a"\nlow = 0\nhigh = 10', 'name = "a"')
    .replace('table = "r.csv"', 'lower = "2 * a"\nedges = [1.0, 2.0, 3.0]')
}
APART = {  # the rules of `whole-unique` contradict each other, which is refuted of any site
    **read_cases()["whole-unique"],
    "p.csv": "ash,sulfur,heat,mine,then\n< 0.3,-,not 1,north,II\n[0.3..7.7],> 3.0,-,not west,I\n"
    "[0.3..7.7],<= 3.0,-,-,IV\n> 7.7,-,= 3.0,north,III\n",
}
CASES = {**read_cases(), "apart": APART, "falls": FALLS, "open": OPEN}


@dataclass(frozen=True)
class Base:
    """A site before anybody lied, with rows that its knowledge is sharp on."""

    name: str
    site: Site
    x: np.ndarray  # (n, d), of single precision in double
    key: tuple = ()

    def take(self, folder):
        """The site in a forger's hands."""
        made = Site(folder, copy.deepcopy(self.site.certificate), dict(self.site.members),
                    onnx.ModelProto())  # fmt: skip
        made.model.CopyFrom(self.site.model)
        return made


def bases(folder, names=(*GOLDEN, "falls", "open", "mixture", "signed", "signed")):
    """The sites that are forged."""
    for number, name in enumerate(names):
        place = folder / f"{number}"
        place.mkdir(parents=True, exist_ok=True)
        key = ()
        if name == "signed":
            made = bundled(write_site(place))
            key = (json.loads(made.members["signature.json"])["key"],)
        elif name == "mixture":
            members = class_members(4, 4, 2, CALM)
            made = bundle_of(mixture(known(), CALM, 4, members=members), "north")
        else:
            write_files(CASES[name], place)
            made = read_bundle(surface.bundle(place, seed=1))
        files = FALLS if name == "open" else texts_of(made.members)  # rows need a scope
        x = matrix_of(files, rows_of(name, files, ROWS)).astype(np.float32).astype(np.float64)
        yield Base(name, Site.of(place, made), x, key)


@dataclass(frozen=True)
class Fate:
    """What became of one mutant."""

    seed: str
    words: str
    parsed: bool = False
    accepted: bool = False
    wrong: tuple = ()
    unanswered: str = ""  # why nothing runs it, though it was accepted


def mutate(base, seed, folder):
    """One mutant: changed, sealed, checked, and compared where it is accepted."""
    dice = random.Random(seed)
    site = base.take(folder)
    group = dice.choice([GRAPH, GRAPH, GRAPH, BUNDLE, TEXTS, CERTIFICATE])
    site.subject = {GRAPH: "graph", BUNDLE: "bundle"}.get(group, dice.choice(["graph", "bundle"]))
    changes = [dice.choice(group)]
    if dice.random() < 0.2 and group is not CERTIFICATE:
        changes.append(dice.choice(group))
    words, late = [], []
    try:
        for change in changes:
            if change in CERTIFICATE:
                late.append(change)
            else:
                words.append(f"{change.__name__} ({change(site, dice)})")
        if group is TEXTS and dice.random() < 0.5:
            rebuild(site)
            words.append("built anew")
        elif not late:
            site.reseal(boast=dice.random() < 0.5)
        if dice.random() < 0.2:
            late.append(claims_proved)
        words += [f"{change.__name__} ({change(site, dice)})" for change in late]
    except Skip:
        return Fate(seed, "no place")
    except (FedloreError, OSError) as error:  # fedlore itself refuses to build it
        return Fate(seed, f"{type(error).__name__}")
    except Exception as error:  # onnx has classes of its own for every fault
        return Fate(seed, f"broken: {type(error).__name__}")
    site.seal()
    told = f"{base.name}, {site.subject}: {' and '.join(words)}"
    lines = site.check(site.subject, *base.key)
    parsed = all(line.what != "readable" for line in lines)
    if outcome_of(lines).code not in ACCEPTED:
        return Fate(seed, told, parsed)
    # of a mixture and of a number λ is learned as weights are, and shaped networks have a slope
    learned = base.name in ("mixture", "falls", "open", "whole-shape") or "number" in base.name
    kept = all(c in OUTSIDE and not (learned and c is other_trust) for c in changes)
    kept = kept and (group is not TEXTS or "built anew" in words)  # or its network knew other rules
    try:
        tested = {line.what for line in lines if line.rows is not None}
        wrong = judge(base, site, tested, kept=kept, built=group is not GRAPH)
    except Unanswered as error:
        return Fate(seed, told, parsed, True, unanswered=f"{error}")
    return Fate(seed, told, parsed, True, tuple(dict.fromkeys(wrong)))


def rebuild(site):
    """The site as fedlore itself makes it of the changed knowledge."""
    bundle = open_members(site.members)
    site.members, site.model = dict(bundle.members), bundle_to_onnx(bundle)
    site.certificate = json.loads(json.dumps(certify(bundle)))


def fuzz(count, seed, folder, names=None):
    """The fates of so many mutants, each with the seed that makes it again."""
    some = list(bases(folder, names) if names else bases(folder))
    for i in range(count):
        address = f"{seed}/{i}"
        base = some[zlib.crc32(address.encode()) % len(some)]
        yield mutate(base, address, folder)


def summary(fates):
    """How many there were, were read, accepted, wrong, and run by nobody."""
    return (
        f"{len(fates)} mutants, {sum(f.parsed for f in fates)} past parsing, "
        f"{sum(f.accepted for f in fates)} accepted, {sum(bool(f.wrong) for f in fates)} wrong, "
        f"{sum(bool(f.unanswered) for f in fates)} that nothing runs"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--only", default="", help="one mutant, by its own seed")
    args = parser.parse_args()
    torch.set_num_threads(1)
    fates = []
    with tempfile.TemporaryDirectory() as place:
        if args.only:
            some = list(bases(Path(place)))
            base = some[zlib.crc32(args.only.encode()) % len(some)]
            print(mutate(base, args.only, Path(place)))
            return 0
        for fate in fuzz(args.mutants, args.seed, Path(place)):
            fates.append(fate)
            for words in fate.wrong:
                print(f"WRONG {fate.seed}  {fate.words}  {words}", flush=True)
            if fate.unanswered:
                print(f"UNRUN {fate.seed}  {fate.words}  {fate.unanswered}", flush=True)
            if len(fates) % 250 == 0:
                print(summary(fates), flush=True)
    print(summary(fates))
    return int(any(fate.wrong for fate in fates))


if __name__ == "__main__":
    sys.exit(main())
