"""The studio, Knowledge, predict --why and the certificate's checker never differ about a row."""

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import Client, Knowledge, Personal
from fedlore.bundle import answer_rows, bundle_of, read_bundle, reasons
from fedlore.bundle.explain import explain
from fedlore.bundle.serve.answer import write_answers
from fedlore.checker.bundles import knowledge_texts
from fedlore.core.examples import Examples
from fedlore.core.nets import mlp
from fedlore.data import read_table
from fedlore.errors import KnowledgeError
from fedlore.experiments.approaches import PKM
from fedlore.experiments.classes import predict_expert, score_approach
from fedlore.kernel.answers import said_of
from fedlore.kernel.knowledge import read_knowledge
from fedlore.knowledge.files import describe, pack_knowledge
from fedlore.knowledge.tables.sheets import csv_bytes
from fedlore.studio.answers import answer_draft
from fedlore.studio.checks import judge
from fedlore.studio.data import report_data
from fedlore.studio.grids import read_grids
from fedlore.studio.maps import draw_map
from fedlore.studio.verdict import judge_row

from ..golden.frozen import write_files
from ..golden.rows import matrix_of, rows_of
from ..golden.surface import bundle as make_bundle
from ..golden.surface import command
from ..golden.test_golden import CASES
from .sites import FILES

CLASSES = ["III", "II", "I"]
_CUTS = ["6", "8", "9.5", "12", "14"]
_SIGN = st.sampled_from([">", "<", ">=", "<="])
_ASH = st.one_of(
    st.just(""),
    st.builds("{} {}".format, _SIGN, st.sampled_from(_CUTS)),
    st.sampled_from(["[6..8)", "(8..12]", "in < 6, 9.5", "not 12"]),
)
_SEAM = st.sampled_from(["", "A", "not A", "in B, C"])
_WORD = st.sampled_from(CLASSES)
_SET = st.sampled_from(["III..II", "II..I", "I", "all", "not II"])


@st.composite
def tables(draw):
    """A site's files: a table of each side under some hit policies."""
    predict = draw(st.lists(st.tuples(_ASH, _SEAM, _WORD), min_size=1, max_size=3))
    limits = draw(st.lists(st.tuples(_ASH, _SEAM, _SET), min_size=1, max_size=3))
    hits = draw(st.sampled_from(["first", "unique"])), draw(st.sampled_from(["intersect", "union"]))
    conflict = draw(st.sampled_from(["abstain", "restrict", "error"]))
    text = f"""classes = {CLASSES}\nlabel = "grade"\ntrust = 0.4\nconflict = "{conflict}"
[[features]]\nname = "ash"\nlow = 5\nhigh = 16
[[features]]\nname = "seam"\nlevels = ["A", "B", "C"]
[[predict.sources]]\ntable = "predict.csv"\nhit = "{hits[0]}"
[[range.sources]]\ntable = "range.csv"\nhit = "{hits[1]}"\n"""
    head = ("ash", "seam", "then")
    return {
        "knowledge.toml": text.encode(),
        "predict.csv": csv_bytes([head, *predict]),
        "range.csv": csv_bytes([head, *limits]),
    }


_VALUES = [float(cut) for cut in _CUTS] + [5.5, 7.0, 10.0, 13.0]
_ROWS = st.lists(st.tuples(st.sampled_from(_VALUES), st.integers(0, 2)), min_size=1, max_size=3)


@given(tables(), _ROWS)
def test_the_studio_says_what_knowledge_says(files, rows):
    checkup, known = judge(files), Knowledge.read(files)
    x = torch.tensor([[ash, float(seam)] for ash, seam in rows])
    refused = answer_draft(checkup, x).refused.tolist()
    checker = read_knowledge(knowledge_texts(pack_knowledge(describe(known))))
    proved = said_of(checker, x.numpy())
    assert proved.refused.tolist() == refused
    for row, contradicted in enumerate(refused):
        one = x[row : row + 1]
        told = judge_row(checkup, one, read_grids(files))
        try:
            said = known.annotate(Examples(one), known.answers)
        except KnowledgeError as error:
            assert contradicted and told["refused"] == str(error)
            continue
        assert not contradicted and told["refused"] == ""
        spoken = CLASSES[int(said.prior[0].argmax())] if said.prior[0].sum() > 0 else None
        assert (told["allowed"], told["expert"]) == (named(said.allowed), spoken)
        assert named(proved.allowed[row : row + 1]) == told["allowed"]
        assert proved.prior[row].tolist() == said.prior[0].tolist()


@pytest.mark.slow
@given(tables(), _ROWS)
def test_predict_and_its_reasons_say_the_same(files, rows):
    checkup, known = judge(files), Knowledge.read(files)
    x = torch.tensor([[ash, float(seam)] for ash, seam in rows])
    x = x[~answer_draft(checkup, x).refused]
    bundle = bundle_of(Personal(mlp(2, 3, hidden=(4,), seed=0), known), "site", schema=known.schema)
    for row in range(len(x)):
        one = x[row : row + 1]
        told, answers = judge_row(checkup, one, read_grids(files)), answer_rows(bundle, one)
        assert told["allowed"] == named(answers.allowed)
        spoken = -1 if told["expert"] is None else CLASSES.index(told["expert"])
        assert answers.expert[0] == spoken
        proved = said_of(read_knowledge(knowledge_texts(bundle.members)), one.numpy())
        assert named(proved.allowed) == told["allowed"] and not proved.refused[0]
        assert (proved.prior[0].argmax() if proved.prior[0].any() else -1) == spoken
        why = reasons(bundle, one, answers)[0][: len(told["why"])]
        assert bare(why) == bare(told["why"])


def named(allowed):
    return [name for name, may in zip(CLASSES, allowed[0].tolist(), strict=True) if may]


def bare(lines):
    """Lines without the names of files, which are others in a bundle."""
    return [line.partition(", ")[2] for line in lines]


def test_a_missing_value_leaves_the_same_open():
    text = FILES["knowledge.toml"].replace(b"high = 16", b'high = 16\nmissing = "mean"')
    checkup = judge({**FILES, "knowledge.toml": text})
    x = torch.tensor([[torch.nan, 2.0]])
    said = checkup.knowledge.annotate(Examples(x), checkup.knowledge.answers)
    told = judge_row(checkup, x, read_grids(FILES))
    assert told["expert"] is None and said.prior.sum() == 0
    assert told["allowed"] == CLASSES and bool(said.allowed.all())
    assert {rule["state"] for rule in told["rules"]} == {"undecided"}
    assert any("ash is missing" in line for line in told["why"])


def test_a_soft_rule_weighs_in_and_says_in_how_many_cases():
    soft = "ash,then,confidence\n> 1,II,\n> 5,I,90 %\n> 90,I,80 %\n"
    head = 'classes = ["I", "II", "III"]\ntrust = 0.5\n[[features]]\nname = "ash"\n'
    files = {
        "knowledge.toml": f'{head}[[predict.sources]]\ntable = "r.csv"\n'.encode(),
        "r.csv": soft.encode(),
    }
    told = judge_row(judge(files), torch.tensor([[7.0]]), read_grids(files))
    assert [(r["state"], r["text"]) for r in told["rules"]] == [
        ("speaks", "ash > 1 -> II"),
        ("loses", "ash > 5 -> I (in 90 % of cases)"),
    ]
    files["knowledge.toml"] = f'{head}[[range.sources]]\ntable = "r.csv"\n'.encode()
    files["r.csv"] = soft.replace("> 1,II,", '> 1,"I, II",').encode()
    told = judge_row(judge(files), torch.tensor([[7.0]]), read_grids(files))
    assert [(r["state"], r["row"]) for r in told["rules"]] == [("limits", 0), ("weighs", 1)]
    assert told["allowed"] == ["I", "II"]
    assert told["chances"] == pytest.approx({"I": 0.9, "II": 0.1, "III": 0.0})


TIED = {
    "knowledge.toml": b'classes = ["III", "II", "I"]\nlabel = "grade"\ntrust = 0.8\n'
    b'[[features]]\nname = "ash"\n[[range.sources]]\ntable = "r.csv"\n',
    "r.csv": b'ash,then,confidence\n> 5,"I, II",90 %\n',
}


def test_a_tie_is_no_word_of_the_expert_at_any_door():
    checkup, known = judge(TIED), Knowledge.read(TIED)
    x = torch.tensor([[7.0], [1.0]])
    told = judge_row(checkup, x[:1], read_grids(TIED))
    assert (told["expert"], told["favoured"]) == ("II or I", ["II", "I"])
    bundle = bundle_of(Personal(mlp(1, 3, hidden=(4,), seed=0), known), "site", schema=known.schema)
    found = answer_rows(bundle, x)
    assert found.expert.tolist() == [-1, -1] and found.trust.tolist() == pytest.approx([0.8, 0.0])
    why = reasons(bundle, x, found)
    served = write_answers(bundle, found, why)
    assert [one["expert"] for one in served] == [None, None] and served[0]["trust"] == 0.8
    assert any("equally likely" in line or "together favour" in line for line in why[0])
    assert not any("outweighs" in line or "both say" in line for line in why[0])
    assert any("the expert is silent" in line for line in why[1])


def test_data_and_lint_count_the_same(tmp_path):
    """Of two classes that he holds equally likely each is half right, in both."""
    (tmp_path / "rows.csv").write_text("ash,grade\n7,I\n8,II\n9,III\n1,I\n")
    checkup = judge(TIED)
    rows = read_table(tmp_path / "rows.csv", checkup.knowledge.schema, label="grade")
    told, counted = report_data(checkup, rows, "rows.csv"), checkup.knowledge.audit(rows)
    assert told["right"] / told["rows"] == counted.hits == 0.25
    assert told["silent"] == counted.abstained == 1


def test_what_the_range_forbids_is_shown_as_not_heard():
    files = {**FILES, "predict.csv": b"ash,seam,then\n> 14,,I\n"}
    x = torch.tensor([[15.0, 0.0]])
    told = judge_row(judge(files), x, read_grids(files))
    assert (told["expert"], told["forbidden"]) == (None, "I")
    states = [(rule["file"], rule["state"], rule["because"]) for rule in told["rules"]]
    assert ("predict.csv", "unheard", "range.csv row 2") in states
    assert set(draw_map(judge(files), x, ["ash", "seam"])["forbidden"]) == {"I", ""}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("name", CASES)
def test_studio_predict_and_service_agree_on_the_corpus(name, tmp_path):
    """Answers, ranges, conflicts and reasons of the same rows, for classes and numbers."""
    compare_doors(CASES[name], name, 40, tmp_path)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("seed", range(40))
def test_studio_predict_and_service_agree_on_drawn_folders(seed, tmp_path):
    """2,000 rows of 40 folders, and all that counts rows counts alike."""
    files = draw_folder(random.Random(seed))
    checkup, x = compare_doors(files, f"drawn {seed}", 50, tmp_path)
    names, draw = [f.name for f in checkup.knowledge.schema.features], random.Random(seed)
    levels = [f.levels for f in checkup.knowledge.schema.features]
    texts = [
        [
            "" if v != v else some[int(v)] if some else repr(v)
            for v, some in zip(row, levels, strict=True)
        ]
        for row in x.tolist()
    ]
    lines = [[*names, "grade"], *([*row, draw.choice(CLASSES)] for row in texts)]
    (tmp_path / "rows.csv").write_bytes(csv_bytes(lines))
    data = read_table(tmp_path / "rows.csv", checkup.knowledge.schema, label="grade")
    told = report_data(checkup, data, "rows.csv")
    said = command("lint", tmp_path / "knowledge.toml", "--data", tmp_path / "rows.csv")
    audit = said["audit"]
    assert told["rules"] == said["rules"]
    assert (told["rows"], told["outside_count"]) == (audit["rows"], audit["outside"])
    assert [f["message"] for f in told["findings"]] == [
        f["message"] for f in said["findings"] if f["place"]["file"] == "rows.csv" or
        f["kind"] in ("confidence", "never-applied")]  # fmt: skip
    if audit["hits"] is None:
        return  # nobody predicts
    assert told["silent"] == audit["abstained"]
    assert told["right"] / told["rows"] == pytest.approx(audit["hits"])
    site = Client("site", data, test=data, knowledge=replace(checkup.knowledge, outside="widen"))
    scores = score_approach(PKM, site, predict_expert(site))  # as reports show them
    assert scores["ta"] == pytest.approx(audit["hits"])
    assert scores["abstained"] == audit["abstained"] / len(data)


def draw_folder(draw):
    """Knowledge with rules that tie, contradict, leave one class, or need what is missing."""
    soft = draw.random() < 0.6
    shares = ["", "", "60 %", "90 %"] if soft else [""]
    number = [*(f"{s} {c}" for s in ("<", ">=") for c in _CUTS), "[6..8)", "(8..12]", "not 12", ""]
    pick = draw.choice
    predict = [(pick(number), pick(["", "A", "not A", "in B, C"]), pick(["", "< 1.2", ">= 1.2"]),
                pick(CLASSES), pick(shares)) for _ in range(draw.randint(2, 6))]  # fmt: skip
    limits = [(pick(number), pick(["", "A", "in B, C"]), "", pick(["III..II", "II..I", "I", "all",
              "III", "III, I"]), pick(shares)) for _ in range(draw.randint(1, 5))]  # fmt: skip
    head = ("ash", "seam", "Ro", "then", "confidence")
    head_text = f"""classes = {CLASSES}\nlabel = "grade"\nordered = true
outside = "widen"\nconflict = "{pick(["abstain", "restrict"])}"\n{pick(_TRUSTS)}
[[features]]\nname = "ash"\nlow = 5\nhigh = 16\nmissing = "mean"
[[features]]\nname = "seam"\nlevels = ["A", "B", "C"]\n{pick(["", 'missing = "level"'])}
[[features]]\nname = "Ro"\nlow = 0.6\nhigh = 1.8\n{pick(["", 'missing = "median"'])}
{pick(["", _SHAPE])}\n"""
    texts = {"knowledge.toml": head_text}
    sides = pick(["predict", "range", "both", "both", "both"])
    hard = "first" if soft else pick(["first", "unique", "priority"])
    join = "intersect" if soft else pick(["intersect", "union"])
    for side, rules, hit in (("predict", predict, hard), ("range", limits, join)):
        if sides not in ("both", side):
            continue
        extra = "priority" if hit == "priority" else ""
        rows = [(*rule, *([str(i // 2)] if extra else [])) for i, rule in enumerate(rules)]
        texts[f"{side}.csv"] = csv_bytes([(*head, *filter(None, [extra])), *rows]).decode()
        texts["knowledge.toml"] += f'[[{side}.sources]]\ntable = "{side}.csv"\nhit = "{hit}"\n'
    return texts


_SHAPE = '[[shape.sources]]\nfeature = "Ro"\neffect = "raises"'
_TRUSTS = ("trust = 0.4", '[trust]\nvalue = 0.4\n[[trust.regions]]\nwhere = "ash > 9"\ntrust = 0.8')


def compare_doors(files, name, count, folder):
    """Rows at the studio, at predict and at the service; the check-up and the rows."""
    write_files(files, folder)
    bundle = read_bundle(make_bundle(folder, seed=1))
    members = {one: text.encode() for one, text in files.items()}
    checkup, grids = judge(members), read_grids(members)
    x = torch.from_numpy(matrix_of(files, rows_of(name, files, count))).float()
    features = bundle.schema.features
    needed = [f.missing == "refuse" for f in features]
    counts = torch.tensor([len(f.levels) + f.other if f.levels else torch.inf for f in features])
    x = x[~x[:, needed].isnan().any(1) & ~(x >= counts).any(1)]  # rows that every door lets in
    x = x[~answer_draft(checkup, x).refused]
    found = answer_rows(bundle, x)
    why = explain(bundle, x, found)
    served = write_answers(bundle, found, [list(map(str, some)) for some in why])
    for row, (answer, lines) in enumerate(zip(served, why, strict=True)):
        told = judge_row(checkup, x[row : row + 1], grids)
        assert told["refused"] == ""
        assert bool(told["forbidden"]) == any(one.kind.startswith("forbidden") for one in lines)
        if "favoured" in told:
            assert told["allowed"] == answer["allowed"]
            single = told["favoured"][0] if len(told["favoured"]) == 1 else None
            assert answer["expert"] == single
        else:
            wanted = (answer["expert"], answer["low"], answer["high"])
            assert (told["expert"], told["low"], told["high"]) == pytest.approx(wanted, nan_ok=True)
        assert set(bare(told["why"])) <= set(bare(answer["reasons"]))
    return checkup, x
