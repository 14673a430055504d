"""The parameters of a stack of clients, flat, with their gradient; on a card as CUDA graphs."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from ...core.inject import slope
from ...core.tree import Params
from .layers import LayerPlace, Scratch, fused_for
from .nets import Layers, layers_by_hand


@dataclass(frozen=True, eq=False)
class Batch:
    """One step's rows of a stack: a clients, b rows each. The rest is what the loss needs."""

    x: Tensor  # (a, b, *features)
    target: Tensor  # (a, k, b)
    heard: Tensor | None = None  # (a, b, 2k)  what a hearing network gets: prior and range
    wall: Tensor | None = None  # (a, k, b)
    pair: Tensor | None = None  # (a, 2, k, b)
    odds: Tensor | None = None  # (a, k, b)
    weights: Tensor | None = None  # (a, 1, b)  where clients have different numbers of rows

    def error(self, logits: Tensor, plain: float) -> Tensor:
        """The slope of each client's mean loss, (a, k, b); times b where all weigh alike."""
        found = slope(
            logits,
            self.target,
            wall=self.wall,
            pair=self.pair,
            odds=self.odds,
            plain=plain,
            dim=-2,
        )
        return found if self.weights is None else found.mul_(self.weights)

    @property
    def share(self) -> float:
        """What one row counts, where all weigh alike."""
        return 1.0 / self.x.shape[1] if self.weights is None else 1.0


class Program(Protocol):
    """The model of a clients on b rows each."""

    def logits(self, x: Tensor, heard: Tensor | None) -> Tensor:
        """(a, b, *features) -> (a, k, b)."""

    def gradient(self, batch: Batch, plain: float, keep: float) -> None:
        """Make the direction of the stack keep·direction + gradient."""


class StackedParams:
    """Scratch space for a stack of at most m clients, used by one stack after another.

    Flat vectors hold the first parameter of all clients, then the second, and so on: each is
    one block of memory, which batched matrix products ask for, and so is all of them together,
    which is what the optimizer walks over.
    """

    def __init__(self, model: nn.Module, x: Tensor, clients: int) -> None:
        named = dict(model.named_parameters())
        self.shapes = {name: p.shape for name, p in named.items()}
        self.sizes = {name: p.numel() for name, p in named.items()}
        self.clients, self.width = clients, sum(self.sizes.values())
        kind = next(iter(named.values())).detach()
        self._point = kind.new_zeros(clients * self.width)
        self._away = torch.zeros_like(self._point)
        self._model = model
        self.layers = layers_by_hand(model, x)
        self.scratch = Scratch(kind)
        self.fused = fused_for(kind)
        self.rate, self.brake = kind.new_zeros(()), kind.new_zeros(())  # where graphs read them
        self._params: dict[int, tuple[Params, Params]] = {}
        self._programs: dict[tuple[int, int], Program] = {}

    @property
    def by_hand(self) -> bool:
        return self.layers is not None

    @property
    def images(self) -> bool:
        return self.layers is not None and self.layers.images

    def point(self, clients: int) -> Tensor:
        """The parameters of the stack, flat."""
        return self._point[: clients * self.width]

    def away(self, clients: int) -> Tensor:
        """Their velocity, or the gradient itself, flat."""
        return self._away[: clients * self.width]

    def views(self, flat: Tensor, clients: int) -> Params:
        """A flat vector cut into parameters (a, ...), without a copy."""
        pieces = torch.split(flat, [clients * size for size in self.sizes.values()])
        return {
            name: piece.view(clients, *shape)
            for (name, shape), piece in zip(self.shapes.items(), pieces, strict=True)
        }

    def params(self, clients: int) -> tuple[Params, Params]:
        """Point and direction of the stack, cut into parameters."""
        if clients not in self._params:
            flats = self.point(clients), self.away(clients)
            self._params[clients] = (self.views(flats[0], clients), self.views(flats[1], clients))
        return self._params[clients]

    def load(self, params: Params, clients: int) -> None:
        """Put parameters, (a, ...), on the params."""
        for name, value in self.params(clients)[0].items():
            value.copy_(params[name])

    def keep(self, name: str, clients: int) -> Tensor:
        """A further flat vector that always lies in the same place."""
        return self.scratch.take(name, self.clients * self.width)[: clients * self.width]

    def flatten(self, params: Params, clients: int, name: str) -> Tensor:
        """Parameters (a, ...) as the flat vector of this name."""
        flat = self.keep(name, clients)
        for name, value in self.views(flat, clients).items():
            value.copy_(params[name])
        return flat

    def shrink(self, flat: Tensor, before: int, after: int) -> None:
        """Keep the first clients of a flat vector, in place."""
        old = self.views(flat[: before * self.width].clone(), before)
        for name, value in self.views(flat[: after * self.width], after).items():
            value.copy_(old[name][:after])

    def program(self, clients: int, rows: int) -> Program:
        """The model bound to a stack of this size, made once for each."""
        key = (clients, rows)
        if key not in self._programs:
            params, grads = self.params(clients)
            if self.layers is not None:
                place = LayerPlace(params, grads, self.scratch, self.fused, *key)
                self._programs[key] = ByHand(self.layers, place)
            else:
                self._programs[key] = Traced(self._model, params, grads)
        return self._programs[key]


class ByHand:
    """Hand-written layers, one after another."""

    def __init__(self, net: Layers, place: LayerPlace) -> None:
        self._layers = [layer.bind(place, i) for i, layer in enumerate(net.layers)]
        self._joined, self._images = net.joined, net.images
        self._scratch = place.scratch
        self._ears: list[Any] = [layer for layer in self._layers if hasattr(layer, "heard")]

    def logits(self, x: Tensor, heard: Tensor | None) -> Tensor:
        a, b = x.shape[:2]
        if self._images:
            maps = x.reshape(a, b, -1, *x.shape[-2:]).permute(0, 2, 3, 4, 1)  # rows last
            h = self._scratch.take("maps", *maps.shape).copy_(maps)
        else:
            h = x if x.ndim == 3 else x.reshape(a, b, -1)
        if heard is not None:
            if self._joined:
                h = torch.cat([h, heard], 2)
            for ear in self._ears:
                ear.heard = heard
        for layer in self._layers:
            h = layer.forward(h)
        return h

    def gradient(self, batch: Batch, plain: float, keep: float) -> None:
        delta = batch.error(self.logits(batch.x, batch.heard), plain)
        share = batch.share
        for i in range(len(self._layers) - 1, -1, -1):
            delta = self._layers[i].backward(delta, keep, share, i > 0)


class Traced:
    """Any model that torch.func can map over clients."""

    def __init__(self, model: nn.Module, params: Params, grads: Params) -> None:
        self._model, self._params, self._grads = model, params, grads

    def logits(self, x: Tensor, heard: Tensor | None) -> Tensor:
        with torch.no_grad():
            return vmap(self._call)(self._params, x, *self._hear(heard)).mT

    def gradient(self, batch: Batch, plain: float, keep: float) -> None:
        heard = self._hear(batch.heard)
        # clients do not see each other: the slope of all at once is the slope of each
        logits, back = vjp(lambda p: vmap(self._call)(p, batch.x, *heard), self._params)[:2]
        found = back(batch.error(logits.mT, plain).mT)[0]
        for name, grad in self._grads.items():
            grad.mul_(keep).add_(found[name], alpha=batch.share)

    def _call(self, params: Params, x: Tensor, *heard: Tensor) -> Tensor:
        logits: Tensor = functional_call(self._model, params, (x, *heard))
        return logits

    @staticmethod
    def _hear(heard: Tensor | None) -> tuple[Tensor, ...]:
        """What the expert says as the model's second and third argument."""
        if heard is None:
            return ()
        prior, allowed = heard.chunk(2, 2)
        return prior, allowed > 0


@dataclass(frozen=True, eq=False)
class _Recording:
    batch: Batch  # where the graph reads its rows
    graph: torch.cuda.CUDAGraph


class Graphs:
    """Recordings of steps, by whatever makes two steps the same sequence of kernels."""

    def __init__(self) -> None:
        self._recordings: dict[Hashable, _Recording] = {}

    def play(
        self,
        key: Hashable,
        batch: Batch,
        step: Callable[[Batch], None],
        touched: list[Tensor],
    ) -> None:
        """Do `step` on this batch, which changes the `touched` tensors in place."""
        if key not in self._recordings:
            self._recordings[key] = _record(batch, step, touched)
        recording = self._recordings[key]
        for place, part in zip(_parts(recording.batch), _parts(batch), strict=True):
            place.copy_(part)
        recording.graph.replay()


def _parts(batch: Batch) -> list[Tensor]:
    values = (getattr(batch, field.name) for field in fields(batch))
    return [v for v in values if v is not None]


def _record(batch: Batch, step: Callable[[Batch], None], touched: list[Tensor]) -> _Recording:
    own = replace(batch, **{
        f.name: part.clone(memory_format=torch.contiguous_format)
        for f in fields(batch)
        if (part := getattr(batch, f.name)) is not None
    })  # fmt: skip
    before = [t.clone() for t in touched]
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):  # libraries set themselves up outside the recording
        for _ in range(2):
            step(own)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(own)
    for t, value in zip(touched, before, strict=True):
        t.copy_(value)
    return _Recording(own, graph)
