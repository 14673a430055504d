"""A file of rows to a file of answers, in one pass and with the memory of one chunk."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import FedloreError
from ..contents import Bundle, Policies
from .answering import DECIDED, answer_rows
from .columns import tensor_of
from .reading import OnProgress, explain, read_chunks, stumbled, titles_of
from .reasons import reasons
from .writing import answer_columns, sink


@dataclass(frozen=True)
class Summary:
    """What was answered."""

    rows: int
    out_of_scope: int
    decided: dict[str, int]  # how many rows each of DECIDED decided
    passed_over: tuple[str, ...]  # columns of the file that are no features


def predict_file(
    bundle: Bundle,
    source: str | Path,
    out: str | Path | None,
    *,
    why: bool = False,
    policies: Policies | None = None,
    keep: Sequence[str] = (),
    on_progress: OnProgress | None = None,
    fast: bool = True,
) -> Summary:
    """Answer every row of a CSV or Parquet file; without `out` the answers go to stdout as CSV.

    With `why` there is a column of reasons. `keep` names columns to copy, such as a sample's
    number. `fast` uses pyarrow where it is installed.
    """
    path = Path(source)
    rules = policies or bundle.policies
    counts = np.zeros(len(DECIDED), dtype=np.int64)
    rows = beyond = 0
    chunks = read_chunks(path, bundle, rules, keep=keep, on_progress=on_progress, fast=fast)
    try:
        with sink(None if out is None else Path(out), fast=fast) as answers_go:
            for chunk in chunks:
                x = tensor_of(chunk.columns, bundle, rules.blanks, start=chunk.start)
                answers = answer_rows(bundle, x)
                said = reasons(bundle, x, answers) if why else None
                kept = list(zip(keep, chunk.kept, strict=True))
                answers_go.write(answer_columns(bundle, answers, why=said, kept=kept))
                rows += len(x)
                beyond += len(x) - int(answers.in_scope.sum())
                counts += np.bincount(answers.decided.numpy(), minlength=len(DECIDED))
    except FedloreError as error:
        if stumbled(error):
            explain(path, bundle, rules)
        raise FedloreError(
            str(error) if str(path) in str(error) else f"'{path}': {error}"
        ) from None
    names = {*bundle.schema.names, bundle.schema.label, *keep}
    others = tuple(t for t in titles_of(path) if t.partition("[")[0].strip() not in names)
    told = dict(zip(DECIDED, counts.tolist(), strict=True))
    return Summary(rows, beyond, told, others)
