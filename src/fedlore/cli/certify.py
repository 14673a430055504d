"""fedlore certify: a statement that a bundle's output stays in its range, for others to check."""

from pathlib import Path
from typing import Annotated

import typer

from ..bundle import read_bundle
from ..bundle.certificate import certify as issue
from ..bundle.certificate import write_certificate
from .checking import AcceptOption, refuse_bundle
from .codes import ExitCode
from .forms import PluginOption
from .teller import teller


def certify_command(
    bundle: Annotated[Path, typer.Argument(help="A bundle: a folder or a .lore file.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write it; BUNDLE.certificate.json by default.")
    ] = None,
    accept: AcceptOption = False,
    plugins: PluginOption = None,
) -> None:
    """Write a range certificate for a bundle whose knowledge is tables and formulas.

    Exit code 0: everything was proved; 1: something was refuted or could not be decided (the
    certificate says so); 2: the bundle cannot be certified.
    """
    told, opened = teller(), read_bundle(bundle, plugins=plugins or ())
    refuse_bundle(opened, told, accept=accept, beside=bundle.parent)
    values = issue(opened)
    place = out or bundle.with_name(f"{bundle.name.removesuffix('.lore')}.certificate.json")
    write_certificate(values, place)
    for claim in values["claims"]:
        line = f"{claim['status']:8} {claim['claim']}: {claim['how']}"
        told.say(line)
        if "example" in claim:
            names = [entry["feature"] for entry in values["scope"]]
            row = ", ".join(
                f"{name} = {value:g}" for name, value in zip(names, claim["example"], strict=True)
            )
            told.say(f"         for example {row}")
    told.say(f"verdict: {values['verdict']}; written to {place}, sha256 {values['sha256'][:16]}")
    told.give(
        {key: values[key] for key in ("verdict", "claims", "sha256")} | {"certificate": place}
    )
    raise typer.Exit(ExitCode.FINE if values["verdict"] == "proved" else ExitCode.NO)
