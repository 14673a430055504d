"""fedlore export and certify: one site's model as a file, and the proof of its range."""

from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from ..bundle import Bundle, Policies, read_bundle, write_bundle
from ..bundle.certify import certify as issue
from ..bundle.certify import write_certificate
from ..bundle.store import bundle_on, with_policies
from ..config import build
from ..errors import ConfigError, FedloreError
from ..experiments.weights import approaches_kept, find_bundle, sites_kept, usual_approach
from ..federation.site.export import bundle_of_kit, bundle_of_shared
from .dates import AsOfOption, say_dates
from .dmn import export_tables
from .lint import AcceptOption, refuse_bundle
from .options import PluginOption
from .screen import ExitCode, current_screen


def export(
    source: Annotated[
        Path,
        typer.Argument(help="A folder of fedlore run, a site's kit, a coordinator, or a bundle."),
    ],
    out: Annotated[Path | None, typer.Option(help="NAME.lore for one file, else a folder.")] = None,
    client: Annotated[str | None, typer.Option(help="The site of a run, or a new one.")] = None,
    approach: Annotated[str | None, typer.Option(help="Of a run: lore, FLwKM, ...")] = None,
    knowledge: Annotated[
        Path | None, typer.Option(help="Knowledge.toml of a new site, with a coordinator's folder.")
    ] = None,
    extra: Annotated[str | None, typer.Option(help="Unknown columns: ignore or error.")] = None,
    onnx: Annotated[Path | None, typer.Option(help="Write one ONNX graph, too.")] = None,
    dmn: Annotated[
        Path | None, typer.Option(help="Write a knowledge.toml's tables as a DMN file.")
    ] = None,
    as_of: AsOfOption = None,
    accept: AcceptOption = False,
    plugins: PluginOption = None,
) -> None:
    """Write one site's model with its knowledge, schema and scaling to one file."""
    if dmn is not None:
        if source.suffix != ".toml" or out is not None or onnx is not None:
            raise ConfigError(
                "--dmn writes the tables of a knowledge.toml, and nothing beside them"
            )
        export_tables(source, dmn, as_of)
        return
    if out is None and onnx is None:
        raise ConfigError("say where to write: --out NAME.lore, --onnx NAME.onnx, or both")
    said = {} if extra is None else {"extra": extra}
    policies = build(Policies, said)
    if _is_bundle(source):
        found = read_bundle(source, plugins=plugins or (), as_of=as_of)
        own = asdict(found.policies)  # it keeps what nothing else was said about
        found = with_policies(found, build(Policies, own | said)) if said else found
    else:
        found = _find(source, client, approach, knowledge, policies, plugins or ())
    screen = current_screen()
    found = bundle_on(found, as_of)
    say_dates(found, screen)
    ensemble = source if source.is_dir() and not _is_bundle(source) else source.parent
    refuse_bundle(found, screen, accept=accept, ensemble=ensemble)
    if out is not None:
        write_bundle(found, out)
        screen.say(
            f"{found.client}: {found.task}, {len(found.schema.features)} features, "
            f"{len(found.schema.classes)} {'bins' if found.task == 'regression' else 'classes'}, "
            f"written to {out}"
        )
        screen.say(f"fingerprint {found.fingerprint}")
    if onnx is not None:
        from ..bundle.onnx import write_bundle_onnx

        write_bundle_onnx(found, onnx)
        day = "" if found.timeline is None else f" as of {found.timeline.day}"
        screen.say(f"{found.client}: graph{day} written to {onnx}")
    made = {"client": found.client, "task": found.task, "fingerprint": found.fingerprint}
    screen.give({**made, "bundle": out, "onnx": onnx})


def _is_bundle(source: Path) -> bool:
    return source.is_file() or (source / "manifest.sha256").is_file()


def _find(
    source: Path,
    client: str | None,
    approach: str | None,
    knowledge: Path | None,
    policies: Policies,
    plugins: Collection[str],
) -> Bundle:
    """A new bundle from whatever the folder is."""
    if knowledge is not None and not (source / "shared.weights").is_file():
        raise ConfigError(
            f"--knowledge is for a newcomer and goes with a coordinator that has finished, "
            f"which '{source}' is not"
        )
    if (source / "site.toml").is_file():
        return bundle_of_kit(source, policies=policies)
    if (source / "shared.weights").is_file():
        if knowledge is None:
            raise ConfigError(
                f"'{source}' is a coordinator's: a newcomer's bundle needs --knowledge, a site "
                "exports from its own kit"
            )
        return bundle_of_shared(source, knowledge, client=client or "newcomer", policies=policies)
    if (source / "weights").is_dir():
        if client is None:
            sites = ", ".join(sites_kept(source, approach))
            raise ConfigError(f"a run has a model for each site: say which with --client: {sites}")
        found = find_bundle(source, client, approach, plugins=plugins)
        if approach is None:
            kinds = approaches_kept(source)
            others = ", ".join(kind for kind in kinds if kind != usual_approach(kinds))
            other = f"; --approach selects another: {others}" if others else ""
            current_screen().remark(f"Exporting {usual_approach(kinds)}{other}")
        return with_policies(found, replace(policies, signed=found.policies.signed))
    raise FedloreError(
        f"'{source}' cannot be exported: it is neither a folder of fedlore run, nor a site's kit, "
        "nor a coordinator that has finished, nor a bundle"
    )


def certify_command(
    bundle: Annotated[Path, typer.Argument(help="A bundle: a folder or a .lore file.")],
    out: Annotated[
        Path | None, typer.Option(help="Where to write it; BUNDLE.certificate.json by default.")
    ] = None,
    as_of: AsOfOption = None,
    accept: AcceptOption = False,
    plugins: PluginOption = None,
) -> None:
    """Write a range certificate for a bundle whose knowledge is tables and formulas.

    Exit code 0: everything was proved; 1: something was refuted or could not be decided (the
    certificate says so); 2: the bundle cannot be certified.
    """
    screen, opened = current_screen(), read_bundle(bundle, plugins=plugins or (), as_of=as_of)
    say_dates(opened, screen)
    refuse_bundle(opened, screen, accept=accept, ensemble=bundle.parent)
    values = issue(opened)
    place = out or bundle.with_name(f"{bundle.name.removesuffix('.lore')}.certificate.json")
    write_certificate(values, place)
    for claim in values["claims"]:
        line = f"{claim['status']:8} {claim['claim']}: {claim['how']}"
        screen.say(line)
        if "example" in claim:
            names = [entry["feature"] for entry in values["scope"]]
            row = ", ".join(
                f"{name} = {value:g}" for name, value in zip(names, claim["example"], strict=True)
            )
            screen.say(f"         for example {row}")
    screen.say(f"verdict: {values['verdict']}; written to {place}, sha256 {values['sha256'][:16]}")
    screen.give(
        {key: values[key] for key in ("verdict", "claims", "sha256")} | {"certificate": place}
    )
    raise typer.Exit(ExitCode.FINE if values["verdict"] == "proved" else ExitCode.NO)
