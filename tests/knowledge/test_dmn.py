"""DMN decision tables: answers as the standard has them, there and back, and hostile files.

What a hit policy means is computed here on structured rules, by a few comparisons, apart from
everything that reads FEEL.
"""

import json
import math
import os
import random
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import Knowledge
from fedlore.answers import Measured
from fedlore.core.examples import Examples
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.kernel.findings import errors
from fedlore.knowledge.dmn import import_tables, parse, read_dmn, write_dmn
from fedlore.knowledge.dmn.parse import LARGEST
from fedlore.knowledge.findings.checkup import check_file

from ..bundle.making import call, run

SPACE = "https://www.omg.org/spec/DMN/20191111/MODEL/"
COUNT = 500


def dmn(table, *, space=SPACE, types="", more=""):
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><definitions xmlns="{space}" name="d">{types}{more}'
        f'<decision id="one" name="Grade">{table}</decision></definitions>'
    ).encode()


def table_xml(inputs, output, rules, *, hit="", aggregation=""):
    """A decision table; inputs are (text, type, values), rules are (tests, output)."""
    attributes = (f' hitPolicy="{hit}"' if hit else "") + (
        f' aggregation="{aggregation}"' if aggregation else ""
    )
    lines = [f"<decisionTable{attributes}>"]
    for text, kind, values in inputs:
        limits = f"<inputValues><text>{escape(values)}</text></inputValues>" if values else ""
        lines.append(
            f'<input><inputExpression typeRef="{kind}"><text>{escape(text)}</text>'
            f"</inputExpression>{limits}</input>"
        )
    lines.append(output)
    for tests, said in rules:
        cells = "".join(f"<inputEntry><text>{escape(t)}</text></inputEntry>" for t in tests)
        lines.append(f"<rule>{cells}<outputEntry><text>{escape(said)}</text></outputEntry></rule>")
    return "".join([*lines, "</decisionTable>"])


def only(data):
    """The one table of a file."""
    (found,) = import_tables(read_dmn(data))
    return found


ANSWER = '<output name="grade" typeRef="string"/>'
ASH = ("ash", "number", "")


def read_cells(tests, kind="number", values=""):
    """The cells that tests of one column become."""
    rules = [((test,), f'"{"xy"[i % 2]}"') for i, test in enumerate([*tests, "-"])]
    found = only(dmn(table_xml([("ash", kind, values)], ANSWER, rules, hit="FIRST")))
    assert not found.fault, found.fault
    lines = found.members["rules.csv"].decode().splitlines()[1:-1]
    return [line.rsplit(",", 1)[0].strip('"') for line in lines]


# what is read


@pytest.mark.parametrize(
    ("feel", "cell"),
    [
        ("< 5", "< 5"),
        (">=5.50", ">= 5.5"),
        ("5", "= 5"),
        ("-5", "= -5"),
        ("= 5", "= 5"),
        ("? > 5", "> 5"),
        ("[1..5]", "[1..5]"),
        ("(1..5)", "(1..5)"),
        ("]1..5[", "(1..5)"),
        ("]1..5]", "(1..5]"),
        ("[-1.5..-0.5)", "[-1.5..-0.5)"),
        ("< 1, > 5", "in < 1, > 5"),
        ("[1..3], [3..5]", "[1..5]"),
        ("1, 2", "in 1, 2"),
        ("not(1..5)", None),
        ("not([1..5])", "in < 1, > 5"),
        ("not(< 3)", ">= 3"),
        ("!= 3", "in < 3, > 3"),
        (" - ", ""),
    ],
)
def test_tests_of_numbers_become_cells(feel, cell):
    if cell is None:
        with pytest.raises(AssertionError, match="is an expression"):
            read_cells([feel])
    else:
        assert read_cells([feel]) == [cell]


@pytest.mark.parametrize(
    ("feel", "kind", "cell"),
    [
        ('"A"', "string", "A"),
        ('"A", "B"', "string", "not C"),
        ('not("A")', "string", "not A"),
        ('not("A", "B")', "string", "C"),
        ("true", "boolean", "true"),
        ("not(true)", "boolean", "false"),
        ("true, false", "boolean", ""),
    ],
)
def test_tests_of_levels_become_cells(feel, kind, cell):
    values = '"A", "B", "C"' if kind == "string" else ""
    assert read_cells([feel], kind, values) == [cell]


@pytest.mark.parametrize(
    "feel",
    ["x + 1", "date(\"2025-01-01\")", "> today()", "ash > 5 and ash < 8", "[1..", "1..5", "< < 5",
     "? 5", "??", "5 6", "not 5", '"open', "1e5", "<", ",", "5,", "[5..1]", "(5..5]", "9" * 400,
     "${x}", "matches(?, \"a\")", "null"],
)  # fmt: skip
def test_expressions_are_named_with_their_rule(feel):
    found = only(dmn(table_xml([ASH], ANSWER, [((feel,), '"x"'), (("-",), '"y"')])))
    assert found.fault.startswith("rule 1, input 'ash': "), found.fault
    assert "\n" not in found.fault


def test_an_item_definition_says_type_and_values():
    types = (
        '<itemDefinition name="tSeam"><typeRef>string</typeRef><allowedValues><text>"A","B"</text>'
        "</allowedValues></itemDefinition>"
    )
    rules = [(('not("A")',), '"x"'), (("-",), '"y"')]
    found = only(dmn(table_xml([("seam", "tSeam", "")], ANSWER, rules, hit="FIRST"), types=types))
    assert found.members["rules.csv"].decode() == "seam,then\nB,x\n,y\n"


def test_a_type_that_names_itself_ends():
    types = '<itemDefinition name="t"><typeRef>t</typeRef></itemDefinition>'
    rules = [(("1",), '"x"'), (("-",), '"y"')]
    assert "type" in only(dmn(table_xml([("a", "t", "")], ANSWER, rules), types=types)).fault


def test_names_with_blanks_become_words_and_keep_their_titles():
    rules = [(("> 5",), '"x"'), (("-",), '"y"')]
    found = only(dmn(table_xml([("Credit Score", "number", "[0..9]")], ANSWER, rules, hit="FIRST")))
    feature = Knowledge.read(found.members).schema.features[0]
    assert (feature.name, feature.column) == ("Credit_Score", "Credit Score")
    assert (feature.low, feature.high) == (0.0, 9.0)


def test_a_feature_may_be_called_as_a_column_of_ours():
    rules = [(("> 5",), '"x"'), (("-",), '"y"')]
    for name in ("priority", "from", "then", "note"):
        found = only(dmn(table_xml([(name, "number", "")], ANSWER, rules, hit="FIRST")))
        assert Knowledge.read(found.members).schema.names == (f"{name}_",)


def test_several_outputs_and_tables_are_knowledge_each(tmp_path):
    two = ANSWER + '<output name="price" typeRef="number"/>'
    table = table_xml([ASH], two, [(("> 5",), '"x"'), (("<= 5",), '"y"')])
    cell = "</outputEntry></rule>"
    parts = table.split(cell)
    table = f"{cell[:-7]}<outputEntry><text>1</text>{cell}".join(parts[:2]) + (
        f"{cell[:-7]}<outputEntry><text>2</text>{cell}" + parts[2]
    )
    found = import_tables(read_dmn(dmn(table)))
    assert [one.name for one in found] == ["Grade, grade", "Grade, price"]
    (tmp_path / "d.dmn").write_bytes(dmn(table))
    run("import", tmp_path / "d.dmn", tmp_path / "out")
    assert (tmp_path / "out/Grade-grade/knowledge.toml").exists()
    assert Knowledge.read(tmp_path / "out/Grade-price/knowledge.toml").line is not None


# answers as the standard has them

VALUES = [0.0, 1.0, 1.5, 2.0, 3.0, 4.0]
SEAMS = ("A", "B", "C")
NUMBERS = st.sampled_from([1.0, 1.5, 2.0, 3.0])
NUMBER_TEST = st.one_of(
    st.none(),
    st.tuples(st.sampled_from(["<", "<=", ">", ">=", "="]), NUMBERS),
    st.tuples(st.sampled_from(["[]", "()", "[)", "(]"]), NUMBERS, st.sampled_from([3.5, 4.0])),
)
TESTS = st.one_of(
    st.none(), st.tuples(st.booleans(), st.lists(NUMBER_TEST.filter(bool), min_size=1, max_size=2))
)
SEAM_TESTS = st.one_of(
    st.none(), st.tuples(st.booleans(), st.sets(st.sampled_from(SEAMS), min_size=1, max_size=2))
)
WET = st.sampled_from([None, True, False])
POLICIES = ["UNIQUE", "ANY", "PRIORITY", "FIRST", "RULE ORDER", "COLLECT", "MIN", "MAX"]


def meets(value, test):
    if len(test) == 2:
        op, n = test
        return {
            "<": value < n,
            "<=": value <= n,
            ">": value > n,
            ">=": value >= n,
            "=": value == n,
        }[op]
    ends, low, high = test
    return (low <= value if ends[0] == "[" else low < value) and (
        value <= high if ends[1] == "]" else value < high
    )


def rule_hits(rule, row):
    ash, seam, wet = rule[:3]
    said = [
        ash is None or any(meets(row[0], t) for t in ash[1]) != ash[0],
        seam is None or (row[1] in seam[1]) != seam[0],
        wet is None or row[2] == wet,
    ]
    return all(said)


def feel_number(test):
    if len(test) == 2:
        return f"{test[1]:g}" if test[0] == "=" else f"{test[0]} {test[1]:g}"
    return f"{test[0][0]}{test[1]:g}..{test[2]:g}{test[0][1]}"


def feel(rule):
    ash, seam, wet = rule[:3]
    texts = ["-" if ash is None else ", ".join(map(feel_number, ash[1]))]
    texts.append("-" if seam is None else ", ".join(f'"{s}"' for s in sorted(seam[1])))
    texts = [
        f"not({text})" if one is not None and one[0] else text
        for text, one in zip(texts, (ash, seam), strict=True)
    ]
    return [*texts, "-" if wet is None else str(wet).lower()]


def wanted(rules, policy, row):
    """What a table answers: an answer, a set, None where it abstains, or "error"."""
    hit = [rule[3] for rule in rules if rule_hits(rule, row)]
    if policy in ("RULE ORDER", "COLLECT"):
        return set(hit) or {0, 1, 2}
    if not hit:
        return None
    if policy in ("UNIQUE", "ANY"):
        return hit[0] if len(set(hit)) == 1 else "error"
    return {"PRIORITY": min, "FIRST": lambda some: some[0], "MIN": min, "MAX": max}[policy](hit)


def rows_of(schema, rows):
    def cell(feature, value):
        if not feature.levels:
            return float(value)
        return float(feature.levels.index(str(value).lower() if isinstance(value, bool) else value))

    return torch.tensor(
        [[cell(f, v) for f, v in zip(schema.features, row, strict=True)] for row in rows]
    )


def rowwise(say, known, x):
    """What is said of rows; where some row is refused each is asked alone."""
    try:
        return say(known, x)
    except KnowledgeError:
        single = len(x) == 1
        return ["error"] if single else [o for r in x.split(1) for o in rowwise(say, known, r)]


def answered(known, x):
    """The answers row by row in the words of `wanted`."""
    return rowwise(say_rows, known, x)


def say_rows(known, x):
    if known.line is not None:
        rows = Measured(x, torch.zeros(len(x), dtype=torch.float64))
        said = known.annotate(rows, training=False).said.tolist()
        return [None if math.isnan(one) else one for one in said]
    said = known.annotate(Examples(x), training=False)
    if said.prior is None:
        return [set(row.nonzero().flatten().tolist()) for row in said.allowed]
    return [int(row.argmax()) if row.any() else None for row in said.prior]


RULES = st.lists(st.tuples(TESTS, SEAM_TESTS, WET, st.integers(0, 2)), min_size=1, max_size=5)
ROWS = [(a, s, w) for a in VALUES for s in SEAMS for w in (True, False)]


@given(RULES, st.sampled_from(POLICIES))
def test_answers_are_those_of_the_standard(rules, policy):
    numbers = policy in ("MIN", "MAX")
    names = ["x", "y", "z"]
    said = [str(rule[3]) if numbers else f'"{names[rule[3]]}"' for rule in rules]
    values = "" if numbers else '<outputValues><text>"x","y","z"</text></outputValues>'
    output = f'<output name="grade" typeRef="{"number" if numbers else "string"}">{values}</output>'
    inputs = [("ash", "number", ""), ("seam", "string", '"A","B","C"'), ("wet", "boolean", "")]
    lines = [(feel(rule), text) for rule, text in zip(rules, said, strict=True)]
    hit = "COLLECT" if numbers else policy
    data = dmn(table_xml(inputs, output, lines, hit=hit, aggregation=policy if numbers else ""))
    found = only(data)
    if found.fault:  # an interval such as not(< 3, >= 3)
        assert "no number satisfies" in found.fault, found.fault
        return
    known = Knowledge.read(found.members)
    got = answered(known, rows_of(known.schema, ROWS))
    assert got == [wanted(rules, policy, row) for row in ROWS]


def test_a_default_answers_where_no_rule_does():
    usual = '<defaultOutputEntry><text>"z"</text></defaultOutputEntry>'
    output = f'<output name="g" typeRef="string">{usual}</output>'
    for hit in ("UNIQUE", "FIRST"):
        found = only(dmn(table_xml([ASH], output, [(("> 5",), '"x"')], hit=hit)))
        assert answered(Knowledge.read(found.members), torch.tensor([[6.0], [5.0]])) == [0, 1]
    found = only(dmn(table_xml([ASH], output, [(("> 5",), '"x"')], hit="COLLECT")))
    assert "default" in found.fault


# there and back

HEAD = """label = "grade"
[[features]]
name = "ash"
unit = "%"
low = 0
high = 4
[[features]]
name = "seam"
levels = ["A", "in B", "C, \\"x\\""]
[[features]]
name = "wet"
levels = ["false", "true"]
"""
CLASSES = ["low", "not high", 'a "b", c']


def draw_table(seed):
    """A knowledge folder with tables of any policy, in memory."""
    draw = random.Random(seed)
    number = draw.random() < 0.3
    members, toml = {}, [HEAD]
    toml[0] = (
        HEAD.partition("\n")[2] + '[target]\nname = "csr"\nlower = 0\nupper = 9.5\n'
        if number
        else f"classes = {json.dumps(CLASSES)}\n{HEAD}"
    )
    sides = draw.choice([("predict",), ("range",), ("predict", "range"), ("range", "range")])
    for place, side in enumerate(sides):
        hits = ("first", "unique", "priority") if side == "predict" else ("intersect", "union")
        hit = draw.choice(hits)
        lines = [
            ["ash [%]", "seam", "wet", "then", "rule", *(["priority"] if hit == "priority" else [])]
        ]
        for _ in range(draw.randint(1, 6)):
            low = draw.choice(VALUES[:4])
            cells = [
                draw.choice(["", "-", f"> {low}", f"<= {low}", f"[{low}..{low + 1})", f"not {low}",
                             f"in {low}, > 3", f"= {low}", "in <= 0, > 0"]),
                draw.choice(["", "A", '"in B"', 'not A', '"C, ""x"""']),
                draw.choice(["", "true", "false"]),
            ]  # fmt: skip
            if number:
                one = str(draw.randint(0, 9))
                then = (
                    one
                    if side == "predict"
                    else draw.choice([f"[{one}..9.5]", f">= {one}", f"in 0..1, {one}"])
                )
            else:
                names = ["low", '"not high"', '"a ""b"", c"']
                then = (
                    draw.choice(names)
                    if side == "predict"
                    else ", ".join(draw.sample(names, draw.randint(1, 3)))
                )
            name = draw.choice(["", "a rule", 'odd <&> "name"'])
            lines.append(
                [*cells, then, name, *([str(draw.randint(1, 3))] if hit == "priority" else [])]
            )
        from fedlore.knowledge.tables.sheets import csv_bytes

        members[f"t{place}.csv"] = csv_bytes(lines)
        toml.append(f'[[{side}.sources]]\ntable = "t{place}.csv"\nhit = "{hit}"\n')
    members["knowledge.toml"] = "".join(toml).encode()
    return members


def test_there_and_back_the_answers_are_the_same():
    for seed in range(25):
        there_and_back(seed)


@pytest.mark.slow
def test_there_and_back_over_five_hundred_tables():
    for seed in range(COUNT):
        there_and_back(seed)


def there_and_back(seed):
    members = draw_table(seed)
    known = Knowledge.read(members)
    data, _ = write_dmn(members)
    (back,) = import_tables(read_dmn(data))
    assert not back.fault, back.fault
    again = Knowledge.read(back.members)
    assert again.schema.names == known.schema.names
    assert [f.levels for f in again.schema.features] == [f.levels for f in known.schema.features]
    x = rows_of(
        known.schema,
        [(a, s, w) for a in VALUES for s in known.schema.features[1].levels for w in (True, False)],
    )
    assert rowwise(say_all, again, x) == rowwise(say_all, known, x), seed


def say_all(known, x):
    if known.line is None:
        said = known.annotate(Examples(x), training=False)
        parts = [part for part in (said.prior, said.allowed) if part is not None]
        return list(zip(*(part.tolist() for part in parts), strict=True))
    rows = Measured(x, torch.zeros(len(x), dtype=torch.float64))
    said = known.annotate(rows, training=False)
    numbers = ["-"] * len(x) if said.said is None else map(str, said.said.tolist())
    sets = ["-"] * len(x) if said.sets is None else list(spans(said.sets))
    return list(zip(numbers, sets, strict=True))


def spans(sets):
    for lows, highs in zip(sets.lower.tolist(), sets.upper.tolist(), strict=True):
        yield sorted(pair for pair in zip(lows, highs, strict=True) if pair[0] == pair[0])


def test_dates_and_formulas_are_named_as_left_out(tmp_path):
    (tmp_path / "t.csv").write_text(
        "ash,then,from,until\n> 2,low,,2025-01-01\n> 1,low,2025-01-01,\n"
    )
    (tmp_path / "k.toml").write_text(
        f'trust = 0.3\nclasses = ["low", "high"]\n{HEAD}[[predict.sources]]\ntable = "t.csv"\n'
        '[[predict.sources]]\nformula = "ash"\nedges = [2.0]\n'
    )
    said = run("export", tmp_path / "k.toml", "--dmn", tmp_path / "k.dmn", "--as-of", "2024-06-01")
    assert "dates: these are the rules of 2024-06-01 alone" in " ".join(said.split())
    assert "formula = 'ash'" in said
    assert "trust" in said
    (back,) = import_tables(read_dmn((tmp_path / "k.dmn").read_bytes()))
    assert b"> 2" in back.members["rules.csv"]
    assert b"> 1" not in back.members["rules.csv"]


# hostile files

LAUGHS = (
    '<!DOCTYPE d [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">]>'
)
ENTITY = '<!DOCTYPE d [<!ENTITY x SYSTEM "file:///etc/hostname">]>'
BODY = f'<definitions xmlns="{SPACE}">&x;&c;</definitions>'


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ((LAUGHS + BODY).encode(), "declares a document type"),
        ((ENTITY + BODY).encode(), "declares a document type"),
        (b'<!DOCTYPE d SYSTEM "http://localhost:1/d.dtd"><d/>', "declares a document type"),
        ((LAUGHS + BODY).encode("utf-16"), "declares a document type"),
        (b"<definitions>&undefined;</definitions>", "not readable as XML"),
        (b"", "not readable as XML"),
        (b"PK\x03\x04", "not readable as XML"),
        (b"\xff\xfe\x00", "not readable as XML"),
        (b"<a><b></a>", "not readable as XML"),
        (b'<definitions xmlns="urn:other"/>', "of the namespace 'urn:other'"),
        (b"<html/>", "not a DMN file of a known version"),
        (f'<decision xmlns="{SPACE}"/>'.encode(), "not a DMN file"),
        (b"<a>" * 80 + b"</a>" * 80, "more than 60 levels"),
        (f'<definitions xmlns="{SPACE}">'.encode() + b"<x/>" * 2000 + b"</definitions>",
         "more than 2000 elements"),
        (b" " * (LARGEST + 1), "larger than 16 MiB"),
        (dmn("<decisionTable hitPolicy='BEST'/>"), "'BEST' is no hit policy"),
        (dmn(table_xml([ASH], ANSWER, [(("1", "2"), '"x"')])), "has 2 input and 1 output entries"),
    ],
)  # fmt: skip
def test_a_hostile_file_is_one_sentence(tmp_path, monkeypatch, data, words):
    monkeypatch.setattr(parse, "MOST_ELEMENTS", 2000)  # of half a million
    with pytest.raises(KnowledgeError) as caught:
        read_dmn(data, "x.dmn")
    assert words in str(caught.value)
    assert len(str(caught.value)) < 400
    assert caught.value.code == "dmn"
    (tmp_path / "x.dmn").write_bytes(data)
    result = call("import", tmp_path / "x.dmn", tmp_path / "out")
    assert isinstance(result.exception, KnowledgeError)
    assert not (tmp_path / "out").exists()


def test_a_file_of_a_hundred_megabytes_is_not_read_whole(tmp_path):
    with open(tmp_path / "x.dmn", "wb") as file:
        file.truncate(100 * 2**20)
    result = call("import", tmp_path / "x.dmn", tmp_path / "out")
    assert "larger than 16 MiB" in str(result.exception)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("<decisionTable/>", "it has no output"),
        (f"<decisionTable>{ANSWER}</decisionTable>", "it has no rules"),
        (table_xml([], ANSWER, [((), '"x"')]), "it has no inputs"),
        (table_xml([ASH], ANSWER, [(("1",), "")]), "rule 1 has no output"),
        (table_xml([ASH], ANSWER, [(("1",), "ash + 1")]), "the output of rule 1: 'ash + 1'"),
        (table_xml([ASH], ANSWER, [(("1",), '"x"'), (("2",), "5")]), "values of several types"),
        (table_xml([ASH], ANSWER, [(("1",), '"x"')]), "has one value only"),
        (table_xml([("ash + 1", "number", "")], ANSWER, [(("1",), '"x"')]), "the expression"),
        (table_xml([("a", "date", "")], ANSWER, [(("-",), '"x"')]), "of the type 'date'"),
        (table_xml([ASH, ASH], ANSWER, [(("1", "2"), '"x"'), (("-", "-"), '"y"')]), "twice"),
        (table_xml([ASH], ANSWER, [(("1",), '"x"')], hit="PRIORITY"), "has one value only"),
        (table_xml([ASH], ANSWER, [(("1",), '"x"'), (("2",), '"y"')], hit="PRIORITY"),
         "PRIORITY needs a list of output values"),
        (table_xml([ASH], '<output name="n"/>', [(("1",), "5")], hit="COLLECT", aggregation="SUM"),
         "COLLECT with SUM"),
    ],
)  # fmt: skip
def test_a_table_without_a_counterpart_says_why(table, words):
    assert words in only(dmn(table)).fault


def test_the_command_names_everything_and_its_exit_code_tells(tmp_path):
    more = (
        '<businessKnowledgeModel name="b"/><decision id="two" name="Sum"><literalExpression>'
        "<text>a + b</text></literalExpression></decision>"
    )
    rules = [(("> 5",), '"x"'), (("<= 5",), '"y"')]
    (tmp_path / "d.dmn").write_bytes(dmn(table_xml([ASH], ANSWER, rules), more=more))
    said = run("import", tmp_path / "d.dmn", tmp_path / "out")
    for words in (
        "Grade: 2 rules",
        "decision 'Sum' is made by an expression",
        "1 business knowledge",
    ):
        assert words in said
    assert not errors(check_file(tmp_path / "out/knowledge.toml").findings)
    assert "is not empty" in str(call("import", tmp_path / "d.dmn", tmp_path / "out").exception)
    overlapping = [(("> 5",), '"x"'), (("> 4",), '"y"')]
    (tmp_path / "e.dmn").write_bytes(dmn(table_xml([ASH], ANSWER, overlapping)))
    result = call("import", tmp_path / "e.dmn", tmp_path / "two")
    assert result.exit_code == 1
    assert "lint finds 1 error" in " ".join(result.output.split())


@pytest.mark.slow
def test_files_of_other_tools_are_read_or_refused_with_reasons():
    """Walks the folder in FEDLORE_DMN, such as a copy of a tool's examples."""
    folder = os.environ.get("FEDLORE_DMN")
    if not folder:
        pytest.skip("set FEDLORE_DMN to a folder of DMN files that other tools made")
    read = refused = 0
    for path in sorted(Path(folder).rglob("*.dmn")):
        try:
            tables = import_tables(read_dmn(path.read_bytes(), path.name))
        except FedloreError as error:
            assert 20 < len(str(error)) < 500, path
            refused += 1
            continue
        for one in tables:
            if one.fault:
                assert 10 < len(one.fault) < 500, path
                refused += 1
                continue
            read += 1
            assert check_file(one.members).knowledge is not None, path
            data, _ = write_dmn(one.members)
            (again,) = import_tables(read_dmn(data))
            assert not again.fault, (path, again.fault)
    print(f"{read} tables read, {refused} tables or files refused with a reason")
    assert read + refused >= 20
