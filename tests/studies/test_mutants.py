"""Drawn mutants are valid, and a run tells killed from survived."""

import ast
from dataclasses import replace

import pytest

from studies.mutants.drawing import ROOT, SOURCE, Mutant, around, changes, draw
from studies.mutants.nearness import Nearness, Trace, add_notes, by_turns
from studies.mutants.runner import Fate, doubtful, report, run, trace_of, trees


def text_of(mutant: Mutant) -> str:
    return (ROOT / SOURCE / mutant.file).read_text()


@pytest.mark.slow
def test_drawn_mutants_are_valid_and_the_same_every_time():
    drawn = draw(12)
    assert drawn == draw(12) and len({mutant.name for mutant in drawn}) == 12
    assert drawn != draw(12, seed="another")
    for mutant in drawn:
        ast.parse(mutant.apply(text_of(mutant)))
        assert mutant.blocks, f"{mutant.name} stands in no function"


def test_changes_by_operator():
    text = (
        "A = 1\ndef f(x):\n    if x < 2 and True:\n        raise ValueError(\n            x)\n"
        "    show('é', not x)\n    return 1 if x is not None else min(x, 'a - b')\n"
    )
    found = {(change.operator, change.old, change.new) for change in changes(text)}
    assert found == {
        ("order", "<", "<="),
        ("logic", "and", "or"),
        ("truth", "True", "False"),
        ("number", "2", "(2 + 1)"),
        ("number", "1", "(1 + 1)"),
        ("refusal", "raise ValueError(\n            x)", "pass"),
        ("condition", "x < 2 and True", "False"),
        ("condition", "x is not None", "False"),
        ("call", "show('é', not x)", "pass"),
        ("denial", "not", "bool"),
        ("end", "min", "max"),
    }
    assert all(text[one.start :].startswith(one.old) for one in changes(text))


TEXT = """
class A:
    def f(self, x):
        'Say.'
        if x:
            return 1
        else:
            def g():
                return 2
        return g
"""


def test_a_place_stands_in_blocks_and_each_notes_that_it_is_run():
    assert around(TEXT, TEXT.index("1")) == ("A.f#1", "A.f#0")
    assert around(TEXT, TEXT.index("2")) == ("A.f.<locals>.g#0", "A.f#2", "A.f#0")
    tree, noted = ast.parse(TEXT), []
    add_notes(tree, "a.py")
    names = {"__note_block__": noted.append}
    exec(compile(tree, "a.py", "exec"), names)
    assert names["A"]().f(True) == 1 and noted == ["a.py:A.f#0", "a.py:A.f#1"]
    assert names["A"].f.__doc__ == "Say."


def test_the_nearest_tests_run_a_block_and_little_else(tmp_path):
    trace = Trace(tmp_path)
    trace.ran = {
        "far": (1.0, ["a.py:A.f#1", "b.py:h#0"]),
        "near": (3.0, ["a.py:A.f#1"]),
        "late": (9.0, ["a.py:A.f#1", "b.py:h#0", "b.py:i#0"]),
        "outside": (1.0, ["a.py:A.f#0"]),
        "bad": (1.0, ["a.py:A.f#1"]),
    }
    trace.failed = ["bad"]
    trace.write(tmp_path / "near.json")
    near = Nearness.read(tmp_path / "near.json")
    mutant = Mutant("one", "a.py", 0, "", "", ("A.f#2", "A.f#1", "A.f#0"))
    assert near.tests(mutant, 5.0)[:2] == ["far", "near"] and near.failed == ["bad"]
    assert by_turns(["a::1", "a::2", "b::3", "a::4"]) == ["a::1", "b::3", "a::2", "a::4"]


def test_the_report_names_survivors_and_gives_the_rate_with_its_interval():
    mutant = Mutant("why", "fedlore/core/a.py", 0, "a <\n b", "a > b")
    killed, odd = Fate(mutant, "killed", 1.0, ""), Fate(mutant, "cannot be asked", 9.0, "")
    alive = Fate(replace(mutant, name="alive"), "survived in time", 2.0, "3 passed")
    told = report([killed, killed, odd, alive])
    assert told.startswith("2 of 3 mutants killed: 66.7% (95 % interval 20.8% to 93.9%)")
    assert "- survived in time: alive; `a < b` to `a > b` (3 passed)" in told


@pytest.mark.slow
def test_a_run_tells_killed_from_survived():
    file, test = "fedlore/privacy/secagg/crypto.py", "tests/privacy/test_shamir.py"
    text = (ROOT / SOURCE / file).read_text()
    near = Nearness({f"{file}:split_secrets#0": [test]}, {test: 1.0}, [])

    def mutant(old, new):
        return Mutant(new, file, text.index(old), old, new, ("split_secrets#0",))

    mutants = [
        mutant("entropy(8 * (threshold - 1)", "entropy(3"),
        mutant("entropy(8 * (threshold - 1)", "entropy((threshold - 1) * 8"),
        mutant("powers = np.ones", "while True: pass\n    powers = np.ones"),
    ]
    with trees(2) as copies:
        fates = list(run(mutants, near, copies, limit=60.0))
        assert doubtful(fates, near, copies) == set()
        assert not list(run(mutants, near, copies, limit=60.0, within=0.0))
        assert all((tree / SOURCE / file).read_text() == text for tree in copies)
    found = {fate.mutant.name: fate.how for fate in fates}
    assert [found[mutant.name] for mutant in mutants] == ["killed", "survived", "killed"]


@pytest.mark.slow
def test_tests_that_fail_unchanged_kill_nobody_and_leave_the_others_alone():
    mutant = Mutant("why", "fedlore/core/a.py", 0, "a", "b")
    broken = "tests/test_broken.py::test_is_false"
    sure = "tests/answers/test_bins.py"
    with trees(1) as copies:
        (copies[0] / "tests/test_broken.py").write_text("def test_is_false():\n    assert not 1\n")
        unread, absent = "tests/test_unread.py", "tests/test_absent.py"
        (copies[0] / unread).write_text("import no_such_package\n")
        text = "import pytest\npytest.importorskip('no_such_package')\n"
        (copies[0] / absent).write_text(text)
        near = trace_of([["tests/test_broken.py"], [unread, absent, sure]], copies)
        fates = [Fate(mutant, "killed", 1.0, f"FAILED {broken} - assert not 1")]
        assert doubtful(fates, Nearness({}, {}, []), copies) == {broken}
    assert sorted(near.failed) == [broken, unread] and near.skipped == [absent]
    assert any(test.startswith(sure) for test in near.ran)
