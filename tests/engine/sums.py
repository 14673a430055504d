"""The posterior of sites in this process, by the sums that they would send."""

import torch

from fedlore.core.wire import Reply
from fedlore.engine.one_shot import solve_sums
from fedlore.privacy.filters import guard_transport


class Sums:
    """A transport that can only be asked for sums of rows."""

    def __init__(self, rows):
        self.rows = rows

    def clients(self):
        return list(self.rows)

    def exchange(self, task, to):
        for name in to:
            yield Reply(name, task.round, {"gram": self.rows[name].sums()})


def posterior_of(rows, groups, filters=(), *, noised=False):
    with torch.no_grad():
        return solve_sums(guard_transport(Sums(rows), filters), groups, noised=noised)
