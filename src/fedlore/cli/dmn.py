"""fedlore import: decision tables of a DMN file as knowledge; and the way back."""

from pathlib import Path
from typing import Annotated

import typer

from ..core.store import write_whole
from ..errors import FedloreError, KnowledgeError
from ..kernel.findings import errors
from ..knowledge.content import FILE
from ..knowledge.dmn import Imported, import_tables, read_dmn, write_dmn
from ..knowledge.dmn.convert import safe_folder
from ..knowledge.dmn.parse import LARGEST, DmnFile
from ..knowledge.files import write_knowledge
from ..knowledge.findings.checkup import check_file
from .screen import ExitCode, Screen, current_screen


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
