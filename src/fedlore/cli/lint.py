"""fedlore lint, and the same check before a command works with a knowledge file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from ..answers import Measured
from ..core.examples import Examples
from ..errors import ConfigError, KnowledgeError
from ..kernel.findings import Finding, errors
from ..knowledge.audit import report_rules
from ..knowledge.content import Where
from ..knowledge.findings.checkup import Checkup, check_data, check_file
from ..knowledge.findings.data import Evidence, check_measure, lint_coverage
from ..look.tables import TextTable
from .options import AsOfOption
from .screen import ExitCode, Screen, current_screen

if TYPE_CHECKING:  # who checks a table does not wait for it
    from ..bundle import Bundle

AcceptOption = Annotated[
    bool, typer.Option("--accept-conflicts", help="Continue despite lint errors.")
]


def refuse_errors(findings: Iterable[Finding], name: str, screen: Screen, *, accept: bool) -> None:
    """Stop where lint finds errors, such as a prediction outside the range, unless one insists."""
    wrong = errors(findings)
    if not wrong:
        return
    many = f"{len(wrong)} error{'s' if len(wrong) > 1 else ''}"
    if accept:
        screen.remark(f"{name} has {many}, which {'are' if len(wrong) > 1 else 'is'} accepted")
        return
    raise KnowledgeError(
        f"{name} has {many} and is not used, first {wrong[0]} (fedlore lint shows all of them, "
        "--accept-conflicts continues anyway)"
    )


def refuse_conflicts(where: Where, name: str, screen: Screen, *, accept: bool) -> None:
    """The same for a knowledge file as it lies there."""
    refuse_errors(check_file(where).findings, name, screen, accept=accept)


def refuse_bundle(
    bundle: Bundle, screen: Screen, *, accept: bool, ensemble: Path | None = None
) -> None:
    """The same for the knowledge in a bundle; a draft is refused where signed rules are wanted.

    That says the bundle itself, or the site.toml in the folder `beside`.
    """
    from ..bundle.knowledge import knowledge_members
    from ..bundle.store import refuse_draft

    if ensemble is not None and (ensemble / "site.toml").is_file():
        from ..federation.site.folder import read_kit

        file = read_kit(ensemble).file
        refuse_draft(bundle, file.signers if file.signed else (), needed=file.signed)
    refuse_draft(bundle)
    name = f"the knowledge of '{bundle.client}'"
    refuse_conflicts(knowledge_members(bundle.members), name, screen, accept=accept)


def check_with_rows(
    knowledge: Path, data: Path | None, as_of: str | None = None, monitored: Path | None = None
) -> tuple[Checkup, Examples | Measured | None]:
    """What was found, and the labelled rows of classes that it was found on."""
    found = check_file(knowledge, as_of=as_of)
    schema = None if found.knowledge is None else found.knowledge.schema
    rows: Examples | Measured | None = None
    if data is not None and schema is not None:
        from ..data import read_measured, read_table
        from ..data.rows.table import read_both

        for feature in (f for f in schema.features if f.own is not None):
            both = read_both(data, feature)
            if both is not None:
                more = check_measure(feature, *both, data.name)
                found = replace(found, findings=[*found.findings, *more])
        read = read_table if found.bins is None else read_measured
        rows = read(data, schema, label=schema.label)
        found = check_data(found, rows, data.name)
    seen = Evidence(found.examples, None if rows is None else rows.x)
    if monitored is not None:
        from ..bundle.monitor.record import read_record

        kept = read_record(monitored)
        judged = {name: sum(v == v for v in values) for name, values in kept.values.items()}
        seen = replace(seen, monitored=judged, monitored_rows=len(kept.rows))
    found = replace(found, findings=[*found.findings, *lint_coverage(found.knowledge, seen)])
    return found, rows


_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}
_COLUMNS = ("table", "rule", "rows", "overlaps", "conflicts", "decides", "accuracy")


def lint(
    knowledge: Annotated[Path, typer.Argument(help="A knowledge.toml.")],
    data: Annotated[Path | None, typer.Option(help="Labelled rows, CSV or Parquet.")] = None,
    monitored: Annotated[
        Path | None, typer.Option(help="A record of fedlore monitor: rows that rules applied to.")
    ] = None,
    as_of: AsOfOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Write what is valid on the day of --as-of to this file.")
    ] = None,
) -> None:
    """Check a knowledge file: its tables, its formulas, and how they fit the data.

    Exit code 0: no errors; 1: findings of severity error; 2: the input cannot be used.
    """
    if out is not None and as_of is None:
        raise ConfigError("--out writes the knowledge of one day: say which with --as-of")
    found, rows = check_with_rows(knowledge, data, as_of, monitored)
    rules = [] if rows is None else report_rules(found.tables, rows)
    screen = current_screen()
    _show(found, rules, screen)
    if out is not None and found.knowledge is not None:
        replace(found.knowledge, timeline=None).write(out)
        screen.say(f"the knowledge of {as_of} is written to {out}")
    audit = None if found.audit is None else asdict(found.audit)
    findings = [finding.as_row() for finding in found.findings]
    screen.give({"findings": findings, "rules": rules, "audit": audit})
    raise typer.Exit(ExitCode.NO if errors(found.findings) else ExitCode.FINE)


def _show(found: Checkup, rules: list[dict[str, object]], screen: Screen) -> None:
    for finding in found.findings:
        _print(finding, screen)
    if rules:
        soft = any("confidence" in row for row in rules)
        columns = (*_COLUMNS, "confidence") if soft else _COLUMNS
        body = [[_cell(row.get(name)) for name in columns] for row in rules if row["rows"]]
        screen.show(TextTable.of("Rules on the data", columns, body, words=(0, 1)))
    if found.audit is not None:
        screen.say(str(found.audit))
    if found.knowledge is not None:
        screen.say(f"knowledge {found.fingerprint[:12]}")
        if found.knowledge.timeline is not None:
            screen.say(found.knowledge.timeline.sentence)
    words = {"error": "error", "warning": "warning", "info": "remark"}
    counts = {word: sum(f.severity == s for f in found.findings) for s, word in words.items()}
    said = (f"{count} {word}{'' if count == 1 else 's'}" for word, count in counts.items())
    screen.say(", ".join(said))


def _print(finding: Finding, screen: Screen) -> None:
    place = f"{finding.place}: " if str(finding.place) else ""
    word = (finding.severity, _COLOURS[finding.severity])
    screen.say(Text.assemble(word, f" {place}{finding.message}"))
    if finding.counterexample:
        row = ", ".join(f"{k} = {_cell(v)}" for k, v in finding.counterexample.items())
        screen.say(f"      for example {row}")
    if finding.suggestion:
        screen.say(f"      {finding.suggestion}")


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)
