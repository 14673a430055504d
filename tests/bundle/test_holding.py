"""Sets and intervals that hold, around a bundle's answers and in a file of them."""

import csv

import pytest
import torch

from fedlore import Knowledge, Personal, Sets
from fedlore.bundle import bundle_of, read_bundle, write_bundle
from fedlore.bundle.archive import Refused
from fedlore.bundle.header import HOLDINGS, read_holdings
from fedlore.bundle.predict import answer_rows, doubt_rows, read_holding, stored_holding
from fedlore.bundle.serve.answer import Answerer
from fedlore.bundle.store import open_members, with_holdings
from fedlore.core.conformal import CoveragePromise, list_promises
from fedlore.core.nets import mlp
from fedlore.errors import FedloreError
from fedlore.knowledge.tables.sheets import table_of
from fedlore.models.doubt import doubt_classes

from ..coke.blend.doubters import CSR, SCALE, STEPS, foreseen, numbers, rows
from ..coke.blend.test_promise import narrow
from .making import call, run


@pytest.fixture
def north(classes, tmp_path):
    """The place of a bundle, of labelled rows to calibrate on, and of new ones."""
    write_bundle(classes, tmp_path / "north.lore")
    calm = write_rows_of(tmp_path / "calm.csv", *labelled(9, 30))
    return tmp_path / "north.lore", calm, write_rows_of(tmp_path / "new.csv", *labelled(10, 5))


@pytest.fixture(scope="module")
def classes():
    return bundle_of(foreseen(knowledge=Knowledge(schema=STEPS)), "north")


def labelled(seed, count=400):
    x, place = rows(seed, count)
    return x, place.round().clamp(0, 7).long()


def test_new_rows_lie_in_their_sets_as_often_as_promised(classes):
    shares, sizes = [], []
    x, y = labelled(5)
    new, truth = labelled(6)
    there, known = answer_rows(classes, new), answer_rows(classes, x).misses(y)
    for start in range(0, 400, 40):
        part = known[start : start + 40]
        cut = float(part.sort().values[36])  # ⌈41·0.9⌉ = 37
        sets = there.hold(cut)
        shares.append(float(sets.gather(1, truth.unsqueeze(1)).double().mean()))
        sizes.append(float(sets.sum(1).double().mean()))
        assert (sets.sum(1) >= 1).all() and not (sets & ~there.allowed).any()
    assert sum(shares) / 10 == pytest.approx(37 / 41, abs=0.03)
    assert sum(sizes) / 10 < 4


def test_no_set_leaves_the_range_however_wide_it_is():
    model = foreseen(knowledge=Knowledge(range=narrow))
    with torch.no_grad():
        answers = model.answer(STEPS, rows(4, 50)[0])
    sets = answers.hold(1.0)
    assert torch.equal(sets, answers.allowed) and (sets.sum(1) == 4).all()
    assert (answers.hold(0.0).sum(1) == 1).all()  # the answer itself is never left out


def test_new_numbers_lie_in_their_intervals_as_often_as_promised():
    bundle = bundle_of(numbers_known(), "north")
    x, place = rows(7, 300)
    new, truth = rows(8, 300)
    cut = float(answer_rows(bundle, x).misses(40 + 5 * place).sort().values[270])
    there = answer_rows(bundle, new)
    low, high = there.hold(cut).unbind(1)
    y = 40 + 5 * truth.double()
    assert float(((low <= y) & (y <= high)).double().mean()) == pytest.approx(0.9, abs=0.05)
    assert (low >= there.low).all() and (high <= there.high).all() and (low <= high).all()
    wider = there.hold(0.999)
    assert (wider[:, 0] <= low).all() and (wider[:, 1] >= high).all()


def numbers_known():
    return numbers().with_knowledge(Knowledge(schema=CSR))


def write_rows_of(path, x, y):
    lines = [f"{a},{b},{STEPS.classes[int(c)]}" for (a, b), c in zip(x.tolist(), y, strict=True)]
    path.write_text("\n".join(["ash,rank,grade", *lines]) + "\n")
    return path


def test_a_file_gets_a_column_of_sets_and_a_sentence_of_what_is_promised(classes, north, tmp_path):
    place, calm, new = north
    out = tmp_path / "out.csv"
    told = run("predict", place, new, "--out", out, "--calibrate", calm, "--level", "0.8")
    assert "Holds with 0.8 for new rows like the 30 it was calibrated on" in told
    with open(tmp_path / "out.csv", newline="") as file:
        found = list(csv.DictReader(file))
    holding = read_holding(classes, calm, 0.8)
    sets = answer_rows(classes, labelled(10, 5)[0]).hold(holding.cut)
    names = [{STEPS.classes[c] for c in row.nonzero().flatten()} for row in sets]
    assert [set(row["held"].split("|")) for row in found] == names
    assert all(row["grade"] in row["held"] for row in found)


def outsiders(bundle, x, share, seed):
    """Labels of which such a share lies outside the range."""
    allowed, draw = answer_rows(bundle, x).allowed, torch.Generator().manual_seed(seed)
    inside = torch.multinomial(allowed.double(), 1, generator=draw).squeeze(1)
    beyond = torch.multinomial((~allowed).double(), 1, generator=draw).squeeze(1)
    return torch.where(torch.rand(len(x), generator=draw) < share, beyond, inside)


def test_labels_outside_the_range_are_counted_against_the_promise(tmp_path):
    """A quarter outside: nine of ten cannot be held, and the kept rows say what is."""
    names = STEPS.classes
    rules = [
        {"ash": at, "then": f"{names[i]}..{names[i + 3]}"} for at, i in (("<= 12", 3), ("> 12", 0))
    ]
    limits = table_of(rules, STEPS, kind="range")
    bundle = bundle_of(foreseen(knowledge=Knowledge(range=limits, schema=STEPS)), "north")
    x, new = rows(11, 400)[0], rows(12, 2000)[0]
    y, truth = outsiders(bundle, x, 0.25, 1), outsiders(bundle, new, 0.25, 2)
    promise = read_holding(bundle, write_rows_of(tmp_path / "calm.csv", x, y), 0.9)
    outside = int((~answer_rows(bundle, x).allowed.gather(1, y.unsqueeze(1))).sum())
    assert promise.cut == 1.0 and promise.outside == outside and not promise.holds
    said = promise.sentence()
    assert said.startswith(f"Cannot reach 0.9: {outside} of these 400 labels lie outside")
    ends = [float(said.split()[place]) for place in (-10, -8)]  # between A and B of new rows ...
    held = answer_rows(bundle, new).hold(promise.cut).gather(1, truth.unsqueeze(1)).double().mean()
    assert ends[0] < float(held) < ends[1] < 0.9
    some = outsiders(bundle, x, 0.05, 3)  # few enough: the level is held all the same
    promise = read_holding(bundle, write_rows_of(tmp_path / "few.csv", x, some), 0.9)
    assert promise.holds and "labels lie outside the range)" in promise.sentence()
    truth = outsiders(bundle, new, 0.05, 4)
    held = answer_rows(bundle, new).hold(promise.cut).gather(1, truth.unsqueeze(1)).double().mean()
    assert float(held) == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize(("rows", "most"), [(9, 0), (18, 0), (19, 1), (29, 2)])
def test_a_level_holds_up_to_as_many_labels_outside_as_its_rank_leaves(rows, most):
    """Nine of ten: the ⌈(n+1)·0.9⌉-th score must be one of a label inside."""
    for outside in (most, most + 1):
        scores = torch.linspace(0, 0.5, rows)
        scores[:outside] = torch.inf
        promise = CoveragePromise.of(scores, 0.9)
        assert (promise.outside, promise.holds) == (outside, outside == most)
        assert (promise.cut == 1.0) == (outside > most)


def test_numbers_outside_their_range_are_in_no_interval():
    """However near they lie: an interval ends where the range does."""
    known = Knowledge(range=lambda x: Sets.whole(len(x), 45.0, 60.0), schema=CSR)
    x, draw = rows(7, 2000)[0], torch.Generator().manual_seed(5)
    with torch.no_grad():
        answers = numbers().with_knowledge(known).answer(CSR, x)
    y = 45.0 + 15.0 * torch.rand(2000, generator=draw, dtype=torch.float64)
    y[::12] = 60.01  # a twelfth just beyond it
    scores = answers.misses(y)
    assert torch.equal(scores.isinf(), y > 60.0)
    low, high = answers.hold(CoveragePromise.of(scores[:1000], 0.9).cut)[1000:].unbind(1)
    held = ((low <= y[1000:]) & (y[1000:] <= high)).double().mean()
    assert float(held) == pytest.approx(0.9, abs=0.03)


def test_too_few_rows_leave_nothing_behind(north, tmp_path):
    few = write_rows_of(tmp_path / "few.csv", *labelled(9, 8))
    result = call("predict", north[0], few, "--out", tmp_path / "out.csv", "--calibrate", few)
    assert result.exit_code != 0 and "8 rows cannot promise a level of 0.9" in str(result.exception)
    assert not (tmp_path / "out.csv").exists()
    assert "between 0.7" in CoveragePromise(0.9, 0.5, 30).sentence()


def test_a_file_gets_noise_and_ignorance_and_says_what_is_far(classes, north, tmp_path):
    place, _, new = north
    new.write_text("ash,rank\n12.0,1.1\n39.0,0.1\nmuch,1.0\n")
    result = call("predict", place, new, "--doubt", "--out", tmp_path / "out.csv")
    assert result.exit_code == 1  # of the third row that no number is in
    with open(tmp_path / "out.csv", newline="") as file:
        near, far, wrong = csv.DictReader(file)
    assert (near["far"], far["far"], wrong["far"]) == ("false", "true", "")
    assert float(far["ignorance"]) > float(far["noise"]) == float(near["noise"])
    known = classes.personal.annotate(torch.tensor([[12.0, 1.1]]))
    assert float(near["ignorance"]) == pytest.approx(
        float(doubt_classes(classes.personal, known).ignorance)
    )


def test_a_network_alone_cannot_tell_its_ignorance(tmp_path):
    alone = Personal(mlp(2, 8, hidden=(4,)), Knowledge(schema=STEPS), scaler=SCALE)
    with pytest.raises(FedloreError, match="cannot tell its own ignorance"):
        doubt_rows(bundle_of(alone, "north"), rows(1, 2)[0])
    told = doubt_rows(bundle_of(numbers_known(), "north"), rows(1, 2)[0])
    assert (told.noise > 0).all()


def test_what_kept_rows_promise_is_stored_and_answered_by_file_and_service(
    classes, north, tmp_path
):
    place, calm, new = north
    kept, out = tmp_path / "kept.lore", tmp_path / "out.csv"
    told = run("predict", place, new, "--out", out, "--calibrate", calm, "--store", kept)
    assert "promises 0.8, 0.9, 0.95" in told
    found = read_bundle(kept)
    assert [one.level for one in found.holdings] == [0.8, 0.9, 0.95]
    assert found.fingerprint != classes.fingerprint
    first = out.read_text()
    assert "Holds with 0.9" in run("predict", kept, new, "--out", out, "--force")
    assert out.read_text() == first  # the same sets, now without the rows
    told, _ = Answerer.of(found)(labelled(10, 5)[0].double())
    sets = answer_rows(found, labelled(10, 5)[0]).hold(found.holdings[1].cut)
    assert [len(row["held"]) for row in told] == sets.sum(1).tolist()
    assert all(row["noise"] > 0 and row["far"] == (row["ignorance"] > row["noise"]) for row in told)


def test_a_bundle_that_promises_nothing_says_nothing():
    alone = bundle_of(Personal(mlp(2, 8, hidden=(4,)), Knowledge(schema=STEPS), scaler=SCALE), "n")
    assert alone.holdings == () and stored_holding(alone, 0.9) is None
    told, _ = Answerer.of(alone)(rows(1, 2)[0].double())
    assert {(row["held"], row["noise"], row["far"]) for row in told} == {(None, None, None)}


def test_rows_kept_aside_come_before_a_sites_own(classes):
    every = [CoveragePromise(0.9, 0.1 * i, 20, w) for i, w in enumerate(("unseen", "kept"), 1)]
    for count, whose in ((2, "kept"), (1, "unseen")):
        one = stored_holding(with_holdings(classes, every[:count]), 0.9)
        assert one is not None and one.whose == whose
    assert stored_holding(with_holdings(classes, every), 0.93) is None


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        '[{"level": 1.5, "cut": 0.5, "rows": 20}]',
        '[{"level": 0.9, "cut": 0.5, "rows": 20, "whose": "mine"}]',
    ],
)
def test_promises_that_cannot_be_are_refused(classes, text):
    with pytest.raises(Refused, match=HOLDINGS):
        read_holdings(text.encode())
    with pytest.raises(FedloreError):
        open_members({**classes.members, HOLDINGS: text.encode()})


def test_cuts_of_a_site_come_at_every_level_that_its_rows_allow():
    scores = torch.rand(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert all("no guarantee" in own.sentence() for own in list_promises(scores, "unseen"))
    assert [one.level for one in list_promises(scores[:12], "unseen")] == [0.8, 0.9]
