"""A folder per site: train.csv, test.csv and knowledge.toml become clients."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..answers import Bins
from ..data.rows import ROW_KINDS, read_measured, read_table
from ..engine import Client, NumberClient
from ..errors import FedloreError
from ..kernel.schema import Schema
from ..knowledge.either import Held, read_either
from ..knowledge.numbers import Numbers


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


def read_site_rows(folder: str | Path, like: Held | None = None) -> SiteRows:
    """One site, named as its folder. The knowledge file says what the columns are called.

    A site without one has the columns of the knowledge `like`, and knows nothing.
    """
    folder = Path(folder)
    held = like
    if held is None or knows(folder):
        held = read_either(folder / "knowledge.toml")
    known, schema = held.knowledge, held.schema
    if not knows(folder):
        known = type(known)(schema=schema)
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


def knows(folder: Path) -> bool:
    """Whether a site has knowledge; one that has none takes part as in plain federated learning."""
    return (folder / "knowledge.toml").exists()


def read_all_sites(folders: Sequence[Path]) -> list[SiteRows]:
    """All sites, which must agree on features and classes; one at least says what those are."""
    first = next((folder for folder in folders if knows(folder)), None)
    if first is None:
        raise FedloreError(
            "no site has a knowledge.toml, which says what columns and classes are called: one of "
            f"them must, such as '{folders[0].name}'"
        )
    like = read_either(first / "knowledge.toml")
    sites = [read_site_rows(folder, like) for folder in folders]
    check_agree(sites)
    return sites


def read_sites(where: str | Path | Sequence[str | Path]) -> list[Client]:
    """All sites with classes of a folder, or those of a list."""
    clients = [site.client for site in read_all_sites(find_sites(where))]
    return [client for client in clients if isinstance(client, Client)]


def find_sites(where: str | Path | Sequence[str | Path]) -> list[Path]:
    """The folders of the sites."""
    if not isinstance(where, str | Path):
        if not where:
            raise FedloreError("there must be at least one site, the list is empty")
        return [Path(site) for site in where]
    folders = sorted(path for path in Path(where).glob("*") if path.is_dir())
    found = [folder for folder in folders if knows(folder) or _rows(folder, "train")]
    if not found:
        raise FedloreError(
            f"no site in '{where}': a site is a folder with a train.csv and a knowledge.toml"
        )
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
        difference = find_difference(own, other)
        if difference is not None:
            raise FedloreError(f"{names} differ in {difference}")


def find_difference(own: Schema, other: Schema) -> str | None:
    """In what two sites' columns or classes differ, so that no network can be common; or None."""
    for what, mine, theirs in (
        ("features", own.names, other.names),
        ("classes", own.classes, other.classes),
    ):
        alone = [name for name in mine if name not in theirs]
        beside = [name for name in theirs if name not in mine]
        if alone or beside:
            told = [f"'{name}' is at the first only" for name in alone[:1]]
            told += [f"'{name}' at the second only" for name in beside[:1]]
            return f"{what}: {', '.join(told)}"
        if mine != theirs:
            return f"the order of their {what}: {', '.join(mine)}; {', '.join(theirs)}"
    for one, two in zip(own.features, other.features, strict=True):
        for key in ("levels", "other", "missing"):
            if getattr(one, key) != getattr(two, key):
                return f"{key} of '{one.name}': {getattr(one, key)}; {getattr(two, key)}"
    return None
