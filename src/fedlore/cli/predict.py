"""fedlore predict: a bundle's answers for every row of a file."""

import csv
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, cast

import torch
import typer

from ..answers.measured import show_scores
from ..bundle import Policies, read_bundle, write_bundle
from ..bundle.files import OnError, Summary, predict_file
from ..bundle.predict import (
    ClassScore,
    bundle_reliability,
    read_holding,
    read_holdings_of,
    read_scored,
    score_bundle,
    score_classes,
    stored_holding,
)
from ..bundle.store import with_holdings
from ..config import build
from ..core.conformal import check_level
from ..core.metrics import ReliabilityBin
from ..data.rows import FileForm
from ..errors import FedloreError
from ..look.tables import TextTable
from ..models.classifier import TaskName
from .options import (
    AsOfOption,
    DecimalOption,
    EncodingOption,
    PluginOption,
    SeparatorOption,
    SheetOption,
    say_dates,
)
from .progress import Gauge
from .screen import ExitCode, Screen, current_screen


def predict_command(
    bundle: Annotated[Path, typer.Argument(help="A .lore file, or the folder of a bundle.")],
    file: Annotated[Path, typer.Argument(help="Rows: CSV (also .gz), XLSX, Parquet or JSON.")],
    out: Annotated[
        str, typer.Option(help="Output: a .csv or .parquet file, or - for stdout.")
    ] = "-",
    why: Annotated[bool, typer.Option("--why", help="Add a column of reasons; slower.")] = False,
    score: Annotated[
        bool, typer.Option("--score", help="Score the answers against the labels in the file.")
    ] = False,
    calibrate: Annotated[
        Path | None, typer.Option(help="Labelled rows no model has seen: adds a guarantee.")
    ] = None,
    doubt: Annotated[
        bool, typer.Option("--doubt", help="Add noise, ignorance, and whether a row is far.")
    ] = False,
    level: Annotated[float, typer.Option(help="Of the guarantee: a share of rows.")] = 0.9,
    store: Annotated[
        Path | None, typer.Option(help="With --calibrate: write the bundle with its guarantees.")
    ] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="A column to copy to the answers; repeatable.")
    ] = None,
    on_error: Annotated[
        str, typer.Option(help="For rows without an answer: stop, skip or mark.")
    ] = "mark",
    extra: Annotated[str | None, typer.Option(help="Unknown columns: ignore or error.")] = None,
    as_of: AsOfOption = None,
    sheet: SheetOption = None,
    separator: SeparatorOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    plugins: PluginOption = None,
    threads: Annotated[int, typer.Option(min=1, help="Torch threads.")] = 1,
) -> None:
    """Predict each row: class, probabilities, allowed classes, expert's answer, who decided."""
    torch.set_num_threads(threads)
    found = read_bundle(bundle, plugins=plugins or (), as_of=as_of)
    screen = current_screen()
    say_dates(found, screen)
    policies = build(Policies, {"extra": extra or found.policies.extra})
    form = FileForm(separator, decimal, encoding, sheet)
    check_level(level)
    if store is not None and calibrate is None:
        raise FedloreError("--store stores what --calibrate finds: give both")
    if calibrate is None:
        holding = stored_holding(found, level)
    else:
        holding = read_holding(found, calibrate, level, form=form)
    if store is not None and calibrate is not None:
        kept = read_holdings_of(found, calibrate, form=form)
        others = [one for one in found.holdings if one.whose != "kept"]
        write_bundle(with_holdings(found, (*kept, *others)), store)
        screen.aside(f"{store} promises {', '.join(f'{one.level:g}' for one in kept) or 'nothing'}")

    def answer(place: Path | None) -> Summary:
        with Gauge(screen, "percent") as gauge:
            return predict_file(
                found,
                file,
                place,
                why=why,
                policies=policies,
                keep=keep or (),
                on_error=cast(OnError, on_error),
                form=form,
                on_progress=lambda share: gauge.step(file.name, round(100 * share), 100),
                holding=holding,
                doubt=doubt,
            )

    summary, answers = _answer(answer, out, screen)
    _tell(summary, file.name, out, screen)
    if holding is not None:
        screen.aside(holding.sentence())
    scores: dict[str, float] = {}
    diagram: list[ReliabilityBin] = []
    if score:
        rows = read_scored(found, file, form=form)
        for said in rows.remarks(found):
            screen.aside(said)
        scores = score_bundle(found, rows)
        _score(scores, score_classes(found, rows), screen)
        diagram = bundle_reliability(found, rows)
        _draw_reliability(diagram, found.task, screen)
    screen.give(
        {"summary": summary, "scores": scores, "out": out, "answers": answers, "holding": holding}
        | {"reliability": diagram}
    )
    raise typer.Exit(ExitCode.NO if summary.wrong else ExitCode.FINE)


def _answer(
    answer: Callable[[Path | None], Summary], out: str, screen: Screen
) -> tuple[Summary, list[dict[str, str]] | None]:
    """The answers to a file or to stdout; in a document they are rows as the CSV has them."""
    if out != "-":
        return answer(Path(out)), None
    if not screen.as_json:
        return answer(None), None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "answers.csv"
        summary = answer(place)
        with open(place, encoding="utf-8", newline="") as file:
            return summary, list(csv.DictReader(file))


def _score(scores: dict[str, float], classes: Sequence[ClassScore], screen: Screen) -> None:
    rows = list(show_scores(scores).items())
    screen.aside(TextTable.of("Scores on the labels", ("score", "value"), rows), result=True)
    each = [
        (one.name, str(one.rows), *("–" if v is None else f"{v:.4f}" for v in parts))
        for one in classes
        for parts in [(one.precision, one.recall)]
    ]
    if each:
        head = ("class", "rows", "precision", "recall")
        screen.aside(TextTable.of("Class by class", head, each), result=True)


def _draw_reliability(diagram: Sequence[ReliabilityBin], task: TaskName, screen: Screen) -> None:
    """How sure the answers were against how often they were right."""
    if not diagram:
        return
    rows = []
    for part in diagram:
        # a bar to what came true, and a mark where it should have ended
        bar = list(f"{'#' * round(30 * part.right):31}")
        bar[round(30 * part.confidence)] = "|"
        cells = f"{part.confidence:.3f}", f"{part.right:.3f}", str(part.rows)
        rows.append((*cells, "".join(bar).rstrip()))
    title, head = "How sure, and how often right", ("said", "right", "rows", "")
    if task == "regression":
        title, head = "Intervals: promised, and held", ("promised", "held", "rows", "")
    screen.aside(TextTable.of(title, head, rows, words=(3,)), result=True)


def _tell(summary: Summary, file: str, out: str, screen: Screen) -> None:
    say = screen.aside
    if summary.said:
        say(f"{file}: {summary.said}")
    who = {"both": "model and expert together"}
    said = summary.decided.items()
    parts = [f"{count} by {who.get(name, f'the {name}')}" for name, count in said if count]
    say(f"{summary.rows} rows decided: {', '.join(parts)}")
    if summary.out_of_scope:
        say(f"{summary.out_of_scope} rows lie outside the declared scope (in_scope = false)")
    if summary.passed_over:
        more = ", ..." if len(summary.passed_over) > 5 else ""
        say(f"columns ignored: {', '.join(summary.passed_over[:5])}{more}")
    if summary.wrong:
        say(f"{summary.wrong} rows could not be answered, the first: {summary.first}")
    if out != "-":
        say(f"written to {out}")
