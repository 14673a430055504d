"""A lying coordinator against real processes: nothing leaves that was not agreed to."""

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from fedlore.core.wire import SUMMED, Task
from fedlore.federation.coordinator.server import link_of
from fedlore.federation.coordinator.training import train_federation
from fedlore.federation.flower.transport import Mail
from fedlore.federation.kits.certificates import raw_key
from fedlore.federation.kits.kit import enrolled_keys
from fedlore.federation.remote import Letter, Remote
from fedlore.federation.settings import read_deployed
from fedlore.federation.site.audit import REPEATS
from fedlore.federation.site.consent import accept_terms
from fedlore.federation.site.folder import read_kit
from fedlore.federation.terms import terms_of
from fedlore.privacy import Privacy
from fedlore.privacy.secagg.filter import SecureAggregation

from .inside import agree, audit_lines, check_undisturbed, edited, first_task
from .test_chosen import MENU
from .test_lying import BEYOND, changed
from .test_masked import HIDDEN
from .test_processes import running, trial
from .test_sums import weighted

pytestmark = pytest.mark.slow


@dataclass
class Liar:
    """A coordinator's run of its own, in which anything may be asked under any terms."""

    mail: Mail
    sites: list[str]

    def ask(self, task: Task, terms, *, seconds=120.0) -> dict[str, Letter]:
        """What each site says to it."""
        self.mail.online()
        mail = replace(self.mail, terms=terms.text())
        names = dict(zip(mail.push(task, self.sites, seconds), self.sites, strict=True))
        found: dict[str, Letter] = {}
        end = time.monotonic() + seconds
        while len(found) < len(names) and time.monotonic() < end:
            left = [name for name, site in names.items() if site not in found]
            found |= {names[letter.about]: letter for letter in mail.pull(left)}
            time.sleep(0.1)
        assert set(found) == set(self.sites), "a site says nothing any more"
        return found

    def refused(self, task: Task, terms, words: str) -> None:
        for site, letter in self.ask(task, terms).items():
            assert letter.reply is None and letter.wrong == "refused", (site, letter)
            assert words in letter.detail, letter.detail

    def summed(self, task: Task, terms, lost=()) -> list[tuple[str, ...]]:
        """Whose sum it reads through masks, where the answers of some sites are said to be lost."""
        self.mail.online()
        remote = Remote(replace(self.mail, terms=terms.text()), self.sites, 1, 60.0, needed=0)
        way = SecureAggregation(asked=len(self.sites), run=terms.run).over(Losing(remote, lost))
        return [reply.names for reply in way.exchange(task, self.sites)]


@contextmanager
def lying(folder):
    keys = {name: raw_key(key) for name, key in enrolled_keys(folder).items()}
    with link_of(folder).run((folder / "runner.secret").read_bytes()) as grid:
        yield Liar(Mail(grid, keys), sorted(keys))


def homes(folder):
    return sorted((folder / "sites").iterdir())


def test_whatever_is_asked_nothing_leaves_that_was_not_agreed_to(tmp_path):
    folder = trial(tmp_path / "fed", sites=3, rounds=3)
    terms = terms_of(read_deployed(folder), run="lies", participants=3)
    task = first_task(terms)
    with running(folder) as federation:
        with lying(folder) as liar:
            for changes, _ in BEYOND:  # not agreed to: whatever the policy says of them
                liar.refused(task, changed(terms, changes), "")
            for other in ({"rounds": 4}, {"seed": 1}, {"largest": 1e9}):
                liar.refused(task, replace(terms, **other), "are not those that this site agreed")
            for odd, words in (
                ({"seed": 7}, "seed 7 was asked for"),
                ({"rate": 1e9}, "times the learning rate"),
                ({"round": 4}, "the terms have 3"),
                ({"trial": "0/0/3"}, "have no candidates"),
                ({"kind": "vote"}, "have no candidates"),
                ({"kind": "unmask"}, "a defence that these terms do not have"),
                ({"kind": "dump"}, "unknown task 'dump'"),
                ({"receipt": "{}"}, "the receipt that came with a task cannot be read"),
            ):
                liar.refused(replace(task, **odd), terms, words)
            said = [line for home in homes(folder) for line in audit_lines(home)]
            assert said and all(line["event"] == "refused" for line in said)
            answered = sum(
                all(letter.reply is not None for letter in liar.ask(shifted, terms).values())
                for shifted in (first_task(terms, shift=n * 1e-3) for n in range(12))
            )
            assert answered == REPEATS
            # and where a careless owner agrees to all of it, each in a run without questions yet
            for number, (changes, words) in enumerate(BEYOND):
                beyond = replace(changed(terms, changes), run=f"lies {number}")
                for home in homes(folder):
                    accept_terms(read_kit(home), beyond)
                liar.refused(task, beyond, words)
        agree(folder)
        assert all(child.code() is None for child in federation.sites.values())
        train_federation(folder)  # and all of them go on
    check_undisturbed(folder)
    for home in homes(folder):
        lies = [e for e in audit_lines(home) if str(e.get("run", "lies")).startswith("lies")]
        assert sum(e["event"] == "answered" for e in lies) == REPEATS
        reasons = " ".join(e["reason"] for e in lies if e["event"] == "refused")
        assert all(words in reasons for _, words in BEYOND)  # every refusal has a line


class Losing:
    """A way on which answers to `train` of some sites get lost on purpose."""

    def __init__(self, remote, lost):
        self._remote, self._lost = remote, lost

    def clients(self):
        return self._remote.clients()

    def exchange(self, task, to):
        replies = self._remote.exchange(task, to)
        lossy = task.kind in SUMMED
        return [r for r in replies if not lossy or r.client not in self._lost]


def test_no_second_sum_is_opened(tmp_path):
    """The sum of four sites beside that of three would be the fourth's upload, or its rows'."""
    folder = trial(tmp_path / "fed", sites=4, rounds=2)
    edited(folder / "federation.toml", ("secure_aggregation = false", "secure_aggregation = true"))
    terms = terms_of(read_deployed(folder), run="twice", participants=4)
    with running(folder), lying(folder) as liar:

        def summed(shift=0.0, lost=(), run="twice", kind="train"):
            task = first_task(terms, shift=shift) if kind == "train" else Task(kind, 0)
            return liar.summed(task, replace(terms, run=run), lost)

        assert summed() == [tuple(liar.sites)]
        assert summed(lost=liar.sites[3:]) == []
        assert summed(1e-6, lost=liar.sites[3:]) == []  # next to the same weights
        assert summed(kind="moments") == [tuple(liar.sites)]  # in another run, too
        assert summed(lost=liar.sites[3:], run="later", kind="moments") == []
        bare = replace(terms, privacy=Privacy())
        liar.refused(first_task(bare), bare, "are not those that this site agreed")
    for home in homes(folder)[:3]:
        reasons = [e["reason"] for e in audit_lines(home) if e["event"] == "refused"]
        assert sum("it would tell single uploads" in reason for reason in reasons) == 3


def test_no_second_sum_of_rows_is_opened(tmp_path):
    """Those of four sites beside those of three are the rows of the fourth, to the last digit."""
    changes = ('recipe = "none"', 'recipe = "lore"'), ("\n[model]", MENU)
    folder = trial(tmp_path / "fed", HIDDEN, *changes, sites=4, rounds=3)
    terms = terms_of(read_deployed(folder), run="twice", participants=4)
    with running(folder), lying(folder) as liar:
        everybody, lost = [tuple(liar.sites)], liar.sites[3:]
        assert liar.summed(Task("gram", 0), terms) == everybody
        assert liar.summed(weighted(terms), terms, lost) == []  # in the step that follows
        assert liar.summed(Task("gram", 0), replace(terms, run="later"), lost) == []
        assert liar.summed(Task("gram", 0), replace(terms, run="later")) == everybody
    for home in homes(folder)[:3]:
        reasons = [e["reason"] for e in audit_lines(home) if e["event"] == "refused"]
        assert sum("it would tell single uploads" in reason for reason in reasons) == 2
