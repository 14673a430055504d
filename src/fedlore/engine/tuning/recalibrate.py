"""A weak expert made honest: what the labels were when he said what he said, at this site.

The confusion of a P-KM on the client's own training rows turns its word into a distribution,
restricted to the range, so the guarantee stays. It is computed and used at home.
"""

from dataclasses import replace

import torch
from torch import Tensor

from ...core.examples import Examples
from ...knowledge.views import Recalibrated, reread_rows
from ...personal.client import Client


def confusion_of(data: Examples, *, weight: float = 2.0) -> Tensor | None:
    """P(label | word of the expert) from training rows, (k, k), rows sum to 1; None without one.

    Each row starts with `weight` counts spread as the site's labels are, and one more for the
    word itself: an expert who spoke rarely is half believed, not half forgotten.
    """
    if data.prior is None or data.y is None:
        return None
    prior = data.prior.double()  # (n, k)
    k = prior.shape[1]
    labels = torch.eye(k, dtype=torch.float64)[data.y]  # (n, k)
    base = (labels.sum(0) + 1.0 / k) / (len(labels) + 1.0)
    counts = prior.T @ labels + weight * base + torch.eye(k, dtype=torch.float64)
    return counts / counts.sum(1, keepdim=True)


def recalibrate_client(client: Client, *others: Examples) -> tuple[Client, list[Examples]]:
    """A client, and other rows of it, with the expert as his confusion on `client.data` reads."""
    confusion = confusion_of(client.data)
    if confusion is None:
        return client, list(others)
    heard = Recalibrated(client.knowledge.prediction, confusion)
    known = replace(client.knowledge, prediction=heard, conflict="restrict")
    test = None if client.test is None else reread_rows(heard, client.test)
    changed = replace(client, data=reread_rows(heard, client.data), test=test, knowledge=known)
    return changed, [reread_rows(heard, rows) for rows in others]
