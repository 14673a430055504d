"""The ensemble of a bundle: members as plain values and tensors, never pickled.

`ensemble` of bundle.json says who there is and with which weight; the numbers of trees, linear
models and the one-shot model lie in ensemble.safetensors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar, cast

import torch

from ..checker.forms import EnsembleValues
from ..config import build
from ..core.one_shot import Basis, Home, Link, OneShot, OneShotModel, Posterior
from ..core.ordinal import Start
from ..core.scaler import Scaler
from ..core.tree import Params
from ..errors import ConfigError, FedloreError
from ..kernel.knowledge import HEARD_OF_ORDER
from ..knowledge import Knowledge
from ..models.ensemble import CorrectedMember, Ensemble, OneShotMember
from ..models.own.members import (
    MOST_BYTES,
    NumberMember,
    OwnMember,
    read_own_members,
    write_own_members,
)
from .archive import Refused

EXACT = "one_shot"  # the kind of the one-shot model, beside the kinds of own members
_CORRECTS = "corrects"
_OWN, _ONE_SHOT = "own.", "one_shot."  # how the names of their tensors begin
_Form = TypeVar("_Form")


def describe_ensemble(ensemble: Ensemble, known: Knowledge) -> tuple[dict[str, Any], Params]:
    """Members and weights as values for JSON, and the tensors that belong to them."""
    rounds = [member for member in ensemble.members if isinstance(member, OneShotMember)]
    # what corrects the one-shot model is an own member that says so
    own = [getattr(member, "own", member) for member in ensemble.members if member not in rounds]
    if strange := [member for member in own if not isinstance(member, OwnMember)]:
        raise FedloreError(
            f"a bundle cannot hold a member of the class {type(strange[0]).__name__}: it would "
            "need your code to load"
        )
    if len(rounds) > 1:
        raise FedloreError(f"a bundle holds one one-shot model, not {len(rounds)}")
    described, plain = write_own_members(own)
    tensors = {f"{_OWN}{name}": t for name, t in plain.items()}
    for one in rounds:
        tensors |= {f"{_ONE_SHOT}{name}": t for name, t in _round_tensors(one).items()}
    tensors = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    _check_size(tensors)
    rest = iter(described)
    said = [_round_values(m) if m in rounds else next(rest) for m in ensemble.members]
    for values, member in zip(said, ensemble.members, strict=True):
        if isinstance(member, CorrectedMember):
            if member.one_shot not in rounds:
                raise FedloreError(f"'{member.name}' corrects a model that is not in the ensemble")
            values[_CORRECTS] = EXACT
    values = {
        "network": ensemble.network,
        "expert": ensemble.expert,
        **ensemble.calibration,
        "heard": heard_sources(known),
        "members": [{"weight": w, **one} for w, one in zip(ensemble.weights, said, strict=True)],
    }
    return values, tensors


@dataclass(frozen=True)
class _OneShotValues:
    """What it says of a one-shot model."""

    kind: str
    name: str
    basis: Basis
    start: Start
    hears: bool
    rows: float
    scaled: bool
    link: Link | None = None  # once there were none


def restore_ensemble(
    said: Mapping[str, Any],
    tensors: Params,
    known: Knowledge,
    *,
    shape: Sequence[int],  # of one row
    classes: int,  # or bins, k
) -> Ensemble:
    """Members and weights again; nothing is believed before it is checked."""
    numbers = known.line is not None
    values = _read(EnsembleValues, said, "the ensemble")
    try:
        calibration = values.calibration(number=numbers)
    except ConfigError as error:
        raise Refused(f"the ensemble: {error}") from None
    _check_size(tensors)
    listed = values.members
    if [one.get("kind") for one in listed].count(EXACT) > 1:
        raise Refused("a bundle holds one one-shot model")
    plain = [{k: v for k, v in one.items() if k != "weight"} for one in listed]
    heard = heard_sources(known)
    hearing = any(one.get("kind") == "classes" and one.get("hears") for one in plain)
    if hearing and list(values.heard) != heard:  # their columns would be others
        day = "" if known.timeline is None else f" as of {known.timeline.day}"
        raise Refused(
            f"members of the ensemble were trained on {_words(values.heard)}, the knowledge{day} "
            f"has {_words(heard)}"
        )
    columns = int(torch.Size(shape).numel())
    left, count, shared = dict(tensors), 0, None
    members: list[Any] = []
    for place, one in enumerate(plain):
        one_shot = one.get("kind") == EXACT
        begin = _ONE_SHOT if one_shot else f"{_OWN}{count}."
        found = {n.removeprefix(begin): t for n, t in left.items() if n.startswith(begin)}
        left = {n: t for n, t in left.items() if not n.startswith(begin)}
        if one_shot:
            shared = _one_round(one, found, shape, classes)
            members.append(shared)
            continue
        count += 1
        corrects = one.pop(_CORRECTS, None)
        if corrects not in (None, EXACT) or (corrects and one.get("over")):
            raise Refused(f"member {place} cannot correct {corrects!r}")
        (member,) = read_own_members(
            [one],
            {f"0.{name}": t for name, t in found.items()},
            columns=columns,
            heard=len(heard) * classes if one.get("kind") == "classes" else HEARD_OF_ORDER,
        )
        _check_member(place, one, member, classes, numbers=numbers)
        if corrects:
            if shared is None or one["kind"] != "number":
                raise Refused(f"member {place} corrects a one-shot model that is not there")
            members.append(CorrectedMember(cast(NumberMember, member), shared))
        else:
            members.append(member)
    if left:
        raise Refused(f"no member has the tensor '{min(left)}'")
    weights = tuple(_number(one.get("weight"), "weight") for one in listed)
    sharp, width = calibration.get("inverse_temperature", 1.0), calibration.get("width", 0.0)
    return Ensemble(tuple(members), weights, values.network, values.expert, sharp, width)


def member_weights(ensemble: Ensemble, *, expert: float | None = None) -> dict[str, float]:
    """Who speaks with which weight, by name; where `expert` is his, the others share the rest."""
    named = {"network": ensemble.network}
    for place, (member, weight) in enumerate(zip(ensemble.members, ensemble.weights, strict=True)):
        name = str(getattr(member, "name", f"member {place}"))
        named[name if name not in named else f"{name} ({place})"] = weight
    his, total = ensemble.expert if expert is None else expert, sum(named.values())
    if his != ensemble.expert and total > 0:
        named = {name: (1.0 - his) * weight / total for name, weight in named.items()}
    return named | ({"expert": his} if his > 0 else {})


def heard_sources(known: Knowledge) -> list[str]:
    """Which rows of an expert's there are for members to hear."""
    names = {"prediction": known.prediction, "range": known.range}
    return [name for name, one in names.items() if one is not None]


def _round_values(one: OneShotMember) -> dict[str, Any]:
    one_shot = one.one_shot_model.one_shot
    return {
        "kind": EXACT,
        "name": one.name,
        "basis": asdict(one_shot.basis),
        "start": one_shot.start,
        "hears": one_shot.hears,
        "link": None if one_shot.link is None else asdict(one_shot.link),
        "rows": one.one_shot_model.home.rows,
        "scaled": one.scaler is not None,
    }


def _round_tensors(one: OneShotMember) -> Params:
    home, scaler = one.one_shot_model.home, one.scaler
    found = {**one.one_shot_model.found.bundle(), "middle": home.middle, "level": home.level}
    if scaler is not None:
        found |= {"shift": scaler.shift, "spread": scaler.spread}
    return {name: t.double() for name, t in found.items()}


def _one_round(
    said: Mapping[str, Any], own: Params, shape: Sequence[int], classes: int
) -> OneShotMember:
    values = _read(_OneShotValues, said, "the one-shot model")
    if not 0.0 < values.rows < float("inf"):
        raise Refused(f"rows of the one-shot model must be positive and finite, got {values.rows}")
    if not 0 < len(values.name) <= 100:
        raise Refused(f"name of the one-shot model cannot be {values.name!r}")
    one_shot = OneShot(values.basis, values.start, values.hears, values.link)
    d = one_shot.columns(int(torch.Size(shape).numel()))
    counts = one_shot.basis.counts(d)  # counted, not made: it may be beyond all measure
    f, g = sum(counts), sum(n > 0 for n in counts)
    room: dict[str, tuple[int, ...]] = {
        "mean": (f,),
        "covariance": (f, f),
        "noise": (),
        "prior": (g,),
        "middle": (f,),
        "level": (),
    }
    if values.scaled:
        room |= {"shift": tuple(shape), "spread": tuple(shape)}
    _check_round(own, room)
    scaler = Scaler(own["shift"], own["spread"]) if values.scaled else None
    home = Home(own["middle"], own["level"], values.rows)
    one_shot_model = OneShotModel(one_shot, Posterior.of(own), home, classes)
    return OneShotMember(one_shot_model, scaler, values.name)


def _check_round(own: Params, room: Mapping[str, tuple[int, ...]]) -> None:
    for name in sorted({*own, *room}):
        found = tuple(own[name].shape) if name in own else None
        if found != room.get(name) or own[name].dtype != torch.float64:
            raise Refused(
                f"'{_ONE_SHOT}{name}' should be float64 of shape {room.get(name, 'none')}, it is "
                f"{own[name].dtype if name in own else 'missing'} of {found or 'none'}"
            )
        if not own[name].isfinite().all():
            raise Refused(f"'{_ONE_SHOT}{name}' must be finite")
    positive = [own[name] for name in ("noise", "spread") if name in own]
    if not all(bool((t > 0).all()) for t in positive) or (own["covariance"].diagonal() < 0).any():
        raise Refused("variances and spreads of the one-shot model must be positive")


def _check_member(
    place: int, said: Mapping[str, Any], member: OwnMember, classes: int, *, numbers: bool
) -> None:
    """Refuse a member that does not speak of this many classes, or of a number."""
    kind, trees, body = said["kind"], said["body"] == "trees", member.body
    if (kind == "number") != numbers:
        raise Refused(f"member {place} does not predict {'a number' if numbers else 'classes'}")
    outputs = body.outputs
    wanted = classes if kind == "classes" else 1
    if outputs != wanted or (kind == "order" and said["classes"] != classes):
        raise Refused(
            f"member {place} gives {outputs} numbers a row, {wanted} are wanted for {classes} "
            "classes"
        )
    if said.get("votes"):
        parts = [getattr(body, name) for name in ("values", "base", "scale")] if trees else []
        if not parts or any(bool((t < 0).any()) for t in parts):
            raise Refused(f"member {place} must vote by trees, with shares that are not negative")


def _read(form: type[_Form], said: Mapping[str, Any], what: str) -> _Form:
    try:
        return build(form, said)
    except ConfigError as error:
        raise Refused(f"{what}: {error}") from None


def _number(value: object, what: str) -> float:
    if type(value) not in (int, float):  # a truth is none
        raise Refused(f"{what} of an ensemble must be a number, got {value!r}")
    return float(cast(float, value))


def _words(names: Sequence[str]) -> str:
    return " and ".join(names) or "nothing"


def _check_size(tensors: Params) -> None:
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    if size > MOST_BYTES:
        raise FedloreError(
            f"members of an ensemble may take {MOST_BYTES} bytes of a bundle, these take {size}"
        )
