"""A folder per site: train.csv, test.csv and knowledge.toml become clients."""

from collections.abc import Sequence
from pathlib import Path

from ..data.rows import ROW_KINDS, read_table
from ..engine import Client
from ..errors import FedloreError
from ..knowledge import Knowledge


def read_site(folder: str | Path) -> Client:
    """One site, named as its folder. The knowledge file says what the columns are called."""
    folder = Path(folder)
    knowledge = Knowledge.read(folder / "knowledge.toml")
    schema = knowledge.schema
    assert schema is not None  # a knowledge file always has one
    train, test = (_rows(folder, part) for part in ("train", "test"))
    if train is None:
        raise FedloreError(f"site '{folder.name}' has no train.csv (or .xlsx, .parquet, ...)")
    return Client(
        folder.name,
        read_table(train, schema, label=schema.label),
        knowledge,
        test=None if test is None else read_table(test, schema, label=schema.label),
    )


def read_sites(where: str | Path | Sequence[str | Path]) -> list[Client]:
    """All sites of a folder, or those of a list, which must agree on features and classes."""
    clients = [read_site(site) for site in find_sites(where)]
    _agree(clients)
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


def _agree(clients: Sequence[Client]) -> None:
    first = clients[0].knowledge.schema
    for client in clients[1:]:
        schema = client.knowledge.schema
        assert first is not None and schema is not None
        if (schema.names, schema.classes) != (first.names, first.classes):
            raise FedloreError(
                f"sites '{clients[0].id}' and '{client.id}' differ in features or classes"
            )
