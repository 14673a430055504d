"""The reference engine: clients one by one, in this process."""

from collections import Counter
from collections.abc import Iterator, Sequence

from ..algorithms import Desk
from ..core.wire import Reply, Task
from ..errors import FedloreError
from ..personal.client import Client
from .client import ready
from .loop import Recipe, answer
from .memory import Memory


class Local:
    """A transport that calls each client in turn."""

    def __init__(self, clients: Sequence[Client], recipe: Recipe) -> None:
        twice = [name for name, times in Counter(c.id for c in clients).items() if times > 1]
        if twice:
            raise FedloreError(f"client ids must differ, '{twice[0]}' appears twice")
        self._recipe = recipe
        self._sites = {c.id: ready(c, recipe.model, recipe.scaler) for c in clients}
        self._desk = Desk(recipe.model)
        self.memories = {c.id: Memory() for c in clients}

    def clients(self) -> Sequence[str]:
        return list(self._sites)

    def exchange(self, task: Task, to: Sequence[str]) -> Iterator[Reply]:
        for name in to:
            memory = self.memories[name]
            settled = memory.settle(task.accepted.get(name, 0))
            reply, new = answer(self._sites[name], self._recipe, task, settled, self._desk)
            if task.kind in ("train", "finish"):
                self.memories[name] = Memory(task.round, before=settled, after=new)
            yield reply
