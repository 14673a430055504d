"""A coordinator that asks honest-looking questions twice: no sums that tell single sites' apart."""

import itertools
import random
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from statistics import median

import pytest
import torch

from fedlore.core.tree import flatten
from fedlore.core.wire import SUMMED, Task, name_content, name_quantity
from fedlore.engine import Local
from fedlore.engine.loop import scale_together, start_run
from fedlore.federation.coordinator import training as coordinator
from fedlore.federation.household import local_sites
from fedlore.federation.remote import Refusal
from fedlore.federation.settings import read_deployed
from fedlore.federation.site import guard
from fedlore.federation.site.folder import read_kit
from fedlore.federation.site.guard import DataVersion, SumLedger
from fedlore.federation.site.worker import Worker
from fedlore.federation.terms import terms_of
from fedlore.privacy.ckks.cipher import new_key
from fedlore.privacy.filters import WITHHELD, SumWithheld, apply_halves
from fedlore.privacy.secagg.filter import THRESHOLD, SecureAggregation
from fedlore.privacy.secagg.pact import least

from .inside import Inside, agree, around, edited
from .test_chosen import MENU, chosen, own_models
from .test_lying import Lying
from .test_masked import masked, watched

#: Three candidates, so that there are short trials beside those of full length.
RUNGS = MENU.replace("]\n\n[model]", "  {hears = false, plain = 0.5},\n]\n\n[model]")


class Curious:
    """A coordinator that asks sites what it likes, through masks or ciphertexts, and reads."""

    def __init__(self, folder):
        self.homes = sorted((folder / "sites").iterdir())
        self.terms = terms_of(read_deployed(folder), run="x", participants=len(self.homes))
        self.refusals = []

    def ask(self, task, *, without=(), run="x"):
        """The sum over all sites, or all but some; sites are started anew each time."""
        terms = replace(self.terms, run=run)
        way = Lying({h.name: Worker(read_kit(h)) for h in self.homes}, terms.text())
        names = [h.name for h in self.homes if h.name not in without]
        way.clients = lambda: names
        (hiding,) = coordinator.coordinator_filters(terms)
        found = list(hiding.over(way).exchange(task, names))
        self.refusals = way.refusals
        return found

    def start(self, trial):
        recipe = self.terms.recipe(trial)
        return recipe.algorithm.send(start_run(recipe).state)


@pytest.fixture
def curious(tmp_path):
    return Curious(chosen(tmp_path / "fed", secure=True, search_space=RUNGS))


def train(curious, trial, round=1):
    rate = curious.terms.plan.rate(round, int(trial.rpartition("/")[2]))
    return Task("train", round, curious.start(trial), curious.terms.seed, rate, trial=trial)


def weighted(terms):
    """Sums behind a bend: from a model that is 0 their weights are next to 1."""
    one_shot = terms.search_space.one_shot
    size = len(one_shot.basis.groups(one_shot.columns(terms.features)))
    sent = {"mean": torch.zeros(size, dtype=torch.float64), "link": torch.tensor(1)}
    return Task("gram", 1, {"one_shot": sent})


TWICE = {
    "sums of rows, plain and weighted": lambda c: (Task("gram", 0), weighted(c.terms)),
    "a fold's training and the main one": lambda c: (train(c, "2/0/3"), train(c, "2/main/3")),
    "two folds from one start": lambda c: (train(c, "2/0/3"), train(c, "2/1/3")),
    "the same question again": lambda c: (Task("moments", 0), Task("moments", 0)),
}


@pytest.mark.parametrize("questions", TWICE.values(), ids=TWICE)
@pytest.mark.parametrize("run", ["x", "another"])
def test_of_the_same_content_no_sum_over_other_sites_is_opened(curious, questions, run):
    """One over four sites and one over three would be the fourth's own, to the last digit."""
    first, second = questions(curious)
    assert len(curious.ask(first)) == 1
    assert curious.ask(second, without=["plant-4"], run=run) == []
    assert len(curious.refusals) == 3
    assert all(reason.startswith(WITHHELD) for reason in curious.refusals)
    assert len(curious.ask(second, run=run)) == 1  # of the same sites it tells nothing new


@pytest.mark.parametrize("task", [Task("gram", 0), Task("moments", 0)], ids=["gram", "moments"])
def test_under_encryption_no_sum_over_other_sites_is_decrypted(tmp_path, task):
    """Two of them would tell the rows of the site that is in one, and their count."""
    folder = encrypted(tmp_path / "fed")
    curious = Curious(folder)
    assert len(curious.ask(task)) == 1
    for run in ("x", "another"):
        assert curious.ask(task, without=["plant-4"], run=run) == []
        assert len(curious.refusals) == 3
    assert all(reason.startswith(WITHHELD) for reason in curious.refusals)
    assert len(curious.ask(task, run="another")) == 1


def test_under_encryption_nobody_is_asked_to_decrypt_a_second_sum(tmp_path):
    """One that was gone when the first was decrypted does not know of it, and could do it alone."""
    folder = encrypted(tmp_path / "fed")
    curious = Curious(folder)
    terms, names = curious.terms, [home.name for home in curious.homes]
    workers = {home.name: Worker(read_kit(home)) for home in curious.homes}
    way, decrypted = Lying(workers, terms.text()), []

    def answer(task, text, worker=workers["plant-4"]):
        if task.kind == "decrypt":
            if gone:
                raise Refusal("the power is gone")
            decrypted.append(task)
        return worker(task, text)

    workers["plant-4"], gone = answer, True
    (ckks,) = coordinator.coordinator_filters(terms, folder)
    assert len(list(ckks.over(way).exchange(Task("moments", 0), names))) == 1
    gone = False
    for run in ("x", "another"):
        (ckks,) = coordinator.coordinator_filters(replace(terms, run=run), folder)
        way.text = replace(terms, run=run).text()
        with pytest.raises(SumWithheld, match="a sum with plant-1 was asked for before"):
            list(ckks.over(way).exchange(Task("moments", 0), names[1:]))
    assert not decrypted


def encrypted(folder):
    chosen(folder, search_space=RUNGS)
    edited(folder / "federation.toml", ("secure_aggregation = false", 'encryption = "ckks"'))
    for home in local_sites(folder):
        (home / "ckks.key").write_bytes(shared_key())
    agree(folder)
    return folder


@cache
def shared_key():
    return new_key()


def test_sites_that_were_sent_different_weights_share_no_masks(curious):
    """Each of them works out the name of what it was asked, and masks are made of it."""
    way = SecureAggregation(asked=4, run="x")
    names, task = [h.name for h in curious.homes], train(curious, "2/main/3")
    other = {k: {n: t + 1e-6 for n, t in b.items()} for k, b in task.sent.items()}
    pacts = [way.pact(Task("train", 1, sent, trial="2/main/3"), names) for sent in
             (task.sent, other)]  # fmt: skip
    assert pacts[0] != pacts[1]


def test_a_few_changed_rows_are_not_told_by_the_same_sum_again(curious):
    """The difference of the two sums would be those rows'."""
    assert len(curious.ask(Task("gram", 0))) == 1
    table = curious.homes[0] / "train.csv"
    head, *rows = table.read_text().splitlines()
    table.write_text("\n".join([head, *rows[1:]]) + "\n")
    assert curious.ask(Task("gram", 0), run="another") == []  # the others could open it alone
    assert "have changed since" in curious.refusals[0]
    table.write_text("\n".join([head, *rows[len(rows) // 2 :]]) + "\n")
    assert len(curious.ask(Task("gram", 0), run="a third")) == 1  # half of them are other data


def test_of_a_few_rows_no_difference_is_told_wherever_a_version_began(curious):
    """Rows that were only looked at, others that were summed, and a few more: nearly the same."""
    table = curious.homes[0] / "train.csv"
    head, *rows = table.read_text().splitlines()

    def keep(share):
        table.write_text("\n".join([head, *rows[int(share * len(rows)) :]]) + "\n")

    assert len(curious.ask(Task("moments", 0))) == 1
    keep(0.3)
    assert len(curious.ask(Task("gram", 0), run="another")) == 1
    keep(0.36)  # more than a third of those that were there at first
    assert curious.ask(Task("gram", 0), run="a third") == []
    assert "have changed since" in curious.refusals[0]


def test_a_site_that_lost_its_list_of_rows_refuses_more_and_not_less(curious):
    assert len(curious.ask(Task("gram", 0))) == 1
    for home in curious.homes:
        (home / "state" / "rows.json").unlink()
    assert len(curious.ask(Task("gram", 0), run="another")) == 1
    table = curious.homes[0] / "train.csv"
    head, *rows = table.read_text().splitlines()
    table.write_text("\n".join([head, *rows[1:]]) + "\n")
    (curious.homes[0] / "state" / "rows.json").unlink()
    assert curious.ask(Task("gram", 0), run="another") == []
    assert "have changed since" in curious.refusals[0]
    assert curious.ask(Task("gram", 0), without=["plant-4"], run="a third") == []


def test_rows_are_other_data_when_a_third_and_ten_of_them_are(tmp_path):
    x, y, path = torch.arange(60.0)[:, None], torch.zeros(60).long(), tmp_path / "rows.json"
    first = DataVersion.of(path, x, y)
    assert first == DataVersion.of(path, x.flip(0), y) and not first.far
    assert not DataVersion.of(path, x + 19, y, {first.rows}).far
    assert DataVersion.of(path, x + 20, y, {first.rows}).far == {first.rows}
    assert not DataVersion.of(path, x + 40, y).far  # of what was never summed nothing is kept
    few = DataVersion.of(tmp_path / "few.json", x[:12], y[:12])
    assert not DataVersion.of(tmp_path / "few.json", x[9:21], y[:12], {few.rows}).far
    assert DataVersion.of(tmp_path / "few.json", x[10:22], y[:12], {few.rows}).far
    assert path.stat().st_mode & 0o077 == 0


def summed_twice(tasks):
    """Kinds of tasks of the same content; no vote on a trial is one of them."""
    asked = [name_content(task) for task in tasks if task.kind in SUMMED]
    voted = [name_content(task) for task in tasks if task.kind == "vote" and task.trial]
    assert voted and len(set(voted)) == len(voted)
    return {name.partition(" ")[0] for name in asked if asked.count(name) > 1}


def lengths(tasks):
    return {task.trial.rpartition("/")[2] for task in tasks if task.kind == "train"}


@pytest.mark.slow
def test_the_honest_recipe_sums_nothing_twice(tmp_path, monkeypatch):
    folder = chosen(tmp_path / "fed", secure=True, search_space=RUNGS)
    edited(folder / "federation.toml", ("rounds = 3", "rounds = 6"))
    inside, seen = Inside(folder, monkeypatch), []
    inside.wrap["plant-1"] = watched(seen)
    inside.train()
    tasks = [task for task, _ in seen]
    assert summed_twice(tasks) == set()
    assert lengths(tasks) == {"3", "6"}  # short trials, and those that follow


def first_uploads(folder, salt):
    """What each site sends in the first round of the first candidate's training."""
    f = read_deployed(folder)
    recipe = terms_of(f, run="x", participants=4).recipe("0/main/3")
    sites = Local([read_kit(home).client(f.schema) for home in local_sites(folder)], recipe)
    recipe = replace(recipe, scaler=scale_together(sites))
    sites = Local([read_kit(home).client(f.schema) for home in local_sites(folder)], recipe)
    task = Task("train", 1, recipe.algorithm.send(start_run(recipe, salt).state))
    return {
        reply.client: torch.cat([t.flatten() for t in reply.upload["model"].values()]).double()
        for reply in sites.exchange(task, sites.clients())
    }


def test_from_another_start_two_sums_do_not_tell_a_single_upload(tmp_path):
    """Their difference is no nearer to it than it is long; from the same start it is the upload."""
    folder = chosen(tmp_path / "fed")
    one, other = (first_uploads(folder, salt) for salt in ("a", "b"))
    for lost, upload in one.items():
        for second, near in ((one, True), (other, False)):
            rest = sum(u for name, u in second.items() if name != lost)
            error = float((sum(one.values()) - rest - upload).norm() / upload.norm())
            assert (error < 1e-9) == near and (error > 0.5) != near


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["before the second training", "and was not in the first"])
def test_a_site_that_is_lost_or_added_ends_no_training(tmp_path, monkeypatch, gone):
    folder = chosen(tmp_path / "fed", secure=True)
    edited(folder / "federation.toml", ("deadline = 20.0", "deadline = 2.0"))
    inside, lines = Inside(folder, monkeypatch), []
    inside.absent |= {"plant-4"} if "not in" in gone else set()
    inside.train()
    inside.absent ^= {"plant-4"}
    inside.train(line=lines.append)
    if "not in" in gone:  # the sums over the three are asked for again, and serve all four
        assert "the one-shot model is made" in lines
        assert len(own_models(folder)) == 4
    else:
        assert any("the last scaling stays" in line for line in lines)
        assert any("without the one-shot model" in line for line in lines)


def test_a_training_that_cannot_go_on_begins_anew(tmp_path, monkeypatch):
    """A sum was opened by half, then a site of it was lost: nobody opens another one."""
    folder = masked(tmp_path / "fed", sites=4)
    inside, lines = Inside(folder, monkeypatch), []

    def lose(task):
        if task.kind == "unmask" and task.round == 2 and "plant-4" not in inside.absent:
            inside.absent.add("plant-4")
            raise RuntimeError("the power is gone")

    def fail(task):
        if task.kind == "unmask" and task.round == 2 and len(failed) < 1:
            failed.append(task)
            raise RuntimeError("the power is gone, too")

    failed = []
    monkeypatch.setattr(coordinator, "ATTEMPTS", 2)
    inside.wrap |= {"plant-4": around(lose), "plant-3": around(fail)}
    run = inside.train(line=lines.append)
    assert any("begins anew, from another start" in line for line in lines)
    assert [row["merged"] for row in run.rows if "merged" in row] == [3, 3, 3]


class Memory:
    """A ledger's lines, not on a disk."""

    def __init__(self):
        self.kept = []

    def lines(self):
        yield from self.kept

    def write(self, **facts):
        self.kept.append(facts)


ROWS = "rows: "  # before the content of sums of rows alone, which no steady cohort is about


def answered(schedule, sites, helper="", steady=False):
    """What a coordinator reads of a schedule: number, content and cohort, by the real ledgers.

    A sum is read where as many answer as the threshold of those in it: who refuses is in it all the
    same, and so is who is gone by then and writes nothing down (a third entry of a question). A
    helper agrees to everything. Where the sites keep to a steady cohort the second half of the
    questions is another training.
    """
    logs, data, run = {name: Memory() for name in sites}, DataVersion("d"), ""
    for number, (content, cohort, *gone) in enumerate(schedule):
        if run != f"run {2 * number // len(schedule) if steady else 0}":
            run = f"run {2 * number // len(schedule) if steady else 0}"
            ledgers = {n: SumLedger(logs[n], run, data, steady=steady) for n in sites}
        kind = "moments" if content.startswith(ROWS) else "train"
        task, left = Task(kind, number, {"model": {content: torch.zeros(1)}}), set(cohort)
        left -= set(gone[0]) if gone else set()
        agree = [s for s in left if s == helper or _agrees(ledgers[s], task, cohort)]
        if len(cohort) >= 3 and len(agree) >= least(len(cohort), THRESHOLD):
            yield number, content, cohort


def opened(schedule, sites, helper=""):
    """The cohorts of each content."""
    found = {}
    for _, content, cohort in answered(schedule, sites, helper):
        found.setdefault(content, []).append(cohort)
    return found


def _agrees(ledger, task, cohort):
    try:
        ledger.open(task, cohort)
    except Refusal:
        return False
    return True


def rank(rows):
    """By fractions, so that nothing is a matter of rounding."""
    rows, found = [[Fraction(v) for v in row] for row in rows], 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((r for r in range(found, len(rows)) if rows[r][column]), None)
        if pivot is None:
            continue
        rows[found], rows[pivot] = rows[pivot], rows[found]
        for r in range(found + 1, len(rows)):
            by = rows[r][column] / rows[found][column]
            rows[r] = [a - by * b for a, b in zip(rows[r], rows[found], strict=True)]
        found += 1
    return found


def tells(cohorts, sites, least=3):
    """Whether a combination of the sums is about fewer sites, by trying all sets of so few."""
    matrix = [[int(site in cohort) for site in sites] for cohort in cohorts]
    whole = rank(matrix)
    for few in itertools.combinations(range(len(sites)), least - 1):
        rest = [[v for i, v in enumerate(row) if i not in few] for row in matrix]
        if rank(rest) < whole:
            return True
    return False


def cohorts_of(sites):
    return [c for n in range(3, len(sites) + 1) for c in itertools.combinations(sites, n)]


def recipe_of(training):
    """A short training of the honest recipe: what every round of it is about."""
    fresh = [f"{training} {trial} {k}" for trial in ("0/0", "1/0", "main") for k in ("1", "vote")]
    return ["moments", "gram", *fresh][:6]


def patterns(questions, sites, dropouts):
    places = list(itertools.product(range(len(questions)), sites))
    for gone in itertools.combinations(places, dropouts):
        yield [
            (content, tuple(s for s in sites if (number, s) not in gone))
            for number, content in enumerate(questions)
        ]


def with_late_ones(questions, sites, dropouts):
    """The same where each of them is gone before its upload, or only after it."""
    places = list(itertools.product(range(len(questions)), sites, (False, True)))
    for gone in itertools.combinations(places, dropouts):
        yield [
            (content, tuple(s for s in sites if (n, s, False) not in gone),
             [s for s in sites if (n, s, True) in gone])
            for n, content in enumerate(questions)
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "dropouts"),
    [(4, 1), *(pytest.param(n, m, marks=pytest.mark.slow) for n in (4, 5, 6) for m in (1, 2))],
)
def test_the_recipe_twice_with_one_or_two_dropouts_tells_no_single_site(count, dropouts):
    """Every pattern of them over twelve questions; without the ledgers many would tell."""
    sites = "abcdef"[:count]
    questions, would = [*recipe_of(1), *recipe_of(2)], 0
    for schedule in with_late_ones(questions, sites, dropouts):
        schedule = [one for one in schedule if len(one[1]) >= 3]
        for cohorts in opened(schedule, sites).values():
            assert not tells(cohorts, sites)
        asked = [[c for name, c, _ in schedule if name == q] for q in ("moments", "gram")]
        would += any(tells(cohorts, sites) for cohorts in asked)
    assert would > 0


@pytest.mark.parametrize("count", [5, 6, pytest.param(7, marks=pytest.mark.slow)])
def test_sums_with_recorders_of_their_own_tell_as_few_sites_as_one_of_them(count):
    """The proof on the page: all families of sums of which no site wrote down two.

    Who refuses, was gone, or lost its books may be in any number of them, up to a third of each.
    """
    sites, found = "abcdefg"[:count], 0
    sums = [
        (set(cohort), set(wrote))
        for cohort in cohorts_of(sites)
        for wrote in itertools.combinations(cohort, least(len(cohort), THRESHOLD))
    ]
    for one, other in itertools.combinations(sums, 2):  # three take nine sites that write down
        if one[1] & other[1]:
            continue
        found += 1
        assert not tells([one[0], other[0]], sites)
    assert not any(tells([cohort], sites) for cohort, _ in sums)
    assert (found > 0) == (count > 5)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Of two honest trainings the tasks of one site, and per sum what each site puts into it.

    Runs have names that are drawn, and starts by their names: here always the same ones.
    """
    tasks, found, patch, drawn = [], {}, pytest.MonkeyPatch(), itertools.count(1)
    training = [0]

    def note(halves, task, reply, **more):
        if task.kind in SUMMED:
            flat = [t.flatten().double() for _, t in sorted(flatten(reply.upload).items())]
            place = (training[0], task.trial, task.kind, task.round, name_quantity(task))
            found.setdefault(place, {})[reply.client] = torch.cat(flat)
        return apply_halves(halves, task, reply, **more)

    with patch.context() as patched:
        patched.setattr(coordinator.secrets, "token_hex", lambda n: f"{next(drawn):0{2 * n}x}")
        inside = Inside(chosen(tmp_path_factory.mktemp("sums") / "fed", secure=True), patched)
        inside.wrap["plant-1"] = around(tasks.append)
        patched.setattr(guard, "apply_halves", note)
        for training[0] in (1, 2):
            inside.train()
    return tasks, found


def test_two_honest_trainings_sum_nothing_twice_but_what_the_rows_alone_decide(honest):
    """A vote without a trial is on links, which the rows alone decide, as they do boosted trees."""
    tasks, _ = honest
    assert summed_twice(tasks) == {"moments", "gram", "vote"}
    assert lengths(tasks) == {"3"}


@pytest.fixture(scope="module")
def uploads(honest):
    """All that two honest trainings sum: content, kind, and what each site puts into it."""
    _, found = honest
    marks = ["" if place[1] or place[2] == "train" else ROWS for place in found]
    named = zip(marks, found.items(), strict=True)
    return [(mark + place[-1], place[2], each) for mark, (place, each) in named]


def pairs_of(uploads, schedule, sites, ledgers=True, steady=False):
    """Two sums that one site was not in both of, and how near they come to its upload.

    In lengths of it. Whatever was asked is taken for the same: rounds that follow each other, too.
    """
    bare = [(n, *q) for n, q in enumerate(schedule)]
    read = answered(schedule, sites, steady=steady) if ledgers else bare
    sums = [(n, uploads[n][1], uploads[n][2], set(cohort)) for n, _, cohort in read]
    for at, kind, less, few in (one for one in sums if len(one[3]) < len(sites)):
        for n, other, more, all_ in sums:
            gone = all_ - few
            if other != kind or not few < all_ or len(gone) != 1:
                continue
            (site,) = gone
            if more[site].shape == less[site].shape:
                guess = sum(more[s] for s in all_) - sum(less[s] for s in few)
                yield (kind, at, n), site, float((guess - more[site]).norm() / more[site].norm())


def told_by(uploads, dropouts, **how):
    """By two sums and site the least of all patterns of dropouts in two trainings."""
    sites, found = sorted(uploads[0][2]), {}
    for schedule in patterns([content for content, *_ in uploads], sites, dropouts):
        schedule = [(content, cohort if len(cohort) >= 3 else ()) for content, cohort in schedule]
        for pair, site, error in pairs_of(uploads, schedule, sites, **how):
            by = found.setdefault(pair, {})
            by[site] = min(by.get(site, error), error)
    return found


def best_of(told):
    """By kind the nearest two sums.

    A vote is two numbers, and some of a hundred pairs are alike by chance, for one site and not for
    the next: two votes count by what they tell of the middle one of the sites.
    """
    best = {}
    for (kind, *_), by in told.items():
        error = median(by.values()) if kind == "vote" else min(by.values())
        best[kind] = min(best.get(kind, error), error)
    print({kind: f"{error:.3g}" for kind, error in best.items()})
    return best


@pytest.mark.parametrize("dropouts", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_no_two_sums_of_the_recipe_tell_a_single_upload(uploads, dropouts):
    """Measured on real uploads, every pattern of dropouts in two trainings, 4 sites.

    None is told to one part in a thousand, and not to one in a million by chance. The nearest are
    rounds next to each other, which tell it roughly, as does a vote of the other training.
    """
    told = told_by(uploads, dropouts)
    best, bare = best_of(told), best_of(told_by(uploads, dropouts, ledgers=False))
    assert {"train", "vote"} <= set(best) and min(best.values()) > 1e-3
    assert min(error for by in told.values() for error in by.values()) > 1e-6
    assert 0.05 < best["train"] < 0.5  # not nothing, and the page says so
    assert min(bare["moments"], bare["gram"]) < 1e-9  # what the ledgers stop


@pytest.mark.parametrize("dropouts", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_with_a_steady_cohort_dropouts_tell_no_upload_roughly_either(uploads, dropouts):
    """What is left are rounds of two trainings, from starts of their own.

    Off by half of its length and more with one dropout, by a quarter or a little less with two.
    """
    best = best_of(told_by(uploads, dropouts, steady=True))
    assert (
        best["train"] > (0.25 if dropouts == 1 else 0.2)
        and best["train"] > best_of(told_by(uploads, dropouts))["train"]
    )


def test_three_sums_tell_an_upload_better_than_two_and_still_roughly(honest):
    """The mean of the rounds before and after a dropout, less the round without the site."""
    _, found = honest
    rounds = {place[:4]: each for place, each in found.items() if place[2] == "train"}
    two, three = [], []
    for (training, trial, kind, round), now in rounds.items():
        beside = [rounds.get((training, trial, kind, n)) for n in (round - 1, round + 1)]
        for upload in now.values():
            rest = sum(now.values()) - upload
            guesses = [sum(one.values()) - rest for one in beside if one is not None]
            two.append(min(float((g - upload).norm() / upload.norm()) for g in guesses))
            if len(guesses) == 2:
                three.append(float((sum(guesses) / 2 - upload).norm() / upload.norm()))
    print(min(two), min(three))
    assert 0.05 < min(three) < min(two)


def test_next_to_the_same_start_in_another_run_is_another_question(curious):
    """What is not prevented, and the page says so: a coordinator that lies about its start."""
    task = train(curious, "2/main/3")
    assert len(curious.ask(task)) == 1
    near = {k: {n: t + 1e-6 for n, t in b.items()} for k, b in task.sent.items()}
    told = curious.ask(replace(task, sent=near), without=["plant-4"], run="another")
    assert [reply.names for reply in told] == [("plant-1", "plant-2", "plant-3")]


def test_votes_of_two_trainings_tell_a_site_s_mean_losses_roughly(uploads):
    """Of who voted in one of them alone: its count exactly, its losses to some per cent.

    What the others lost on as many rows, which is known without the site, is off by more at the
    last vote, where both trainings end in nearly the same models. The page says both.
    """
    votes = [each for content, kind, each in uploads if kind == "vote" and ROWS not in content]
    first, second = votes[: len(votes) // 2], votes[len(votes) // 2 :]
    found = {False: [], True: []}
    for one, other in zip(first, second, strict=True):
        last = one is first[-1]
        for site, mine in one.items():
            rest = sum(v for name, v in other.items() if name != site)
            guess, length = sum(one.values()) - rest, mine[:-1].norm()
            blind = rest[:-1] / rest[-1] * mine[-1]
            told, known = (float((g - mine[:-1]).norm() / length) for g in (guess[:-1], blind))
            print(f"{site} last={last}: {told:.4f}, without it {known:.4f}")
            assert abs(float(guess[-1] - mine[-1])) < 1e-6  # the count of rows
            assert told > 1e-6
            found[last].append((told, known))
    assert all(sum(told) < sum(known) for told, known in [zip(*found[True], strict=True)])
    assert (
        median(told for pairs in found.values() for told, _ in pairs) > 1e-3
    )  # one may be by chance


def test_of_one_quantity_no_schedule_whatever_over_six_sites_tells_fewer_than_three():
    """All of them: a ledger opens one cohort, so what is read are cohorts without a common site."""
    sites = "abcdef"
    cohorts = cohorts_of(sites)
    task = Task("train", 1, {"model": {"x": torch.zeros(1)}})
    for one, other in itertools.product([c for c in cohorts if "a" in c], repeat=2):
        ledger = SumLedger(Memory(), "run", DataVersion("d"))
        assert _agrees(ledger, task, one)
        assert _agrees(ledger, task, other) == (one == other)
    families = [[c] for c in cohorts]
    families += [[c, d] for c, d in itertools.combinations(cohorts, 2) if not {*c} & {*d}]
    assert len(families) == 42 + 10  # three cohorts of three would take nine sites
    assert not any(tells(family, sites) for family in families)


WEAKER = {
    "nothing is refused": lambda before, now: False,
    "a cohort is refused that lacks one site of another or has one more": (
        lambda before, now: any(len(of ^ now) == 1 for of in before)
    ),
    "only a part of another cohort is refused": lambda before, now: any(now < of for of in before),
}


@pytest.mark.parametrize("rule", WEAKER.values(), ids=WEAKER)
def test_the_prover_finds_what_a_weaker_rule_would_tell(rule, monkeypatch):
    def refuse(self, before, now):
        if rule([of for of in before if of != now], now):
            raise Refusal("x")

    monkeypatch.setattr(SumLedger, "_refuse_other_sites", refuse)
    with pytest.raises(AssertionError):
        test_no_schedule_of_twelve_questions_tells_single_sites(range(40))


def drawn(draw):
    """Twelve questions about two contents, over any cohorts, of which some are gone too late."""
    sites = "abcdef"[: draw.randint(4, 6)]
    schedule = [(draw.choice("xy"), draw.choice(cohorts_of(sites))) for _ in range(12)]
    late = [draw.sample(cohort, draw.randint(0, len(cohort) - 3)) for _, cohort in schedule]
    return sites, [(*one, gone) for one, gone in zip(schedule, late, strict=True)]


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(2000), marks=pytest.mark.slow)])
def test_no_schedule_of_twelve_questions_tells_single_sites(seeds):
    for seed in seeds:
        sites, schedule = drawn(random.Random(seed))
        for cohorts in opened(schedule, sites).values():
            assert not tells(cohorts, sites)


@pytest.mark.slow
def test_a_site_may_have_it_that_a_dropout_begins_the_training_anew(tmp_path, monkeypatch):
    """Lost for good after the second round: the others go on from another start, without it."""
    folder = masked(tmp_path / "fed", sites=4)
    for home in (folder / "sites").iterdir():
        text = (home / "site.toml").read_text()
        (home / "site.toml").write_text(text.replace("[policy]", "[policy]\nsteady_cohort = true"))
    inside, lines, seen = Inside(folder, monkeypatch), [], []

    def lose(task):
        seen.append(task.kind)
        if task.kind == "train" and task.round == 3:
            inside.absent.add("plant-4")
            raise RuntimeError("the power is gone")

    inside.wrap |= {"plant-4": around(lose)}
    run = inside.train(line=lines.append)
    assert any("begins anew, from another start" in line for line in lines)
    assert [row["merged"] for row in run.rows if "merged" in row] == [3, 3, 3]


def test_every_cell_of_the_page_that_says_who_learns_what_names_its_tests():
    root = Path(__file__).parents[2]
    page = (root / "docs" / "explain" / "privacy.md").read_text(encoding="utf-8")
    table = page.partition("**Who learns what** of one site")[2].partition("\n|---")[2]
    for row in table.partition("\n\n")[0].splitlines()[1:]:
        for cell in row.strip("|").split("|")[1:]:
            named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", cell)
            assert named, cell
            for file, test in named:
                path = root / file if "/" in file else root / "tests" / "federation" / file
                assert f"def {test}(" in path.read_text(encoding="utf-8"), (file, test)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(2000), marks=pytest.mark.slow)])
def test_with_the_help_of_one_site_no_single_other_is_told(seeds):
    """It keeps no ledger and gives its own uploads away: sums of the others have two or more."""
    for seed in seeds:
        sites, schedule = drawn(random.Random(seed))
        for cohorts in opened(schedule, sites, sites[0]).values():
            assert not tells(cohorts, sites[1:], least=2)
    assert tells(["abc", "abcd"], "bcd", least=2)  # what the ledgers of b and c stop
