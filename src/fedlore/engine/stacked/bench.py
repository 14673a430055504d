"""Where a stack of clients trains: flat parameters, their direction, and a gradient for them."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from ...core.inject import slope
from ...core.tree import Params
from .fused import fused_for
from .layers import LayerPlace, Scratch, _Hear
from .nets import Layers, layers_of
from .ordinals import _OrdinalHead


@dataclass(frozen=True, eq=False)
class Batch:
    """One step's rows of a stack: a clients, b rows each. The rest is what the loss needs."""

    x: Tensor  # (a, b, *features)
    target: Tensor  # (a, k, b)
    told: Tensor | None = None  # (a, b, 2k)  what a hearing network gets: prior and range
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

    def logits(self, x: Tensor, told: Tensor | None) -> Tensor:
        """(a, b, *features) -> (a, k, b)."""
        ...

    def gradient(self, batch: Batch, plain: float, keep: float) -> None:
        """Make the bench's direction keep·direction + gradient."""
        ...


class Bench:
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
        layers = layers_of(model, x)
        self.layers = layers if isinstance(layers, Layers) else None
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
        """Put parameters, (a, ...), on the bench."""
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
        self._ears = [layer for layer in self._layers if isinstance(layer, _Hear | _OrdinalHead)]

    def logits(self, x: Tensor, told: Tensor | None) -> Tensor:
        a, b = x.shape[:2]
        if self._images:
            maps = x.reshape(a, b, -1, *x.shape[-2:]).permute(0, 2, 3, 4, 1)  # rows last
            h = self._scratch.take("maps", *maps.shape).copy_(maps)
        else:
            h = x if x.ndim == 3 else x.reshape(a, b, -1)
        if told is not None:
            if self._joined:
                h = torch.cat([h, told], 2)
            for ear in self._ears:
                ear.told = told
        for layer in self._layers:
            h = layer.forward(h)
        return h

    def gradient(self, batch: Batch, plain: float, keep: float) -> None:
        delta = batch.error(self.logits(batch.x, batch.told), plain)
        share = batch.share
        for i in range(len(self._layers) - 1, -1, -1):
            delta = self._layers[i].backward(delta, keep, share, i > 0)


class Traced:
    """Any model that torch.func can map over clients."""

    def __init__(self, model: nn.Module, params: Params, grads: Params) -> None:
        self._model, self._params, self._grads = model, params, grads

    def logits(self, x: Tensor, told: Tensor | None) -> Tensor:
        with torch.no_grad():
            return vmap(self._call)(self._params, x, *self._hear(told)).mT

    def gradient(self, batch: Batch, plain: float, keep: float) -> None:
        told = self._hear(batch.told)
        # clients do not see each other: the slope of all at once is the slope of each
        logits, back = vjp(lambda p: vmap(self._call)(p, batch.x, *told), self._params)[:2]
        found = back(batch.error(logits.mT, plain).mT)[0]
        for name, grad in self._grads.items():
            grad.mul_(keep).add_(found[name], alpha=batch.share)

    def _call(self, params: Params, x: Tensor, *heard: Tensor) -> Tensor:
        logits: Tensor = functional_call(self._model, params, (x, *heard))
        return logits

    @staticmethod
    def _hear(told: Tensor | None) -> tuple[Tensor, ...]:
        """What the expert says as the model's second and third argument."""
        if told is None:
            return ()
        prior, allowed = told.chunk(2, 2)
        return prior, allowed > 0
