"""What a curious coordinator reads from the uploads it sees: tensors in, signs of a secret out.

The mask of Fan et al. (2022) makes the gradient of a class exactly zero where it is outside the
range, and the trust λ scales the gradient of a row where the P-KM is right. So head rows of classes
that a site never allows move by weight decay alone, and one row's gradient tells its range, whether
the P-KM was right there, and λ.

Where a site has a shape its linear coefficient is clamped, so the gradient of the shared one is
scaled down, and the trunk is pulled the other way to make up for the slope that the clamp adds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedlore.core.tree import Params
from fedlore.errors import FedloreError

STILL = 1e-5  # of a row's own length: more than rounding, less than any row of data moves it
_TINY = 1e-12


@dataclass(frozen=True)
class Anatomy:
    """Where a network keeps what speaks of classes: names of its parameters."""

    classes: int  # k
    head: str  # weight of the last layer, (k, h)
    before_head: str | None  # weight of the layer below it, (h, ·)
    expert: str | None = None  # weight whose last 2k columns take the expert's rows, (·, · + 2k)

    @staticmethod
    def of(shapes: Mapping[str, Sequence[int]], *, hears: bool = False) -> "Anatomy":
        """Of a network of linear layers, by the shapes of its parameters in order."""
        layers = [name for name, shape in shapes.items() if len(shape) == 2]
        if not layers:
            raise FedloreError("the attacks read linear layers, this model has none")
        expert = next((n for n in layers if n.startswith("head.")), None) if hears else None
        below = layers[-2] if len(layers) > 1 else None
        return Anatomy(shapes[layers[-1]][0], layers[-1], below, expert)


@dataclass(frozen=True, eq=False)
class Seen:
    """One exchange as the coordinator sees it: what it sent, and what came back."""

    before: Params  # the broadcast, with any layers that never travel at their public start
    moved: Params  # an upload, or the mean of several


def stray(start: Tensor, moved: Tensor) -> Tensor:
    """How far each row went beside its own direction, in its own lengths, (r, c) -> (r,).

    Weight decay, with momentum and over any number of steps and sites, only scales a row: what is
    left beside that direction comes from data. Nothing about step counts need be known.
    """
    start, moved = start.double(), moved.double()
    length = start.square().sum(1).clamp(min=_TINY)
    along = (start * moved).sum(1) / length
    rest = moved - along[:, None] * start
    far: Tensor = torch.linalg.vector_norm(rest, dim=1) / length.sqrt()
    return far


def find_untouched(seen: Seen, at: Anatomy) -> Tensor:
    """Classes whose head row or input column moved by weight decay alone, (k,).

    A head row stands still where the class is in no row's range; an input column where the class
    was in no row's range either, even if another loss moves the heads.
    """
    still = torch.zeros(at.classes, dtype=torch.bool)
    if at.head in seen.moved:
        still |= stray(*_rows(seen, at.head)) < STILL
    if at.expert in seen.moved:
        still |= _columns(seen, at)[1] < STILL
    return still


def class_signs(seen: Seen, at: Anatomy) -> Tensor:
    """What an upload says about each class, (k, f): sizes and directions of what moved."""
    k = at.classes
    signs = [torch.zeros(k, dtype=torch.float64)] * 4
    if at.head in seen.moved:
        size = (stray(*_rows(seen, at.head)) + 1e-9).log10()
        pull = seen.moved[_bias(at.head)].double()
        lean = seen.moved[at.head].double().sum(1)
        signs = [size, size - size.mean(), _share(pull), _share(lean)]
    signs.append(_share(_find_pull(seen, at)))
    if at.expert in seen.moved:
        said, open_ = _columns(seen, at)
        signs += [(said + 1e-9).log10(), (open_ + 1e-9).log10()]
    return torch.stack(signs, 1).nan_to_num()


def site_signs(seen: Seen, at: Anatomy) -> Tensor:
    """What an upload says about the site as a whole, (g,): the size of every layer's movement."""
    sizes = []
    for name, moved in seen.moved.items():
        length = seen.before[name].double().norm().clamp(min=_TINY)
        sizes.append(math.log10(float(moved.double().norm() / length) + 1e-9))
    if at.head in seen.moved:
        pull = seen.moved[_bias(at.head)].double()
        sizes += [math.log10(float(pull.abs().max()) + 1e-9), float(_share(pull).max())]
    return torch.tensor(sizes, dtype=torch.float64).nan_to_num()


@dataclass(frozen=True, eq=False)
class OneRow:
    """What the upload of a single step on a single row gives away."""

    label: int
    allowed: Tensor  # (k,) bool
    weight: float  # w of the loss: below 1 where the P-KM is right
    trust: float  # λ, where the P-KM is right; else 0


def one_row(
    seen: Seen, at: Anatomy, *, lr: float, decay: float = 0.0, plain: float = 0.0
) -> OneRow:
    """Take a one-row, one-step upload apart; lr, decay and α (`plain`) are public.

    The head's gradient is (w·(s - y))·hᵀ: its ratio gives the activations h, hence every logit;
    what the ordinary loss adds is then known and taken off. Inside the range, and outside of it
    under a floor, the rest is in proportion to exp(logit), but with two different factors.
    """
    slope, logits = _logit_gradient(seen, at, lr, decay)
    label = int(slope.argmin())
    aim = torch.zeros_like(slope)
    aim[label] = 1.0
    rest = slope
    if plain < 1.0:
        rest = (slope - plain * (logits.softmax(0) - aim)) / (1.0 - plain)
    ratio = (rest.clamp(min=1e-8).log() - logits).nan_to_num()  # noise of float32 lies below
    others = torch.arange(len(rest)) != label
    allowed = (ratio > ratio[others].max() - math.log(2.0)) & others
    allowed &= rest > 1e-6
    weight = 1.0
    if allowed.any():  # w = exp(f_y - f_c)·rest_c - rest_y for every allowed c
        ahead = (logits[label] - logits[allowed]).clamp(max=60.0).exp()
        weight = float((ahead * rest[allowed]).median() - rest[label])
    allowed[label] = True
    inside = float(1.0 + rest[label] / weight) if weight else 0.0  # s_y
    lost = inside * (1.0 - weight)
    trust = lost / (weight + lost) if 0.0 < weight < 1.0 - 1e-3 else 0.0
    return OneRow(label, allowed, weight, min(max(trust, 0.0), 1.0))


def _logit_gradient(seen: Seen, at: Anatomy, lr: float, decay: float) -> tuple[Tensor, Tensor]:
    """d loss / d logits and the logits themselves, (k,) each, from a one-row upload."""
    head, bias = (seen.before[n].double() for n in (at.head, _bias(at.head)))

    def gradient(name: str) -> Tensor:
        return -seen.moved[name].double() / lr - decay * seen.before[name].double()

    def inputs(layer: str) -> tuple[Tensor, Tensor]:
        """A layer's output gradient and its input: the weight's gradient is their product."""
        out = gradient(_bias(layer))
        return out, (out @ gradient(layer)) / out.square().sum().clamp(min=_TINY)

    if at.head in seen.moved:
        slope, active = inputs(at.head)
        return slope, head @ active + bias
    if at.before_head is None or at.before_head not in seen.moved:
        return torch.zeros(at.classes, dtype=torch.float64), bias
    # the head stayed at home, but its start is public: solve for what came through it
    out, below = inputs(at.before_head)
    weight, shift = (seen.before[n].double() for n in (at.before_head, _bias(at.before_head)))
    active = (weight @ below + shift).clamp(min=0.0)  # ReLU
    on = active > 0
    if not on.any():
        return torch.zeros(at.classes, dtype=torch.float64), bias
    slope = torch.linalg.lstsq(head[:, on].T, out[on, None], driver="gelsd").solution[:, 0]
    return slope, head @ active + bias


def _find_pull(seen: Seen, at: Anatomy) -> Tensor:
    """How much each head row seems to have pulled at the layer below, (k,), by least squares."""
    if at.before_head is None or _bias(at.before_head) not in seen.moved:
        return torch.zeros(at.classes, dtype=torch.float64)
    moved = seen.moved[_bias(at.before_head)].double()
    head = seen.before[at.head].double()
    found: Tensor = torch.linalg.lstsq(head.T, moved[:, None], driver="gelsd").solution
    return found[:, 0]


def _rows(seen: Seen, layer: str) -> tuple[Tensor, Tensor]:
    """A layer's rows with their biases, before and moved, (r, c + 1)."""
    names = (layer, _bias(layer))
    before, moved = (
        torch.cat([part[names[0]], part[names[1]][:, None]], 1)
        for part in (seen.before, seen.moved)
    )
    return before, moved


def _columns(seen: Seen, at: Anatomy) -> tuple[Tensor, Tensor]:
    """How far the input columns strayed: of what the P-KM says and of the range, (k,) each."""
    assert at.expert is not None
    k = at.classes
    far = stray(seen.before[at.expert][:, -2 * k :].T, seen.moved[at.expert][:, -2 * k :].T)
    return far[:k], far[k:]


def _bias(weight: str) -> str:
    return f"{weight.removesuffix('weight')}bias"


def _share(values: Tensor) -> Tensor:
    return values / values.abs().sum().clamp(min=_TINY)
