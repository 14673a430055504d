"""What every kind of knowledge source must do, shown on a knowledge file that uses it."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor

from ..answers import Sets
from ..kernel.findings import errors
from ..knowledge import Knowledge
from ..knowledge.content import FILE, Where, files_at, toml_in
from ..knowledge.files import describe, pack_knowledge
from ..knowledge.findings.checkup import check_file
from ..knowledge.sources.catalog import SOURCE_KINDS, leaves, plain, plugin_named
from ..knowledge.sources.kind import Asked, SourceKind
from ..knowledge.sources.reasons import reasons_of
from .clients import check_laws, expect


def check_source(kind: SourceKind, files: Mapping[str, bytes], rows: Tensor) -> None:
    """Every law for a kind of source of one's own.

    `files` are a knowledge.toml that uses it, about classes or about a number, and the files
    beside it; `rows` (n, d) lie in its scope. The package must be installed, as for any user.
    """
    check_laws(SOURCE_LAWS, (kind, files, rows))


def its_key_leads_to_it(kind: SourceKind, files: Mapping[str, bytes], rows: Tensor) -> None:
    """The key of a file is that of the entry point, and one of the entry's own."""
    expect(kind.name in kind.keys, f"'{kind.name}' is not a key of {kind.entry.__name__}")
    found = SOURCE_KINDS.get(kind.name) or plugin_named(kind.name)
    expect(found is kind, f"'{kind.name}' in a file leads to {found!r:.80}: is it installed?")
    expect(kind.asked and set(kind.asked) <= set(get_args(Asked)), f"asked is {kind.asked}")


def the_example_uses_it(kind: SourceKind, files: Mapping[str, bytes], rows: Tensor) -> None:
    """Or the other laws would say nothing."""
    found = {type(leaf) for leaf in leaves(*(one for one, _ in _read(files).sides))}
    expect(found & set(kind.models), f"the file is read as {found}, none of {kind.models}")


def answers_have_the_shape_of_what_is_asked(
    kind: SourceKind, files: Mapping[str, bytes], rows: Tensor
) -> None:
    """(n, k) that sum to 1 or 0, (n, k) booleans with no empty row, (n,) numbers, or sets."""
    known, before = _read(files), rows.clone()
    for model, asked in known.sides:
        for x in (rows, rows[:1], rows.float()):
            _check_answer(model(x), asked, len(x), known.classes)
    expect(torch.equal(rows, before), "the rows were changed")


def a_row_is_answered_by_itself(kind: SourceKind, files: Mapping[str, bytes], rows: Tensor) -> None:
    """The answer does not depend on the rows beside it."""
    for model, _ in _read(files).sides:
        whole = model(rows)
        for i in range(len(rows)):
            for part, alone in zip(_tensors(whole), _tensors(model(rows[i : i + 1])), strict=True):
                mine = part[i][: alone.shape[1]] if part.ndim == 2 else part[i]
                same = torch.allclose(
                    mine.double(), alone[0].double(), rtol=1e-5, atol=1e-6, equal_nan=True
                )
                expect(same, f"row {i} is answered {alone[0].tolist()} alone, {mine.tolist()} here")


def it_is_read_as_it_was_written(
    kind: SourceKind, files: Mapping[str, bytes], rows: Tensor
) -> None:
    """Written and read again it says the same, and answers the same."""
    one = _read(files)
    two = _read(pack_knowledge(one.said))
    expect(plain(one.said) == plain(two.said), "written and read again it says something else")
    for (a, _), (b, _) in zip(one.sides, two.sides, strict=True):
        for p, q in zip(_tensors(a(rows)), _tensors(b(rows)), strict=True):
            expect(torch.equal(p.nan_to_num(), q.nan_to_num()), "read again it answers otherwise")


def it_is_read_from_a_folder_as_from_a_bundle(
    kind: SourceKind, files: Mapping[str, bytes], rows: Tensor
) -> None:
    """Its files are read through the setting, wherever they lie."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        there = plain(_read(Path(folder) / FILE).said)
    expect(there == plain(_read(dict(files)).said), "a folder says something else than bytes")


def words_are_a_list_for_each_row(
    kind: SourceKind, files: Mapping[str, bytes], rows: Tensor
) -> None:
    """What is said to people about n rows is n lists of lines."""
    for model, asked in _read(files).sides:
        said = reasons_of(model, rows, asked)
        expect(len(said) == len(rows), f"{len(rows)} rows have {len(said)} lists of words")
        lines = [line for some in said for line in some]
        expect(all(map(str, lines)), f"no words: {lines[:3]}")


def lint_has_no_complaint(kind: SourceKind, files: Mapping[str, bytes], rows: Tensor) -> None:
    """The file can be examined, and what is found is no error."""
    if "target" in toml_in(*files_at(files)):
        return  # numbers have no lint
    bad = errors(check_file(files).findings)
    expect(not bad, f"lint finds: {bad[0].message if bad else ''}")


SOURCE_LAWS = (
    its_key_leads_to_it,
    the_example_uses_it,
    answers_have_the_shape_of_what_is_asked,
    a_row_is_answered_by_itself,
    it_is_read_as_it_was_written,
    it_is_read_from_a_folder_as_from_a_bundle,
    words_are_a_list_for_each_row,
    lint_has_no_complaint,
)


@dataclass(frozen=True)
class _Known:
    """Knowledge about classes or about a number, as far as the laws look at it."""

    sides: list[tuple[Any, Asked]]  # what predicts and what limits, where there is one
    said: dict[str, Any]
    classes: int


def _read(where: Where) -> _Known:
    known = Knowledge.read(where)
    said, allowed = known.answers.asked
    sides: list[tuple[Any, Asked]] = [(known.prediction, said), (known.range, allowed)]
    classes = len(known.require_schema().classes)
    return _Known([s for s in sides if s[0] is not None], describe(known), classes)


def _check_answer(answer: Any, asked: Asked, n: int, classes: int) -> None:
    if asked == "set":
        expect(isinstance(answer, Sets), f"a set of numbers is a Sets, got {type(answer)}")
        expect(len(answer.lower) == n, f"{n} rows have {len(answer.lower)} sets")
        return
    wanted = (n,) if asked == "number" else (n, classes)
    found = tuple(answer.shape)
    expect(found == wanted, f"a {asked} of {n} rows has the shape {found}, not {wanted}")
    if asked == "number":
        expect(answer.is_floating_point(), f"a number is a float, got {answer.dtype}")
    elif asked == "range":
        expect(answer.dtype == torch.bool, f"a range is of booleans, got {answer.dtype}")
        expect(bool(answer.any(1).all()), "a range leaves nothing in some row")
    else:
        total = answer.double().sum(1)
        either = ((total - 1).abs() < 1e-5) | (total == 0)
        expect(bool((answer >= 0).all() and either.all()), "a row sums neither to 1 nor to 0")


def _tensors(answer: Any) -> list[Tensor]:
    return [answer.lower, answer.upper] if isinstance(answer, Sets) else [answer]
