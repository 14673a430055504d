"""Rules with dates: how they are written, what is refused, what lint finds, what is signed."""

from datetime import date

import pytest

from fedlore import Knowledge
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.kernel import dates
from fedlore.kernel.knowledge import read_knowledge
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge.findings.checkup import check_file
from fedlore.knowledge.signing import meaning_of, packed
from fedlore.knowledge.tables import read_rules
from fedlore.knowledge.timeline import texts_of

HEAD = """classes = ["III", "II", "I"]
label = "grade"
trust = 0.4
[[features]]
name = "ash"
low = 5
high = 16
"""
PREDICT = '[[predict.sources]]\ntable = "predict.csv"\n'
RANGE = '[[range.sources]]\ntable = "range.csv"\n'


def write(folder, *, predict="ash,then\n> 12,III\n", range="", toml=HEAD + PREDICT):
    (folder / "predict.csv").write_text(predict)
    (folder / "range.csv").write_text(range)
    (folder / "knowledge.toml").write_text(toml)
    return folder / "knowledge.toml"


def rows_on(path, day):
    """The rows of the sheet that speak on a day; none where nothing predicts."""
    said = Knowledge.read(path, as_of=day).prediction
    return [] if said is None else [rule.place.row for rule in said.rules]


def found(path, day="2025-01-15"):
    return [str(one) for one in check_file(path, as_of=day).findings]


def test_from_is_the_first_day_and_until_the_first_day_without_it(tmp_path):
    text = "ash,then,from,until\n> 12,III,2025-06-01,2025-07-01\n> 13,I,,\n"
    path = write(tmp_path, predict=text)
    days = ("2025-05-31", "2025-06-01", "2025-06-30", "2025-07-01")
    assert [rows_on(path, day) for day in days] == [[3], [2, 3], [2, 3], [3]]


@pytest.mark.parametrize("written", ["2025-06-01", '"2025-06-01"'])
def test_a_source_has_dates_as_toml_or_as_text(tmp_path, written):
    path = write(tmp_path, toml=f"{HEAD}{PREDICT}from = {written}\n")
    assert (rows_on(path, "2025-05-31"), rows_on(path, "2025-06-01")) == ([], [2])


def test_the_day_is_today_unless_somebody_names_one(tmp_path, monkeypatch):
    path = write(tmp_path, toml=f"{HEAD}{PREDICT}until = 2025-06-01\n")
    for day, there in ((date(2025, 5, 31), True), (date(2025, 6, 1), False)):
        monkeypatch.setattr(dates, "today", lambda day=day: day)
        assert (Knowledge.read(path).prediction is not None) == there


def test_a_file_without_dates_is_the_same_on_all_days(tmp_path):
    path = write(tmp_path)
    known = Knowledge.read(path, as_of="1999-01-01")
    assert known.timeline is None
    assert known == Knowledge.read(path)


def test_what_a_file_says_does_not_depend_on_the_day_it_is_read(tmp_path):
    text = "ash,then,until\n> 12,III,2025-06-01\n> 11,II,\n"
    path = write(tmp_path, predict=text)
    early, late = (Knowledge.read(path, as_of=day) for day in ("2025-01-01", "2026-01-01"))
    assert early.prediction != late.prediction
    assert early.fingerprint == late.fingerprint
    write(tmp_path, predict=text.replace("2025-06-01", "2025-06-02"))
    assert Knowledge.read(path, as_of="2025-01-01").fingerprint != early.fingerprint


def test_written_and_read_again_it_has_its_dates(tmp_path):
    toml = f"{HEAD}{PREDICT}{RANGE}from = 2024-01-01\n"
    path = write(tmp_path, toml=toml, range='ash,then,until\n> 9,"II, I",2026-01-01\n')
    (tmp_path / "again").mkdir()
    known = Knowledge.read(path, as_of="2025-01-01")
    known.write(tmp_path / "again/knowledge.toml")
    again = Knowledge.read(tmp_path / "again/knowledge.toml", as_of="2030-01-01")
    assert (again.fingerprint, again.range) == (known.fingerprint, None)
    assert again.timeline.run_out == {"range": date(2026, 1, 1)}


def test_a_signature_covers_the_dates(tmp_path):
    text = "ash,then,until\n> 12,III,2025-06-01\n> 11,II,\n"
    path = write(tmp_path, predict=text)
    meaning = meaning_of(path)
    write(tmp_path, predict=text.replace("2025-06-01", "2035-06-01"))
    assert meaning_of(path) != meaning
    write(tmp_path, predict=text, toml=f"{HEAD}{PREDICT}from = 2020-01-01\n")
    assert meaning_of(path) != meaning


def test_weights_of_an_average_stay_with_their_sources(tmp_path):
    toml = HEAD.replace("trust", "edges = [8.0, 12.0]\ntrust") + (
        '[predict]\ncombine = "average"\nweights = [1.0, 2.0, 3.0]\n'
        + '[[predict.sources]]\nformula = "ash"\nuntil = 2025-06-01\n'
        + '[[predict.sources]]\nformula = "ash + 1"\n[[predict.sources]]\nformula = "ash - 1"\n'
    )
    path = write(tmp_path, toml=toml)
    assert Knowledge.read(path, as_of="2025-01-01").prediction.weights == (1.0, 2.0, 3.0)
    assert Knowledge.read(path, as_of="2025-06-01").prediction.weights == (2.0, 3.0)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("1.6.2025", "row 2, column 'from': '1.6.2025' is not a date: write it as 2025-06-01"),
        ("2025-13-01", "'2025-13-01' is not a date"),
        ("20250601", "'20250601' is not a date"),
        ("2025-06-1", "'2025-06-1' is not a date"),
        ("٢٠٢٥-٠٦-٠١", "is not a date"),
    ],
)
def test_what_is_no_date_is_refused_at_its_cell(tmp_path, cell, words):
    path = write(tmp_path, predict=f"ash,then,from\n> 12,III,{cell}\n")
    with pytest.raises(KnowledgeError) as caught:
        Knowledge.read(path)
    assert words in str(caught.value)
    assert any(words in one for one in found(path))


@pytest.mark.parametrize("said", ["2025", '"June"', "2025-06-01T08:00:00", "true"])
def test_a_source_with_another_date_is_refused(tmp_path, said):
    path = write(tmp_path, toml=f"{HEAD}{PREDICT}from = {said}\n")
    with pytest.raises(
        FedloreError, match=r"predict.*from: .* is not a date: write it as 2025-06-01"
    ):
        Knowledge.read(path)


def test_nobody_takes_rules_with_dates_for_rules_of_all_days(tmp_path):
    path = write(tmp_path, predict="ash,then,from\n> 12,III,2025-06-01\n")
    with pytest.raises(KnowledgeError, match="holds on some days only"):
        read_rules(tmp_path / "predict.csv", Schema((Feature("ash"),), ("III", "II", "I")),
                   kind="predict")  # fmt: skip
    texts = texts_of(packed(path))
    with pytest.raises(KnowledgeError, match="holds on some days only"):
        read_knowledge(texts)
    texts["knowledge.toml"] += 'until = "2026-01-01"\n'  # of the last source
    with pytest.raises(KnowledgeError, match="until"):
        read_knowledge(texts)


def test_dates_inside_another_source_are_refused(tmp_path):
    inner = "[range.sources.conformal]\nlevel = 0.9\nscores = [0.1]\n[range.sources.conformal.{}]\n"
    toml = f'{HEAD}[[range.sources]]\n{inner.format("predict")}table = "predict.csv"\n'
    path = write(tmp_path, toml=toml + "from = 2025-01-01\n")
    with pytest.raises(FedloreError):
        Knowledge.read(path)


def test_a_column_called_from_may_be_a_feature(tmp_path):
    toml = HEAD.replace('"ash"', '"from"') + PREDICT
    path = write(tmp_path, predict="from,then\n> 12,III\n", toml=toml)
    assert Knowledge.read(path).timeline is None


def test_dates_and_shapes_do_not_go_together(tmp_path):
    shape = '[[shape.sources]]\nfeature = "ash"\neffect = "lowers"\n'
    path = write(tmp_path, toml=f"ordered = true\n{HEAD}{PREDICT}until = 2026-01-01\n{shape}")
    with pytest.raises(KnowledgeError, match=r"\[shape\] holds no dates"):
        Knowledge.read(path)


def test_too_many_dates_are_refused(tmp_path):
    days = [date.fromordinal(730_000 + day) for day in range(dates.MOST_DAYS + 1)]
    lines = "".join(f"> {5 + i / 100},III,{day}\n" for i, day in enumerate(days))
    path = write(tmp_path, predict=f"ash,then,from\n{lines}")
    with pytest.raises(KnowledgeError, match="1000 different dates, this one names 1001"):
        Knowledge.read(path).timeline.days  # noqa: B018


def test_what_was_changed_after_reading_is_not_written_with_the_old_dates(tmp_path):
    from dataclasses import replace

    path = write(tmp_path, predict="ash,then,until\n> 12,III,2025-06-01\n> 11,II,\n")
    known = Knowledge.read(path, as_of="2025-01-01")
    with pytest.raises(KnowledgeError, match="changed after it was read as of 2025-01-01"):
        replace(known, prediction=None).write(tmp_path / "other.toml")
    assert replace(known, trust=0.2).fingerprint != known.fingerprint


# lint


def test_lint_finds_gaps_ends_and_empty_ranges(tmp_path):
    text = """ash,then,from,until
> 12,III,,2025-02-01
> 11,II,2025-03-01,2025-06-01
> 10,II,2025-05-01,2025-05-01
"""
    told = found(write(tmp_path, predict=text), "2025-05-15")
    assert (
        "error: predict.csv, row 4: row 4 holds on no day: it begins on 2025-05-01, and 2025-05-01 "
        "is the first day without it; correct one of the two dates"
    ) in told
    assert any(
        one.startswith(
            "warning: predict.csv: from 2025-02-01 until 2025-03-01 no rule of the table is valid"
        )
        for one in told
    )
    assert any("no longer valid on 2025-05-15: row 2;" in one for one in told)
    assert any(
        one.startswith("warning: knowledge.toml: nothing of [predict] is valid from 2025-06-01 on")
        for one in told
    )


def test_an_end_far_away_is_a_remark(tmp_path):
    path = write(tmp_path, toml=f"{HEAD}{PREDICT}until = 2026-06-01\n")
    assert any(one.startswith("info: knowledge.toml: nothing of [predict]") for one in found(path))


def test_a_gap_between_sources_of_a_side(tmp_path):
    second = '[[predict.sources]]\ntable = "range.csv"\nfrom = 2025-06-01\n'
    toml = f"{HEAD}{PREDICT}until = 2025-05-01\n{second}"
    told = found(write(tmp_path, toml=toml, range="ash,then\n> 9,II\n"))
    words = "from 2025-05-01 until 2025-06-01 nothing of [predict] is valid"
    assert any(words in one for one in told)


def test_rules_that_contradict_each_other_on_a_stretch_only(tmp_path):
    text = "ash,then,from,until\n> 12,III,,2025-06-01\n> 12,I,2025-05-01,\n"
    toml = f'{HEAD}{PREDICT}hit = "unique"\n'
    told = found(write(tmp_path, predict=text, toml=toml))
    wrong = [one for one in told if one.startswith("error")]
    assert len(wrong) == 1
    assert "from 2025-05-01 until 2025-06-01: row 2 and row 3 say different things" in wrong[0]
    text = text.replace("2025-05-01", "2025-06-01")
    assert not [
        one for one in found(write(tmp_path, predict=text, toml=toml)) if one.startswith("error")
    ]


def test_what_is_so_on_all_days_is_said_once_and_without_days(tmp_path):
    text = "ash,then,until\n> 12,III,\n> 13,III,\n> 9,II,2025-06-01\n"
    told = [one for one in found(write(tmp_path, predict=text)) if "never applies" in one]
    assert len(told) == 1
    assert "from" not in told[0]
    assert "until" not in told[0]


def test_workbooks_may_hold_real_dates(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["ash", "then", "from"], ["> 12", "III", date(2025, 6, 1)], ["> 13", "I", None]):
        book.active.append(row)
    book.save(tmp_path / "rules.xlsx")
    path = write(tmp_path, toml=HEAD + PREDICT.replace("predict.csv", "rules.xlsx"))
    assert (rows_on(path, "2025-05-31"), rows_on(path, "2025-06-01")) == ([3], [2, 3])


def test_findings_stand_at_the_cells_that_the_expert_knows(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "rules of 2025"
    for row in (["ash", "then", "until"], ["> 12", "III", ""], ["> 13", "III", ""],
                ["> 9", "II", "2025-06-01"]):  # fmt: skip
        book.active.append(row)
    book.save(tmp_path / "my rules.xlsx")
    toml = HEAD + PREDICT.replace("predict.csv", "my rules.xlsx")
    places = {
        one.kind: (one.place.file, one.place.sheet, one.place.row)
        for one in check_file(write(tmp_path, toml=toml), as_of="2026-01-01").findings
    }
    assert places["unreachable"] == ("my rules.xlsx", "rules of 2025", 3)
    assert places["date-past"] == ("my rules.xlsx", "rules of 2025", None)
