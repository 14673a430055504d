"""Drawn mutants are valid, and a run tells killed from survived."""

import ast
from dataclasses import replace

import pytest

from studies.mutants.drawing import ROOMS, ROOT, SOURCE, Mutant, changes, draw
from studies.mutants.runner import Fate, report, run


def text_of(mutant: Mutant) -> str:
    return (ROOT / SOURCE / mutant.file).read_text()


@pytest.mark.slow
def test_drawn_mutants_are_valid_and_the_same_every_time():
    drawn = draw(12)
    assert drawn == draw(12) and len({mutant.name for mutant in drawn}) == 12
    assert {mutant.file.partition("/")[0] for mutant in drawn} == set(ROOMS)
    for mutant in drawn:
        ast.parse(mutant.apply(text_of(mutant)))
        assert mutant.stages, f"{mutant.name} has no tests"


def test_changes_by_operator():
    text = "A = 1\ndef f(x):\n    if x < 2 and True:\n        raise ValueError(\n            x)\n"
    found = {(old, new) for _, old, new in changes(text)}
    assert ("<", "<=") in found and ("and", "or") in found and ("True", "False") in found
    assert ("2", "(2 + 1)") in found
    assert ("raise ValueError(\n            x)", "pass") in found
    assert ("1", "(1 + 1)") not in found  # outside of functions


def test_the_report_names_survivors_and_counts_time():
    mutant = Mutant("why", "core/a.py", 0, "a <\n b", "a > b", ((),))
    killed, late = Fate(mutant, "killed", 1.0, ""), Fate(mutant, "killed by time", 9.0, "")
    alive = Fate(replace(mutant, name="alive"), "survived", 2.0, "3 passed")
    told = report([killed, late, alive])
    assert told.startswith("2 of 3 mutants killed (66.7%), 1 of them by time")
    assert "- survived: alive; core/a.py: `a < b` to `a > b` (3 passed)" in told


@pytest.mark.slow
def test_a_run_tells_killed_from_survived():
    text = (ROOT / SOURCE / "privacy/secagg/crypto.py").read_text()

    def mutant(old, new):
        test = "tests/privacy/test_shamir.py"
        return Mutant(new, "privacy/secagg/crypto.py", text.index(old), old, new, ((test,),))

    mutants = [
        mutant("entropy(SHARE + 15)", "entropy(3)"),
        mutant("entropy(SHARE + 15)", "entropy(15 + SHARE)"),
        mutant("value = 0\n", "value = 0\n    while True: pass\n"),
    ]
    found = {fate.mutant.name: fate.how for fate in run(mutants, jobs=1, limit=60.0)}
    assert list(found.values()) == ["killed", "survived", "killed by time"]
