"""Reports and pages: everything that tables, plots and pages show of small made-up rows."""

import importlib
import math
import tempfile
from pathlib import Path
from unittest import mock

from fedlore.experiments.intervals import MeanInterval, interval, pair_interval
from fedlore.federation.pages import coordinator as page_of_coordinator
from fedlore.federation.pages.overview import Watcher, measure
from fedlore.look.charts import Chart, nice_ticks, show_chart, whole_ticks
from fedlore.look.page import colour, marker, shades
from fedlore.look.plots import DrawnPlot
from fedlore.look.tables import Cell, TextTable, markdown, plain_values
from fedlore.report import benefit, panels, plots, published, reliability, words
from fedlore_lab.leak import page as leaks
from fedlore_lab.leak.attacks import ATTACKS
from fedlore_lab.leak.settings import SETTINGS
from tests.federation.pages.stage import EVIL, KINDS, NOW, stage
from tests.report.rows import confusion, history, row, table

from .values import drawn, tried

tables, verdict, write = (  # functions of the same names stand before them
    importlib.import_module(f"fedlore.report.{name}") for name in ("tables", "verdict", "write")
)

DIAGRAMS = {"lore": "0.5 0.4 100; 0.9 0.9 50", "FL": "0.5 0.5 100; 0.9 0.6 100", "ML": "0.7 0.7 8"}


def _kinds() -> dict[str, list]:
    """Rows of every kind of report: swept, with ties, one seed, many clients, holes."""
    few = [r for r in table(share=0.3) if r["approach"] in ("FL", "FLwKM")]
    swept = [
        r for t in (0.0, 0.3, 0.5) for r in table(trust=t) if r["approach"] in ("lore", "FLwKM")
    ]
    told = [
        r
        | {
            "diagram": DIAGRAMS.get(r["approach"]),
            "nll": 1.0,
            "brier": 0.2,
            "crps": 0.3,
            "balanced": r["ta"] / 2,
            "macro_f1": 0.4,
            "grade_error": 1.0 - r["ta"],
            "kappa": r["ta"],
            "coverage": 0.9,
            "width": 4.0,
            "abstained": 0.25 if r["approach"] == "P-KM" else 0.0,
        }
        for r in table(seeds=3)
    ]
    many = [
        row(name, f"plant-{i}", seed, (i % 4) / 10 + seed / 20 + (name == "lore") / 10, pov=i % 2)
        for name in ("FL", "lore")
        for i in range(13)
        for seed in (0, 1)
    ]
    return {
        "all": table() + few, "swept": swept, "told": told, "many": many,
        "ties": [row(n, c, s, 0.5) for n in ("FL", "lore") for c in "ab" for s in (0, 1)],
        "one seed": table(seeds=1, protocol="paper", dataset="fmnist"),
        "holes": [r for r in table(kind="conformal95", dataset="coke") if r["seed"] or
                  r["client"] == "a"],
        "ranges": table(kind="expert") + table(kind="oracle") + [
            r | {"range": "none"} for r in table() if r["approach"] in ("FL", "ML")],
        "one": [row("lore", trust="auto")], "models": [row(model=m, ta=i / 4)
                                                       for i, m in enumerate(("local", "shared"))],
    }  # fmt: skip


def tables_and_plots_of_cases():
    kept = []
    for rows in _kinds().values():
        for case in panels.cases(panels.read_scores(rows)):
            own = [r for r in rows if r.get("range", "") == case.range]
            kept.append(
                [
                    case.title,
                    case.clients,
                    case.shares,
                    tables.case_tables(case),
                    tables.marks_table(own),
                    reliability.probability_table(own),
                ]
            )
            for panel in case.panels():
                kept.append([panel.seeds, panel.missing, panel.reference and panel.reference.label])
    return kept  # fmt: skip


def plots_of_cases():
    some = (_kinds()[name] for name in ("all", "swept", "holes", "ties"))
    return [
        drawn(plot) for rows in some for case in panels.cases(panels.read_scores(rows))
        for plot in write.plots(case, history=history(), confusion=confusion(3
            if len(rows) > 9 else 12),
                             classes=("soft", "firm", "hard"))
    ]  # fmt: skip


def captions_of_plots():
    made = [
        p
        for rows in _kinds().values()
        for c in panels.cases(panels.read_scores(rows))
        for p in write.plots(c, history=history())
    ]
    return [[p.name, p.title, p.subtitle, p.caption, p.height] for p in made]  # fmt: skip


def confusions():
    (case,) = panels.cases(panels.read_scores(table()))
    odd = [{**r, "predicted": -1} for r in confusion()[:2]]
    wide = [{**r, "approach": "FL", "share": s} for r in confusion(11) for s in (0.1, 0.2)]
    named = [
        {**r, "label": f"a long name {r['label']}", "predicted": f"a long name {r['predicted']}"}
        for r in confusion()
    ]
    some = [confusion(), confusion() + odd, wide, named, []]
    made = [p for rows in some for p in plots.confusion_matrix(case, rows, "c")]
    rows = [tables.class_tables(rows, c) for rows in some[:3] for c in ((), ("I", "II", "III"))]
    return [[drawn(p), p.caption, p.height] for p in made], rows  # fmt: skip


def whole_reports():
    kept = []
    for name, rows in _kinds().items():
        bare = mock.patch.object(write, "draw", lambda p: DrawnPlot(p, '<svg viewBox="0">', b""))
        with tempfile.TemporaryDirectory() as folder, bare:
            path = write.write_report(
                rows,
                folder,
                title=f"<{name}>",
                facts={"what": "made up"},
                confusion=confusion(),
                history=history(),
            )
            html = path.read_text()
            kept += [(path.parent / "tables.md").read_text(), html[html.index("<body") :]]
    return kept  # fmt: skip


def reports_of_numbers():
    rows = [{"approach": a, "client": c, "seed": s, "rmse": 1.0 + i / 4 + s / 8, "mae": 0.5 + i / 8,
             "abstained": 0.1 * (a == "P-KM"), "diagram": DIAGRAMS.get(a), "crps": 0.3, "pov": 0.0}
            for i, a in enumerate(("lore", "FL", "P-KM")) for c in "ab" for s in (0,
                1)]  # fmt: skip
    section = write.number_section(rows, "MPa")
    kept = [
        section.tables,
        section.headline,
        section.warnings,
        [drawn(d.plot) for d in section.plots],
    ]
    kept += [tables.overview("x", rows, m) for m in ("", "mae", "rmse")]
    kept += [reliability.coverage_table(rows), reliability.coverage_table([])]
    return [*kept, [verdict.verdict(rows, "MPa", m).sentence for m in ("", "mae")]]


def overviews_and_verdicts():
    kept = []
    for rows in _kinds().values():
        scored = [r | {"nll": 1 - r["ta"], "macro_f1": r["ta"]} for r in rows]
        for metric in ("", "macro_f1", "log_loss"):
            found = verdict.verdict(scored, metric=metric)
            kept += [tables.overview("x", scored, metric), found]
    return kept


def diagrams():
    read = panels.by_approach([row(a, diagram=d) for a, d in DIAGRAMS.items()])
    bins = {a: reliability._bins(rows) for a, rows in read.items()}
    made = [p for number in (True, False) for some in (bins, {"lore": bins["lore"]}, {})
            for p in reliability.reliability_plot(some, "n", "s", number=number)]  # fmt: skip
    sure = {"ece": 0.1, "ece low": 0.05, "ece high": 0.2, "nll": 1.0, "crps": 0.25}
    return [
        [[drawn(p), p.title, p.caption] for p in made], reliability.scores_table(sure),
        reliability.held_table(bins["lore"]),
        [reliability.clearly_least(some) for some in (bins, {"lore": bins["lore"]}, {
            "a": reliability.read_bins("0.5 0.5 900"), "b": reliability.read_bins("0.9 0.5 900")})],
    ]  # fmt: skip


def private_pages_of_sites():
    from tests.report.test_benefit import told

    line, kept = {"low": 0.4, "high": 0.6}, []
    sure = {"ece": 0.1, "ece low": 0.05, "ece high": 0.2, "nll": 1.0}
    for measured in ("accuracy", "rmse"):
        for more in (
            {}, {"gain": {"name": "g", "value": 0.0, "low": -0.1, "high": 0.1}},
            {"gain": {"name": "g", "value": 0.01, "low": -0.3, "high": 0.32}, "costs": {}},
            {"gain": {"name": "g", "value": 0.2, "low": 0.1, "high": 0.3}, "left out": "a <b>"},
            {"gain": {"name": "g", "value": -0.2, "low": -0.3, "high": -0.1},
             "costs": {"network": -0.1, "ridge": 0.0}},
            {"lines": [{"name": "network", "value": 0.5, **line}],
             "gain": {"name": "g", "value": -0.2, "low": -0.3, "high": 0.0}},
            {"diagram": [{"confidence": 0.9, "right": 0.8, "rows": 40}], "probabilities": sure},
        ):  # fmt: skip
            html = benefit.benefit_page(told(measured) | more)
            kept.append(html[html.index("<body") : html.index("<svg") if "<svg" in html else None])
    return kept


def words_and_small_parts():
    inf = math.inf
    few = [MeanInterval(0.5, math.nan), MeanInterval(0.0, 0.0), MeanInterval(0.0, 0.1), None]
    gaps = [MeanInterval(0.1, 0.1), MeanInterval(0.1, 0.05), MeanInterval(-0.1, 0.05), few[0]]
    bad = [
        {},
        {"seed": "0"},
        {"seed": True},
        {"ta": 1.1},
        {"ta": -0.1},
        {"ta": None},
        {"ta": True},
        {"width": 40},
        {"width": -1},
        {"trust": "auto"},
        {"trust": 1.5},
        {"approach": None},
        {"client": "a\u202eb\n"},
    ]
    curved = [[], [1.0], [1.0, 2.0], [0.0, 0.0, 4.0]]
    cells = TextTable.of("a|b", ("x", "y"), [("1", Cell("2", True))], ("n*",), words=(1,))
    return [
        [tables.percent_text(v) for v in few], [tables.meaning("lore", gap) for gap in gaps],
        [tried(panels.read_scores, [row(**b)]) for b in bad], tried(panels.read_scores, []),
        [tried(plots.rounds_curve, panels.cases(panels.read_scores([row()]))[0],
               [row(round=r)], "n") == [] for r in (0, "1", -1, True)],
        [tried(interval, v) for v in curved], tried(pair_interval, [1.0, 2.0, 4.0], [0.0, 2.0,
         1.0]),
        [words.range_name(k) for k in ("", "oracle", "conformal", "conformal90", "odd")],
        [words.caveats(d, k) for d in ("coke", "Simulated x", "fmnist")
         for k in ("oracle", "conformal", "conformal90", "none")],
        [words.percent(p) for p in (0, 0.005, 1)], words.spread(1, "Bars"), words.spread(2, "Bars"),
        [published.mean_ta(d, a, s) for d in ("covtype", "fmnist") for a in ("FLwKM", "lore", "ML")
         for s in (None, 0.01, 0.3)],
        [[colour(a), marker(a)] for a in ("lore", "FL", "other", "another")], markdown([cells]),
        shades(["lore", "FL", "lore", "lore", "x", "y"]), plain_values({"a": (inf, {1},
            Path("b"))}),
        sorted(["plant-10", "plant-2", "-1", "3", "3.5", "a"], key=panels.natural),
        panels.by_convention(["x", "lore", "FL", "x", "ML"]), tables.quartiles([1.0, 2.0]),
    ]  # fmt: skip


def charts_of_pages():
    line = [(1.0, 0.5), (2.0, math.nan), (5.0, 0.75)]
    charts = [
        Chart("a<b", "c & d", "round", {"one": line, "two": [(3.0, 1.0)]}, line), Chart("t", "c",
            "x"),
        Chart("t", "c", "x", front=[(4.0, 3e6)], floor=0.0), Chart("t", "c", "x", front=[(1, 0.0)]),
        Chart("t", "c", "x", front=[(i, 10.0 * i) for i in range(1, 40)], floor=200.0),
    ]  # fmt: skip
    spans = [(0.0, 1.0), (-1.0, 1.0), (0.11, 0.48), (3.0, 3.0), (0.0, 0.0), (1e4, 9e5), (5.0, 7.0)]
    return [show_chart(c) for c in charts], [[nice_ticks(*s), whole_ticks(*s)] for s in spans]


def pages_of_a_coordinator():
    kept, before = [], None
    every = [*KINDS, "sent", "training"]
    for states, rounds, server, facts in [
        (every, 12, "up", {}), (every[:1], 1, "up", {"trial": "2/9", "privacy": ["ε <= 4", EVIL]}),
        ([], 0, "up", {"state": "none"}), (every[:3], 70, "down", {"state": "stopped",
            "reason": EVIL}),
        (every[:2], 30, "up", {"state": "finished"}), (every[1:5], 3, "starting", {"rounds": 0}),
    ]:  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            from tests.federation.pages.stage import write_status

            home = stage(Path(folder), states, rounds=rounds)
            write_status(home, **facts)
            seen = Watcher(home, lambda s=server: NOW + 60 * (s == "down")).look()
        html = page_of_coordinator.show_overview(seen)
        brief = page_of_coordinator.brief_overview(seen)
        kept += [html[: html.index("<dt>updated")], brief, measure(seen).decode(),
                 page_of_coordinator.sum_up(seen), page_of_coordinator.time_left(seen)]  # fmt: skip
        if before is not None:
            kept.append(page_of_coordinator.overview_changes(before, seen))
        before = seen
    spans = (None, 0, 9.9, 9.95, 59.4, 60, 3599, 3600, 86399, 86400, 4e5)
    sizes = (0, 999, 1e3, 999_999, 1e6, 1e9)
    return [*kept, [page_of_coordinator.say_seconds(s) for s in spans],
            [page_of_coordinator.say_bytes(s) for s in sizes]]  # fmt: skip


def leaks_of_settings():
    rows = [
        {"case": "coke", "setting": s.name, "seed": seed, "site": site,
            "ta": 0.5 + i / 100 - seed / 50}
        | {f"{a} error": None if a == "trust" and i % 2 else (i + j + seed) % 5 / 4
           for j, a in enumerate(ATTACKS)}
        | {f"{a} chance": 0.0 if a == "right" else 0.75 for a in ATTACKS}
        for i, s in enumerate(SETTINGS) for seed in (0, 1) for site in ("p", "q")
    ]  # fmt: skip
    quiet = [
        r | {f"{a} error": 0.75 + 0.01 * r["seed"] for a in ATTACKS} | {"ta": 0.5} for r in rows
    ]
    kept = []
    for some in (rows, quiet, rows[:4], [r for r in quiet if r["seed"] == 0]):
        found = leaks.lines(some)
        kept += [leaks.leak_tables(found), leaks.leak_verdict(found),
                 [line.quiet for line in found], [drawn(p) for p in leaks.leak_plots(some)[:1]],
                 [p.name for p in leaks.leak_plots(some)]]  # fmt: skip
    return [*kept, tried(leaks.write_leaks, [], Path("x"), title="", facts={})]
