"""What [privacy] means for a recipe: filters around it, and the local training."""

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

from ..algorithms import facts_of
from ..privacy.ckks.filter import Ckks
from ..privacy.dp.filter import Noising
from ..privacy.dp.ledger import Ledger
from ..privacy.dp.records import Records
from ..privacy.dp.settings import bare_line, planned_line, spent_line
from ..privacy.filters import Filter
from ..privacy.secagg.filter import Identity
from ..privacy.settings import Around, Privacy, filters_of
from .loop import Recipe


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
    key: bytes | None = None,
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
    return filters_of(privacy, around, ledger=ledger, run=run, identity=identity, key=key)


def books_for(
    privacy: Privacy | None, sites: Sequence[str], folder: str | Path | None
) -> dict[str, Ledger]:
    """A ledger for every site where there is a budget; in a folder it outlives the run."""
    if privacy is None or privacy.dp is None:
        return {}
    if folder is None:
        return {site: Ledger() for site in sites}
    return {site: Ledger(Path(folder) / f"{quote(site, safe='')}.json") for site in sites}


def privacy_lines(
    privacy: Privacy | None,
    filters: Sequence[Filter],
    ledgers: Sequence[Ledger] = (),
    *,
    rounds: int,
    sample: float = 1.0,
) -> list[str]:
    """What a report says about privacy; without the sites' ledgers, what was planned."""
    found = []
    for one in filters:
        if isinstance(one, Noising):
            dp = one.dp
            if ledgers:
                found.append(spent_line(dp, ledgers, sample=sample))
            else:
                found.append(planned_line(dp, one.noise, rounds, sample=sample))
            if privacy is not None and not privacy.hides:
                found.append(bare_line(dp, one.noise, one.least, rounds))
        if isinstance(one, Ckks):
            found.append(one.line())
    return [line for line in found if line]
