"""fedlore lint: knowledge checked before it touches a training run."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ..core.examples import Examples
from ..kernel.findings import Finding, errors
from ..knowledge.lint.checkup import Checkup
from ..knowledge.tables.rulestats import rule_report
from ..knowledge.tables.soft import SoftTable
from ..knowledge.tables.table import Table
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
        rules = [row for table in found.tables for row in _report(table, rows)]
    told = teller()
    _show(found, rules, told)
    audit = None if found.audit is None else asdict(found.audit)
    findings = [finding.as_row() for finding in found.findings]
    told.give({"findings": findings, "rules": rules, "audit": audit})
    raise typer.Exit(ExitCode.NO if errors(found.findings) else ExitCode.FINE)


def _report(table: Table | SoftTable, rows: Examples) -> list[dict[str, object]]:
    """How each rule does on the data, and how often it says that it holds."""
    hard = table.table if isinstance(table, SoftTable) else table
    found: list[dict[str, object]] = [
        {"table": hard.name, **row} for row in rule_report(hard, rows)
    ]
    if isinstance(table, SoftTable):
        shares = zip(found, table.confidences, strict=True)
        return [row | {"confidence": share} for row, share in shares]
    return found


def _show(found: Checkup, rules: list[dict[str, object]], told: Teller) -> None:
    for finding in found.findings:
        _print(finding, told)
    if rules:
        grid = Grid(title="Rules on the data", title_justify="left")
        soft = any("confidence" in row for row in rules)
        columns = (*_COLUMNS, "confidence") if soft else _COLUMNS
        for name in columns:
            grid.add_column(name, justify="left" if name in ("table", "rule") else "right")
        for row in rules:
            if row["rows"]:
                grid.add_row(*(_cell(row.get(name)) for name in columns))
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
