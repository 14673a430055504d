"""A file of rows to a file of answers, in one pass and with the memory of one chunk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypedDict, get_args

import numpy as np
from torch import Tensor

from ..checker.forms import Policies
from ..core.conformal import CoveragePromise
from ..data.rows import FileForm, OnProgress, RowChunk, open_file, read_chunks, read_unhurried
from ..data.rows.cells import passed_over
from ..errors import ConfigError, FedloreError
from ..models.answers import DECIDED, Answers
from ..models.doubt import Doubt
from .explain import answer_with_reasons, moved_by
from .header import Bundle
from .predict import answer_rows, doubt_rows
from .write import AnswerColumn, Sink, answer_columns, sink

_FAULT = "predict"  # the code of errors raised here


OnError = Literal["stop", "skip", "mark"]


class _Extras(TypedDict):
    """Columns that were asked for."""

    holding: CoveragePromise | None
    doubt: Doubt | None


@dataclass(frozen=True)
class Summary:
    """What was answered."""

    rows: int
    out_of_scope: int
    decided: dict[str, int]  # how many rows each of DECIDED decided
    passed_over: tuple[str, ...]  # columns of the file that are no features
    said: str = ""  # how the file was taken to be written, where that is not as usual
    wrong: int = 0  # rows that could not be answered
    first: str = ""  # the first of them, and why


def predict_file(
    bundle: Bundle,
    source: str | Path,
    out: str | Path | None,
    *,
    why: bool = False,
    policies: Policies | None = None,
    keep: Sequence[str] = (),
    on_error: OnError = "stop",
    on_progress: OnProgress | None = None,
    form: FileForm | None = None,
    fast: bool = True,
    holding: CoveragePromise | None = None,
    doubt: bool = False,
) -> Summary:
    """Answer every row of a file of any kind; without `out` the answers go to stdout as CSV.

    With `why` there is a column of reasons. `keep` names columns to copy, such as a sample's
    number. A row that cannot be answered stops it all, is skipped, or is marked in a column
    `error`, which only a file with such rows gets. `form` says how the file is written where that
    is not to be found out. `fast` uses pyarrow where it is installed. With `holding` there are
    columns of sets or intervals that hold, with `doubt` of noise, ignorance and what is far.
    """
    if on_error not in get_args(OnError):
        raise ConfigError(f"on_error must be stop, skip or mark, got '{on_error}'")
    bundle = bundle if policies is None else replace(bundle, policies=policies)

    def extras(x: Tensor) -> _Extras:
        return {"holding": holding, "doubt": doubt_rows(bundle, x) if doubt else None}

    def answer(quick: bool, lenient: bool = False) -> Summary:
        rows = open_file(Path(source), form=form, fast=quick)
        tally = _Tally()
        chunks = read_chunks(
            rows,
            bundle.schema,
            keep=keep,
            extra=bundle.policies.extra,
            mark=lenient,
            on_progress=on_progress,
        )
        with sink(None if out is None else Path(out), fast=fast) as answers_go:
            for chunk in chunks:
                if lenient:
                    _answer_marked(bundle, chunk, answers_go, tally, why, keep, on_error, extras)
                else:
                    answers, said = _answer(bundle, chunk.x, why)
                    kept = list(zip(keep, chunk.kept, strict=True))
                    more = extras(chunk.x)
                    answers_go.write(answer_columns(bundle, answers, why=said, kept=kept, **more))
                    tally.add(answers)
        who = dict(zip(DECIDED, tally.counts.tolist(), strict=True))
        others = passed_over(rows.titles, bundle.schema, keep)
        return Summary(
            sum(who.values()), tally.beyond, who, others, rows.said, tally.wrong, tally.first
        )

    if on_error == "stop":
        return read_unhurried(answer, fast=fast)
    try:
        return answer(fast)
    except FedloreError:  # a row is wrong, and is looked at again; if more is, that is said then
        return answer(False, lenient=True)


class _Tally:
    """What was answered so far."""

    def __init__(self) -> None:
        self.counts = np.zeros(len(DECIDED), dtype=np.int64)
        self.beyond = self.wrong = 0
        self.first = ""

    def add(self, answers: Answers) -> None:
        self.beyond += len(answers) - int(answers.in_scope.sum())
        self.counts += np.bincount(answers.decided.numpy(), minlength=len(DECIDED))


def _answer(bundle: Bundle, x: Tensor, why: bool) -> tuple[Answers, list[list[str]] | None]:
    if not why:
        return answer_rows(bundle, x), None
    answers, said = answer_with_reasons(bundle, x)
    both = zip(said, moved_by(bundle, x, answers), strict=True)
    return answers, [[one.text for one in (*some, *more)] for some, more in both]


def _answer_marked(
    bundle: Bundle,
    chunk: RowChunk,
    answers_go: Sink,
    tally: _Tally,
    why: bool,
    keep: Sequence[str],
    on_error: OnError,
    extras: Callable[[Tensor], _Extras],
) -> None:
    """The answers of a chunk, and what is wrong with its other rows."""
    wrong = dict(chunk.wrong)
    lines = [line for line in chunk.lines if line not in wrong]
    faults = find_refused(bundle, chunk.x)
    wrong |= {lines[i]: text for i, text in faults.items()}
    good = [i for i in range(len(lines)) if i not in faults]
    x = chunk.x[good]
    answers, said = _answer(bundle, x, why)
    tally.add(answers)
    tally.wrong += len(wrong)
    if wrong and not tally.first:
        tally.first = f"row {min(wrong)}: {wrong[min(wrong)]}"
    answered = [lines[i] for i in good]
    every = answered if on_error == "skip" else sorted({*chunk.lines, *wrong})
    if not every:
        return
    read = {line: i for i, line in enumerate(chunk.lines)}
    columns: dict[str, AnswerColumn] = {
        name: AnswerColumn.of(cells).at([read.get(line, -1) for line in every])
        for name, cells in zip(keep, chunk.kept, strict=True)
    }
    place = {line: i for i, line in enumerate(answered)}
    where = [place.get(line, -1) for line in every]
    found = answer_columns(bundle, answers, why=said, taken=keep, **extras(x))
    columns |= {name: column.at(where) for name, column in found.items()}
    if on_error == "mark":
        columns["error"] = AnswerColumn.texts(wrong.get(line, "") for line in every)
    answers_go.write(columns)


def find_refused(bundle: Bundle, x: Tensor, start: int = 0) -> dict[int, str]:
    """The rows that the knowledge refuses, found by halving, and why."""
    if not len(x):
        return {}
    try:
        answer_rows(bundle, x)
        return {}
    except FedloreError as error:
        if len(x) == 1:
            return {start: str(error)}
    half = len(x) // 2
    return find_refused(bundle, x[:half], start) | find_refused(bundle, x[half:], start + half)
