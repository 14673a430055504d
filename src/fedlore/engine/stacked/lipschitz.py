"""A network that keeps shapes, of many clients at once: each clamps its linear part by its rows."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ...core.lipschitz import SHARP, SLACK, Shaping
from .layers import LayerPlace, _gate
from .ordinal import steps_for

LINE = "line.weight"


def spread_rows(x: Tensor, about: Shaping) -> Tensor:
    """Rows as a step takes them, (..., features + more) -> (..., 3 * wide + 1).

    Inputs, their parts that raise the answer, those that lower it, and the start: what clamps a
    coefficient then depends on the client alone, and no step looks at signs.
    """
    wide = about.wide
    if x.shape[-1] == 3 * wide + 1:
        return x
    inputs, start, up, down, _ = torch.split(x, [wide, 1, wide, wide, wide], -1)
    return torch.cat([inputs, up, down, start], -1)


class LipschitzLayers:
    """All of a `Lipschitz`, (a, b, features + more) -> (a, k, b).

    A step of few clients costs as much as it has calls: views are made once where they can.
    """

    def __init__(
        self,
        place: LayerPlace,
        number: int,
        *,
        trunk: Sequence[tuple[str, str]],  # weight and bias of each layer
        classes: int,
        options: Shaping,
    ) -> None:
        about = self._about = options
        self._steps = steps_for(place, number, classes, classes / 4.0, about.width)
        self._clamp = _Clamp(place, LINE, about)
        if about.hears:
            take = place.scratch.take
            self._seen = take(f"seen {number}", place.clients, place.rows, about.wide)
            self._ears = self._seen[:, :, about.features :]
        self._trunk: list[_Tame] = []
        for i, names in enumerate(trunk):
            before = self._trunk[-1].out if self._trunk else None
            last = i == len(trunk) - 1
            self._trunk.append(_Tame(place, *names, f"{number} {i}", before, last=last))
        self._scale = about.slope * (1.0 - SLACK)

    def forward(self, h: Tensor) -> Tensor:
        about = self._about
        self._laid = h = spread_rows(h, about)
        seen = h[:, :, : about.wide]
        if about.hears:  # what is heard with a sign stays out of the trunk
            seen = self._seen.copy_(seen)
            for first in (about.wide, 2 * about.wide):
                self._ears.sub_(h[:, :, first + about.features : first + about.wide])
        for layer in self._trunk:
            seen = layer.forward(seen)
        moved = torch.baddbmm(seen, self._clamp.forward(), h.mT, beta=self._scale)
        return self._steps.forward(moved, None)

    def backward(self, delta: Tensor, keep: float, share: float, wanted: bool) -> Tensor:
        slope = self._steps.backward(delta, keep, share)  # (a, 1, b)
        self._clamp.backward(torch.bmm(slope, self._laid), keep, share)
        back = slope
        for layer in reversed(self._trunk):
            back = layer.backward(back, keep, share * self._scale)
        return back


class _Clamp:
    """What an input adds, and what it adds further where its sign s is 1 or -1.

    s·κ·(1 + softplus(s·c/κ - 1)) is c + s·κ·softplus(1 - s·c/κ), and of what is heard, which has
    nothing in the trunk to outweigh, s·κ less.
    """

    def __init__(self, place: LayerPlace, line: str, about: Shaping) -> None:
        self._line, self._grad = place.params[line], place.grads[line]  # (a, 1, w)
        a, wide, new = place.clients, about.wide, self._line.new_tensor
        sign = new([[1.0], [-1.0]])
        self._less, self._one = sign * (-SHARP / about.slope), new(SHARP)
        self._slope = sign * (about.slope / SHARP)
        heard = self._line.new_zeros(wide)
        heard[about.features :] = -about.slope
        self._least = heard * sign  # (2, w)
        self._row = self._line.new_ones(a, 1, 3 * wide + 1)  # the last is what the start counts
        self._free = self._row[:, :, :wide]
        self._more = self._row[:, 0, wide:-1].view(a, 2, wide)
        self._rates = self._line.new_ones(a, 3, wide)
        self._rise = self._rates[:, 1:]
        self._signs = new([[1.0, -1.0, -1.0]]).expand(a, 1, 3).contiguous()

    def forward(self) -> Tensor:
        self._free.copy_(self._line)
        self._turn = torch.addcmul(self._one, self._line, self._less)  # SHARP·(1 - s·c/κ)
        torch.addcmul(self._least, softplus(self._turn), self._slope, out=self._more)
        return self._row

    def backward(self, slope: Tensor, keep: float, share: float) -> None:
        torch.sigmoid(self._turn, out=self._rise)
        found = slope[:, 0, :-1].view(self._rates.shape).mul_(self._rates)
        self._grad.baddbmm_(self._signs, found, beta=keep, alpha=share)


class _Tame:
    """A linear layer of the trunk, rows no larger than 1, behind units sorted in pairs.

    The last one gives its output turned, (a, 1, b).
    """

    def __init__(
        self,
        place: LayerPlace,
        weight: str,
        bias: str,
        name: str,
        before: Tensor | None,  # where the layer before leaves its units
        *,
        last: bool,
    ) -> None:
        self._weight, self._grad = place.params[weight], place.grads[weight]  # (a, o, i)
        self._bias, self._bias_grad = (p[bias].unsqueeze(1) for p in (place.params, place.grads))
        a, b, (o, i) = place.clients, place.rows, self._weight.shape[1:]
        self._tamed = place.scratch.take(f"tamed {name}", a, o, i)
        self.out = place.scratch.take(f"tame {name}", a, b, o)
        self._ones = self._weight.new_ones(a, 1, b)
        self._sort = None if before is None else _Pairs(place, before, name)
        # on a card looking means waiting
        self._looks = before is None and self._weight.device.type == "cpu"
        self._last = last

    def forward(self, h: Tensor) -> Tensor:
        self._seen = h if self._sort is None else self._sort.forward()
        self._used = self._weight if self._looks and self._is_small() else self._tame()
        if self._last:
            return torch.baddbmm(self._bias, self._used, self._seen.mT)
        return torch.baddbmm(self._bias, self._seen, self._used.mT, out=self.out)

    def _is_small(self) -> bool:
        """Whether no row need be divided, as is usual in the first layer."""
        least, most = self._weight.aminmax()
        return float(least) >= -1.0 and float(most) <= 1.0

    def _tame(self) -> Tensor:
        self._sign = self._weight.sign()
        if self._sort is None:
            self._norm = self._weight.abs().amax(2, keepdim=True)
        else:
            self._norm = _along(self._weight, self._sign)
        self._rate = self._norm.clamp(min=1.0)
        return torch.div(self._weight, self._rate, out=self._tamed)

    def backward(self, delta: Tensor, keep: float, share: float) -> Tensor:
        turned = delta if self._last else delta.mT  # (a, o, b)
        rows = turned.mT
        self._bias_grad.baddbmm_(self._ones, rows, beta=keep, alpha=share)
        if self._used is self._weight:
            self._grad.baddbmm_(turned, self._seen, beta=keep, alpha=share)
        else:
            found = self._across(torch.bmm(turned, self._seen))
            self._grad.mul_(keep).addcdiv_(found, self._rate, value=share)
        if self._sort is None:
            return delta  # nothing before it is trained
        multiply = torch.mul if self._last else torch.bmm  # alike where o is 1, but for time
        multiply(rows, self._used, out=self._sort.sorted)
        return self._sort.backward()

    def _across(self, found: Tensor) -> Tensor:
        """The slope G of tamed weights W/n without what makes rows longer: G - <G, W/n>·dn/dW."""
        along = _along(found, self._tamed)
        _gate(along, self._norm, 1, grad_input=along)  # a row below 1 is as long as it likes
        sign = self._sign
        if self._sort is None:  # n is the largest entry, or several
            most = (self._weight.abs() == self._norm).to(sign)
            sign.mul_(most).div_(most.sum(2, keepdim=True))
        return found.addcmul_(along, sign, value=-1.0)


def _along(one: Tensor, two: Tensor) -> Tensor:
    """The inner products of rows, (a, o, i) twice -> (a, o, 1); where o is 1 in a single call."""
    return torch.bmm(one, two.mT) if one.shape[1] == 1 else (one * two).sum(2, keepdim=True)


class _Pairs:
    """Units of a layer as the larger of each pair, then the smaller."""

    def __init__(self, place: LayerPlace, units: Tensor, name: str) -> None:
        a, b, count = units.shape
        self._half = count // 2
        # the same memory holds units and, on the way back, their slopes
        self.units, self.sorted = units, place.scratch.take(f"sorted {name}", a, b, count)
        self._larger = place.scratch.take(f"larger {name}", a, b, self._half)  # 1 or 0
        self._one, self._two, self._odd = self._cut(units)
        self._high, self._low, self._same = self._cut(self.sorted)

    def _cut(self, h: Tensor) -> tuple[Tensor, ...]:
        half = self._half
        return torch.split(h, [half, half, h.shape[2] - 2 * half], 2)

    def forward(self) -> Tensor:
        torch.ge(self._one, self._two, out=self._larger)
        torch.maximum(self._one, self._two, out=self._high)
        torch.minimum(self._one, self._two, out=self._low)
        if self._odd.shape[2]:
            self._same.copy_(self._odd)
        return self.sorted

    def backward(self) -> Tensor:
        """From slopes of what is sorted to slopes of the units."""
        torch.lerp(self._low, self._high, self._larger, out=self._one)
        torch.lerp(self._high, self._low, self._larger, out=self._two)
        if self._odd.shape[2]:
            self._odd.copy_(self._same)
        return self.units
