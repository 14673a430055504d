"""blanks = mean, as bundles of 0.1.0 may declare it: the mean stands for any missing number.

The network has no sign for what is missing, but the knowledge knows: it sees the hole.
"""

from dataclasses import replace

from torch import Tensor

from ...core.inputs import Input, Inputs
from ...core.scaler import Scaler
from ...errors import FedloreError
from ...kernel.schema import Feature, Schema
from ...personal.tasks import task_of
from ..contents import Bundle


def tolerate(bundle: Bundle) -> Bundle:
    """The bundle as it answers: with blanks = mean numbers may be missing that must not be else."""
    if bundle.policies.blanks != "mean":
        return bundle
    personal = bundle.personal
    scaler = personal.inner.scaler
    if scaler is None:
        raise FedloreError("blanks = mean needs the federation's means, and it had no scaling")
    features = tuple(map(_tolerated, bundle.schema.features))
    schema = replace(bundle.schema, features=features)
    inputs = _filled(scaler.inputs, bundle.schema, scaler.shift.flatten())
    seen = Scaler(scaler.shift, scaler.spread, inputs)
    known = replace(personal.knowledge, schema=schema)
    made = task_of(personal).build(personal.inner.model, known, scaler=seen, beside=personal.beside)
    policies = replace(bundle.policies, blanks="error")  # so that this is done once
    return replace(bundle, personal=made.eval(), schema=schema, policies=policies)


def _tolerated(feature: Feature) -> Feature:
    if feature.levels or feature.may_miss:
        return feature
    return replace(feature, missing="mean")


def _filled(inputs: Inputs | None, schema: Schema, shift: Tensor) -> Inputs:
    """The same inputs, the mean in place of every number that would have been refused."""
    before = (Input(),) * len(schema.features) if inputs is None else inputs.features
    found, column = [], 0
    for one, feature in zip(before, schema.features, strict=True):
        mean = float(shift[column])
        column += one.width
        if not feature.levels and not one.missing:
            one = replace(one, missing=True, sign=False, fill=mean)
        found.append(one)
    return Inputs(tuple(found))
