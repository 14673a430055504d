"""Claims about all sources of a file over its whole scope, against the models row by row."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from fedlore.answers import Line, Measured
from fedlore.bundle import bundle_of
from fedlore.bundle.onnx.model import knowledge_files
from fedlore.checker.bundles import knowledge_texts
from fedlore.errors import KnowledgeError
from fedlore.kernel.knowledge import read_knowledge
from fedlore.kernel.movement import prediction_moves
from fedlore.kernel.prove import never_empty, stays_inside
from fedlore.knowledge import AllOf, AnyOf, Formula, FormulaRange, Knowledge, table_of
from fedlore.knowledge.findings.sources import known_of, source_of

from ..bundle.onnx.numberworlds import number_worlds
from ..bundle.onnx.worlds import EDGES, SCHEMA, experts, ranges, rows

CALM = settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
X = rows(np.random.default_rng(3), 400).clamp(
    torch.tensor([0.0, 0, -10, 0]), torch.tensor([40.0, 5, 10, 2])
)


def kernel(**sources):
    return read_knowledge(knowledge_files(Knowledge(**sources, schema=SCHEMA)))


def bridged(expert, model):
    """The same sources as lint sees them: from models, not from files."""
    both = [getattr(expert, "predictions", (expert,)), getattr(model, "ranges", (model,))]
    seen = [[source_of(one) for one in some if one is not None] for some in both]
    if None in seen[0] or None in seen[1]:
        return None
    return known_of(
        SCHEMA,
        *seen,
        alternatives=isinstance(model, AnyOf),
        empty=getattr(model, "empty", "error"),
        averaged=hasattr(expert, "weights"),
    )


def empty(model, x):
    try:
        return not model(x).any(1).all()
    except KnowledgeError:
        return True


def leaves(expert, model, x):
    try:
        return bool(((expert(x) > 0) & ~model(x)).any())
    except KnowledgeError:
        return False


def check_verdict(verdict, broken, x):
    """A counterexample is one, and no row contradicts a proof."""
    if verdict.status == "refuted":
        assert broken(torch.tensor([verdict.example], dtype=torch.float32))
    elif verdict.status == "proved":
        assert not any(broken(row.unsqueeze(0)) for row in x)


@CALM
@given(ranges())
def test_ranges_are_empty_where_the_models_refuse(model):
    if model is None:
        assert never_empty(kernel(range=None)).status == "proved"
        return
    found = never_empty(kernel(range=model), budget=3_000)
    check_verdict(found, lambda x: empty(model, x), X[:100])
    again = bridged(None, model)
    assert again is None or never_empty(again, budget=3_000) == found


@CALM
@given(experts(), ranges())
def test_predictions_leave_the_range_where_the_models_do(expert, model):
    if expert is None or model is None:
        return
    found = stays_inside(kernel(prediction=expert, range=model), budget=3_000)
    check_verdict(found, lambda x: leaves(expert, model, x), X[:100])
    again = bridged(expert, model)
    assert again is None or stays_inside(again, budget=3_000) == found


@CALM
@given(number_worlds())
def test_sets_of_numbers_are_empty_where_the_models_refuse(world):
    known = read_knowledge(knowledge_texts(bundle_of(world.personal, "site").members))
    bins, model = world.personal.bins, replace(world.personal.knowledge, prediction=None)

    def refused(x):
        try:
            sets = model.annotate(Measured(x), Line(bins), training=False).sets
        except KnowledgeError:
            return True
        return sets is not None and bool(sets.empty.any())

    check_verdict(never_empty(known, budget=3_000), refused, X[:50])


@CALM
@given(number_worlds())
def test_numbers_leave_their_sets_where_the_models_do(world):
    bins, model = world.personal.bins, replace(world.personal.knowledge, conflict="abstain")
    known = read_knowledge(knowledge_texts(bundle_of(world.personal, "site").members))

    def left(x):
        try:
            return model.annotate(Measured(x), Line(bins), training=False).conflicts > 0
        except KnowledgeError:
            return False

    check_verdict(stays_inside(known, budget=3_000), left, X[:50])


def test_tables_are_decided_exactly():
    """Three rules that only together leave nothing, in a corner of one float."""
    cells = [
        {"ash": ">= 12", "then": "I, II"},
        {"ash": "<= 12", "sulfur": ">= 3", "then": "II, III"},
        {"sulfur": "<= 3", "then": "III, I"},
    ]
    table = table_of(cells, SCHEMA, kind="range")
    found = never_empty(kernel(range=table))
    assert found.status == "refuted" and found.example[:2] == (12.0, 3.0)
    cells[1]["ash"] = "< 12"
    table = table_of(cells, SCHEMA, kind="range")
    found = never_empty(kernel(range=table))
    assert found.status == "proved"


def test_a_contradiction_that_no_sample_meets_is_found():
    """At one row of a scope that forty other rules cut into a million cells."""
    ends = [(i + 0.5, i / 10 + 0.05, i / 5 + 0.1) for i in range(40)]
    cells = [{"ash": f"= {a}", "sulfur": f"= {s}", "heat": f"= {h}", "then": "all"}
             for a, s, h in ends]  # fmt: skip
    cells += [{"then": "I, II"}, cells[20] | {"heat": "= 5.5", "then": "III"}]
    found = never_empty(kernel(range=table_of(cells, SCHEMA, kind="range")))
    assert found.status == "refuted" and found.example[:3] == pytest.approx((20.5, 2.05, 5.5))
    cells[-1]["then"] = "II, III"
    assert never_empty(kernel(range=table_of(cells, SCHEMA, kind="range"))).status == "proved"


def test_thresholds_that_single_precision_cannot_tell_apart_overlap():
    cells = [{"ash": "<= 0.1", "then": "I"}, {"ash": ">= 0.10000000001", "then": "II"}]
    table = table_of(cells, SCHEMA, kind="range")
    found = never_empty(kernel(range=table))
    assert found.status == "refuted"
    assert empty(table, torch.tensor([found.example]))


def test_combinations_are_decided_together():
    low = FormulaRange(Formula.parse("ash / 10", SCHEMA), None, EDGES)
    table = table_of([{"ash": "> 35", "then": "I"}], SCHEMA, kind="range")
    other = table_of([{"ash": "> 35", "then": "II..IV"}], SCHEMA, kind="range")
    for model, status in (
        (AllOf((low, table)), "refuted"),
        (AllOf((low, table), "first"), "proved"),
        (AllOf((low, other)), "proved"),
        (AnyOf((low, table)), "proved"),
    ):
        assert never_empty(kernel(range=model)).status == status


KNOWLEDGE = {
    "knowledge.toml": """
classes = ["low", "mid", "high"]
conflict = "error"
[[features]]
name = "x"
low = 0
high = 1
[[predict.sources]]
table = "said.csv"
[[range.sources]]
table = "range.csv"
""",
    "said.csv": "x,then\n>= 0,low\n",
    "range.csv": 'x,then\n>= 0,"low, mid"\n',
}


def test_an_expert_is_proved_inside_as_he_is_heard_and_not_as_he_speaks():
    known = read_knowledge(KNOWLEDGE)
    assert stays_inside(known).status == "proved"
    mid = np.array([[0.6, 0.4, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert stays_inside(replace(known, confusion=mid)).status == "proved"
    high = np.array([[0.6, 0.0, 0.4], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert stays_inside(replace(known, confusion=high)).status == "refuted"
    faint = high * [1.0, 1.0, 1e-60]  # no row shows it in single precision; the proof must
    assert stays_inside(replace(known, confusion=faint)).status == "unknown"


@pytest.mark.parametrize(("combine", "status"), [("first", "proved"), ("average", "unknown")])
def test_of_an_average_every_expert_must_move_as_the_shape_says(combine, status):
    """Behind a formula that always speaks nobody is asked; in an average all are heard."""
    files = dict(KNOWLEDGE)
    head, _, _ = files["knowledge.toml"].partition("[[predict.sources]]")
    files["knowledge.toml"] = (
        f'edges = [0.3, 0.6]\n{head}[predict]\ncombine = "{combine}"\n'
        'sources = [{formula = "1 - x"}, {table = "said.csv"}]\n'
        '[[shape.sources]]\nfeature = "x"\neffect = "lowers"\n'
    )
    files["said.csv"] = "x,then\n>= 0.5,high\n"  # rises
    known = read_knowledge(files)
    assert prediction_moves(known, known.directions[0]).status == status


def test_a_formula_without_a_value_somewhere_is_asked_in_silence(tmp_path):
    """numpy's warnings of undefined numbers are nobody's fault, and warnings are errors here."""
    from ..golden.cases import read_cases
    from ..golden.frozen import write_files
    from ..golden.surface import findings

    write_files(read_cases()["holes-all-all"], tmp_path)
    assert findings(tmp_path / "knowledge.toml")


@pytest.mark.parametrize(
    ("formula", "status"), [("ash", "proved"), ("ash + 6", "proved"), ("2 * ash", "refuted")]
)
def test_a_number_that_stays_in_one_of_several_sets_is_proved(formula, status):
    text = f"""
[target]
lower = 0
upper = 11
[[features]]
name = "ash"
low = 0
high = 5
[[predict.sources]]
formula = "{formula}"
[range]
combine = "any"
[[range.sources]]
upper = "5"
[[range.sources]]
lower = "ash + 6"
"""
    assert stays_inside(read_knowledge({"knowledge.toml": text})).status == status


@pytest.mark.parametrize("combine", ["all", "any"])
def test_a_prediction_that_one_of_two_ranges_forbids_in_a_sliver(combine):
    """Class c for every row; the second range forbids it near x = 0.9 alone."""
    text = (
        'classes = ["a", "b", "c"]\nedges = [0.5, 1.5]\n'
        '[[features]]\nname = "x"\nlow = 0\nhigh = 9\n'
        '[[predict.sources]]\ntable = "p.csv"\n[[range.sources]]\ntable = "r.csv"\n'
        '[[range.sources]]\nupper = "1 + abs(7 * x - 6.3) * 100000"\n'
        f'[range]\ncombine = "{combine}"\n'
    )
    tables = {"p.csv": "x,then\n>= 0,c\n", "r.csv": "x,then\n>= 0,all\n"}
    known = read_knowledge({"knowledge.toml": text, **tables})
    assert (stays_inside(known).status == "proved") == (combine == "any")
