"""What the sums of the model of one round say about a site: signs of its secrets, and its rows."""

import torch
from torch import Tensor

from fedlore.core.exact import Basis, unpack_gram
from fedlore.core.foresight import Exact
from fedlore.core.tree import Params

_LITTLE = 1e-9


def sum_signs(sums: Params, exact: Exact, features: int, classes: int) -> Tensor:
    """What the sums say about the site as a whole, (g,): spreads, and how well the expert fits."""
    free = sums["free"].double().clamp(min=1.0)
    spread = sums["energy"].double() / free  # of the labels less the start, in classes²
    if not exact.hears:
        return (spread + _LITTLE).log10().reshape(1)
    gram, cross = _gram(sums), sums["cross"].double()
    told, gap = features, features + 1  # the columns of the expert's place and its distance
    unit = classes / 4  # of a place that is heard, in classes
    missed = spread + (unit**2 * gram[told, told] - 2 * unit * cross[told]) / free
    sizes = [spread, gram[told, told] / free, gram[gap, gap] / free, missed.clamp(min=0.0)]
    fits = [
        cross[i] / (gram[i, i] * sums["energy"].double()).clamp(min=_LITTLE).sqrt()
        for i in (told, gap)
    ]
    return torch.stack([*((s + _LITTLE).log10() for s in sizes), *fits])


def sum_class_signs(sums: Params, exact: Exact, features: int, classes: int) -> Tensor:
    """What the sums say about each class, (k, f): how likely it is under the spreads they tell."""
    free = sums["free"].double().clamp(min=1.0)
    away = (torch.arange(classes, dtype=torch.float64) - (classes - 1) / 2).square()
    spreads = [sums["energy"].double() / free]
    if exact.hears:
        spreads.append((classes / 4) ** 2 * _gram(sums)[features, features] / free)
    return torch.stack([-away / (2 * spread.clamp(min=0.01)) for spread in spreads], 1)


def member_by_leverage(sums: Params, exact: Exact, x: Tensor) -> Tensor:
    """How little a known row sticks out of the rows behind the sums, (n, d) -> (n,); high is in.

    A row that is in the sums lies in what they span. The attacker knows the row but not what the
    expert said of it, so that only products of the features themselves are looked at.
    """
    d = x.shape[1]
    known = _of_features(exact.basis, exact.columns(d), d)
    gram = _gram(sums)[known][:, known]
    phi = Basis(exact.basis.terms)(x)
    phi = phi - phi.mean(0)  # the site's own middle stays at home: that of all known rows is near
    ridge = 1e-6 * gram.diagonal().mean().clamp(min=_LITTLE)
    inside: Tensor = torch.linalg.solve(gram + ridge * torch.eye(len(gram)).to(gram), phi.T)
    return -(phi.T * inside).sum(0)


def _of_features(basis: Basis, columns: int, features: int) -> Tensor:
    """Which functions of a row are of its features alone, bool (f,)."""
    linear = torch.arange(columns) < features
    parts = [linear]
    if basis.terms != "linear":
        parts.append(linear)
    if basis.terms == "quadratic":
        i, j = torch.triu_indices(columns, columns, 1)
        parts.append(linear[i] & linear[j])
    parts.append(torch.zeros(basis.random, dtype=torch.bool))
    return torch.cat(parts)


def _gram(sums: Params) -> Tensor:
    return unpack_gram(sums, len(sums["cross"])).double()
