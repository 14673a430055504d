"""fedlore blend: the cheapest coals that make the grade."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import torch
import typer

from fedlore.bundle import Bundle, read_bundle
from fedlore.cli.options import (
    DecimalOption,
    EncodingOption,
    PluginOption,
    SeparatorOption,
    SheetOption,
)
from fedlore.cli.progress import Gauge
from fedlore.cli.screen import ExitCode, Screen, current_screen, explain_stop
from fedlore.core.history import check_writable
from fedlore.core.store import write_whole
from fedlore.data.rows import FileForm
from fedlore.errors import FedloreError
from fedlore.look.tables import TextTable

from . import (
    BlendPlan,
    Promise,
    feature_limit,
    model_limit,
    order_for,
    plan,
    read_coals,
    read_mixing,
)
from .change import BlendChange, change_values, change_words, read_blend, smallest_change
from .graders import check_promise
from .page import blend_tables, write_plan
from .plan import lean_order, read_scenarios, scenario_costs
from .sides import parse_limit
from .tests import check_teachable, propose_test, read_tests, take_results
from .words import plan_summary, trial_words


def blend_command(
    coals: Annotated[
        Path, typer.Argument(help="CSV or XLSX: coal, price, stock, min, max, properties.")
    ],
    target: Annotated[str, typer.Option(help="Such as 'grade>=12', 'grade>=CSR54', 'csr>=60'.")],
    model: Annotated[Path, typer.Option(help="The bundle of this site.")],
    confidence: Annotated[float, typer.Option(help="Least probability of the target.")] = 0.9,
    promise: Annotated[
        str, typer.Option(help="safe: hardly any plan falls far below P; expected: on average.")
    ] = "safe",
    worst_case: Annotated[
        bool, typer.Option("--worst-case", help="Also at the worst that the range allows.")
    ] = False,
    max_coals: Annotated[int | None, typer.Option(help="Most coals in the blend.")] = None,
    lots: Annotated[float | None, typer.Option(help="Step of the shares, in %.")] = None,
    tonnes: Annotated[float | None, typer.Option(help="Mass of the blend; stock counts.")] = None,
    fix: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of what coals do not say; repeatable.")
    ] = None,
    mixing: Annotated[
        Path | None, typer.Option(help="TOML with tables rules.NAME and fixed.")
    ] = None,
    trial: Annotated[
        bool, typer.Option("--trial", help="Also say which test blend would be worth most.")
    ] = False,
    limit: Annotated[
        list[str] | None,
        typer.Option(help="Also keep 'cri<=30 by cri.lore at 0.8', or 'Ad<=11'; repeatable."),
    ] = None,
    scenario: Annotated[
        list[Path] | None, typer.Option(help="Other prices: a file of coal, price; repeatable.")
    ] = None,
    choose: Annotated[
        str, typer.Option(help="Over scenarios minimise the mean cost, or the worst.")
    ] = "mean",
    change: Annotated[
        Path | None, typer.Option(help="A blend (coal, share in %): what must change to reach it?")
    ] = None,
    measured: Annotated[
        Path | None, typer.Option(help="Tests made since: % of each coal, and the grade.")
    ] = None,
    beyond_scope: Annotated[
        bool, typer.Option("--beyond-scope", help="Allow blends outside the model's scope.")
    ] = False,
    sheet: SheetOption = None,
    separator: SeparatorOption = None,
    decimal: DecimalOption = None,
    encoding: EncodingOption = None,
    plugins: PluginOption = None,
    seed: Annotated[int, typer.Option(help="Same seed, same plan.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for plan and plots.")] = Path("blend-results"),
    threads: Annotated[int, typer.Option(min=1, help="Torch threads.")] = 1,
) -> None:
    """Find the cheapest blend whose predicted grade reaches a target.

    Exit code 0: there is a plan; 1: there is none, and why; 2: the input cannot be used.
    """
    torch.set_num_threads(threads)
    bundle = read_bundle(model, plugins=plugins or ())
    rules, fixed = ({}, {}) if mixing is None else read_mixing(mixing)
    form = FileForm(separator, decimal, encoding, sheet)
    offered = read_coals(coals, form=form)
    given = _parse_given(fix or [])
    check_promise(promise)
    promised: Promise = "safe" if promise == "safe" else "expected"
    asked = [parse_limit(text) for text in limit or []]
    paths = {one.model for one in asked if one.model is not None}
    others = {path: read_bundle(path, plugins=plugins or ()) for path in sorted(paths)}
    sides = [None if one.model is None else others[one.model] for one in asked]
    # a value that another model alone needs is none of this one's
    known = {n for one in sides if one is not None for n in one.schema.names}
    own = {n: v for n, v in given.items() if n in bundle.schema.names or n not in known}
    order = order_for(
        bundle.personal,
        bundle.schema,
        offered,
        target,
        confidence=confidence,
        promise=promised,
        worst_case=worst_case,
        scope=not beyond_scope,
        tonnes=tonnes,
        most_coals=max_coals,
        lots=lots,
        fixed=fixed | own,
        rules=rules,
    )
    also = [
        feature_limit(order.recipe, one.target)
        if other is None
        else model_limit(
            other.personal,
            other.schema,
            offered,
            one.target,
            confidence=confidence if one.confidence is None else one.confidence,
            promise=promised,
            fixed=fixed | given,
            rules=rules,
        )
        for one, other in zip(asked, sides, strict=True)
    ]
    order = replace(order, also=tuple(also))
    scenarios = read_scenarios(scenario or [], offered, choose, form=form)
    tests = 0
    if measured is not None:
        results = read_tests(measured, order, form=form)
        order, tests = take_results(order, results), len(results)
    if trial:
        check_teachable(order)
    screen = current_screen()
    if change is not None:
        blend = read_blend(change, order, form=form)
        check_writable(out / "change.json")
        _change(smallest_change(order, blend, seed=seed), out, screen)
        return
    check_writable(out / "plan.json")
    if scenarios is not None:
        order = lean_order(order, scenarios, seed=seed)
    with explain_stop("nothing was kept or written; run the same command to start again"):
        with Gauge(screen, "step") as gauge:
            found = replace(plan(order, seed=seed, progress=gauge.step), tests=tests)
        if scenarios is not None:
            costs = scenario_costs(found, scenarios)
            found = replace(found, costs=costs, choice=scenarios.choose)
        if trial:
            found = replace(found, test=propose_test(order, found, seed=seed))
        _show(found, screen)
        if trial and found.blend is not None:
            for line in trial_words(found):
                screen.say(line)
        page = write_plan(found, out, facts=_facts(found, bundle, coals, seed))
    screen.remark(f"Written to {page.parent}: plan.html, plan.md, plan.json, front.jsonl, plots")
    screen.give(json.loads((out / "plan.json").read_text(encoding="utf-8")))
    raise typer.Exit(ExitCode.FINE if found.blend is not None else ExitCode.NO)


def _change(found: BlendChange, out: Path, screen: Screen) -> None:
    """Tell what must change, and write it down."""
    if found.then is not None and not found.reached:
        rows = []
        for name, now, then in zip(found.order.coals.names, found.now, found.then, strict=True):
            if max(now, then) > 0.0:
                more = round(100 * (then - now), 2)
                cells = (f"{100 * now:.2f}", f"{100 * then:.2f}", f"{more:+.2f}" * bool(more))
                rows.append((name, *cells))
        head = ("coal", "now, %", "then, %", "change")
        screen.show(TextTable.of("The smallest change", head, rows))
    for line in change_words(found):
        screen.say(line)
    values = change_values(found)
    write_whole(out / "change.json", json.dumps(values, indent=2, allow_nan=False) + "\n")
    screen.remark(f"Written to {out / 'change.json'}")
    screen.give(values)
    raise typer.Exit(ExitCode.NO if found.then is None else ExitCode.FINE)


def _parse_given(pairs: list[str]) -> dict[str, float | str]:
    fixed: dict[str, float | str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name.strip() or not value.strip():
            raise FedloreError(f"--fix must read NAME=VALUE, got '{pair}'")
        fixed[name.strip()] = value.strip()
    return fixed


def _facts(found: BlendPlan, bundle: Bundle, coals: Path, seed: int) -> dict[str, str]:
    order = found.order
    stock = order.coals.stock is not None and order.tonnes is None
    limits = [
        "" if order.tonnes is None else f"{order.tonnes:,.0f} t",
        "" if order.most_coals is None else f"at most {order.most_coals} coals",
        "" if order.lots is None else f"lots of {order.lots:g} %",
        "stock not counted, as no tonnage was given" if stock else "",
        "" if order.scope else "blends outside the model's scope allowed",
        *(limit.text for limit in order.also),
    ]
    return {
        "coals": f"{len(order.coals)} of {coals.name}",
        "model": f"{bundle.client}, bundle {bundle.fingerprint[:12]} of {bundle.created[:10]}",
        "limits": ", ".join(filter(None, limits)) or "those of the list",
        "looked at": f"{found.looked:,} blends before the search; seed {seed}",
    }


def _show(found: BlendPlan, screen: Screen) -> None:
    wide = {"Blended features", "Predicted distribution"}  # in the files
    for table in blend_tables(found):
        if table.title not in wide and not table.title.startswith("What"):
            screen.show(table)
    for line in plan_summary(found):
        screen.say(line)
    if found.order.coals.stock is not None and found.order.tonnes is None:
        screen.remark("Stock was not counted: --tonnes says how much is wanted")
