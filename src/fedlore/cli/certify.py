"""fedlore certify: a statement that a bundle's output stays in its range, for others to check."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..bundle import read_bundle
from ..bundle.certificate import certify as issue
from ..bundle.certificate import write_certificate
from .forms import PluginOption


def certify_command(
    bundle: Annotated[Path, typer.Argument(help="A bundle: a folder or a .lore file.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write it; BUNDLE.certificate.json by default.")
    ] = None,
    plugins: PluginOption = None,
) -> None:
    """Write a range certificate for a bundle whose knowledge is tables and formulas.

    Exit code 0: everything was proved; 1: something was refuted or could not be decided (the
    certificate says so); 2: the bundle cannot be certified.
    """
    values = issue(read_bundle(bundle, plugins=plugins or ()))
    place = out or bundle.with_name(f"{bundle.name.removesuffix('.lore')}.certificate.json")
    write_certificate(values, place)
    console = Console()
    for claim in values["claims"]:
        line = f"{claim['status']:8} {claim['claim']}: {claim['how']}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
        if "example" in claim:
            names = [entry["feature"] for entry in values["scope"]]
            row = ", ".join(
                f"{name} = {value:g}" for name, value in zip(names, claim["example"], strict=True)
            )
            console.print(f"         for example {row}", markup=False, highlight=False)
    console.print(
        f"verdict: {values['verdict']}; written to {place}, sha256 {values['sha256'][:16]}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    raise typer.Exit(0 if values["verdict"] == "proved" else 1)
