"""fedlore lint and fedlore calibrate: knowledge checked before it touches a training run."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ..data import read_measured, read_table
from ..errors import ConfigError, KnowledgeError
from ..knowledge import Knowledge
from ..knowledge.combine import AllOf
from ..knowledge.conformal import ConformalRange
from ..knowledge.either import Held, read_either
from ..knowledge.findings import Finding, errors
from ..knowledge.lint.checkup import Checkup
from ..knowledge.lint.numbers import audit_numbers
from ..knowledge.numbers import ConformalInterval, Join, Meet, Numbers
from ..knowledge.numbers.files import write_numbers
from ..knowledge.schema import Schema
from ..knowledge.tables.rulestats import rule_report
from .checking import check_with_rows
from .codes import ExitCode
from .screen import Grid
from .teller import Teller, teller

_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


_COLUMNS = ("table", "rule", "rows", "overlaps", "conflicts", "decides", "accuracy")


def lint(
    knowledge: Annotated[Path, typer.Argument(help="A knowledge.toml.")],
    data: Annotated[Path | None, typer.Option(help="Labelled rows, CSV or Parquet.")] = None,
) -> None:
    """Check a knowledge file: its tables, its formulas, and how they fit the data.

    Exit code 0: no errors; 1: findings of severity error; 2: the input cannot be used.
    """
    found, rows = check_with_rows(knowledge, data)
    rules: list[dict[str, object]] = []
    if rows is not None:
        rules = [
            {"table": t.name, **dict(row)} for t in found.tables for row in rule_report(t, rows)
        ]
    told = teller()
    _show(found, rules, told)
    audit = None if found.audit is None else asdict(found.audit)
    findings = [finding.as_row() for finding in found.findings]
    told.give({"findings": findings, "rules": rules, "audit": audit})
    raise typer.Exit(ExitCode.NO if errors(found.findings) else ExitCode.FINE)


def calibrate(
    knowledge: Annotated[Path, typer.Argument(help="A knowledge.toml with a soft predict table.")],
    data: Annotated[Path, typer.Option(help="Labelled rows the prediction has not seen.")],
    out: Annotated[Path, typer.Option(help="Where to write the new knowledge.toml.")],
    alpha: Annotated[float, typer.Option(help="How often the range may miss the label.")] = 0.05,
    per_class: Annotated[bool, typer.Option(help="Hold the level for each class.")] = False,
) -> None:
    """Add a statistical range, calibrated on data, to knowledge without rules for one."""
    held = read_either(knowledge)
    if held.knowledge.prediction is None:
        raise KnowledgeError(f"{knowledge.name}: calibration needs a [predict] to start from")
    if isinstance(held.knowledge, Knowledge):
        said = _calibrate_classes(held.knowledge, held.schema, data, out, alpha, per_class)
    else:
        if per_class:
            raise ConfigError("--per-class is for classes, this knowledge is about a number")
        said = _calibrate_number(held.knowledge, held, data, out, alpha)
    told = teller()
    told.say(f"{said} This range is statistical, not certain. Written to {out}")
    told.give({"said": said, "alpha": alpha, "out": out})


def _calibrate_classes(
    known: Knowledge, schema: Schema, data: Path, out: Path, alpha: float, per_class: bool
) -> str:
    assert known.prediction is not None
    rows = read_table(data, schema, label=schema.label)
    found = ConformalRange.calibrate(known.prediction, rows, alpha=alpha, per_class=per_class)
    together = found if known.range is None else AllOf((known.range, found), "first")
    # soft probabilities reach everywhere: what lies outside the range is cut off
    replace(known, range=together, conflict="restrict", outside="widen").write(out)
    audit = Knowledge(range=found).audit(rows)
    return (
        f"Calibrated on {found.rows} rows at level {1 - alpha:.0%}: on them the range allows "
        f"{audit.width:.1f} of {audit.classes} classes and misses {audit.outside} labels."
    )


def _calibrate_number(known: Numbers, held: Held, data: Path, out: Path, alpha: float) -> str:
    assert known.prediction is not None and held.bins is not None
    rows = read_measured(data, held.schema, label=held.schema.label)
    found = ConformalInterval.calibrate(known.prediction, rows, alpha=alpha)
    if isinstance(known.range, Join):
        raise KnowledgeError("a calibrated range cannot be added to alternatives (combine = any)")
    before = known.range.ranges if isinstance(known.range, Meet) else (known.range,)
    together = found if known.range is None else Meet((*(r for r in before if r), found))
    write_numbers(replace(known, range=together, outside="widen"), held.schema, held.bins, out)
    audit = audit_numbers(Numbers(range=found, empty="all"), rows, held.bins)
    return (
        f"Calibrated on {found.rows} rows at level {1 - alpha:.0%}: the interval reaches "
        f"{found.radius:.4g} to either side of the prediction and misses {audit.outside} of their "
        "labels."
    )


def _show(found: Checkup, rules: list[dict[str, object]], told: Teller) -> None:
    for finding in found.findings:
        _print(finding, told)
    if rules:
        grid = Grid(title="Rules on the data", title_justify="left")
        for name in _COLUMNS:
            grid.add_column(name, justify="left" if name in ("table", "rule") else "right")
        for row in rules:
            if row["rows"]:
                grid.add_row(*(_cell(row[name]) for name in _COLUMNS))
        told.show(grid)
        unused = sum(not row["rows"] for row in rules)
        if unused:
            told.say(f"{unused} of {len(rules)} rules never applied")
    if found.audit is not None:
        told.say(str(found.audit))
    if found.knowledge is not None:
        told.say(f"knowledge {found.fingerprint[:12]}")
    words = {"error": "error", "warning": "warning", "info": "remark"}
    counts = {word: sum(f.severity == s for f in found.findings) for s, word in words.items()}
    said = (f"{count} {word}{'' if count == 1 else 's'}" for word, count in counts.items())
    told.say(", ".join(said))


def _print(finding: Finding, told: Teller) -> None:
    place = f"{finding.place}: " if str(finding.place) else ""
    word = (finding.severity, _COLOURS[finding.severity])
    told.say(Text.assemble(word, f" {place}{finding.message}"))
    if finding.counterexample:
        row = ", ".join(f"{k} = {_cell(v)}" for k, v in finding.counterexample.items())
        told.say(f"      for example {row}")
    if finding.suggestion:
        told.say(f"      {finding.suggestion}")


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)
