"""The answer as of a day is that of a file that holds only what is valid on it, in every door.

Timelines are drawn as rules with first and last days; the other file is written here, by a list and
two comparisons, and knows nothing of dates.
"""

import json
import tempfile
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedlore import Knowledge, Personal
from fedlore.bundle import answer_rows, bundle_of, read_bundle, write_bundle
from fedlore.bundle.certify import certify
from fedlore.bundle.explain import answer_with_reasons
from fedlore.bundle.monitor.facts import find_facts
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.serve.app import make_app
from fedlore.bundle.store import bundle_on
from fedlore.checker import check, outcome_of
from fedlore.checker.certificate import seal
from fedlore.core.nets import mlp
from fedlore.core.scaler import Scaler
from fedlore.errors import FedloreError
from fedlore.kernel.answers import prior_of, range_of
from fedlore.kernel.dates import as_of
from fedlore.kernel.knowledge import read_knowledge

from ..bundle.making import run
from ..bundle.mixed import mixture
from ..bundle.serve.asking import predict

FIRST = date(2024, 1, 1)
HEAD = """classes = ["A", "B", "C"]
label = "grade"
trust = 0.6
outside = "widen"
[[features]]
name = "ash"
low = 0
high = 40
[[features]]
name = "s"
low = 0
high = 5
"""
X = torch.rand(60, 2, generator=torch.Generator().manual_seed(1)) * torch.tensor([40.0, 5.0])
DAYS = st.one_of(st.none(), st.integers(0, 9))
RULE = st.tuples(st.integers(0, 40), st.integers(0, 5), st.integers(0, 2), DAYS, DAYS)
TABLE = st.tuples(st.lists(RULE, min_size=1, max_size=5), DAYS, DAYS)
TIMELINES = st.tuples(st.lists(TABLE, min_size=1, max_size=2), st.lists(TABLE, max_size=2))


def holds(since, until, day):
    return (since is None or since <= day) and (until is None or day < until)


def day(number):
    return "" if number is None else str(FIRST + timedelta(days=number))


def write(folder, timeline, at=None):
    """The whole timeline, or with `at` a file without dates that holds what is valid then."""
    folder.mkdir()
    toml = [HEAD]
    for side, tables in zip(("predict", "range"), timeline, strict=True):
        for number, (rules, since, until) in enumerate(tables):
            kept = [r for r in rules if at is None or holds(r[3], r[4], at)]
            if not kept or (at is not None and not holds(since, until, at)):
                continue
            dated = at is None
            lines = ["ash,s,then" + ",from,until" * dated]
            for ash, s, outcome, first, end in kept:
                then = "ABC"[outcome] if side == "predict" else f'"{"ABC"[outcome]}, B"'
                days = f",{day(first)},{day(end)}" if dated else ""
                lines.append(f"> {ash},<= {s},{then}{days}")
            (folder / f"{side}{number}.csv").write_text("\n".join(lines) + "\n")
            entry = f'[[{side}.sources]]\ntable = "{side}{number}.csv"\n'
            if dated:
                ends = (("from", since), ("until", until))
                entry += "".join(f"{k} = {day(v)}\n" for k, v in ends if v is not None)
            toml.append(entry)
    (folder / "knowledge.toml").write_text("".join(toml))
    return folder / "knowledge.toml"


def personal(knowledge):
    return Personal(mlp(2, 3, hidden=(4,), seed=2), knowledge, scaler=Scaler.of(X))


def said(call):
    """What a door answers, or that it refuses."""
    try:
        return call()
    except FedloreError:
        return "refused"


def same(one, other):
    if isinstance(one, str) or isinstance(other, str):
        return one == other if isinstance(one, type(other)) else False
    return all(
        (a is None and b is None) or torch.equal(torch.as_tensor(a), torch.as_tensor(b))
        for a, b in zip(one, other, strict=True)
    )


def answers(bundle):
    found = answer_rows(bundle, X)
    return found.probabilities, found.predicted, found.allowed, found.expert, found.trust


def run_graph(bundle):
    session = ort.InferenceSession(bundle_to_onnx(bundle).SerializeToString())
    return [np.nan_to_num(part) for part in session.run(None, {"rows": X.double().numpy()})]


@given(TIMELINES, st.integers(-1, 10))
def test_python_bundle_reasons_kernel_and_graph(timeline, at):
    with tempfile.TemporaryDirectory() as place:
        dated = write(Path(place) / "dated", timeline)
        plain = write(Path(place) / "plain", timeline, at)
        asked = FIRST + timedelta(days=at)
        known, wanted = Knowledge.read(dated, as_of=asked), Knowledge.read(plain)
        first, other = bundle_of(personal(known), "p"), bundle_of(personal(wanted), "p")
        assert same(said(lambda: answers(first)), said(lambda: answers(other)))
        # as stored, and asked as of this day after it was read as of another
        write_bundle(first, Path(place) / "p.lore")
        later = read_bundle(Path(place) / "p.lore", as_of=FIRST + timedelta(days=4))
        assert same(said(lambda: answers(bundle_on(later, asked))), said(lambda: answers(other)))
        reasons = [
            said(lambda b=b: [[r.text for r in row] for row in answer_with_reasons(b, X)[1]])
            for b in (first, other)
        ]
        assert plain_names(reasons[0]) == plain_names(reasons[1])
        assert same(run_graph(first), run_graph(other))
        texts = {n: p.decode() for n, p in first.members.items() if n.endswith((".toml", ".csv"))}
        kernel = read_knowledge(as_of(texts, asked))
        for door in (prior_of, range_of):
            mine, theirs = (
                door(k, X.numpy())
                for k in (
                    kernel,
                    read_knowledge({p.name: p.read_text() for p in plain.parent.iterdir()}),
                )
            )
            assert all((a == b).all() for a, b in zip(mine, theirs, strict=True))


def plain_names(reasons):
    """Without rows and files: what is left out moves the rest up in the file without dates."""
    import re

    return (
        reasons if isinstance(reasons, str) else re.sub(r"[\w-]+\.csv|row \d+|'", "", str(reasons))
    )


@given(TIMELINES, st.integers(-1, 10))
def test_command_service_and_certificate(timeline, at):
    with tempfile.TemporaryDirectory() as name:
        place, asked = Path(name), FIRST + timedelta(days=at)
        known = Knowledge.read(write(place / "dated", timeline), as_of=FIRST)
        plain = Knowledge.read(write(place / "plain", timeline, at))
        write_bundle(bundle_of(personal(known), "p"), place / "p.lore")
        write_bundle(bundle_of(personal(plain), "p"), place / "plain.lore")
        (place / "x.csv").write_text("ash,s\n" + "".join(f"{a},{s}\n" for a, s in X[:8].tolist()))
        for bundle, more in (("p", ["--as-of", asked]), ("plain", [])):
            out = place / f"{bundle}.csv"
            run("predict", place / f"{bundle}.lore", place / "x.csv", "--out", out, *more)
        assert (place / "p.csv").read_text() == (place / "plain.csv").read_text()
        dated = read_bundle(place / "p.lore", as_of=asked)
        row = {"ash": float(X[0, 0]), "s": float(X[0, 1])}
        ours = predict(make_app(dated, as_of=asked), row).json()
        theirs = predict(make_app(read_bundle(place / "plain.lore")), row).json()
        if "answers" in theirs:
            for one in (ours, theirs):
                one["answers"][0].pop("reasons")
        assert ours.get("answers") == theirs.get("answers")
        mine, other = certify(dated), certify(read_bundle(place / "plain.lore"))
        assert [(c["claim"], c["status"]) for c in mine["claims"]] == [
            (c["claim"], c["status"]) for c in other["claims"]
        ]
        for subject in certified(place, dated, mine):
            lines = check(place / "certificate.json", subject)
            wrong = [str(line) for line in lines if not line.holds]
            assert outcome_of(lines).code == 0 or mine["verdict"] != "proved", wrong


def certified(place, bundle, values):
    (place / "certificate.json").write_text(json.dumps(values))
    write_bundle(bundle, place / "subject.lore")
    (place / "model.onnx").write_bytes(bundle_to_onnx(bundle).SerializeToString())
    return place / "subject.lore", place / "model.onnx"


LIMITS = (
    [([(12, 5, 2, None, None)], None, None)],
    [([(20, 5, 2, None, 4), (30, 5, 1, 4, None)], None, None)],
)


@pytest.fixture
def site(tmp_path):
    bundle = bundle_of(personal(Knowledge.read(write(tmp_path / "k", LIMITS), as_of=FIRST)), "p")
    values = certify(bundle)
    return values, certified(tmp_path, bundle, values), tmp_path / "certificate.json"


def forge(place, values, **changes):
    said = {k: v for k, v in {**values, **changes}.items() if v is not Ellipsis}
    place.write_text(json.dumps(said | {"sha256": seal(said)}))


@pytest.mark.parametrize(
    "changes",
    [
        {"as_of": "2024-01-05"},  # other rules are valid then
        {"as_of": "2024-01-05", "same": {"from": "2024-01-05", "until": None}},
        {"as_of": "2024-01-01T00"},
        {"as_of": "20240101"},
        {"as_of": ...},
        {"as_of": None},
        {"as_of": 5},
        {"same": {"from": None, "until": None}},
        {"same": {"from": None, "until": "2024-01-06"}},
        {"same": ...},
    ],
)
def test_a_forged_day_is_refused(site, changes):
    values, subjects, place = site
    assert (values["as_of"], values["same"]) == (
        "2024-01-01",
        {"from": None, "until": "2024-01-05"},
    )
    forge(place, values, **changes)
    graph = [str(line) for line in check(place, subjects[1]) if not line.holds]
    assert graph, changes
    if changes != {"as_of": "2024-01-05", "same": {"from": "2024-01-05", "until": None}}:
        assert [line for line in check(place, subjects[0]) if not line.holds], changes


def test_a_day_for_rules_without_dates_is_refused(tmp_path):
    path = write(tmp_path / "k", LIMITS, 0)
    bundle = bundle_of(personal(Knowledge.read(path)), "p")
    values = certify(bundle)
    assert "as_of" not in values
    subjects = certified(tmp_path, bundle, values)
    forge(tmp_path / "certificate.json", values, as_of="2024-01-01")
    for subject in subjects:
        assert outcome_of(check(tmp_path / "certificate.json", subject)).code == 1


def test_a_graph_says_as_of_which_day_it_is(site, tmp_path):
    import onnx

    model = onnx.load(tmp_path / "model.onnx")
    said = {entry.key: entry.value for entry in model.metadata_props}
    assert said["fedlore.as_of"] == "2024-01-01"
    next(e for e in model.metadata_props if e.key == "fedlore.as_of").value = "2024-01-02"
    onnx.save(model, tmp_path / "model.onnx")
    lines = check(tmp_path / "certificate.json", tmp_path / "model.onnx")
    assert "names in the graph" in [line.what for line in lines if not line.holds]


def test_a_service_goes_with_the_days(site, tmp_path, monkeypatch):
    from fedlore.kernel import dates

    bundle = read_bundle(tmp_path / "subject.lore", as_of=FIRST)
    app, row = make_app(bundle), {"ash": 35.0, "s": 1.0}
    seen = []
    for number in (0, 3, 4, 5):
        monkeypatch.setattr(dates, "today", lambda n=number: FIRST + timedelta(days=n))
        reply = predict(app, row).json()
        seen.append((reply["as_of"], reply["answers"][0]["allowed"]))
    days = ["2024-01-01", "2024-01-04", "2024-01-05", "2024-01-06"]
    assert seen == [*((d, ["B", "C"]) for d in days[:2]), *((d, ["B"]) for d in days[2:])]


def test_a_monitor_holds_rows_against_the_rules_of_their_day(site, tmp_path):
    bundle = read_bundle(tmp_path / "subject.lore", as_of=FIRST)
    x = torch.tensor([[35.0, 1.0]] * 3)
    y = torch.tensor([2, 2, 2])
    facts = find_facts(bundle, x, y, ["2024-01-04", "2024-01-05", ""])
    said = {f.question.name: f.values.tolist() for f in facts if f.question.kind == "range"}
    first, second = (said[f"range0.csv, row {row}"] for row in (2, 3))
    assert [first[0], second[1], first[2]] == [0.0, 1.0, 0.0]
    assert all(np.isnan(v) for v in (first[1], second[0], second[2]))
    every = find_facts(bundle, x[:0], y[:0], every=True)
    assert {f.question.name for f in every} >= {"range0.csv, row 2", "range0.csv, row 3"}
    with pytest.raises(FedloreError, match="'yesterday' of a row is not a date"):
        find_facts(bundle, x, y, ["yesterday", "", ""])


HEARD = (
    [([(12, 5, 2, None, None)], None, None)],
    [([(20, 5, 2, None, 4), (25, 5, 2, None, 6)], None, None)],
)


def test_members_who_hear_what_is_valid_no_more_give_no_answer(tmp_path):
    whole = mixture(Knowledge.read(write(tmp_path / "k", HEARD), as_of=FIRST), X, 3)
    bundle = bundle_of(whole, "p")
    for number in (0, 4, 5):
        plain = Knowledge.read(write(tmp_path / f"plain{number}", HEARD, number))
        other = Personal(whole.model, plain, scaler=whole.scaler, ensemble=whole.ensemble)
        asked = bundle_on(bundle, FIRST + timedelta(days=number))
        assert same(answers(asked), answers(bundle_of(other, "p")))
    with pytest.raises(FedloreError, match="the knowledge as of 2024-01-07 has prediction"):
        bundle_on(bundle, FIRST + timedelta(days=6))
