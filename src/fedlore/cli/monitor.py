"""fedlore monitor: whether rules, range, expert and inputs still are what they were."""

from pathlib import Path
from typing import Annotated

import typer

from ..bundle import read_bundle
from ..bundle.monitor import MeasuredRows, lock_record, monitor_rows
from ..bundle.monitor.report import (
    list_judgements,
    report_metrics,
    report_values,
    say_alarms,
    write_monitor_page,
)
from ..bundle.predict import list_beyond, read_labelled
from ..core.store import write_whole
from ..data.rows import FileForm, read_column
from .options import (
    DecimalOption,
    EncodingOption,
    PluginOption,
    SeparatorOption,
    SheetOption,
)
from .screen import ExitCode, current_screen


def monitor_command(
    bundle: Annotated[Path, typer.Argument(help="A .lore file, or the folder of a bundle.")],
    measured: Annotated[Path, typer.Argument(help="New rows with their labels.")],
    record: Annotated[
        Path | None, typer.Option(help="The record so far; BUNDLE.monitor by default.")
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="Labelled rows of the past: the record starts from them.")
    ] = None,
    day: Annotated[str | None, typer.Option(help="The column with the date of a row.")] = None,
    lot: Annotated[
        str | None,
        typer.Option(help="The column of the lot, or day, within which rows may be alike."),
    ] = None,
    alarm: Annotated[
        float, typer.Option(help="Chance of a false alarm, over all claims and all time.")
    ] = 0.05,
    page: Annotated[Path | None, typer.Option(help="Write a page over time to this file.")] = None,
    metrics: Annotated[
        Path | None, typer.Option(help="Write metrics for Prometheus to this file.")
    ] = None,
    sheet: SheetOption = None,
    separator: SeparatorOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    plugins: PluginOption = None,
) -> None:
    """Check on measured rows whether a bundle's rules, range and inputs still hold.

    A file may be given again when it has grown: rows with a day that were seen are passed over,
    without days a file that begins with all that was seen. Exit code 0: no alarm; 1: at least one
    claim is no longer believed; 2: something cannot be read.
    """
    form = FileForm(separator, decimal, encoding, sheet)
    found = read_bundle(bundle, plugins=plugins or ())

    def read(path: Path, day: str | None) -> MeasuredRows:
        days, lots = (None if c is None else read_column(path, c, form=form) for c in (day, lot))
        return MeasuredRows(*read_labelled(found, path, form=form), days or (), lots)

    rows = read(measured, day)
    # rows of before have days where rules have dates: they are held against those of their day
    before_day = None if found.timeline is None else day
    before = None if reference is None else read(reference, before_day)
    place = record or bundle.with_name(f"{bundle.name.removesuffix('.lore')}.monitor")
    with lock_record(place, found, reference=before, in_lots=lot is not None, alarm=alarm) as kept:
        report = monitor_rows(kept, found, rows)
    if page is not None:
        write_monitor_page(report, found.client, page)
    if metrics is not None:
        write_whole(metrics, report_metrics(report, found.client))
    out = current_screen()
    for said in list_beyond(found, rows.y, measured.name):
        out.remark(said)
    out.say(f"{report.new} new rows, {report.rows} in {place}")
    out.show(list_judgements(report, most=8))
    for line in say_alarms(report):
        out.say(line)
    out.give(report_values(report) | {"record": place})
    raise typer.Exit(ExitCode.NO if report.alarms else ExitCode.FINE)
