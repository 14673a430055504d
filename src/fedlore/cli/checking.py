"""The judgement of knowledge that every command shares: what lint calls an error stops them all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import KnowledgeError
from ..kernel.findings import Finding, errors
from ..knowledge.content import Where
from ..knowledge.lint.checkup import Checkup, check_data, check_file
from .teller import Teller

if TYPE_CHECKING:  # who checks a table waits for neither
    from ..bundle import Bundle
    from ..core.examples import Examples

AcceptOption = Annotated[
    bool, typer.Option("--accept-conflicts", help="Go on although lint finds errors.")
]


def refuse_errors(findings: Iterable[Finding], name: str, told: Teller, *, accept: bool) -> None:
    """Stop where lint finds errors, such as a prediction outside the range, unless one insists."""
    wrong = errors(findings)
    if not wrong:
        return
    many = f"{len(wrong)} error{'s' if len(wrong) > 1 else ''}"
    if accept:
        told.remark(f"{name} has {many}, which {'are' if len(wrong) > 1 else 'is'} accepted")
        return
    raise KnowledgeError(
        f"{name} has {many} and is not used, first {wrong[0]} (fedlore lint shows all of them, "
        "--accept-conflicts goes on all the same)"
    )


def refuse_conflicts(where: Where, name: str, told: Teller, *, accept: bool) -> None:
    """The same for a knowledge file as it lies there."""
    refuse_errors(check_file(where).findings, name, told, accept=accept)


def refuse_bundle(
    bundle: Bundle, told: Teller, *, accept: bool, beside: Path | None = None
) -> None:
    """The same for the knowledge in a bundle; a draft is refused where signed rules are wanted.

    That says the bundle itself, or the site.toml in the folder `beside`.
    """
    from ..bundle.known import knowledge_members
    from ..bundle.signed import refuse_draft

    if beside is not None and (beside / "site.toml").is_file():
        from ..federation.site.folder import read_kit

        file = read_kit(beside).file
        refuse_draft(bundle, file.signers if file.signed else (), needed=file.signed)
    refuse_draft(bundle)
    name = f"the knowledge of '{bundle.client}'"
    refuse_conflicts(knowledge_members(bundle.members), name, told, accept=accept)


def check_with_rows(knowledge: Path, data: Path | None) -> tuple[Checkup, Examples | None]:
    """What was found, and the labelled rows of classes that it was found on."""
    found = check_file(knowledge)
    schema = None if found.knowledge is None else found.knowledge.schema
    if data is None or schema is None:
        return found, None
    from ..data import read_measured, read_table

    if found.bins is not None:
        return check_data(found, read_measured(data, schema, label=schema.label), data.name), None
    rows = read_table(data, schema, label=schema.label)
    return check_data(found, rows, data.name), rows
