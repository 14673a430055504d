"""Every lie of a server about who uploaded: never does it get a single upload.

A site answers the question who uploaded once. A server may tell each honest site another list of at
least t sites, that site among them, and has all shares of those who help it. What it then holds is
counted here over all such lists: from t shares of a seed it has the seed.
"""

import copy
import itertools
from dataclasses import dataclass

import pytest

from fedlore.core.wire import Task
from fedlore.privacy.secagg.crypto import SECRET
from fedlore.privacy.secagg.pact import least

from .masked import cohort, names
from .test_secagg import lying


def lists(n, t, site):
    """All lists of survivors that a site answers to."""
    return [
        frozenset(some)
        for size in range(t, n + 1)
        for some in itertools.combinations(names(n), size)
        if site in some
    ]


@dataclass
class Stopped:
    """A wire that keeps the question who uploaded and asks nobody."""

    inner: object
    kept: Task | None = None

    def clients(self):
        return self.inner.clients()

    def exchange(self, task, to):
        if task.kind == "unmask":
            self.kept = task
            return []
        return self.inner.exchange(task, to)


def answers_of(n):
    """t, and the seeds whose shares each site gives for each list: from the real halves."""
    one = cohort(n)
    one.wire.inner = stopped = Stopped(one.wire.inner)
    assert one.round() == []  # all have uploaded, none has answered
    t = one.halves["site-00"]._session.pact.threshold
    found = {}
    for site, half in one.halves.items():
        for some in lists(n, t, site):
            asked = lying(sorted(some))(stopped.kept).for_client(site)
            found[site, some] = secrets_in(copy.deepcopy(half).answer(asked), n, some)
    return t, found


def secrets_in(reply, n, some):
    """(dealer, dealer) for its own seed, (dealer, other) for one that it has with another."""
    lost = [s for s in names(n) if s not in some]
    seeds = {(dealer, dealer) for dealer in reply.upload["shares"]}
    pairs = set()
    for dealer, data in reply.upload["shares"].items():
        assert len(data) == SECRET * (1 + len(lost))
        pairs |= {(dealer, other) for other in lost}
    return frozenset(seeds | pairs)


def exposed(n, t, colluding, answers):
    """The honest sites whose single upload the server can compute from what it was told."""
    honest = [s for s in names(n) if s not in colluding]
    shares = {}
    for secrets in answers:
        for secret in secrets:
            shares[secret] = shares.get(secret, 0) + 1

    def known(dealer, other):
        return shares.get((dealer, other), 0) + len(colluding) >= t

    return [
        site
        for site in honest
        if known(site, site) and all(known(site, o) or known(o, site) for o in honest if o != site)
    ]


def enumerate_lies(n, t, answers):
    """How many lies there are, and those that expose somebody."""
    count, bad = 0, []
    few = [c for c in range(n) if 3 * c < n]
    for c in few:
        for colluding in itertools.combinations(names(n), c):
            honest = [s for s in names(n) if s not in colluding]
            options = [[answers[s, some] for some in lists(n, t, s)] for s in honest]
            for chosen in itertools.product(*options):
                count += 1
                if exposed(n, t, colluding, chosen):
                    bad.append((colluding, chosen))
    return count, bad


@pytest.mark.parametrize("n", [3, 4, 5, pytest.param(6, marks=pytest.mark.slow)])
def test_no_lie_exposes_a_single_upload(n):
    t, answers = answers_of(n)
    assert t == least(n, 2 / 3)
    count, bad = enumerate_lies(n, t, answers)
    print(f"n = {n}, t = {t}: {count} lies")
    assert count >= {3: 1, 4: 500, 5: 6_000, 6: 90_000}[n] and not bad


def test_below_two_thirds_a_lie_with_one_helper_does():
    """The law can fail: with n = 5 and t = 3 one site that helps exposes another."""
    victim, a, b, c, helper = names(5)
    answers = []
    for site in (a, b, c):  # each is told that it, the victim and the helper alone have uploaded
        some, lost = {victim, site, helper}, {a, b, c} - {site}
        pairs = itertools.product(some, lost)
        answers.append(frozenset({(dealer, dealer) for dealer in some} | set(pairs)))
    assert victim in exposed(5, 3, (helper,), answers)
    assert exposed(5, 4, (helper,), answers) == []
