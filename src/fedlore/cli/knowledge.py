"""fedlore draft, calibrate and import: knowledge from rows, with a range from data, from DMN."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from ..core.store import write_whole
from ..data import read_measured, read_table
from ..data.draft import draft_knowledge, read_cells
from ..data.rows import FileForm
from ..errors import ConfigError, FedloreError, KnowledgeError
from ..kernel.findings import errors
from ..kernel.schema import Schema
from ..knowledge import Knowledge
from ..knowledge.audit import audit_numbers
from ..knowledge.combine import AllOf, AnyOf
from ..knowledge.conformal import ConformalInterval, ConformalRange
from ..knowledge.content import FILE
from ..knowledge.dmn import Imported, import_tables, read_dmn, write_dmn
from ..knowledge.dmn.convert import safe_folder
from ..knowledge.dmn.parse import LARGEST, DmnFile
from ..knowledge.files import write_knowledge
from ..knowledge.findings.checkup import check_file
from ..knowledge.signing import find_signature
from ..knowledge.soft import lone_expert
from .options import DecimalOption, EncodingOption, SeparatorOption, SheetOption
from .screen import ExitCode, Screen, current_screen


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


def draft_command(
    rows: Annotated[Path, typer.Argument(help="Rows: CSV, XLSX, Parquet or JSON.")],
    label: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path | None, typer.Option(help="File to write; else it is printed.")] = None,
    sheet: SheetOption = None,
    separator: SeparatorOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
) -> None:
    """Write a knowledge.toml with the columns, levels, units and scope of a table."""
    table = read_cells(rows, form=FileForm(separator, decimal, encoding, sheet))
    found = draft_knowledge(table, label, name=rows.name)
    screen = current_screen()
    if out is not None:
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            write_whole(out, found.text)
        except OSError as error:
            raise FedloreError(f"cannot write '{out}': {error.strerror}") from None
    if screen.as_json:
        screen.give({"out": out, **asdict(found)})
    elif out is None:
        print(found.text, end="")
    else:
        what = f"{len(found.classes)} classes" if found.classes else "a number"
        screen.say(f"{found.features} features, {what}, written to {out}")
        for name, why in found.left_out.items():
            screen.say(f"'{name}' is left out: {why}")
        screen.remark(f"Next: fedlore lint {out} --data {rows}")


def import_command(
    file: Annotated[Path, typer.Argument(help="A DMN file, 1.1 to 1.5.")],
    folder: Annotated[Path, typer.Argument(help="Folder for the knowledge: new or empty.")],
) -> None:
    """Import the decision tables of a DMN file, and list what cannot be translated.

    A single table fills the folder itself; several get a folder each. Exit code 0: every
    table was read and lint finds no error; 1: not so, see the list; 2: the file cannot be read.
    """
    screen, found = current_screen(), _read(file)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FedloreError(f"'{folder}' is not empty: name a new folder")
    tables = import_tables(found)
    good = [one for one in tables if not one.fault]
    taken: list[str] = []
    wrong = len(tables) - len(good)
    shown = []
    for one in tables:
        place = None
        if not one.fault:
            name = "" if len(good) == 1 else safe_folder(one.name, taken)
            taken.append(name)
            place = folder / name / FILE
            wrong += _write(one, place, screen)
        else:
            screen.say(f"{one.name}: has no counterpart: {one.fault}")
        shown.append({"name": one.name, "file": place, "fault": one.fault, "remarks": one.remarks})
    for words in found.others:
        screen.say(f"skipped: {words}")
    if not tables:
        raise KnowledgeError(f"{file.name} holds no decision table")
    screen.give({"version": found.version, "tables": shown, "others": found.others})
    raise typer.Exit(ExitCode.NO if wrong else ExitCode.FINE)


def _read(file: Path) -> DmnFile:
    try:
        with open(file, "rb") as stream:
            data = stream.read(LARGEST + 1)
    except OSError as error:
        raise FedloreError(f"cannot read '{file}': {error.strerror}") from None
    return read_dmn(data, file.name)


def _write(one: Imported, place: Path, screen: Screen) -> bool:
    """Write a table as knowledge; whether lint finds errors in it."""
    findings = check_file(one.members).findings
    write_knowledge(one.members, place)
    rules = f"{one.rules} rule{'' if one.rules == 1 else 's'}"
    screen.say(f"{one.name}: {rules}, written to {place}")
    for words in one.remarks:
        screen.say(f"      {words}")
    wrong = errors(findings)
    if wrong:
        many = f"{len(wrong)} error{'s' if len(wrong) > 1 else ''}"
        screen.say(f"      lint finds {many}, first {wrong[0].place}: {wrong[0].message}")
    return bool(wrong)


def export_tables(source: Path, out: Path, as_of: str | None) -> None:
    """The tables of a knowledge file, or of a bundle, as a DMN file."""
    data, remarks = write_dmn(source, as_of=as_of)
    write_whole(out, data)
    screen = current_screen()
    screen.say(f"tables written to {out}, DMN 1.3")
    for words in remarks:
        screen.say(f"      not written: {words}")
    screen.give({"dmn": out, "left_out": remarks})
