"""Server models give logits, hear or do not hear, and start from an address."""

import pytest
import torch
from torch import nn

from fedlore import FedloreError
from fedlore.core.nets import lenet5, logistic, mlp, server, small_cnn


@pytest.mark.parametrize("hears", [False, True])
def test_shapes(hears):
    prior, allowed = torch.zeros(2, 7), torch.ones(2, 7).bool()
    assert mlp(54, 7, hears=hears)(torch.zeros(2, 54), prior, allowed).shape == (2, 7)
    assert logistic(54, 7)(torch.zeros(2, 54)).shape == (2, 7)
    prior, allowed = torch.zeros(2, 10), torch.ones(2, 10).bool()
    for images in (torch.zeros(2, 28, 28), torch.zeros(2, 1, 28, 28)):
        assert lenet5(hears=hears)(images, prior, allowed).shape == (2, 10)
    assert small_cnn(hears=hears)(torch.zeros(2, 14, 14), prior, allowed).shape == (2, 10)


def test_lenet5_has_the_size_of_lenet5():
    assert sum(p.numel() for p in lenet5().parameters()) == 61706


def test_no_prior_sounds_like_zeros_and_no_range_like_ones():
    model, x = mlp(4, 3, hears=True), torch.rand(2, 4)
    assert torch.equal(model(x), model(x, torch.zeros(2, 3), torch.ones(2, 3).bool()))
    assert not torch.equal(model(x), model(x, torch.eye(3)[:2], torch.ones(2, 3).bool()))


def test_a_deaf_model_ignores_the_expert():
    model, x = server(nn.Linear(4, 3)), torch.rand(2, 4)
    assert torch.equal(model(x), model(x, torch.eye(3)[:2], torch.eye(3)[:2].bool()))


def test_a_model_with_buffers_is_refused():
    with pytest.raises(FedloreError, match="no buffers.*running_mean"):
        server(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))
