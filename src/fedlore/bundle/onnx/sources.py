"""Knowledge models as nodes, one function per kind; what has none is refused by name."""

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import KnowledgeError
from ...knowledge.combine import AllOf, AnyOf, Average, FirstOf
from ...knowledge.conformal import ConformalRange
from ...knowledge.confusion import Recalibrated
from ...knowledge.formulas.grading import FormulaRange, GradedFormula, SoftFormula
from ...knowledge.learned import TorchModel
from ...knowledge.soft import Softened, SoftFormulas, SoftRange, count_soft
from ...knowledge.sources.onnx import OnnxModel
from ...knowledge.sources.writing import kind_of_model
from ...knowledge.tables.soft import SoftTable
from ...knowledge.tables.table import Table
from ...knowledge.views import Mask, MaxPool
from .builder import DOUBLE, INT64, SINGLE, Builder
from .grading import grade_formula, limits, soft
from .holes import lacking_nodes, silence_lacking
from .inlined import inline_model
from .networks import network
from .scores import prior_nodes
from .soft import (
    LeanNodes,
    every_class,
    lean_rows,
    set_lean,
    soften_rows,
    table_lean,
    table_rows,
    undecided_nodes,
)
from .tables import Said, table

Compile = Callable[[Builder, str, int, Any], Said]


def add_source(build: Builder, x: str, rank: int, model: Any) -> Said:
    """What a knowledge model says of rows x, float32 of this rank."""
    compile_ = GRAPHS.get(type(model)) or _own_graph(model)
    found = compile_(build, x, rank, model)
    if not build.width or hasattr(model, "looks_at") or hasattr(model, "see"):
        return found
    if type(model) not in GRAPHS:
        raise KnowledgeError(
            f"a {type(model).__name__} cannot be put into a graph of rows with missing values: it "
            "does not say which columns it looks at"
        )
    lacking = lacking_nodes(build, x, model)
    assert lacking is not None  # it looks at all columns
    return Said(*silence_lacking(build, found.rows, found.refused, lacking))


def add_range(build: Builder, x: str, rank: int, model: Any) -> Said:
    """The same of a range, which soft knowledge looks at as well: its nodes are made once."""
    key = id(model), x
    if key not in build.ranges:
        build.ranges[key] = add_source(build, x, rank, model)
    found: Said = build.ranges[key]
    return found


def _own_graph(model: Any) -> Compile:
    """What a kind of source brings along for graphs; most have nothing, and are refused."""
    kind = kind_of_model(model)
    if kind is not None and kind.graph is not None:
        return kind.graph
    if kind is not None and kind.code:
        what = getattr(model, "target", type(model).__name__)
        raise KnowledgeError(
            f"the entry point '{what}' is Python code and cannot be put into a graph: "
            "write it as a table or a formula, or export it to ONNX"
        )
    raise KnowledgeError(
        f"a {type(model).__name__} cannot be put into a graph: use a table, a formula, a torch "
        "model or an ONNX file"
    )


def _table(build: Builder, x: str, rank: int, model: Table) -> Said:
    return table(build, _flat(x, rank, model.name), model)


def _add_graded(build: Builder, x: str, rank: int, model: GradedFormula) -> Said:
    return grade_formula(build, _flat(x, rank, "a formula"), model)


def _soft(build: Builder, x: str, rank: int, model: SoftFormula) -> Said:
    return soft(build, _flat(x, rank, "a formula"), model)


def _limits(build: Builder, x: str, rank: int, model: FormulaRange) -> Said:
    return limits(build, _flat(x, rank, "a formula"), model)


def _all_of(build: Builder, x: str, rank: int, model: AllOf) -> Said:
    parts = [add_source(build, x, rank, one) for one in model.ranges]
    rows = parts[0].rows
    for part in parts[1:]:
        rows = build.op("And", rows, part.rows)
    refused = build.either(*[part.refused for part in parts])
    none = build.op("Not", build.any(rows))
    if model.empty == "error":
        return Said(rows, build.either(refused, none))
    lacking = lacking_nodes(build, x, model)
    none = none if lacking is None else build.op("Or", none, lacking)
    instead = build.op("And", none, parts[0].rows) if model.empty == "first" else none
    return Said(build.op("Or", rows, instead), refused)


def _any_of(build: Builder, x: str, rank: int, model: AnyOf) -> Said:
    parts = [add_source(build, x, rank, one) for one in model.ranges]
    rows = parts[0].rows
    for part in parts[1:]:
        rows = build.op("Or", rows, part.rows)
    return Said(rows, build.either(*[part.refused for part in parts]))


def _first_of(build: Builder, x: str, rank: int, model: FirstOf) -> Said:
    parts = [add_source(build, x, rank, one) for one in model.predictions]
    rows = parts[0].rows
    over = None
    for before, part in zip(model.predictions, parts[1:], strict=False):
        spoken = build.any(build.op("Not", build.op("Equal", rows, build.constant(0.0))))
        over = build.either(over, lacking_nodes(build, x, before))  # he might have spoken
        spoken = spoken if over is None else build.op("Or", spoken, over)
        rows = build.op("Where", spoken, rows, part.rows)
    return Said(rows, build.either(*[part.refused for part in parts]))


def _average(build: Builder, x: str, rank: int, model: Average) -> Said:
    parts = [add_source(build, x, rank, one) for one in model.predictions]
    weights = model.weights or (1.0,) * len(parts)
    total = build.op("Mul", parts[0].rows, build.constant(weights[0]))
    for part, weight in zip(parts[1:], weights[1:], strict=True):
        total = build.op("Add", total, build.op("Mul", part.rows, build.constant(weight)))
    spoken = build.total(total)
    positive = build.op("Greater", spoken, build.constant(0.0))
    rows = build.op("Div", total, build.op("Where", positive, spoken, build.constant(1.0)))
    for one, part in zip(model.predictions, parts, strict=True):
        lacking = lacking_nodes(build, x, one)
        if lacking is not None:
            silent = build.op("Equal", build.total(part.rows), build.constant(0.0))
            unknown = build.op("And", lacking, silent)
            rows = build.op("Where", unknown, build.constant(0.0), rows)
    return Said(rows, build.either(*[part.refused for part in parts]))


def _mask(build: Builder, x: str, rank: int, model: Mask) -> Said:
    seen = build.op("Gather", x, build.constant(list(model.columns), INT64), axis=1)
    with build.narrowed(len(model.columns)):
        return add_source(build, seen, rank, model.model)


def _max_pool(build: Builder, x: str, rank: int, model: MaxPool) -> Said:
    axis = build.constant([1], INT64)
    size = [model.size, model.size]
    images = x if rank == 4 else build.op("Unsqueeze", x, axis)
    pooled = build.op("MaxPool", images, kernel_shape=size, strides=size)
    return add_source(
        build, pooled if rank == 4 else build.op("Squeeze", pooled, axis), rank, model.model
    )


def _torch(build: Builder, x: str, rank: int, model: TorchModel) -> Said:
    name = build.fresh("expert")
    scores = network(build, model.module, x, name=name, rank=rank)
    return prior_nodes(build, scores, soft=model.soft, gives=model.gives)


def _conformal(build: Builder, x: str, rank: int, model: ConformalRange) -> Said:
    scorer = add_source(build, x, rank, model.scorer)
    k = len(model.thresholds)
    p = build.cast(scorer.rows, DOUBLE)
    if model.score == "lac":
        strange = build.op("Sub", build.constant(1.0, DOUBLE), p)
    else:  # of equal probabilities the first is the likelier, here as in torch's stable sort
        ordered, order = build.ops(
            "TopK", p, build.constant([k], INT64), results=2, axis=1, largest=1, sorted=1
        )
        sums = build.op("CumSum", ordered, build.constant(1, INT64))
        strange = build.op("ScatterElements", p, order, sums, axis=1)
    allowed = build.op("LessOrEqual", strange, build.constant([model.thresholds], DOUBLE))
    best = build.op("ArgMax", scorer.rows, axis=1, keepdims=1)
    is_best = build.op("Equal", best, build.constant([list(range(k))], INT64))
    spoken = build.any(build.op("Greater", scorer.rows, build.constant(0.0)))
    rows = build.op("Or", build.op("Or", allowed, is_best), build.op("Not", spoken))
    return Said(rows, scorer.refused)


def _add_recalibrated(build: Builder, x: str, rank: int, model: Recalibrated) -> Said:
    if model.expert is None:
        raise KnowledgeError("the expert's rows came with the data: there is nobody to compile")
    expert = add_source(build, x, rank, model.expert)
    table = build.constant(model.confusion.double().cpu().numpy(), DOUBLE)
    soft_rows = build.op("MatMul", build.cast(expert.rows, DOUBLE), table)
    total = build.total(soft_rows)
    some = build.op("Greater", total, build.constant(0.0, DOUBLE))
    whole = build.op("Where", some, total, build.constant(1.0, DOUBLE))
    return Said(build.cast(build.op("Div", soft_rows, whole), SINGLE), expert.refused)


def _softened(build: Builder, x: str, rank: int, model: Softened) -> Said:
    allowed = _within(build, x, rank, model)
    leans = [_lean(build, x, rank, one, allowed) for one in model.ranges]
    expert = None if model.expert is None else add_source(build, x, rank, model.expert)
    return soften_rows(build, expert, leans, allowed, _unsure(build, x, model, model.ranges))


def _soft_table(build: Builder, x: str, rank: int, model: SoftTable) -> Said:
    allowed = _within(build, x, rank, model)
    flat = _flat(x, rank, model.table.name)
    return table_rows(build, flat, model, allowed, _unsure(build, x, model, [model]))


def _soft_formulas(build: Builder, x: str, rank: int, model: SoftFormulas) -> Said:
    allowed = _within(build, x, rank, model)
    lean = _lean(build, x, rank, model, allowed)
    rows = lean_rows(build, lean, allowed, _unsure(build, x, model, [model]))
    return Said(build.cast(rows, SINGLE))


def _lean(build: Builder, x: str, rank: int, model: SoftRange, allowed: str) -> LeanNodes:
    if isinstance(model, SoftTable):
        return table_lean(build, _flat(x, rank, model.table.name), model, allowed)
    named = add_source(build, x, rank, model.model).rows
    if isinstance(model.model, GradedFormula):
        named = build.op("Greater", named, build.constant(0.0))
    return set_lean(build, named, model.confidence, allowed)


def _unsure(
    build: Builder, x: str, model: Softened | SoftRange, ranges: Sequence[SoftRange]
) -> str | None:
    """Rows in which a missing value leaves open what is said softly, (n, 1); None: never."""
    found = [
        undecided_nodes(build, x, one)
        if isinstance(one, SoftTable)
        else lacking_nodes(build, x, one.model)
        for one in ranges
    ]
    within = None if model.within is None else lacking_nodes(build, x, model.within)
    return build.either(*found, within)


def _within(build: Builder, x: str, rank: int, model: Softened | SoftRange) -> str:
    """The range of what is soft, (n, k) bool."""
    if model.within is not None:
        return add_range(build, x, rank, model.within).rows
    one = model.ranges[0] if isinstance(model, Softened) else model
    return every_class(build, x, count_soft(one))


def _flat(x: str, rank: int, what: str) -> str:
    if rank != 2:
        raise KnowledgeError(f"{what} needs rows of numbers, these have {rank - 1} axes")
    return x


#: How each kind of model becomes nodes.
GRAPHS: dict[type, Compile] = {
    Table: _table,
    GradedFormula: _add_graded,
    SoftFormula: _soft,
    FormulaRange: _limits,
    AllOf: _all_of,
    AnyOf: _any_of,
    FirstOf: _first_of,
    Average: _average,
    Mask: _mask,
    MaxPool: _max_pool,
    TorchModel: _torch,
    OnnxModel: lambda build, x, rank, model: inline_model(build, x, model),
    ConformalRange: _conformal,
    Recalibrated: _add_recalibrated,
    Softened: _softened,
    SoftTable: _soft_table,
    SoftFormulas: _soft_formulas,
}
