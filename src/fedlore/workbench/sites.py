"""A folder per site: train.csv, test.csv and knowledge.toml become clients."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..data.rows import ROW_KINDS, read_measured, read_table
from ..engine import Client, NumberClient
from ..errors import FedloreError
from ..knowledge.either import read_either
from ..knowledge.numbers import Bins, Numbers


@dataclass(frozen=True, eq=False)
class SiteRows:
    """A site as its folder has it; `bins` where its label is a number."""

    client: Client | NumberClient
    bins: Bins | None = None


def read_site(folder: str | Path) -> Client:
    """One site with classes, named as its folder."""
    found = read_site_rows(folder).client
    if not isinstance(found, Client):
        raise FedloreError(f"site '{found.id}' has a number to learn, classes are asked for")
    return found


def read_site_rows(folder: str | Path) -> SiteRows:
    """One site, named as its folder. The knowledge file says what the columns are called."""
    folder = Path(folder)
    held = read_either(folder / "knowledge.toml")
    known, schema = held.knowledge, held.schema
    train, test = (_rows(folder, part) for part in ("train", "test"))
    if train is None:
        raise FedloreError(f"site '{folder.name}' has no train.csv (or .xlsx, .parquet, ...)")
    label = schema.label
    if isinstance(known, Numbers):
        data = read_measured(train, schema, label=label)
        kept = None if test is None else read_measured(test, schema, label=label)
        return SiteRows(NumberClient(folder.name, data, known, kept), held.bins)
    rows = read_table(train, schema, label=label)
    exam = None if test is None else read_table(test, schema, label=label)
    return SiteRows(Client(folder.name, rows, known, test=exam))


def read_sites(where: str | Path | Sequence[str | Path]) -> list[Client]:
    """All sites of a folder, or those of a list, which must agree on features and classes."""
    clients = [read_site(site) for site in find_sites(where)]
    check_agree([SiteRows(client) for client in clients])
    return clients


def find_sites(where: str | Path | Sequence[str | Path]) -> list[Path]:
    """The folders of the sites."""
    if not isinstance(where, str | Path):
        if not where:
            raise FedloreError("there must be at least one site, the list is empty")
        return [Path(site) for site in where]
    found = sorted(path.parent for path in Path(where).glob("*/knowledge.toml"))
    if not found:
        raise FedloreError(f"no site in '{where}': a site is a folder with a knowledge.toml")
    return found


def _rows(folder: Path, part: str) -> Path | None:
    paths = [folder / f"{part}{suffix}" for suffix in ROW_KINDS]
    return next((path for path in paths if path.exists()), None)


def check_agree(sites: Sequence[SiteRows]) -> None:
    """Refuse sites that do not learn the same thing from the same columns."""
    first = sites[0]
    for site in sites[1:]:
        names = f"sites '{first.client.id}' and '{site.client.id}'"
        if (site.bins is None) != (first.bins is None):
            raise FedloreError(f"{names}: one has classes to learn, the other a number")
        own, other = (s.client.knowledge.schema for s in (first, site))
        assert own is not None and other is not None  # a knowledge file always has one
        if first.bins != site.bins:
            raise FedloreError(f"{names} differ in the bounds or bins of their target")
        if (own.names, own.classes) != (other.names, other.classes):
            raise FedloreError(f"{names} differ in features or classes")
