"""The honest baseline: what a site gets from its own rows, without anybody."""

from collections.abc import Sequence

import torch

from ..core.examples import Examples
from ..core.metrics import decide
from ..core.scaler import from_moments
from ..engine import Client, NumberClient
from ..engine.lore.train import count_classes
from ..errors import ConfigError, FedloreError
from ..personal.own.best import OwnModel, missing_learners, own_classes, own_order
from ..personal.own.crossfit import FOLDS

_BATCH = 8192  # test rows at a time


def ordered_classes(clients: Sequence[Client], said: bool | None = None) -> bool:
    """Whether the classes have an order: as is said, else as the sites' schemas agree."""
    if said is not None:
        return said
    schemas = [c.knowledge.schema for c in clients if c.knowledge.schema is not None]
    found = {schema.ordered for schema in schemas}
    if len(found) > 1:
        raise ConfigError("the sites' schemas differ in whether classes are ordered")
    return found == {True}


def own_best(
    clients: Sequence[Client], *, seed: int, ordered: bool | None = None
) -> dict[str, OwnModel]:
    """Each site's own best model, by client: chosen by cross-validation on its own rows.

    With and without the expert's word as input, behind the same range as everything else.
    """
    make = own_order if ordered_classes(clients, ordered) else own_classes
    classes = count_classes(clients)
    found = {}
    for client in map(encode_alone, clients):
        data = client.data if client.injected else Examples(client.data.x, client.data.y)
        found[client.id] = make(data, classes, seed=seed, site=client.id).best
    return found


def encode_alone(client: Client) -> Client:
    """The client with rows as learners take them; its own means stand for what is missing."""
    inputs = client.inputs
    return client if inputs is None else client.encode(from_moments(client.sums(), inputs))


def predict_own(best: OwnModel, client: Client) -> torch.Tensor:
    """The class of each of the client's test rows by its own best model, (n,)."""
    return decide(*foresee_own(best, client))


@torch.no_grad()
def foresee_own(best: OwnModel, client: Client) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Its log-probabilities of these rows, (n, k), and the expert who decides at a tie."""
    test = encode_alone(client).test
    if test is None or test.y is None:
        raise FedloreError(f"client '{client.id}' has no test rows to score")
    known = test if client.injected else Examples(test.x, test.y)
    parts = [known[start : start + _BATCH] for start in range(0, len(known), _BATCH)]
    # a member that is asked about numbers has no log-probabilities, and none stands here
    return torch.cat([best.member.log_probs(p) for p in parts]), known.prior  # type: ignore[union-attr]


def too_few(clients: Sequence[Client] | Sequence[NumberClient]) -> str | None:
    """Why own models cannot be made here, if they cannot."""
    for client in clients:
        if len(client.data) < FOLDS:
            return (
                f"site '{client.id}' has {len(client.data)} training rows, its own models need "
                f"at least {FOLDS}"
            )
    return None


def own_best_words() -> str:
    """What `own best` is on this machine, in one sentence; what is not installed is named."""
    lacking = missing_learners()
    linear = "each site alone, the best by cross-validation of linear models"
    if not lacking:
        return f"{linear}, extra trees and boosted trees, with and without the expert's word"
    (how,) = set(lacking.values())
    return (
        f"{linear} only, with and without the expert's word: {' and '.join(lacking)} are not "
        f"installed ({how}), so this baseline is weaker than it should be"
    )
