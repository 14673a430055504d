"""Bundles from a deployed federation: of a site's own weights, or of the shared ones."""

from dataclasses import replace
from pathlib import Path

from ...bundle import Bundle, Policies, bundle_of
from ...bundle.knowledge import read_held
from ...bundle.update import check_columns
from ...engine.lore import Trial
from ...engine.lore.rows import number_task
from ...errors import FedloreError
from ...knowledge.signing import find_signature
from ...models.tasks import Classification, Regression
from ..journal import read_state
from ..terms import Terms, read_terms
from .folder import agree_schema, check_same, read_kit
from .lore import holdings_of, personal_of


def bundle_of_kit(folder: Path, *, policies: Policies | None = None) -> Bundle:
    """The bundle of a site: the weights it was last scored with, and its own knowledge."""
    kit = read_kit(folder)
    path = kit.path("personal.weights")
    if not path.exists():
        raise FedloreError(
            f"'{folder}' has no personal.weights yet: they come when the federation is scored, "
            "after its last round, or when the site has settled"
        )
    about, payload = read_state(path)
    terms = read_terms(about["terms"])
    kit.file.policy.refuse_parts(terms)
    task, bins = terms.task() or Classification(), terms.bins
    known = kit.knowledge(terms.schema, bins)
    if known.schema is not None:
        check_same(known.schema, terms.schema)
    known = replace(known, schema=agree_schema(known.schema, terms.schema))
    if "mixture" in about:
        model = personal_of(kit, about, payload, terms)
    else:
        recipe = terms.recipe()
        model = task.build(recipe.model, known, scaler=recipe.scaler, weights=payload["model"])
    file, policies = kit.file, policies or Policies()
    return bundle_of(
        model,
        file.name,
        schema=known.schema or terms.schema,
        policies=replace(policies, signed=policies.signed or file.signed),
        holdings=holdings_of(about),
        signature=None if file.knowledge is None else find_signature(kit.path(file.knowledge)),
    )


def bundle_of_shared(
    folder: Path, knowledge: Path, *, client: str, policies: Policies | None = None
) -> Bundle:
    """The bundle of a new site: the coordinator's shared weights behind its own knowledge."""
    path = folder / "shared.weights"
    if not path.exists():
        raise FedloreError(f"'{folder}' has no shared.weights: its training is not finished")
    about, sent = read_state(path)
    terms = read_terms(about["terms"])
    held = read_held(knowledge, terms.schema.features)
    if (held.bins is None) != (terms.target is None):
        wanted = "classes" if terms.target is None else "a number"
        raise FedloreError(f"{knowledge.name} is not about {wanted}, the federation is")
    check_columns(held.require_schema(), terms.schema, knowledge.name)
    recipe = terms.recipe(about.get("trial", ""))
    weights = sent.get("model", {})
    if set(weights) != {name for name, _ in recipe.model.named_parameters()}:
        raise FedloreError(
            f"{type(recipe.algorithm).__name__} keeps a part of each network at its site: a "
            "newcomer has no such part, let it join a training"
        )
    task = _task(terms, about.get("trial", ""))
    model = task.build(recipe.model, held, scaler=recipe.scaler, weights=weights)
    return bundle_of(model, client, policies=policies, signature=find_signature(knowledge))


def _task(terms: Terms, trial: str) -> Classification | Regression:
    """What the shared weights of a training have learned."""
    if terms.bins is not None and terms.search_space is not None and trial:
        return number_task(terms.common().candidate(Trial.read(trial)), terms.bins)
    return terms.task() or Classification()
