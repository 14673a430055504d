"""The recipe: one number per site and candidate decides, the rest stays private."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import one_hot

from fedlore import ConfigError, Examples, Plan, inject
from fedlore.core.nets import mlp
from fedlore.engine import Training, local
from fedlore.engine.tuning import Cached, ClassCandidate, Trials, choose, lore, settle_trust
from fedlore.engine.tuning.candidates import CANDIDATES, rank_candidates
from fedlore.engine.tuning.recalibrate import confusion_of, recalibrate_client
from fedlore.knowledge.confusion import Recalibrated, reread

from ..federation import CLASSES, FEATURES, federation

DEAF, HEARING = ClassCandidate(), ClassCandidate(hears=True)
PLAN = Plan(epochs=1, batch=16)
FEW = Trials(
    candidates=(DEAF, HEARING, ClassCandidate(True, 0.5, reread=True)),
    folds=2,
    shortlist=2,
    finishes=(0, 3),
)


def make_model(hears):
    return mlp(FEATURES, CLASSES, hidden=(8,), hears=hears)


def run(clients=None, trials=FEW, on_trial=None, **settings):
    training = Training(plan=PLAN, rounds=3, **settings)
    return lore(clients or federation(), make_model, training, trials=trials, on_trial=on_trial)


def test_the_least_mean_wins_and_the_first_of_equals():
    assert choose({DEAF: [0.3, 0.1], HEARING: [0.1, 0.2]}) == HEARING
    assert choose({HEARING: [0.2, 0.2], DEAF: [0.1, 0.3]}) == HEARING
    assert rank_candidates({DEAF: [0.3], HEARING: [0.1], CANDIDATES[1]: [0.2]})[0] == HEARING
    with pytest.raises(ConfigError, match="no site has rows to hold out"):
        choose({DEAF: []})


def cached(right: list[bool]) -> Cached:
    y = torch.zeros(len(right)).long()
    logits = torch.tensor([[1.0, 0.0] if hit else [0.0, 1.0] for hit in right])
    return Cached(logits, Examples(torch.zeros(len(right), 1), y))


def test_more_local_steps_must_be_worth_more_than_chance():
    base = [True] * 10 + [False] * 10
    little = [True] * 9 + [False] + [True] * 2 + [False] * 8  # one more, two changed their mind
    much = [True] * 16 + [False] * 4
    assert settle_trust({0: cached(base), 40: cached(little)}).finish == 0
    assert settle_trust({0: cached(base), 40: cached(much)}).finish == 40
    assert settle_trust({0: cached(base), 40: cached(much)}).loss == pytest.approx(0.2)


def test_the_winner_is_trained_with_all_rows_and_each_sites_own_end():
    found = run()
    assert found.candidate in FEW.candidates
    assert set(found.losses) == set(FEW.candidates)
    assert set(found.private) == {c.id for c in found.clients}
    for name, mine in found.private.items():
        assert found.fitted.knowledge[name].reliance == mine.reliance
        assert found.fitted.knowledge[name].trust == 0.0
        assert ("finished" in found.fitted.memories[name]) == bool(mine.finish)
        assert 0.0 <= mine.loss <= 1.0
    assert found.fitted.recipe.model.hears == found.candidate.hears


def test_the_choice_never_looks_at_test_rows():
    clients = federation()
    spoiled = [replace(c, test=replace(c.test, y=(c.test.y + 1) % CLASSES)) for c in clients]
    one, two = run(clients), run(spoiled)
    assert (one.candidate, one.losses, one.private) == (two.candidate, two.losses, two.private)


def test_short_trials_first_then_the_better_ones_again():
    done = []
    run(on_trial=lambda n, total: done.append((n, total)))
    # three candidates on one fold, two of them on the other, the winner on both, the main one
    assert done == [(i, 8) for i in range(1, 9)]


def test_the_range_is_never_left():
    for candidate in FEW.candidates:
        found = run(trials=replace(FEW, candidates=(candidate,)))
        for client in found.clients:
            personal = found.fitted.model(client.id)
            probabilities = personal.log_probs(client.test).exp()
            assert (probabilities[~client.test.allowed] == 0).all()


def test_bad_trials_are_named():
    with pytest.raises(ConfigError, match=r"length must lie in \(0, 1\], got 0"):
        Trials(length=0)
    with pytest.raises(ConfigError, match="shortlist must be at least 1"):
        Trials(shortlist=0)
    with pytest.raises(ConfigError, match="at least one value"):
        Trials(candidates=())


def test_confusion_is_how_labels_fell_where_the_expert_spoke():
    # the expert says 0 four times: labels 0, 0, 0, 1; he never says 1
    y = torch.tensor([0, 0, 0, 1])
    data = Examples(torch.zeros(4, 1), y, one_hot(torch.zeros(4).long(), 2).float())
    found = confusion_of(data, weight=2.0)
    base = torch.tensor([3.5, 1.5]).double() / 5
    wanted = torch.stack([torch.tensor([4.0, 1.0]) + 2 * base, torch.tensor([0.0, 1.0]) + 2 * base])
    torch.testing.assert_close(found, wanted / wanted.sum(1, keepdim=True))
    assert confusion_of(Examples(torch.zeros(4, 1), y)) is None


def test_a_reread_expert_stays_in_the_range_and_silent_where_silent():
    client = federation()[1]
    data = client.data
    hush = data.prior.clone()
    hush[0] = 0
    changed, (held,) = recalibrate_client(
        replace(client, data=replace(data, prior=hush)), client.test
    )
    for rows in (changed.data, changed.test, held):
        assert (rows.prior[~rows.allowed] == 0).all()
    assert changed.data.prior[0].sum() == 0
    torch.testing.assert_close(changed.data.prior[1:].sum(1), torch.ones(len(data) - 1))
    assert torch.equal(held.prior, changed.test.prior)
    known = inject(torch.zeros(60, CLASSES), held.prior, held.allowed, 0.4).exp()
    assert (known >= 0.4 * held.prior - 1e-6).all()


def test_a_knowledge_model_is_reread_alike_when_asked_again():
    client = federation()[0]
    confusion = confusion_of(client.data)
    model = Recalibrated(lambda x: client.data.prior, confusion)
    torch.testing.assert_close(model(client.data.x), reread(client.data.prior, confusion))


def test_trials_send_what_every_training_sends(monkeypatch):
    seen = []
    real = local.Local.exchange

    def spying(self, task, to):
        for reply in real(self, task, to):
            seen.append((task, reply))
            yield reply

    monkeypatch.setattr(local.Local, "exchange", spying)
    run(engine="local", scale=False)
    shapes = [{n: p.shape for n, p in make_model(h).named_parameters()} for h in (False, True)]
    assert (
        len({id(task) for task, _ in seen}) == 5 * 2 + 3 * 3
    )  # 5 short trainings of 2 rounds, 3 of 3
    for task, reply in seen:
        assert (task.kind, reply.metrics) == ("train", {})
        assert {n: t.shape for n, t in reply.upload["model"].items()} in shapes
