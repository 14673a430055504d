"""The coordinator's halves of the filters that a federation asks for."""

from pathlib import Path

from ...engine.lore import MAIN, Trial
from ...privacy.filters import Filter, Placement, filter_context
from ...privacy.settings import filters_of
from ..settings import Federation
from ..terms import terms_of


def coordinator_filters(
    federation: Federation, sites: int, run: str = "", folder: Path | None = None
) -> list[Filter]:
    """The filters, or why there cannot be any; none of the candidates may be unfit for them."""
    a = federation
    terms = terms_of(a, run="", participants=sites)
    count = 1 if terms.menu is None else len(terms.menu.candidates)
    trials = [""] if terms.menu is None else [str(Trial(c, MAIN, a.rounds)) for c in range(count)]
    found = []
    for recipe in map(terms.recipe, trials):
        around = filter_context(
            recipe.algorithm,
            sites=sites,
            rounds=a.rounds,
            weights=recipe.weights,
            aggregate=recipe.aggregate,
            sample=a.sample,
            least=a.least(sites),
            sums=recipe.exact is not None,
        )
        found.append(filters_of(a.privacy, around, Placement("coordinator", folder, run=run)))
    return found[0]
