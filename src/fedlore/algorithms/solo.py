"""The work of one client: plain SGD over one flat vector of parameters."""

import copy
import math
from collections.abc import Callable, Iterator
from itertools import islice

import torch
from torch import Tensor, nn

from ..core import tree
from ..core.inject import Lesson
from ..core.rng import bits, join_keys, key, orders, stream
from ..core.tree import Params, Payload
from .base import Plan, Slopes, reach


class FlatParams:
    """A private copy of the server model whose parameters are views of one flat vector.

    Scratch space: made once, used by one client after another.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = copy.deepcopy(model).requires_grad_(True)
        named = dict(self.model.named_parameters())
        self.sizes = {name: p.numel() for name, p in named.items()}
        self.shapes = {name: p.shape for name, p in named.items()}
        self.flat = torch.cat([p.detach().reshape(-1) for p in named.values()])
        self.grad = torch.zeros_like(self.flat)
        values, grads = self.views(self.flat), self.views(self.grad)
        for name, p in named.items():
            p.data, p.grad = values[name], grads[name]

    def views(self, flat: Tensor) -> Params:
        """A flat vector cut into the model's parameters, without a copy."""
        pieces = torch.split(flat, list(self.sizes.values()))
        return {
            name: piece.view(self.shapes[name])
            for name, piece in zip(self.sizes, pieces, strict=True)
        }

    def flatten(self, params: Params) -> Tensor:
        return torch.cat([params[name].reshape(-1) for name in self.sizes])


class Solo:
    """One client's round: its rows, its batches, its steps."""

    def __init__(
        self,
        buffer: FlatParams,
        lesson: Lesson,
        plan: Plan,
        *,
        client: str,
        seed: int = 0,
        round: int = 1,
        rate: float = 1.0,
        noisy: Callable[[Tensor, Lesson], Tensor] | None = None,
    ) -> None:
        """`noisy` gives the mean gradient at flat parameters, from a batch that it draws itself."""
        self.plan = plan
        self._noisy = noisy
        self._buffer = buffer
        self._lesson = lesson
        self._address = (seed, round)
        self._key = join_keys(key(seed, round), torch.tensor([key(client)]))  # (1,)
        self.lr = plan.lr * rate
        self._steps = plan.local_steps(len(lesson))
        self.taken = 0  # steps of the last descent

    @property
    def reach(self) -> float:
        return reach(self._steps, self.lr, self.plan.momentum)

    def shared(self, purpose: str) -> torch.Generator:
        return stream(*self._address, "shared", purpose)

    def batches(self, steps: int) -> Iterator[Lesson]:
        """Reshuffled epochs, cut into batches, until there were `steps` of them."""
        rows = len(self._lesson)
        size = self.plan.batch or rows
        if size >= rows or self._noisy is not None:
            for _ in range(steps):
                yield self._lesson
            return
        epochs = math.ceil(steps / self.plan.per_epoch(rows))
        for order in orders(bits(self._key, epochs)[0], rows):
            # gathered once per epoch, so that batches are views
            yield from islice(self._lesson[order].batches(size), steps)
            steps -= self.plan.per_epoch(rows)

    def gradient(self, batch: Lesson) -> Tensor:
        """The batch gradient at the buffer's parameters, weight decay included, flat."""
        buffer, plan = self._buffer, self.plan
        if self._noisy is not None:
            buffer.grad.copy_(self._noisy(buffer.flat, batch))
        else:
            self._differentiate(batch)
        if plan.clip is not None:
            buffer.grad.mul_((plan.clip / buffer.grad.norm()).clamp(max=1.0))
        return buffer.grad.add_(buffer.flat, alpha=plan.decay) if plan.decay else buffer.grad

    def _differentiate(self, batch: Lesson) -> None:
        buffer, plan = self._buffer, self.plan
        buffer.grad.zero_()
        logits = buffer.model(batch.x, batch.prior, batch.allowed)
        error = batch.error(logits.detach(), plan.plain).div_(len(batch))
        # the same bits as logits.backward(error), for which torch would load all of sympy
        (logits * error).sum().backward()

    def descend(
        self,
        start: Params,
        *,
        shift: Params | None = None,
        anchor: Params | None = None,
        pull: float = 0.0,
        steps: int | None = None,
    ) -> Params:
        buffer = self._buffer
        buffer.flat.copy_(buffer.flatten(start))
        velocity = torch.zeros_like(buffer.flat)
        bias = None if shift is None else buffer.flatten(shift)
        home = None if anchor is None else buffer.flatten(anchor)
        brake = 1.0 / (1.0 + self.lr * pull)  # makes the pull implicit: stable at any strength
        self.taken = self._steps if steps is None else steps
        for batch in self.batches(self.taken):
            direction = self.gradient(batch)
            with torch.no_grad():
                if bias is not None:
                    direction.add_(bias)
                velocity.mul_(self.plan.momentum).add_(direction)
                if home is not None and pull:
                    velocity.add_(buffer.flat - home, alpha=pull).mul_(brake)
                buffer.flat.add_(velocity, alpha=-self.lr)
        return buffer.views(buffer.flat.clone())

    def walk(self, points: Payload, slopes: Slopes) -> Payload:
        buffer = self._buffer
        velocity = {k: tree.zeros(point) for k, point in points.items()}
        self.taken = self._steps
        for batch in self.batches(self.taken):

            def gradient(at: Params, batch: Lesson = batch) -> Params:
                buffer.flat.copy_(buffer.flatten(at))
                return buffer.views(self.gradient(batch).clone())

            away = slopes(points, gradient)
            velocity = {k: tree.axpy(self.plan.momentum, velocity[k], away[k]) for k in points}
            points = {k: tree.axpy(-self.lr, velocity[k], point) for k, point in points.items()}
        return points
