"""What [privacy] means for a recipe: filters around it, and the local training."""

from collections.abc import Callable

from ..algorithms import facts_of
from ..privacy.filters import Filter
from ..privacy.ledger import Ledger
from ..privacy.secagg import Identity
from ..privacy.settings import Around, Privacy, filters_of
from .loop import Recipe
from .records import Records


def records_of(privacy: Privacy | None, rounds: int) -> Records | None:
    """What privacy asks of the local training, None where that is as usual."""
    if privacy is None or privacy.dp is None or privacy.dp.level != "record":
        return None
    return Records(privacy.dp, rounds)


def filters_for(
    privacy: Privacy | None,
    recipe: Recipe,
    *,
    sites: int,
    rounds: int,
    sample: float = 1.0,
    least: int | None = None,
    ledger: Callable[[str], Ledger] = lambda site: Ledger(),
    run: str = "",
    identity: Identity | None = None,
) -> list[Filter]:
    """The filters of a federation, or why it cannot have them."""
    if privacy is None:
        return []
    around = Around(
        sites,
        rounds,
        sample,
        recipe.weights,
        recipe.aggregate,
        type(recipe.algorithm).__name__,
        exact=facts_of(recipe.algorithm).mean,
        least=least,
    )
    return filters_of(privacy, around, ledger=ledger, run=run, identity=identity)
