"""fedlore run: a federation of one's own files, in one process; fedlore track: what it left."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from ..core.history import check_writable
from ..engine.stacked.workers import cores
from ..errors import FedloreError
from ..experiments.approaches import effort, local_best_words
from ..experiments.benefit import benefit_path
from ..experiments.runs import Finished, plan_run, run_federation
from ..experiments.sites import Gathering, check_sites, checkup_lines, gather, knows, site_folders
from ..experiments.trackers import STORE, Tracked, open_tracker, track_folder
from ..federation.settings import TRACKERS
from ..kernel.findings import Finding
from ..knowledge.findings.checkup import check_file
from ..knowledge.shapes.shape import promised_shapes
from ..models.own.ahead import processes
from ..models.own.baseline import missing_learners
from ..report import overview, write_report
from ..report.benefit import write_benefit
from ..report.tables import MANY, quartiles
from ..report.verdict import RunWinner, verdict
from .lint import AcceptOption, refuse_errors
from .progress import Gauge
from .screen import Screen, current_screen, explain_stop, show_report


def run(
    config: Annotated[Path, typer.Argument(help="A federation.toml, or a folder of sites.")],
    out: Annotated[Path, typer.Option(help="Folder for rows, weights and report.")] = Path(
        "results"
    ),
    threads: Annotated[int, typer.Option(min=1, help="Torch threads; 1 is fastest here.")] = 1,
    accept: AcceptOption = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop if the check of a site's data warns.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many seeds to run; two or more give intervals.")
    ] = None,
    time_limit: Annotated[
        str | None, typer.Option(help="Such as 90s, 10m, 2h: what does not fit is left out.")
    ] = None,
) -> None:
    """Train and compare approaches on your own files; a finished approach is not run again."""
    torch.set_num_threads(threads)
    screen = current_screen()
    asked = {"seeds": seeds, "time_limit": time_limit}
    gathering = gather(config).with_run(**{k: v for k, v in asked.items() if v is not None})
    folders = site_folders(config)
    checked = {one.name: check_file(one / "knowledge.toml") for one in filter(knows, folders)}
    for name, one in checked.items():
        refuse_errors(one.findings, f"knowledge.toml of '{name}'", screen, accept=accept)
    check_writable(out / "results.jsonl")
    tracker = gathering.setting.run.track
    if tracker:
        open_tracker(tracker, out / STORE)  # refused before the work, not after
    clients = gathering.clients
    sizes = [len(client.data) for client in clients]
    rows = " / ".join(map(str, sizes))
    if len(sizes) > MANY:
        rows = f"{min(sizes)} to {max(sizes)}"
    screen.remark(
        f"{gathering.setting.name}: {len(clients)} sites, {gathering.size[0]} features, "
        f"{gathering.target_words}, {rows} training rows.\n"
    )
    for name in gathering.quiet:
        screen.remark(f"{name} has no knowledge.toml: it takes part as in plain federated learning")
    findings = check_sites(gathering, folders, checked)
    lines = checkup_lines(findings, folders)
    for line in lines[: 2 * MANY]:
        screen.remark(line)
    if len(lines) > 2 * MANY:
        screen.remark(f"and {len(lines) - 2 * MANY} lines more at the top of the report")
    if findings and strict:
        raise FedloreError(f"--strict: the check-up warns of {', '.join(findings)}")
    _tell(gathering, _run_shown(gathering, out, screen), out, screen, findings, lines)
    if tracker:
        tell_tracker(track_folder(out, tracker), tracker, screen)


def _run_shown(gathering: Gathering, out: Path, screen: Screen) -> Finished:
    """The run, with what is finished shown, and said when it is stopped."""
    approaches = plan_run(gathering) * gathering.setting.run.seeds
    finished: list[str] = []

    def kept() -> str:
        done = f"{len(finished)} of {len(approaches)} approaches are finished"
        names = f" ({', '.join(finished)})" if finished else ""
        return f"{done}{names} and kept in {out}; run the same command to continue"

    steps = [(approach.name, effort(approach)) for approach in approaches]
    with explain_stop(kept), Gauge(screen, "approach", steps) as gauge:

        def on_approach(name: str, fresh: bool) -> None:
            finished.append(name)
            gauge.advance(name)

        with processes(min(cores(), MANY)):
            return run_federation(gathering, out, on_approach=on_approach)


def _tell(
    gathering: Gathering,
    found: Finished,
    out: Path,
    screen: Screen,
    findings: Mapping[str, Sequence[Finding]],
    lines: Sequence[str],
) -> None:
    for name, reason in found.left_out.items():
        screen.say(f"{name} is left out: {reason}")
    said = verdict(found.rows, gathering.unit, gathering.setting.metric)
    report = _show(gathering, found, out, screen, lines, said) if found.rows else None
    screen.give(
        {
            "name": gathering.setting.name,
            "verdict": said,
            "rows": found.rows,
            "left_out": found.left_out,
            "checkup": {name: [one.as_row() for one in some] for name, some in findings.items()},
            "benefit": {client.id: _benefit(out, client.id) for client in gathering.clients},
            "out": out,
            "report": report,
        }
    )


def _show(
    gathering: Gathering,
    found: Finished,
    out: Path,
    screen: Screen,
    lines: Sequence[str],
    said: RunWinner | None,
) -> Path | None:
    """Tables and lines for people, and the page, where it can be drawn."""
    table = overview(gathering.setting.name, found.rows, gathering.setting.metric)
    screen.show(table)
    for line in (*table.notes, *([] if said is None else [said.sentence])):
        screen.say(line)
    ours = [row for row in found.rows if row["approach"] == "lore"]
    chosen = next((row["chosen"] for row in ours if row.get("chosen")), None)
    if chosen is not None:
        screen.say(f"lore chose: {chosen}")
        if weights := _expert_weights(gathering, out):
            screen.say(weights)
    if missing_learners() and any(row["approach"] == "local best" for row in found.rows):
        screen.remark(f"local best: {local_best_words()}")
    _tell_benefit(gathering, out, screen)
    for name, spent in {str(r["approach"]): r.get("privacy") for r in found.rows}.items():
        if spent:
            screen.say(f"{name}: {spent}")
    screen.remark(f"Rows and personal weights written to {out}")
    title = gathering.setting.name
    checkup = {"check-up": "; ".join(lines)} if lines else {}
    checkup |= {} if said is None else {"in short": said.sentence}
    facts = checkup | _facts(gathering, None if chosen is None else str(chosen))

    def write() -> Path:
        return write_report(
            found.rows,
            out,
            title=title,
            facts=facts,
            confusion=found.confusion,
            history=found.history,
            classes=() if gathering.bins is not None else gathering.schema.classes,
            unit=gathering.unit,
        )

    return show_report(screen, write)


def _tell_benefit(gathering: Gathering, out: Path, screen: Screen) -> None:
    """What taking part brings each site; of many sites how many it pays for."""
    found = {client.id: _benefit(out, client.id) for client in gathering.clients}
    known = {name: table for name, table in found.items() if table is not None}
    pages = {name: write_benefit(benefit_path(out, name)) for name in known}
    if len(known) > MANY:
        counts = Counter(str(table["sentence"]).partition(":")[0] for table in known.values())
        for words, count in counts.most_common():
            screen.say(f"{count} of {len(known)} sites: {words}.")
        screen.remark(f"Each site's own page: {out / 'sites' / 'SITE' / 'benefit.html'}")
        return
    for name, table in known.items():
        screen.say(f"{name}: {table['sentence']} ({pages[name]})")
        if table.get("left out"):
            screen.say(f"{name}: {table['left out']}")


def _expert_weights(gathering: Gathering, out: Path) -> str:
    """How far lore trusts each expert, and what decides it; nothing where there is none."""
    shares = []
    for client in gathering.clients:
        weights = (_benefit(out, client.id) or {}).get("weights")
        if weights is not None and client.knowledge.prediction is not None:
            shares.append((client.id, float(weights.get("expert", 0.0))))
    if not shares:
        return ""
    said = ", ".join(f"{name} {share:.2f}" for name, share in shares)
    if len(shares) > MANY:
        low, _, middle, _, high = quartiles([share for _, share in shares])
        said = f"{low:.2f} to {high:.2f}, {middle:.2f} in the middle"
    return f"weight of the expert in lore: {said} (chosen by the site's rows; least: least_trust)"


def _benefit(out: Path, client: str) -> dict[str, Any] | None:
    """What a site gains by taking part, where that was worked out."""
    path = benefit_path(out, client)
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _facts(gathering: Gathering, chosen: str | None) -> dict[str, str]:
    setting, plan = gathering.setting, gathering.setting.plan
    sizes = ", ".join(
        f"{c.id} {len(c.data)} + {0 if c.test is None else len(c.test)}" for c in gathering.clients
    )
    shaped = {c.id: promised_shapes(c.knowledge) for c in gathering.clients}
    kept = "; ".join(f"{name}: {', '.join(said)}" for name, said in shaped.items() if said)
    return {
        "local best": local_best_words(),
        "data": f"{gathering.size[0]} features, {gathering.target_words}; "
        f"training + test rows: {sizes}",
        "training": f"{setting.rounds} rounds of {plan.epochs} epochs, batch {plan.batch}, "
        f"learning rate {plan.lr:g}, {setting.algorithm.name}",
        **({"lore": chosen} if chosen else {}),
        **({"shapes that answers keep": kept} if kept else {}),
        "date": date.today().isoformat(),
    }


def track(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, a coordinator or a site.")],
    to: Annotated[str, typer.Option(help=f"{' or '.join(TRACKERS)}.")],
    into: Annotated[
        Path | None, typer.Option(help=f"The store's folder; by default FOLDER/{STORE}.")
    ] = None,
) -> None:
    """Record a finished run in MLflow or TensorBoard: parameters, rounds, scores, files."""
    screen = current_screen()
    told = track_folder(folder, to, into)
    tell_tracker(told, to, screen)
    screen.give({"fresh": told.fresh, "known": told.known, "store": told.store})


def tell_tracker(told: Tracked, tracker: str, screen: Screen) -> None:
    """What was written, and how to look at it."""
    were = "was" if told.known == 1 else "were"
    known = f"; {told.known} {were} there already" if told.known else ""
    runs = "1 run" if told.fresh == 1 else f"{told.fresh} runs"
    screen.say(f"Added {runs} to {tracker}'s store {told.store}{known}")
    screen.remark(f"Look at them: {told.hint}")
