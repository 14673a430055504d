"""fedlore export, certify and update: a model as a file, the proof of its range, other rules."""

from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from ..answers.measured import show_scores
from ..bundle import Bundle, Policies, read_bundle, write_bundle
from ..bundle.certify import certify as issue
from ..bundle.certify import write_certificate
from ..bundle.ensemble import member_weights
from ..bundle.knowledge import read_signature, signer_words
from ..bundle.predict import read_scored, score_bundle
from ..bundle.store import bundle_on, with_policies
from ..bundle.update import update_bundle as renew
from ..config import build
from ..errors import ConfigError, FedloreError
from ..experiments.weights import approaches_kept, find_bundle, sites_kept, usual_approach
from ..federation.site.export import bundle_of_kit, bundle_of_shared
from ..knowledge.shapes.shape import promised_shapes
from ..look.tables import TextTable
from ..words import phrase
from .knowledge import export_tables
from .lint import AcceptOption, check_with_rows, refuse_bundle, refuse_errors
from .options import AsOfOption, PluginOption, say_dates
from .screen import ExitCode, Screen, current_screen


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
    if opened.schema.absent:
        gone = ", ".join(opened.schema.absent)
        screen.say(f"this site does not measure {gone}: rows that leave them out are covered too")
    screen.say(f"verdict: {values['verdict']}; written to {place}, sha256 {values['sha256'][:16]}")
    screen.give(
        {key: values[key] for key in ("verdict", "claims", "sha256")} | {"certificate": place}
    )
    raise typer.Exit(ExitCode.FINE if values["verdict"] == "proved" else ExitCode.NO)


def update_command(
    bundle: Annotated[Path, typer.Argument(help="A .lore file, or the folder of a bundle.")],
    knowledge: Annotated[Path | None, typer.Argument(help="The new knowledge.toml.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the new bundle.")] = None,
    trust: Annotated[float | None, typer.Option(help="Another λ.")] = None,
    data: Annotated[Path | None, typer.Option(help="Labelled rows: scores and an audit.")] = None,
    client: Annotated[str | None, typer.Option(help="A new name, for another site.")] = None,
    accept: AcceptOption = False,
    plugins: PluginOption = None,
) -> None:
    """Replace the rules or λ of a bundle, after an audit, with scores before and after."""
    if knowledge is None and trust is None:
        raise ConfigError("say what changes: a knowledge.toml, --trust, or both")
    if out is None:
        raise ConfigError("say where to write the new bundle: --out NAME.lore")
    old = read_bundle(bundle, plugins=plugins or ())
    screen, scores = current_screen(), dict[str, dict[str, float]]()
    if knowledge is not None:
        _audit(knowledge, data, screen, accept=accept)
    new = renew(old, knowledge, trust=trust, client=client)
    if data is not None:
        rows = read_scored(old, data)
        for said in rows.remarks(new):
            screen.remark(said)
        before, after = (score_bundle(one, rows) for one in (old, new))
        new = renew(old, knowledge, trust=trust, client=client, metrics=after)
        scores = {"before": before, "after": after}
        _compare(before, after, screen)
    was, now = (one.personal.knowledge.trust_at_prediction for one in (old, new))
    if trust is None and new.personal.ensemble is None and was != now:
        screen.say(
            f"λ at prediction was {was:g} and is now "
            f"{now:g}, as the new file says (--trust overrides it)"
        )
    if new.personal.ensemble is not None:
        was, now = (one.personal.reliance for one in (old, new))
        kept = "the weights of the ensemble stay" if was == now else "the ensemble's weights"
        screen.say(
            f"{kept}: {phrase('part.member-weights', shares=member_weights(new.personal.ensemble))}"
        )
    if new.personal.knowledge.row_trust is not None:
        screen.say(f"λ row by row: {new.personal.knowledge.row_trust}")
    elif old.personal.knowledge.row_trust is not None:
        screen.say(f"λ is one number now; it was {old.personal.knowledge.row_trust}")
    _say_shapes(old, new, screen)
    _say_signed(old, new, screen)
    write_bundle(new, out)
    screen.say(f"written to {out}")
    screen.say(f"fingerprint {new.fingerprint}")
    made = {"bundle": out, "fingerprint": new.fingerprint, "trust": now, "scores": scores}
    screen.give(made | {"shapes": promised_shapes(new.personal.knowledge)})


def _say_shapes(old: Bundle, new: Bundle, screen: Screen) -> None:
    """Which way features can move the answers now, and what is no longer promised."""
    was, now = (promised_shapes(one.personal.knowledge) for one in (old, new))
    if now:
        screen.say(f"the answers keep: {', '.join(now)}")
    lost = [words for words in was if words not in now]
    if lost:
        screen.say(f"no longer kept: {', '.join(lost)}")


def _say_signed(old: Bundle, new: Bundle, screen: Screen) -> None:
    """Whose word the rules are now; rules that nobody signed are a draft."""
    signed = read_signature(new.members)
    if signed is not None:
        screen.say(f"rules signed by {signer_words(signed)}")
    elif new.policies.signed or read_signature(old.members) is not None:
        screen.say("the new rules are a draft: nobody has signed them")


def _audit(knowledge: Path, data: Path | None, screen: Screen, *, accept: bool) -> None:
    """The lint of the new knowledge; with errors it is not used, unless they are accepted."""
    found, _ = check_with_rows(knowledge, data)
    for finding in found.findings:
        screen.say(str(finding))
    if found.audit is not None:
        screen.say(f"audit: {found.audit}")
    refuse_errors(found.findings, knowledge.name, screen, accept=accept)


def _compare(before: dict[str, float], after: dict[str, float], screen: Screen) -> None:
    was, now = show_scores(before), show_scores(after)
    rows = [(name, was.get(name, ""), now.get(name, "")) for name in dict.fromkeys((*was, *now))]
    screen.show(TextTable.of("Scores on the data", ("score", "before", "after"), rows))
