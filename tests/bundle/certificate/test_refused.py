"""What fedlore refuses to open the checker refuses too: each value of a bundle, otherwise."""

import copy
import json
import random

import pytest

from fedlore.bundle.store import open_members
from fedlore.checker import outcome_of
from fedlore.errors import FedloreError

from .fuzzer import GOLDEN, bases

GONE, MORE = object(), object()
ODD = (None, "x", "1", -1, 0, 2.5, 1e39, True, [], {}, ["x"], [1, 2, 3], GONE, MORE)


def places(value, path=()):
    """Every value inside, by the keys that lead to it; of a list the first two."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from places(value[key], (*path, key))
    elif isinstance(value, list):
        for place in range(min(len(value), 2)):
            yield from places(value[place], (*path, place))


def changed(value, path, odd):
    """The same with another value at a place, without it, or with more of it."""
    found = at = copy.deepcopy(value)
    for key in path[:-1]:
        at = at[key]
    last = at[path[-1]]
    if odd is GONE:
        del at[path[-1]]
    elif odd is not MORE:
        at[path[-1]] = odd
    elif isinstance(last, dict):
        last["note"] = 1
    elif isinstance(last, list):
        last.append(last[-1] if last else 1)
    elif isinstance(last, str):
        at[path[-1]] = f"{last}x"
    elif last is not None and not isinstance(last, bool):
        at[path[-1]] = 2 * last + 1
    return found


def accepted_by_the_checker_alone(base, count, seed):
    """Which of so many changes fedlore refuses and the checker does not; None: all of them."""
    made = base.take(base.site.folder)
    made.reseal(boast=False)
    assert outcome_of(made.check("bundle", *base.key)).code == 0  # or nothing could be accepted
    dice, many = random.Random(seed), []
    for name in base.site.members:
        if name.endswith(".json"):
            said = json.loads(base.site.members[name])
            many += [(name, path, odd) for path in places(said) if path for odd in ODD]
    dice.shuffle(many)
    for name, path, odd in many[:count]:
        made = base.take(base.site.folder)
        said = changed(json.loads(made.members[name]), path, odd)
        made.members[name] = json.dumps(said).encode()
        try:
            open_members(made.members)
        except FedloreError as error:
            made.reseal(boast=False)
            if outcome_of(made.check("bundle", *base.key)).code == 0:
                yield f"{name} {path} {odd!r}: {error}"


pytestmark = pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")


def test_every_site_is_accepted_before_anybody_forges_it(tmp_path):
    for base in bases(tmp_path):
        for subject in ("bundle", "graph"):
            assert outcome_of(base.site.check(subject, *base.key)).code == 0, (base.name, subject)


@pytest.mark.parametrize("name", ["whole-first-intersect", "mixture", "number-shape", "signed"])
def test_a_sample_of_what_fedlore_refuses(tmp_path, name):
    (base,) = bases(tmp_path, [name])
    assert list(accepted_by_the_checker_alone(base, 40, "refused")) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GOLDEN, "falls", "open", "mixture", "signed"])
def test_all_that_fedlore_refuses(tmp_path, name):
    (base,) = bases(tmp_path, [name])
    assert list(accepted_by_the_checker_alone(base, None, "all")) == []
