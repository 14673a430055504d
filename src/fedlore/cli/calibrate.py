"""fedlore calibrate: a range from data, for knowledge without rules for one."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ..data import read_measured, read_table
from ..errors import ConfigError, KnowledgeError
from ..kernel.schema import Schema
from ..knowledge import Knowledge
from ..knowledge.audit import audit_numbers
from ..knowledge.combine import AllOf, AnyOf
from ..knowledge.conformal import ConformalInterval, ConformalRange
from ..knowledge.signing import find_signature
from ..knowledge.soft import lone_expert
from .screen import current_screen


def calibrate(
    knowledge: Annotated[Path, typer.Argument(help="A knowledge.toml with a soft predict table.")],
    data: Annotated[Path, typer.Option(help="Labelled rows the prediction has not seen.")],
    out: Annotated[Path, typer.Option(help="Where to write the new knowledge.toml.")],
    alpha: Annotated[float, typer.Option(help="How often the range may miss the label.")] = 0.05,
    per_class: Annotated[bool, typer.Option(help="Keep the level within each class.")] = False,
) -> None:
    """Add a statistical range, calibrated on data, to knowledge without rules for one."""
    known = Knowledge.read(knowledge)
    if lone_expert(known.prediction) is None:
        raise KnowledgeError(f"{knowledge.name}: calibration needs a [predict] to start from")
    if known.line is None:
        said = _calibrate_classes(known, known.require_schema(), data, out, alpha, per_class)
    else:
        if per_class:
            raise ConfigError("--per-class is for classes, this knowledge is about a number")
        said = _calibrate_number(known, known.require_schema(), data, out, alpha)
    screen = current_screen()
    screen.say(f"{said} This range is statistical, not certain. Written to {out}")
    if find_signature(knowledge) is not None:
        screen.say(f"{out.name} is a draft: the calibrated range is not part of what was signed")
    screen.give({"said": said, "alpha": alpha, "out": out})


def _calibrate_classes(
    known: Knowledge, schema: Schema, data: Path, out: Path, alpha: float, per_class: bool
) -> str:
    rows = read_table(data, schema, label=schema.label)
    expert = lone_expert(known.prediction)  # as he is read again inside the range that is made
    assert expert is not None
    found = ConformalRange.calibrate(expert, rows, alpha=alpha, per_class=per_class)
    together = found if known.range is None else AllOf((known.range, found), "first")
    # soft probabilities reach everywhere: what lies outside the range is cut off
    made = replace(known, range=together, conflict="restrict", outside="widen")
    made.write(out)
    audit, before = made.audit(rows), replace(known, prediction=None, outside="widen").audit(rows)
    return (
        f"Calibrated on {found.rows} rows at level {1 - alpha:.0%}: on them the range allows "
        f"{audit.width:.1f} of {audit.classes} classes and misses {audit.outside} labels."
        + _beyond(before.outside)
    )


def _calibrate_number(known: Knowledge, schema: Schema, data: Path, out: Path, alpha: float) -> str:
    assert known.prediction is not None and known.bins is not None
    rows = read_measured(data, schema, label=schema.label)
    found = ConformalInterval.calibrate(known.prediction, rows, alpha=alpha)
    if isinstance(known.range, AnyOf):
        raise KnowledgeError("a calibrated range cannot be added to alternatives (combine = any)")
    before = known.range.parts if isinstance(known.range, AllOf) else (known.range,)
    together = found if known.range is None else AllOf((*(r for r in before if r), found))
    made = replace(known, range=together, outside="widen")
    made.write(out)
    audit = audit_numbers(replace(made, empty="all"), rows, known.bins)
    alone = replace(known, prediction=None, outside="widen", empty="all")
    return (
        f"Calibrated on {found.rows} rows at level {1 - alpha:.0%}: the interval reaches "
        f"{found.radius:.4g} to either side of the prediction, and the range then misses "
        f"{audit.outside} of their labels."
        + _beyond(audit_numbers(alone, rows, known.bins).outside)
    )


def _beyond(outside: int) -> str:
    """What no calibration mends: labels that the range missed before."""
    if not outside:
        return ""
    return f" The existing range alone misses {outside}, so the level does not hold for all rows."
