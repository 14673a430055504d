"""Other rules or another λ for a trained network, without training it again."""

from collections.abc import Mapping
from pathlib import Path

from ..errors import KnowledgeError
from ..kernel.schema import Schema
from ..knowledge.shapes.turns import take_turns
from ..knowledge.signing import find_signature
from ..knowledge.sources.catalog import plugins_in
from ..models.ensemble import with_expert
from .header import Bundle, read_header, task_about
from .knowledge import SIGNATURE, pack_signature, read_held, restore, store, with_trust
from .store import bundle_members


def update_bundle(
    bundle: Bundle,
    knowledge: str | Path | None = None,
    *,
    trust: float | None = None,
    client: str | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Bundle:
    """The same network seen through another knowledge.toml, another λ, or both.

    The members of an ensemble and their weights stay under other rules, although they were learned
    under the old ones; another λ is the expert's new weight, and the others share the rest as
    before, and so is a `least_trust` of the new file that his weight lay below. The features and
    classes must be the network's own. An expert's confusion belongs to his rules: new rules drop
    it, a new λ alone keeps it. So does a signature, which new rules bring along where their file is
    signed. Scores do not carry over: give new `metrics`.
    """
    header = read_header(bundle.members["bundle.json"])
    confusion, signature = header.confusion, bundle.members.get(SIGNATURE)
    files, held = dict(bundle.members), None
    if knowledge is not None:
        held = read_held(knowledge, bundle.schema.features)
        if task_about(held).name != bundle.task:
            raise KnowledgeError(f"{Path(knowledge).name} is not for {bundle.task}, the bundle is")
        check_columns(held.require_schema(), bundle.schema, Path(knowledge).name)
        if held.bins is not None and held.bins.edges != header.bins:
            raise KnowledgeError(f"{Path(knowledge).name}: bounds or bins are not the network's")
        held = take_turns(held, bundle.personal.knowledge.shapes)
        files, held = store(held, held.require_schema(), held.bins)
        confusion = None
        found = find_signature(Path(knowledge))
        signature = None if found is None else pack_signature(found, files)
    if trust is not None:
        if not 0.0 <= trust <= 1.0:
            raise KnowledgeError(f"trust must lie in [0, 1], got {trust:g}")
        files, held = with_trust(files, trust), None
    personal = bundle.personal
    held = held or restore(files, plugins=plugins_in(files))  # the bundle's or the file's own
    if trust is not None and trust < held.least_trust:
        raise KnowledgeError(
            f"trust {trust:g} is below the file's least_trust, {held.least_trust:g}"
        )
    ensemble = personal.ensemble
    if ensemble is not None and (trust is not None or ensemble.expert < held.least_trust):
        weight = held.least_trust if trust is None else trust
        personal = personal.with_ensemble(with_expert(ensemble, weight))
    return bundle_members(
        personal,
        client or bundle.client,
        files,
        held,
        confusion=confusion,
        metrics=metrics,
        policies=bundle.policies,
        signature=signature,
    )


def check_columns(own: Schema, asked: Schema, name: str) -> None:
    """Refuse knowledge whose features, units or classes are not the network's."""
    if own.names != asked.names:
        raise KnowledgeError(f"{name}: the features are not the network's, in its order")
    for mine, theirs in zip(own.features, asked.features, strict=True):
        if mine.unit != theirs.unit and theirs.unit:
            raise KnowledgeError(
                f"{name}: '{mine.name}' is in [{mine.unit}], the network takes it in "
                f"[{theirs.unit}]"
            )
        if mine.levels != theirs.levels:
            raise KnowledgeError(f"{name}: '{mine.name}' has other levels than the network's")
    if own.classes != asked.classes:
        raise KnowledgeError(f"{name}: the classes are not the network's, in its order")
