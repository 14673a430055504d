"""Compiled tables agree, bit for bit, with a naive interpreter that reads row by row."""

import itertools
import math
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from fedlore.errors import KnowledgeError
from fedlore.kernel.cells import Levels
from fedlore.kernel.schema import Feature, Schema
from fedlore.kernel.sheets import Rule
from fedlore.knowledge.tables.sheets import table_of
from fedlore.knowledge.tables.table import Table

LEVELS = ("A", "B", "C")
CLASSES = ("I", "II", "III", "IV")
SCHEMA = Schema((Feature("ash"), Feature("coal", levels=LEVELS), Feature("sulphur")), CLASSES)
THRESHOLDS = (0.0, 0.1, 0.3, 0.30000000000000004, 12.0, -5.5, 1e-40, 16777217.0, 1e300, -1e300)


def rounded(threshold, dtype):
    """A threshold as the column's dtype sees it; one beyond the dtype stays beyond."""
    near = float(torch.tensor(threshold, dtype=dtype))
    return threshold if math.isinf(near) else near


# --- the naive interpreter: a cell is its text and a plain function of (value, dtype) ---


@st.composite
def numeric_cells(draw):
    low, high = sorted(draw(st.lists(st.sampled_from(THRESHOLDS), min_size=2, max_size=2)))
    kind = draw(st.sampled_from(["any", "<", "<=", ">", ">=", "=", "[)", "(]", "in", "not"]))
    if kind == "any":
        return "", lambda value, dtype: True
    if kind in ("[)", "(]") and low == high:
        kind = "="

    def test(value, dtype):
        a, b = rounded(low, dtype), rounded(high, dtype)
        return {
            "<": value < a,
            "<=": value <= a,
            ">": value > a,
            ">=": value >= a,
            "=": value == a,
            "[)": a <= value < b,
            "(]": a < value <= b,
            "in": value == a or value > b,
            "not": not math.isnan(value) and value != a and value != b,
        }[kind]

    texts = {
        "[)": f"[{low!r}..{high!r})",
        "(]": f"({low!r}..{high!r}]",
        "in": f"in {low!r}, > {high!r}",
        "not": f"not {low!r}, {high!r}",
    }
    return texts.get(kind, f"{kind} {low!r}"), test


@st.composite
def level_cells(draw):
    some = draw(st.sets(st.sampled_from(LEVELS), min_size=1, max_size=2))
    kind = draw(st.sampled_from(["any", "in", "not"]))
    if kind == "any":
        return "-", lambda value, dtype: True
    wanted = {float(i) for i, name in enumerate(LEVELS) if (name in some) == (kind == "in")}
    return f"{kind} {', '.join(sorted(some))}", lambda value, dtype: value in wanted


def naive(rules, policy, row, dtype):
    """What a table says of one row: a set of classes, or an error.

    A rule on a missing value fires or does not: of a range all that is possible is allowed, and a
    prediction says what it says in every case.
    """
    sure, open_ = [], []
    for place, (cells, outcome, priority) in enumerate(rules):
        pairs = list(zip(cells, row, strict=True))
        states = [
            None if math.isnan(v) and text not in ("", "-") else test(v, dtype)
            for (text, test), v in pairs
        ]
        if None in states and False not in states:
            open_.append((place, (priority, outcome)))
        elif all(states):
            sure.append((place, (priority, outcome)))
    certain = judge([rule for _, rule in sure], policy)
    if certain is None or (policy == "intersect" and not certain):
        return certain  # refused, whatever is missing
    cases = [
        judge([rule for _, rule in sorted([*sure, *some])], policy)
        for count in range(len(open_) + 1)
        for some in itertools.combinations(open_, count)
    ]
    if policy in ("intersect", "union"):
        return set.union(*cases)
    return cases[0] if all(case == cases[0] for case in cases) else set()


def judge(hit, policy):
    """What rules that fire, in the order of the table, make a table say."""
    hit = list(hit)
    if policy in ("intersect", "union"):
        if not hit:
            return set(CLASSES)
        sets = [set(outcome) for _, outcome in hit]
        return set.intersection(*sets) if policy == "intersect" else set.union(*sets)
    if policy == "priority":
        hit.sort(key=lambda pair: pair[0])
    if policy == "unique" and len({outcome for _, outcome in hit}) > 1:
        return None
    return set(hit[0][1]) if hit else set()


@st.composite
def tables(draw):
    policy = draw(st.sampled_from(["first", "unique", "priority", "intersect", "union"]))
    kind = "predict" if policy in ("first", "unique", "priority") else "range"
    rules = []
    for _ in range(draw(st.integers(1, 6))):
        cells = (draw(numeric_cells()), draw(level_cells()), draw(numeric_cells()))
        size = 1 if kind == "predict" else 3
        outcome = draw(st.sets(st.sampled_from(CLASSES), min_size=1, max_size=size))
        rules.append((cells, tuple(sorted(outcome)), draw(st.integers(0, 2))))
    rows = []
    for cells, outcome, priority in rules:
        row = dict(zip(SCHEMA.names, (text for text, _ in cells), strict=True))
        row["then"] = ", ".join(outcome)
        rows.append(row | {"priority": priority} if policy == "priority" else row)
    return table_of(rows, SCHEMA, kind=kind, policy=policy), rules


def edge_values(dtype):
    """Thresholds in a dtype, their neighbours, and what is not a number at all."""
    points = torch.tensor(THRESHOLDS, dtype=dtype)
    up = torch.nextafter(points, torch.full_like(points, math.inf))
    down = torch.nextafter(points, torch.full_like(points, -math.inf))
    extra = torch.tensor([math.nan, math.inf, -math.inf, 1.0, 2.0, 0.5, -1.0, 3.0], dtype=dtype)
    return torch.cat([points, up, down, extra]).tolist()


@given(tables(), st.sampled_from([torch.float32, torch.float64]), st.integers(0, 2**32))
@settings(max_examples=120)
def test_a_table_says_what_the_naive_interpreter_says(given_table, dtype, seed):
    (table, rules), pick = given_table, Random(seed).choices
    values, levels = edge_values(dtype), [0.0, 1.0, 2.0, 0.5, -1.0, 3.0, math.nan]
    rows = list(zip(pick(values, k=30), pick(levels, k=30), pick(values, k=30), strict=True))
    x = torch.tensor(rows, dtype=dtype)
    hits = [
        [
            all(test(v, dtype) for (_, test), v in zip(cells, row, strict=True))
            for cells, *_ in rules
        ]
        for row in x.tolist()
    ]
    assert table.hits(x).tolist() == hits
    expected = [naive(rules, table.policy, row, dtype) for row in x.tolist()]
    fine = [said is not None and (bool(said) or table.kind == "predict") for said in expected]
    if not all(fine):
        with pytest.raises(KnowledgeError, match=f"data row {fine.index(False)}: row"):
            table(x)
    said = [{CLASSES[i] for i in row.nonzero().flatten().tolist()} for row in table(x[fine])]
    assert said == [answer for answer, good in zip(expected, fine, strict=True) if good]


def many_rules(count, policy="first", columns=10, classes=5):
    """A table of random intervals over columns in [0, 1]."""
    generator = torch.Generator().manual_seed(count)
    names = [f"f{i}" for i in range(columns)]
    schema = Schema(tuple(map(Feature, names)), tuple(str(c) for c in range(classes)))
    draws = torch.rand(count, columns, 2, generator=generator, dtype=torch.float64)
    picks = torch.randint(classes, (count,), generator=generator).tolist()
    rows = []
    for draw, pick in zip(draws.tolist(), picks, strict=True):
        row = {f"f{i}": f"({a - 0.5:.4f}..{b + 0.5:.4f}]" for i, (a, b) in enumerate(draw)}
        top = min(pick + 1, classes - 1)
        rows.append(row | {"then": f"{pick}" if policy == "first" else f"0..{top}"})
    kind = "predict" if policy == "first" else "range"
    return table_of(rows, schema, kind=kind, policy=policy), draws, picks


@pytest.mark.parametrize("count", [1, 63, 64, 65, 130, 1100])
def test_tables_beyond_one_word_and_one_chapter(count):
    table, draws, picks = many_rules(count)
    x = torch.rand(300, 10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    low = torch.tensor([[float(f"{a - 0.5:.4f}") for a in row] for row in draws[..., 0].tolist()])
    high = torch.tensor([[float(f"{b + 0.5:.4f}") for b in row] for row in draws[..., 1].tolist()])
    x32 = x.float()
    hits = ((x32[:, None] > low.float()) & (x32[:, None] <= high.float())).all(2)
    assert hits.any(0).all() or count > 1  # the test sees hits
    assert torch.equal(table.hits(x32), hits)
    first = torch.where(hits.any(1), torch.tensor(picks)[hits.float().argmax(1)], -1)
    expected = torch.stack([first == c for c in range(5)], dim=1).float()
    assert torch.equal(table(x32), expected)


@pytest.mark.parametrize("policy", ["first", "intersect", "union"])
def test_rows_are_the_same_in_any_batch_size(policy):
    table, _, _ = many_rules(70, policy)
    x = torch.rand(20_000, 10, generator=torch.Generator().manual_seed(1))
    whole = table(x)
    assert torch.equal(whole, torch.cat([table(part) for part in x.split(3_333)]))
    assert torch.equal(whole[:50], torch.cat([table(row[None]) for row in x[:50]]))


class Allocated(TorchDispatchMode):
    """Adds up the bytes of every new storage."""

    total = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        given = [t for t in (*args, *(kwargs or {}).values()) if isinstance(t, torch.Tensor)]
        known = {t.untyped_storage().data_ptr() for t in given}
        for t in out if isinstance(out, tuple | list) else (out,):
            if isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() not in known:
                self.total += t.untyped_storage().nbytes()
        return out


@pytest.mark.parametrize("policy", ["first", "intersect", "union"])
def test_all_allocations_together_stay_below_ten_times_the_output(policy):
    table, _, _ = many_rules(50, policy)
    x = torch.rand(50_000, 10, generator=torch.Generator().manual_seed(2))
    table(x[:1])  # compile
    with Allocated() as allocated:
        out = table(x)
    size = out.nbytes
    assert size <= allocated.total <= 10 * size


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("cut", [2.1, 2.3, 2.7])  # rounded down, and up in either half precision
def test_other_dtypes_compare_as_their_own_numbers(dtype, cut):
    schema = Schema((Feature("a"),), ("no", "yes"))
    table = table_of([{"a": f"> {cut}", "then": "yes"}], schema, kind="predict")
    x = torch.tensor([[2.0], [cut], [3.0]]).to(dtype)
    threshold = torch.tensor(cut, dtype=dtype) if dtype.is_floating_point else cut
    assert torch.equal(table(x)[:, 1] > 0, (x > threshold)[:, 0])


def test_unique_names_both_rules_and_lets_them_agree():
    rows = [{"ash": "> 1", "then": "I", "rule": "hot"}, {"ash": "> 2", "then": "I"}]
    x = torch.tensor([[1.5, 0, 0], [3, 0, 0]])
    assert table_of(rows, SCHEMA, kind="predict", policy="unique")(x)[:, 0].tolist() == [1, 1]
    rows[1]["then"] = "II"
    table = table_of(rows, SCHEMA, kind="predict", policy="unique", name="p.csv")
    with pytest.raises(KnowledgeError, match=r"p.csv: data row 1: 'hot' \(row 1\) and row 2 hit"):
        table(x)


def test_an_empty_intersection_names_the_rules():
    rows = [{"ash": "> 1", "then": "I, II"}, {"ash": "> 9", "then": "I"}, {"then": "II, III"}]
    table = table_of(rows, SCHEMA, kind="range", name="r.csv")
    with pytest.raises(KnowledgeError, match="r.csv: data row 0: row 1, row 2 and row 3 hit and"):
        table(torch.tensor([[10.0, 0, 0]]))


def test_no_rows_give_no_rows():
    table = table_of([{"ash": "> 1", "then": "II"}], SCHEMA, kind="predict")
    assert table(torch.zeros(0, 3)).shape == (0, 4)
    assert table.hits(torch.zeros(0, 3)).shape == (0, 1)


def test_the_wrong_number_of_columns_is_refused():
    table = table_of([{"ash": "> 1", "then": "II"}], SCHEMA, kind="predict")
    with pytest.raises(KnowledgeError, match="3 columns"):
        table(torch.zeros(1, 2))


@pytest.mark.parametrize(
    ("rule", "kind", "policy", "message"),
    [
        (Rule((), (0,)), "predict", "intersect", "no hit policy"),
        (Rule((), (0, 1)), "predict", "first", "one class"),
        (Rule((), ()), "range", "union", "outcome"),
        (Rule((), (4,)), "range", "union", "outcome"),
        (Rule(((9, Levels((0,))),), (0,)), "range", "union", "columns"),
        (Rule(((0, Levels((0,))),), (0,)), "range", "union", "does not fit"),
        (Rule(((1, Levels((7,))),), (0,)), "range", "union", "no such level"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(rule, kind, policy, message):
    with pytest.raises(KnowledgeError, match=message):
        Table(SCHEMA, (rule,), kind, policy)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("policy", ["first", "intersect", "union"])
def test_gpu_rows_equal_cpu_rows(policy):
    table, _, _ = many_rules(200, policy)
    x = torch.rand(50_000, 10)
    x[::7, 3] = math.nan
    assert torch.equal(table(x.cuda()).cpu(), table(x))
    assert torch.equal(table.hits(x.cuda()).cpu(), table.hits(x))
