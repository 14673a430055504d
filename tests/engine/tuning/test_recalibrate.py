"""A weak expert made honest by his confusion on a client's own rows."""

from dataclasses import replace

import torch
from torch.nn.functional import one_hot

from fedlore import Examples, inject
from fedlore.engine.tuning.oof import confusion_of, recalibrate_client
from fedlore.knowledge.views import Recalibrated, reread

from ..federation import CLASSES, federation


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
