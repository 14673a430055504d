"""What a model knows of its own ignorance: a place, the noise of one test, and its own error.

The one-shot model says both (MacKay 1992): the rows decide its noise, and how far a row lies from
them decides what it may be wrong by. Members of an ensemble say the latter by how far they differ.
Further tests are taken in by the one-shot model at once, at home, weighed by its own variances,
inflated as its doubts are; the other members stay as they were trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..answers import Measured
from ..core.examples import Examples
from ..core.inject import guard, inject
from ..core.one_shot import Products
from ..core.ordinal import normal_cells
from ..errors import FedloreError
from ..kernel.schema import Schema
from .classifier import Personal
from .ensemble import OneShotMember
from .own.members import mask_logits
from .regressor import PersonalRegressor

LEAST_WEIGHT = 0.1  # of the one-shot model in a mixture that lets it speak for itself
#: The evidence takes the law for what the basis can say, and it is more. Of blends that plans chose
#: (simulated plants, seeds 100 to 115) squared errors of the place were 1.1 to 2.5 times what it
#: claims with products, 1.9 to 3.8 times with squares, 5 to 18 times with neither.
INFLATION: dict[Products, float] = {"quadratic": 2.5, "squares": 3.75, "linear": 12.0}
#: A class is a number that was rounded, which adds 1/12 to its variance (Sheppard 1898): P of a
#: class lays the borders over the number itself, so that part must not count twice.
_ROUNDED = 1.0 / 12.0


@dataclass(frozen=True, eq=False)
class Doubt:
    """Of n rows a place on the scale of class numbers, or a number, and how sure it is."""

    place: Tensor  # (n,)
    noise: Tensor  # (n,) sd of one test about the place, if the place were right
    ignorance: Tensor  # (n,) sd of the place itself

    def log_probs(self, allowed: Tensor | None, classes: int) -> Tensor:
        """Classes with all doubts averaged, inside the range, (n, k)."""
        wide = (self.noise.square() + self.ignorance.square()).sqrt()
        return mask_logits(normal_cells(self.place, wide, classes), allowed)

    def shift_probs(self, by: float, allowed: Tensor | None, classes: int) -> Tensor:
        """Classes if the place were off by so many sds of ignorance, (n, k)."""
        place = self.place + by * self.ignorance
        return mask_logits(normal_cells(place, self.noise, classes), allowed)

    def weigh(self, shifts: Sequence[float], allowed: Tensor | None, classes: int) -> Tensor:
        """`log_probs` and `shift_probs` by each of these, in one go, (1 + s, n, k)."""
        wide = (self.noise.square() + self.ignorance.square()).sqrt()
        places = torch.stack([self.place, *(self.place + by * self.ignorance for by in shifts)])
        widths = torch.stack([wide, *(self.noise for _ in shifts)])
        return mask_logits(normal_cells(places, widths, classes), allowed)


def can_doubt(personal: Personal | PersonalRegressor, schema: Schema) -> bool:
    """Whether a model knows of its own ignorance, found out without any row."""
    ensemble = personal.ensemble
    if personal.task == "regression" or ensemble is None:
        return ensemble is not None and bool(ensemble.members)
    spoken = sum(weight > 0 for weight in (ensemble.network, *ensemble.weights))
    return schema.ordered and (find_one_shot(personal) is not None or spoken > 1)


def find_doubt(personal: Personal | PersonalRegressor, x: Tensor) -> Doubt | None:
    """The doubt about rows in raw units, on the scale of class numbers or of the number."""
    if personal.task == "regression":
        return doubt_numbers(personal, personal.annotate(x))
    return doubt_classes(personal, personal.annotate(x))


@torch.no_grad()
def doubt_classes(personal: Personal, known: Examples) -> Doubt | None:
    """The doubt of a model of ordered classes; None where nobody else speaks than the network."""
    if personal.ensemble is None:
        return None
    sure = find_one_shot(personal)
    if sure is not None:
        return one_shot_doubt(sure, known)
    members, weights = member_probabilities(personal, known)
    if len(members) < 2:
        return None
    at = torch.arange(members.shape[2], dtype=torch.float64, device=members.device)
    places = members @ at  # (j, n)
    widths = members @ at.square() - places.square()
    place = weights @ places
    noise = (weights @ widths).clamp(min=1e-6)
    ignorance = (weights @ (places - place).square()).clamp(min=1e-12)
    return Doubt(place, noise.sqrt(), ignorance.sqrt())


def find_one_shot(personal: Personal) -> OneShotMember | None:
    """The one-shot model that speaks for the whole mixture about its ignorance, if one does."""
    ensemble = personal.ensemble
    pairs = () if ensemble is None else zip(ensemble.members, ensemble.weights, strict=True)
    for member, weight in pairs:
        if isinstance(member, OneShotMember) and weight >= LEAST_WEIGHT:
            return member
    return None


@torch.no_grad()
def one_shot_doubt(member: OneShotMember, known: Examples) -> Doubt:
    """What the one-shot model says of itself."""
    x = known.x if member.scaler is None else member.scaler(known.x)
    place, variance = member.one_shot_model.normal(x, known.prior, known.allowed, known.stated)
    noise = member.one_shot_model.found.noise
    ignorance = INFLATION[member.one_shot_model.one_shot.basis.terms] * (variance - noise)
    # measured numbers are not rounded
    test = noise if known.stated is not None else (noise - _ROUNDED).clamp(min=0.5 * noise)
    return Doubt(place, test.sqrt().expand_as(place), ignorance.clamp(min=1e-12).sqrt())


@torch.no_grad()
def member_probabilities(personal: Personal, known: Examples) -> tuple[Tensor, Tensor]:
    """What each member with a weight says, (j, n, k), and the weights, (j,) with sum 1."""
    ensemble = personal.ensemble
    logits = personal.logits(known)
    if ensemble is None:
        said = inject(logits, None, known.allowed).exp().double()
        return said.unsqueeze(0), said.new_ones(1)
    network = inject(guard(ensemble.inverse_temperature * logits), None, known.allowed)
    parts = [(network, ensemble.network)]
    parts += [
        (member.log_probs(known), weight)
        for member, weight in zip(ensemble.members, ensemble.weights, strict=True)
        if weight > 0
    ]
    return _keep_weighted([(p.double().softmax(1), w) for p, w in parts])


@torch.no_grad()
def doubt_numbers(regressor: PersonalRegressor, measured: Measured) -> Doubt | None:
    """The doubt of a model of a number, by how far its members differ; None without members."""
    ensemble = regressor.ensemble
    if ensemble is None or not ensemble.members:
        return None
    measured = regressor.see(measured)
    parts = [(regressor.network_number(measured), ensemble.network)]
    parts += [
        (member.number(measured), weight)
        for member, weight in zip(ensemble.members, ensemble.weights, strict=True)
        if weight > 0
    ]
    numbers, weights = _keep_weighted(parts)
    place = weights @ numbers
    ignorance, width = (weights @ (numbers - place).square()).sqrt(), ensemble.width
    # what the mixture misses on unseen rows is noise and ignorance together
    noise = (width**2 - ignorance.square()).clamp(min=0.25 * width**2).sqrt()
    return Doubt(place, noise, ignorance)


def _keep_weighted(parts: Sequence[tuple[Tensor, float]]) -> tuple[Tensor, Tensor]:
    kept = [(said, weight) for said, weight in parts if weight > 0] or [(parts[0][0], 1.0)]
    weights = kept[0][0].new_tensor([weight for _, weight in kept]).double()
    return torch.stack([said for said, _ in kept]), weights / weights.sum()


@torch.no_grad()
def take_tests(personal: Personal, x: Tensor, y: Tensor) -> Personal:
    """The same model after tests of rows in raw units, (n, d), and the classes they gave, (n,)."""
    sure, ensemble = find_one_shot(personal), personal.ensemble
    if sure is None or ensemble is None:
        raise FedloreError(
            "only an ensemble with a one-shot model can learn from tests, and this model has none: "
            'train it with recipe = "lore" on ordered classes'
        )
    known = personal.annotate(x)
    scaled = known.x if sure.scaler is None else sure.scaler(known.x)
    weight = INFLATION[sure.one_shot_model.one_shot.basis.terms]
    heard = (known.prior, known.allowed, known.stated)
    update = sure.one_shot_model.update(scaled, y, *heard, weight=weight)
    members = tuple(replace(m, one_shot_model=update) if m is sure else m for m in ensemble.members)
    return personal.with_ensemble(replace(ensemble, members=members))
