"""Answers as columns of a file, written a chunk at a time: all of it appears, or none."""

import csv
import importlib
import io
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..core.conformal import CoveragePromise
from ..core.store import replacing
from ..errors import FedloreError
from ..models.answers import DECIDED, Answers
from ..models.doubt import Doubt
from .header import Bundle

_FAULT = "predict"  # the code of errors raised here


@dataclass(frozen=True)
class _Words:
    """A column of words: each row's place in a short list."""

    names: Sequence[str | None]
    place: NDArray[Any]  # (n,)

    def texts(self) -> list[str | None]:
        return [self.names[i] for i in self.place.tolist()]


@dataclass(frozen=True)
class Gaps:
    """A column with holes: for each row its place in a shorter column, -1 where it has none."""

    column: "AnswerColumn"
    where: NDArray[np.int64]  # (n,)

    @staticmethod
    def of(cells: Any, where: Sequence[int]) -> "Gaps":
        """Cells as they were read."""
        return Gaps(_as_column(cells), np.array(where))


AnswerColumn = NDArray[Any] | _Words | list[str] | Gaps


def answer_columns(
    bundle: Bundle,
    answers: Answers,
    *,
    why: Sequence[Sequence[str]] | None = None,
    kept: Sequence[tuple[str, Any]] = (),
    taken: Sequence[str] = (),
    holding: CoveragePromise | None = None,
    doubt: Doubt | None = None,
) -> dict[str, AnswerColumn]:
    """The columns of an answer file: kept ones, the answer, and what stands behind it."""
    columns: dict[str, AnswerColumn] = {name: _as_column(cells) for name, cells in kept}
    schema = bundle.schema
    answer = schema.label if schema.label not in {*columns, *taken} else f"predicted_{schema.label}"
    decided = _Words(DECIDED, answers.decided.numpy())
    rest: dict[str, AnswerColumn] = {
        "decided": decided,
        "trust": answers.trust.numpy(),
        "in_scope": answers.in_scope.numpy(),
    }
    if doubt is not None:
        rest |= {"noise": doubt.noise.numpy(), "ignorance": doubt.ignorance.numpy()}
        rest["far"] = (doubt.ignorance > doubt.noise).numpy()
    if why is not None:
        rest["why"] = ["; ".join(lines) for lines in why]
    if answers.low is not None and answers.high is not None:
        ends = {"low": answers.low.numpy(), "high": answers.high.numpy()}
        number = {answer: answers.predicted.numpy(), **ends, "expert": answers.expert.numpy()}
        if answers.interval is not None:
            first, last = (end.numpy() for end in answers.interval.unbind(1))
            number |= {"interval_low": first, "interval_high": last}
        if holding is not None:
            first, last = (end.numpy() for end in answers.hold(holding.cut).unbind(1))
            number |= {"held_low": first, "held_high": last}
        return {**columns, **number, **rest}
    columns[answer] = _Words(schema.classes, answers.predicted.numpy())
    chances = answers.probabilities.numpy().T.copy()  # (k, n), each class in one piece
    columns |= {f"p_{name}": chances[i] for i, name in enumerate(schema.classes)}
    columns["allowed"] = _sets(answers.allowed, schema.classes)
    if holding is not None:
        columns["held"] = _sets(answers.hold(holding.cut), schema.classes)
    columns["expert"] = _Words([*schema.classes, None], answers.expert.numpy())  # -1 is the last
    return {**columns, **rest}


def _as_column(cells: Any) -> AnswerColumn:
    column = np.asarray(cells)
    return column if column.dtype.kind in "fiub" else ["" if c is None else str(c) for c in cells]


def _sets(allowed: Tensor, classes: Sequence[str]) -> _Words:
    """Each row's set of classes as text, `II|III`; there are few different ones."""
    bits = np.packbits(allowed.numpy(), axis=1)  # (n, bytes)
    if bits.shape[1] <= 2:  # counted, not sorted
        wide = np.zeros((len(bits), 2), dtype=np.uint8)
        wide[:, : bits.shape[1]] = bits
        keys = wide.view(np.uint16).ravel()
        found = np.flatnonzero(np.bincount(keys, minlength=1 << 16)).astype(np.uint16)
        lookup = np.zeros(1 << 16, dtype=np.int64)
        lookup[found] = np.arange(len(found))
        return _Words(
            [_name_classes(r, classes) for r in found.view(np.uint8).reshape(-1, 2)], lookup[keys]
        )
    rows, place = np.unique(bits, axis=0, return_inverse=True)
    return _Words([_name_classes(row, classes) for row in rows], place.ravel())


def _name_classes(bits: NDArray[np.uint8], classes: Sequence[str]) -> str:
    chosen = np.unpackbits(bits)[: len(classes)]
    return "|".join(name for name, there in zip(classes, chosen, strict=False) if there)


class Sink:
    """Takes columns chunk after chunk; made by `sink`."""

    def __init__(self, stream: IO[bytes], parquet: bool, fast: bool) -> None:
        self._stream, self._parquet = stream, parquet
        self._arrow = _arrow() if fast or parquet else None
        if parquet and self._arrow is None:
            raise FedloreError("Parquet files need: pip install 'fedlore[parquet]'")
        self._writer: Any = None
        self._begun = False

    def write(self, columns: dict[str, AnswerColumn]) -> None:
        if self._arrow is None:
            self._plain(columns)
            return
        batch = self._arrow.record_batch(
            [_array(self._arrow, c) for c in columns.values()], names=list(columns)
        )
        if self._writer is None:
            self._writer = self._open(batch, columns)
        self._writer.write_batch(batch)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _open(self, batch: Any, columns: dict[str, AnswerColumn]) -> Any:
        if self._parquet:
            module: Any = importlib.import_module("pyarrow.parquet")
            words = [n for n, c in columns.items() if not _is_numbers(c)] + ["trust"]
            return module.ParquetWriter(self._stream, batch.schema, use_dictionary=words)
        self._stream.write(_line(columns))
        module = importlib.import_module("pyarrow.csv")
        free = all(not isinstance(c, list) and _harmless(c) for c in columns.values())
        style = "none" if free else "needed"  # quotes cost an eighth of the time
        options = module.WriteOptions(include_header=False, quoting_style=style, batch_size=8_192)
        return module.CSVWriter(self._stream, batch.schema, write_options=options)

    def _plain(self, columns: dict[str, AnswerColumn]) -> None:
        if not self._begun:
            self._stream.write(_line(columns))
            self._begun = True
        room = io.StringIO(newline="")
        writer = csv.writer(room, lineterminator="\n")
        writer.writerows(zip(*(_plain(column) for column in columns.values()), strict=True))
        self._stream.write(room.getvalue().encode())


@contextmanager
def sink(path: Path | None, *, fast: bool = True) -> Iterator[Sink]:
    """A place for answers: a file that appears when all is written, or stdout without a path."""
    if path is None:
        with tempfile.TemporaryFile() as whole:  # a fault halfway must not leave half an answer
            out = Sink(whole, False, fast)
            yield out
            out.close()
            whole.seek(0)
            shutil.copyfileobj(whole, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as stream:
            out = Sink(stream, path.suffix == ".parquet", fast)
            yield out
            out.close()
    except OSError as error:
        raise FedloreError(f"cannot write '{path}': {error.strerror or error}") from None


def _array(pa: Any, column: AnswerColumn) -> Any:
    if isinstance(column, Gaps):
        return _array(pa, column.column).take(pa.array(column.where, mask=column.where < 0))
    if isinstance(column, _Words):
        names = pa.array(column.names, type=pa.string())
        place = column.place % len(column.names) if None in column.names else column.place
        return names.take(pa.array(place))
    return pa.array(column)


def _plain(column: AnswerColumn) -> list[Any]:
    if isinstance(column, Gaps):
        some = _plain(column.column)
        return ["" if place < 0 else some[place] for place in column.where.tolist()]
    if isinstance(column, _Words):
        return column.texts()
    if isinstance(column, list):
        return column
    if column.dtype == np.bool_:
        return ["true" if cell else "false" for cell in column.tolist()]
    # the shortest text of a single-precision number is that of the number itself
    cells: list[Any] = (column.astype(str) if column.dtype == np.float32 else column).tolist()
    return cells


def _is_numbers(column: AnswerColumn) -> bool:
    return isinstance(column.column if isinstance(column, Gaps) else column, np.ndarray)


def _harmless(column: AnswerColumn) -> bool:
    """Whether the words need no quotes."""
    if isinstance(column, Gaps):
        return _harmless(column.column) and not isinstance(column.column, list)
    names = column.names if isinstance(column, _Words) else ()
    return not any(set(name or "") & set('",\r\n') for name in names)


def _line(columns: dict[str, AnswerColumn]) -> bytes:
    room = io.StringIO(newline="")
    csv.writer(room, lineterminator="\n").writerow(columns)
    return room.getvalue().encode()


def _arrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        return None
