"""Answers as columns of a file, written a chunk at a time: all of it appears, or none."""

import csv
import importlib
import io
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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
class AnswerColumn:
    """A column of an answer file: numbers, texts, or each row's place in a short list of words."""

    cells: NDArray[Any]  # (n,) numbers, or objects that are texts
    words: Sequence[str | None] | None = None  # of a last one that is None the place may be -1
    where: NDArray[np.int64] | None = None  # (n,) of each row its cell, -1 where it has none

    @staticmethod
    def of(cells: Any) -> "AnswerColumn":
        """Cells as they were read, or as a model gave them."""
        found = np.asarray(cells)
        if found.dtype.kind in "fiub":
            return AnswerColumn(found)
        return AnswerColumn.texts("" if cell is None else str(cell) for cell in cells)

    @staticmethod
    def texts(cells: Iterable[str]) -> "AnswerColumn":
        return AnswerColumn(np.array([*cells], dtype=object))

    def at(self, where: Sequence[int] | NDArray[np.int64]) -> "AnswerColumn":
        """The cell of each row by its place here; nothing where that is -1."""
        return replace(self, where=np.asarray(where))

    @property
    def numbers(self) -> bool:
        return self.cells.dtype != object and self.words is None

    @property
    def harmless(self) -> bool:
        """Whether no cell needs quotes."""
        if self.words is None:
            return self.numbers
        return not any(set(word or "") & set('",\r\n') for word in self.words)

    def arrow(self, pa: Any) -> Any:
        """The column as pyarrow has it."""
        cells = self.cells
        if self.words is not None:
            places = cells % len(self.words) if None in self.words else cells
            found = pa.array(self.words, type=pa.string()).take(pa.array(places))
        else:
            found = pa.array(cells)
        if self.where is None:
            return found
        return found.take(pa.array(self.where, mask=self.where < 0))

    def plain(self) -> list[Any]:
        """The cells for a writer of CSV."""
        # the shortest text of a single-precision number is that of the number itself
        single = self.cells.dtype == np.float32
        cells: list[Any] = (self.cells.astype(str) if single else self.cells).tolist()
        if self.words is not None:
            cells = [self.words[place] for place in cells]
        elif self.cells.dtype == np.bool_:
            cells = ["true" if cell else "false" for cell in cells]
        if self.where is None:
            return cells
        return ["" if place < 0 else cells[place] for place in self.where.tolist()]


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
    columns: dict[str, Any] = dict(kept)
    schema, classes = bundle.schema, bundle.schema.classes
    answer = schema.label if schema.label not in {*columns, *taken} else f"predicted_{schema.label}"
    held = None if holding is None else answers.hold(holding.cut)
    if answers.interval is not None:
        columns |= {answer: answers.predicted, "low": answers.low, "high": answers.high}
        columns["expert"] = answers.expert
        columns["interval_low"], columns["interval_high"] = answers.interval.unbind(1)
        if held is not None:
            columns["held_low"], columns["held_high"] = held.unbind(1)
    else:
        columns[answer] = AnswerColumn(answers.predicted.numpy(), classes)
        chances = answers.probabilities.T.contiguous()  # (k, n), each class in one piece
        columns |= {f"p_{name}": chances[i] for i, name in enumerate(classes)}
        columns["allowed"] = _sets(answers.allowed, classes)
        if held is not None:
            columns["held"] = _sets(held, classes)
        columns["expert"] = AnswerColumn(answers.expert.numpy(), [*classes, None])
    columns["decided"] = AnswerColumn(answers.decided.numpy(), DECIDED)
    columns |= {"trust": answers.trust, "in_scope": answers.in_scope}
    if doubt is not None:
        columns |= {"noise": doubt.noise, "ignorance": doubt.ignorance}
        columns["far"] = doubt.ignorance > doubt.noise
    if why is not None:
        columns["why"] = AnswerColumn.texts("; ".join(lines) for lines in why)
    return {
        name: cells if isinstance(cells, AnswerColumn) else AnswerColumn.of(cells)
        for name, cells in columns.items()
    }


def _sets(allowed: Tensor, classes: Sequence[str]) -> AnswerColumn:
    """Each row's set of classes as text, `II|III`; there are few different ones."""
    bits = np.packbits(allowed.numpy(), axis=1)  # (n, bytes)
    wide = -bits.shape[1] % 2  # two bytes at a time are numbers, which are found faster
    keys = np.pad(bits, ((0, 0), (0, wide))).view(np.uint16)
    one = keys.ravel() if keys.shape[1] == 1 else keys
    found, place = np.unique(one, axis=0, return_inverse=True)
    rows = found.reshape(-1, keys.shape[1]).view(np.uint8)
    return AnswerColumn(place.ravel(), [_name_classes(row, classes) for row in rows])


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
            [column.arrow(self._arrow) for column in columns.values()], names=list(columns)
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
            words = [n for n, c in columns.items() if not c.numbers] + ["trust"]
            return module.ParquetWriter(self._stream, batch.schema, use_dictionary=words)
        self._stream.write(_line(columns))
        module = importlib.import_module("pyarrow.csv")
        free = all(column.harmless for column in columns.values())
        style = "none" if free else "needed"  # quotes cost an eighth of the time
        options = module.WriteOptions(include_header=False, quoting_style=style, batch_size=8_192)
        return module.CSVWriter(self._stream, batch.schema, write_options=options)

    def _plain(self, columns: dict[str, AnswerColumn]) -> None:
        if not self._begun:
            self._stream.write(_line(columns))
            self._begun = True
        room = io.StringIO(newline="")
        writer = csv.writer(room, lineterminator="\n")
        writer.writerows(zip(*(column.plain() for column in columns.values()), strict=True))
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


def _line(columns: dict[str, AnswerColumn]) -> bytes:
    room = io.StringIO(newline="")
    csv.writer(room, lineterminator="\n").writerow(columns)
    return room.getvalue().encode()


def _arrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        return None
