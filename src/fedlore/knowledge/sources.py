"""Sources of knowledge as they stand in a file, and the models they become."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..config import build
from ..errors import KnowledgeError
from .conformal import ConformalRange, Score
from .entrypoint import EntryPoint, entry_point
from .formulas.formula import Formula
from .formulas.grading import FormulaRange, GradedFormula, SoftFormula
from .learned import Gives
from .onnxmodel import OnnxModel
from .schema import Schema
from .tables.rulesheets import read_table
from .tables.table import Policy, Table
from .views import Mask, MaxPool

Side = Literal["predict", "range"]

#: The keys that say what a source is, and which side may use it.
SORTS: dict[str, tuple[Side, ...]] = {
    "table": ("predict", "range"),
    "formula": ("predict",),
    "lower": ("range",),
    "upper": ("range",),
    "onnx": ("predict",),
    "entry": ("predict", "range"),
    "conformal": ("range",),
}


@dataclass(frozen=True)
class Conformal:
    """A calibrated statistical range, as it stands in a file."""

    alpha: float
    scorer: dict[str, Any]  # a source of soft predictions
    score: Score = "lac"
    thresholds: tuple[float, ...] = ()  # one per class; written by `fedlore calibrate`
    rows: int = 0


@dataclass(frozen=True)
class Source:
    """One entry of [[predict.sources]] or [[range.sources]]."""

    table: str | None = None  # a CSV or XLSX file
    sheet: str | None = None
    hit: Policy | None = None
    outcome: str | None = None  # the name of the outcome column
    formula: str | None = None
    edges: tuple[float, ...] = ()  # cut numbers into classes
    spread: float | None = None  # makes a formula soft: the standard deviation of its error
    lower: str | None = None
    upper: str | None = None
    crossed: Literal["error", "all"] = "error"
    onnx: str | None = None
    soft: bool = False
    gives: Gives = "probabilities"
    entry: str | None = None  # package.module:function
    columns: tuple[str, ...] = ()  # what an ONNX file or a function sees; all by default
    pool: int | None = None  # or p×p max-pooled images
    conformal: Conformal | None = None

    @property
    def sort(self) -> str:
        """Which of the sorts this is; a range may have a lower and an upper formula."""
        named = [key for key in SORTS if getattr(self, key) is not None]
        if named not in ([key] for key in SORTS) and named != ["lower", "upper"]:
            found = " and ".join(named) or "none"
            raise KnowledgeError(f"a source has one of {', '.join(SORTS)}; this one has {found}")
        return named[0]


@dataclass(frozen=True)
class Setting:
    """What a source needs to know of the file around it."""

    folder: Path
    schema: Schema
    edges: tuple[float, ...] = ()
    entry_points: bool = False


def model_of(source: Source, side: Side, setting: Setting) -> Any:
    """The knowledge model that a source stands for."""
    if side not in SORTS[source.sort]:
        raise KnowledgeError(f"'{source.sort}' is no source of a {side}")
    schema = setting.schema
    edges = source.edges or setting.edges
    if source.table is not None:
        return read_table(
            setting.folder / source.table,
            schema,
            kind=side,
            policy=source.hit,
            outcome=source.outcome,
            sheet=source.sheet,
        )
    if source.formula is not None:
        formula = Formula.parse(source.formula, schema)
        if source.spread is not None:
            return SoftFormula(formula, edges, source.spread)
        return GradedFormula(formula, edges)
    if source.lower is not None or source.upper is not None:
        lower = None if source.lower is None else Formula.parse(source.lower, schema)
        upper = None if source.upper is None else Formula.parse(source.upper, schema)
        return FormulaRange(lower, upper, edges, source.crossed)
    if source.onnx is not None:
        path = setting.folder / source.onnx
        model: Any = OnnxModel(path, source.soft, source.gives, len(schema.classes))
        return _viewed(model, source, schema)
    if source.entry is not None:
        return _viewed(entry_point(source.entry, allow=setting.entry_points), source, schema)
    assert source.conformal is not None  # the last sort
    return _conformal(source.conformal, setting)


def source_of(model: Any, schema: Schema) -> dict[str, Any]:
    """A model as an entry of a file, with the keys of `Source`.

    Tables and ONNX files stand for themselves here; whoever writes the file gives them names.
    """
    if isinstance(model, Mask) and not isinstance(model.model, Mask):
        return source_of(model.model, schema) | {
            "columns": [schema.names[column] for column in model.columns]
        }
    if isinstance(model, MaxPool):
        return source_of(model.model, schema) | {"pool": model.size}
    if isinstance(model, Table):
        return {"table": model, "hit": model.policy}
    if isinstance(model, SoftFormula) and isinstance(model.formula, Formula):
        return {"formula": model.formula.text, "edges": model.edges, "spread": model.spread}
    if isinstance(model, GradedFormula) and isinstance(model.formula, Formula):
        return {"formula": model.formula.text, "edges": model.edges}
    if isinstance(model, FormulaRange):
        sides = {"lower": model.lower, "upper": model.upper}
        if all(side is None or isinstance(side, Formula) for side in sides.values()):
            texts = {key: side.text for key, side in sides.items() if isinstance(side, Formula)}
            return {**texts, "edges": model.edges, "crossed": model.crossed}
    if isinstance(model, OnnxModel):
        return {"onnx": model, "soft": model.soft, "gives": model.gives}
    if isinstance(model, EntryPoint):
        return {"entry": model.target}
    if isinstance(model, ConformalRange):
        inner = {
            "alpha": model.alpha,
            "score": model.score,
            "rows": model.rows,
            "thresholds": list(model.thresholds),
            "scorer": source_of(model.scorer, schema),
        }
        return {"conformal": inner}
    raise KnowledgeError(
        f"a {type(model).__name__} cannot be written to a file: use a table, a formula, an ONNX "
        "file or an entry point"
    )


def _viewed(model: Any, source: Source, schema: Schema) -> Any:
    if source.columns:
        model = Mask(tuple(schema.column(name) for name in source.columns), model)
    return model if source.pool is None else MaxPool(source.pool, model)


def _conformal(found: Conformal, setting: Setting) -> ConformalRange:
    scorer = model_of(read_source(found.scorer), "predict", setting)
    if len(found.thresholds) != len(setting.schema.classes):
        raise KnowledgeError(
            f"a conformal range needs {len(setting.schema.classes)} thresholds, got "
            f"{len(found.thresholds)}: write them with fedlore calibrate"
        )
    return ConformalRange(scorer, found.thresholds, found.alpha, found.score, found.rows)


def read_source(values: Mapping[str, Any], where: str = "source") -> Source:
    """A table of a TOML file as a source; unknown keys are refused with the near miss."""
    return build(Source, values, where)
