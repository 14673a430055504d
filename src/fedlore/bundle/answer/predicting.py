"""A file of rows to a file of answers, in one pass and with the memory of one chunk."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...data.rows import FileForm, OnProgress, open_file, read_chunks, read_unhurried
from ...data.rows.titles import passed_over
from ..contents import Bundle, Policies
from .answering import DECIDED, answer_rows
from .columns import HINT, filling
from .reasons import reasons
from .writing import answer_columns, sink


@dataclass(frozen=True)
class Summary:
    """What was answered."""

    rows: int
    out_of_scope: int
    decided: dict[str, int]  # how many rows each of DECIDED decided
    passed_over: tuple[str, ...]  # columns of the file that are no features
    said: str = ""  # how the file was taken to be written, where that is not as usual


def predict_file(
    bundle: Bundle,
    source: str | Path,
    out: str | Path | None,
    *,
    why: bool = False,
    policies: Policies | None = None,
    keep: Sequence[str] = (),
    on_progress: OnProgress | None = None,
    form: FileForm | None = None,
    fast: bool = True,
) -> Summary:
    """Answer every row of a file of any kind; without `out` the answers go to stdout as CSV.

    With `why` there is a column of reasons. `keep` names columns to copy, such as a sample's
    number. `form` says how the file is written where that is not to be found out. `fast` uses
    pyarrow where it is installed.
    """
    rules = policies or bundle.policies

    def answer(quick: bool) -> Summary:
        rows = open_file(Path(source), form=form, fast=quick)
        counts = np.zeros(len(DECIDED), dtype=np.int64)
        beyond = 0
        chunks = read_chunks(
            rows,
            bundle.schema,
            keep=keep,
            extra=rules.extra,
            fill=filling(bundle, rules.blanks),
            hint=HINT,
            on_progress=on_progress,
        )
        with sink(None if out is None else Path(out), fast=fast) as answers_go:
            for chunk in chunks:
                answers = answer_rows(bundle, chunk.x)
                said = reasons(bundle, chunk.x, answers) if why else None
                kept = list(zip(keep, chunk.kept, strict=True))
                answers_go.write(answer_columns(bundle, answers, why=said, kept=kept))
                beyond += len(chunk.x) - int(answers.in_scope.sum())
                counts += np.bincount(answers.decided.numpy(), minlength=len(DECIDED))
        told = dict(zip(DECIDED, counts.tolist(), strict=True))
        others = passed_over(rows.titles, bundle.schema, keep)
        return Summary(int(counts.sum()), beyond, told, others, rows.said)

    return read_unhurried(answer, fast=fast)
