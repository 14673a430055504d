"""Knowledge models as nodes: what the kernel knows goes through its compiler.

What was learned, and what an expert sees of a row, the kernel does not know: those have nodes of
their own here. A kind of model that has none is refused by name.
"""

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from ...errors import KnowledgeError
from ...kernel.expressions import Tree
from ...kernel.graph.knowledge import KnowledgeNodes, join_sides
from ...kernel.graph.numbers import (
    NumberNodes,
    NumberView,
    SetNodes,
    band_set,
    bound_set,
    formula_point,
    join_number,
    limit_set,
    table_point,
    table_set,
)
from ...kernel.graph.ops import DOUBLE, INT64, SINGLE, Answer, Value
from ...kernel.graph.sources import hide_levels, hit_rules, refuse_rows
from ...kernel.knowledge import RowTrust
from ...kernel.schema import Feature
from ...kernel.sources import ConfusedExpert, Grades, Limits, Prediction, Side, Soft, SoftWeighting
from ...knowledge.combine import AllOf, AnyOf, Average, FirstOf
from ...knowledge.conformal import ConformalInterval, ConformalRange
from ...knowledge.estimators import TorchModel
from ...knowledge.formulas import Formula, FormulaRange, GradedFormula, SoftFormula
from ...knowledge.intervals import Band, Between
from ...knowledge.missing import join_columns, knows_holes, list_columns
from ...knowledge.models import Knowledge
from ...knowledge.soft import Softened, SoftFormulas
from ...knowledge.sources.catalog import kind_of_model, parts_of
from ...knowledge.sources.onnx import OnnxModel
from ...knowledge.tables.numbers import NumberTable
from ...knowledge.tables.soft import SoftTable
from ...knowledge.tables.table import Table
from ...knowledge.views import Mask, MaxPool, Recalibrated, unveil
from .bells import place_among
from .builder import OPSET, Builder, GraphOutput
from .networks import network


class Rows(NumberView):
    """Rows as some knowledge sees them: columns of numbers, or images."""

    def __init__(self, build: Builder, x: Value, rank: int = 2, width: int = 0) -> None:
        super().__init__(build, x, holes=bool(width))
        self.build, self.rank = build, rank
        self.width = width  # columns, where some values may be missing; 0 where none may

    def of_columns(self, columns: Sequence[int]) -> "Rows":
        """What an expert sees who knows some columns only."""
        seen = self.build.columns(self.x, list(columns))
        return Rows(self.build, seen, self.rank, len(columns) if self.width else 0)

    def looks(self, sources: Sequence[Any]) -> Sequence[int]:
        """The columns that some models look at."""
        return join_columns(sources, self.width)

    def answer(self, source: Any) -> Answer:
        """What a knowledge model says of rows."""
        form = FORMS.get(type(source))
        if form is not None:
            known = form(source)
            if self.rank != 2 and not isinstance(known, Side | ConfusedExpert):
                raise KnowledgeError(
                    f"a table or a formula needs rows of numbers, these have {self.rank - 1} axes"
                )
            alone = getattr(source, "within", self) is None  # a soft one that no range is around
            return super(Rows, self.within(None, ()) if alone else self).answer(known)
        found = (GRAPHS.get(type(source)) or _own_graph(source))(self, source)
        if not self.width or knows_holes(source):
            return found
        if type(source) not in GRAPHS:
            raise KnowledgeError(
                f"a {type(source).__name__} cannot be put into a graph of rows with missing values:"
                " it does not say which columns it looks at"
            )
        # it looks at all columns: silent, and nothing refused, where a value is missing
        lacking: Any = self.lacking([source])
        silent = self.o.where(lacking, 0.0, found.rows)
        return Answer(silent, None if found.refused is None else found.refused & ~lacking)

    def set(self, source: Any) -> SetNodes:
        """The set of numbers that a range allows, before the bounds."""
        found: SetNodes = _of_number(_SETS, source)(self, source)
        return found

    def point(self, source: Any) -> Answer:
        """The number that an expert names, (n, 1) double with NaN where he is silent."""
        found: Answer = _of_number(_POINTS, source)(self, source)
        return found


def see_rows(build: Builder, features: Sequence[Feature], rank: int = 2) -> tuple[Rows, Value]:
    """The graph's rows as knowledge sees them, and where they are of no use, (n, 1)."""
    single = build.cast(build.rows, SINGLE)
    flat = single if rank == 2 else build.op("Flatten", single, axis=1)
    unusable = refuse_rows(build, flat, features if rank == 2 else ())
    holes = any(feature.may_miss or feature.other for feature in features)
    seen = hide_levels(build, single, features)
    return Rows(build, seen, rank, len(features) if holes else 0), unusable


def class_nodes(rows: Rows, known: Knowledge, unusable: Value) -> KnowledgeNodes:
    """Knowledge about classes with its policies, as `Knowledge.annotate` has it."""
    allowed = None if known.range is None else rows.answer(known.range)
    prior = None
    if known.prediction is not None:
        inside = None if allowed is None else allowed.rows
        around = () if known.range is None else (known.range,)
        prior = rows.within(inside, around).answer(known.prediction)
    found = join_sides(rows.o, prior, allowed, known.conflict, unusable)
    return found._replace(stated=_state_places(rows, known, found.prior))


def _state_places(rows: Rows, known: Knowledge, prior: Value | None) -> Value | None:
    """What `Examples.stated` is, (n, 3) double; None where no number is stated."""
    o, edges = rows.o, known.edges
    if not known.states_numbers:
        return None

    def places(model: Any) -> list[Value]:
        inner, columns = unveil(model)
        view = rows if columns is None else rows.of_columns(columns)
        cut = getattr(inner, "edges", ()) == edges
        sides = getattr(inner, "sides", (None, None)) if cut else (None, None)
        zero = o.fill(0.0, 1, DOUBLE)
        nothing = o.where(zero <= 0.0, math.nan, zero)
        found = [side and o.cast(view.formulas.value(tree_of(side)), DOUBLE) for side in sides]
        return [nothing if one is None else place_among(o, one, edges) for one in found]

    (expert, _), (low, high) = places(known.prediction), places(known.range)
    if prior is not None:
        expert = o.where(o.total(prior) > 0.0, expert, math.nan)
    inside = low <= high  # false of NaN
    return o.concat(expert, *(o.where(inside, end, math.nan) for end in (low, high)))


def number_nodes(
    rows: Rows, known: Knowledge, bounds: tuple[float, float], unusable: Value
) -> NumberNodes:
    """The same about a number."""
    sets = None
    if known.range is not None:
        lacking = rows.lacking([known.range]) if known.when_empty == "all" else None
        sets = bound_set(rows.o, rows.set(known.range), bounds, known.when_empty, lacking)
    point = None if known.prediction is None else rows.point(known.prediction)
    return join_number(rows.o, point, sets, bounds, known.conflict, unusable)


def _own_graph(model: Any) -> Callable[[Rows, Any], Answer]:
    """What a kind of source brings along for graphs; most have nothing, and are refused."""
    kind = kind_of_model(model)
    if kind is not None and kind.graph is not None:
        make = kind.graph
        return lambda rows, model: make(rows.build, rows.x, rows.rank, model)
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


def tree_of(formula: Any) -> Tree:
    """The kernel's tree of a formula."""
    if not isinstance(formula, Formula):
        raise KnowledgeError(
            f"a {type(formula).__name__} is Python code and cannot be put into a graph: "
            "write it as a formula"
        )
    return formula.tree


def _graded(model: GradedFormula | SoftFormula) -> Prediction:
    spread = getattr(model, "spread", None)
    return Prediction(tree_of(model.formula), Grades(model.edges), spread)


def _limits(model: FormulaRange) -> Limits:
    low, high = (None if side is None else tree_of(side) for side in (model.lower, model.upper))
    return Limits(low, high, Grades(model.edges), model.crossed)


def _soft_table(model: SoftTable) -> Soft:
    shares = np.array([model.confidences[index] for index in model.table.order])
    return Soft(model.table.kernel_source, shares)


def _soft_formulas(model: SoftFormulas) -> Soft:
    return Soft(FORMS[type(model.model)](model.model), np.array([model.confidence]))


def _average(model: Average) -> Side:
    weights = model.weights or (1.0,) * len(model.parts)
    return Side(model.parts, "average", weights=tuple(weights))


def _confused_expert(model: Recalibrated) -> ConfusedExpert:
    if model.expert is None:
        raise KnowledgeError("the expert's rows came with the data: there is no expert to compile")
    return ConfusedExpert(model.expert, model.confusion.double().cpu().numpy())


#: The models that the kernel knows, as it knows them; what they combine are still models.
FORMS: dict[type, Callable[[Any], Any]] = {
    Table: lambda table: table.kernel_source,
    GradedFormula: _graded,
    SoftFormula: _graded,
    FormulaRange: _limits,
    AllOf: lambda model: Side(model.parts, "all", model.empty),
    AnyOf: lambda model: Side(model.parts, "any"),
    FirstOf: lambda model: Side(model.parts, "first"),
    Average: _average,
    Recalibrated: _confused_expert,
    Softened: lambda model: SoftWeighting(model.expert, [FORMS[type(r)](r) for r in model.ranges]),
    SoftTable: _soft_table,
    SoftFormulas: _soft_formulas,
}


def trust_rows(rows: Rows, known: Any, constant: float) -> Value | None:
    """λ of each row, (n, 1) in single precision; None where it is one number."""
    trust, orders = known.row_trust, known.orders
    withheld = orders is not None and not orders.hears_prediction
    if trust is None or not trust.speaks or withheld or known.prediction is None:
        return None
    regions = tuple((tree_of(region.formula), share) for share, region in trust.stated_regions)
    learned = None if trust.learned_formula is None else tree_of(trust.learned_formula)
    return rows.trust(RowTrust(regions, learned), constant)


def _mask(rows: Rows, model: Mask) -> Answer:
    return rows.of_columns(model.columns).answer(model.model)


def _max_pool(rows: Rows, model: MaxPool) -> Answer:
    build, size = rows.build, [model.size, model.size]
    axis = build.constant([1], INT64)
    images = rows.x if rows.rank == 4 else build.op("Unsqueeze", rows.x, axis)
    pooled = build.op("MaxPool", images, kernel_shape=size, strides=size)
    pooled = pooled if rows.rank == 4 else build.op("Squeeze", pooled, axis)
    return Rows(build, pooled, rows.rank, rows.width).answer(model.model)


def _torch(rows: Rows, model: TorchModel) -> Answer:
    name = rows.build.fresh("expert")
    scores = network(rows.build, model.module, rows.x, name=name, rank=rows.rank)
    return _prior(rows.build, scores, soft=model.soft, gives=model.gives)


def _conformal(rows: Rows, model: ConformalRange) -> Answer:
    build, scorer, k = rows.build, rows.answer(model.scorer), len(model.thresholds)
    p = build.cast(scorer.rows, DOUBLE)
    if model.score == "lac":
        strange = 1.0 - p
    else:  # of equal probabilities the first is the likelier, here as in torch's stable sort
        count = build.constant([k], INT64)
        about = {"axis": 1, "largest": 1, "sorted": 1}
        ordered, order = build.ops("TopK", p, count, results=2, **about)
        sums = build.op("CumSum", ordered, build.constant(1, INT64))
        strange = build.op("ScatterElements", p, order, sums, axis=1)
    allowed = strange <= build.constant([model.thresholds], DOUBLE)
    best = build.op("ArgMax", scorer.rows, axis=1, keepdims=1)
    is_best = build.equal(best, build.constant([list(range(k))], INT64))
    return Answer(allowed | is_best | ~build.any(scorer.rows > 0.0), scorer.refused)


def _onnx(rows: Rows, model: OnnxModel) -> Answer:
    """The file's own graph, node by node, with new names."""
    build, onnx = rows.build, rows.build.onnx
    inner = onnx.load_from_string(model.content())
    if len(inner.functions):
        inner = onnx.inliner.inline_local_functions(inner)
    prefix = build.fresh("expert") + "/"
    graph = onnx.compose.add_prefix(_at_opset(build, inner, model), prefix).graph
    known = {tensor.name for tensor in graph.initializer}
    entry = next(value for value in graph.input if value.name not in known)
    seen = build.op("Cast", rows.x, to=entry.type.tensor_type.elem_type)
    build.nodes.append(onnx.helper.make_node("Identity", [seen.name], [entry.name]))
    build.nodes.extend(graph.node)
    build.initializers.extend(graph.initializer)
    output = model.output()
    if output.type == "tensor(int64)":
        return _labels(build, build.named(prefix + output.name, INT64), model.classes or 0)
    scores = build.cast(build.named(prefix + output.name, SINGLE), SINGLE)
    return _prior(build, scores, soft=model.soft, gives=model.gives)


def _at_opset(build: Builder, inner: Any, model: OnnxModel) -> Any:
    """The file with the operator set of the graph around it, brought up to it where it is older."""
    for entry in inner.opset_import:
        if entry.domain in ("", "ai.onnx"):
            if entry.version > OPSET:
                raise KnowledgeError(
                    f"'{model.path}' has operator set {entry.version}, the graph has {OPSET}: "
                    f"export it with opset {OPSET} or lower"
                )
            if entry.version < OPSET:
                inner = build.onnx.version_converter.convert_version(inner, OPSET)
        else:
            before = build.domains.setdefault(entry.domain, entry.version)
            if before != entry.version:
                raise KnowledgeError(
                    f"'{model.path}' has version {entry.version} of '{entry.domain}', another "
                    f"expert has {before}: export both alike"
                )
    return inner


def _prior(build: Builder, scores: Value, *, soft: bool, gives: str) -> Answer:
    """Scores (n, k) as float32 rows; what are no numbers, or no probabilities, is refused."""
    scores = build.cast(scores, SINGLE)
    top = build.op("ReduceMax", scores, axes=[1], keepdims=1)
    broken = build.any(build.isnan(scores)) | ~build.finite(top)
    if not soft:
        best = build.op("ArgMax", scores, axis=1, keepdims=0)
        depth = build.op("Shape", scores, start=1, end=2)
        return Answer(build.op("OneHot", best, depth, build.constant([0.0, 1.0]), axis=1), broken)
    if gives == "logits":
        return Answer(build.op("Softmax", scores, axis=1), broken)
    wrong = abs(build.total(scores) - 1.0) > 1e-4
    return Answer(scores, broken | wrong | build.any(scores < 0.0))


def _labels(build: Builder, labels: Value, classes: int) -> Answer:
    """Labels 0 to classes - 1, of any shape with one number per row, as one-hot rows."""
    column = build.op("Reshape", labels, build.constant([-1, 1], INT64))
    places = build.constant([list(range(classes))], INT64)
    rows = build.cast(build.equal(column, places), SINGLE)
    return Answer(rows, (column < 0) | (column >= classes))


#: The nodes of models that the kernel does not know.
GRAPHS: dict[type, Callable[[Rows, Any], Answer]] = {
    Mask: _mask,
    MaxPool: _max_pool,
    TorchModel: _torch,
    OnnxModel: _onnx,
    ConformalRange: _conformal,
}


def _of_number(catalog: dict[type, Any], model: Any) -> Callable[..., Any]:
    if type(model) not in catalog:
        raise KnowledgeError(
            f"a {type(model).__name__} of numbers cannot be put into a graph: use a table or a "
            "formula"
        )
    found: Callable[..., Any] = catalog[type(model)]
    return found


def _number_table(rows: Rows, model: NumberTable) -> Answer:
    table = model.table.kernel_source
    values = [model.sets[min(rule.outcome)][0][0] for rule in table.rules]
    return table_point(rows, table, values)


def _between(rows: Rows, model: Between) -> SetNodes:
    ends = [
        side if side is None or isinstance(side, float | int) else tree_of(side)
        for side in (model.lower, model.upper)
    ]
    return limit_set(rows, *ends)


def _band(rows: Rows, model: Band) -> SetNodes:
    return band_set(rows.o, rows.point(model.point), model.below, model.above)


def _conformal_band(rows: Rows, model: ConformalInterval) -> SetNodes:
    return band_set(rows.o, rows.point(model.scorer), model.radius, model.radius)


def _interval_table(rows: Rows, model: NumberTable) -> SetNodes:
    table = model.table.kernel_source
    return table_set(rows, table, [model.sets[min(rule.outcome)] for rule in table.rules])


_POINTS: dict[type, Callable[[Rows, Any], Answer]] = {
    FirstOf: lambda rows, model: NumberView.point(rows, FORMS[FirstOf](model)),
    Formula: lambda rows, model: formula_point(rows, model.tree),
    NumberTable: _number_table,
    Mask: lambda rows, model: rows.of_columns(model.columns).point(model.model),
}
_SETS: dict[type, Callable[[Rows, Any], SetNodes]] = {
    AllOf: lambda rows, model: NumberView.set(rows, FORMS[AllOf](model)),
    AnyOf: lambda rows, model: NumberView.set(rows, FORMS[AnyOf](model)),
    Between: _between,
    Band: _band,
    ConformalInterval: _conformal_band,
    NumberTable: _interval_table,
    Mask: lambda rows, model: rows.of_columns(model.columns).set(model.model),
}


def give_unapplied(rows: Rows, models: Iterable[Any]) -> list[GraphOutput]:
    """The output `unapplied`, (n, d) int64, where values may be missing; else none."""
    if not rows.width:
        return []
    counts = _count(rows, models)
    if counts is None:
        counts = _holes(rows) * 0.0
    return [GraphOutput("unapplied", rows.build.cast(counts, INT64), "INT64", (rows.width,))]


def _count(rows: Rows, models: Iterable[Any]) -> Value | None:
    """For each missing value how many rules and formulas it leaves open, (n, d) float32."""
    counts = [some for model in models if (some := _count_source(rows, model)) is not None]
    return reduce(operator.add, counts) if counts else None


def _count_source(rows: Rows, model: Any) -> Value | None:
    build = rows.build
    if isinstance(model, Mask):
        back = np.eye(rows.width)[list(model.columns)]  # each column of the view to its place
        inside = _count(rows.of_columns(model.columns), [model.model])
        return None if inside is None else build.op("MatMul", inside, build.constant(back))
    parts = parts_of(model)
    if parts is not None:
        return _count(rows, parts)
    table = getattr(model, "table", model)
    if not isinstance(table, Table):
        looks = np.zeros((1, rows.width))
        looks[0, list(list_columns(model, rows.width))] = 1.0
        return _holes(rows) * build.constant(looks)
    known = table.kernel_source
    asks = np.zeros((len(known.rules), rows.width))
    for place, rule in enumerate(known.rules):
        asks[place, list(rule.spans)] = 1.0
    may_hit = hit_rules(build, rows.x, known, perhaps=True)  # not for sure, where it asks a hole
    return build.op("MatMul", may_hit, build.constant(asks)) * _holes(rows)


def _holes(rows: Rows) -> Value:
    return rows.build.cast(rows.build.isnan(rows.x), SINGLE)
