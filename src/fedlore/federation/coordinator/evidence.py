"""Before a training: whether what the sites' models say is still true, by sums of evidence."""

from collections.abc import Callable, Sequence

import torch

from ...bundle.watch.together import (
    JointEvidence,
    join_evidence,
    say_together,
    shared_questions,
)
from ...core.wire import Task, Transport
from ...engine.lore.server import sum_replies
from ...kernel.schema import Schema
from ..remote import QuorumLost


def ask_evidence(
    transport: Transport, schema: Schema, tell: Callable[[str], None]
) -> Sequence[JointEvidence]:
    """The evidence of all sites that let it out, told; none where too few of them do."""
    names = [feature.name for feature in schema.features]
    asked = torch.zeros(len(shared_questions(names)), dtype=torch.float64)
    try:
        total, sites = sum_replies(transport, Task("evidence", 0, {"evidence": {"asked": asked}}))
    except QuorumLost as error:
        tell(f"no evidence of the sites' watches: {error}")
        return ()
    found = join_evidence(total["evidence"], names, sites)
    for line in say_together(found, sites):
        tell(line)
    return found
