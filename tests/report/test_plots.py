"""Every plot says what it shows, in what unit, and who is who."""

import builtins
import re
import sys
from types import SimpleNamespace

import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

from fedlore import FedloreError
from fedlore.core.metrics import ReliabilityBin
from fedlore.look.page import COLOURS, colour, shades
from fedlore.look.plots import draw, figure, inline, short_text
from fedlore.models.benefit import Benefit, BenefitLine
from fedlore.report import plot_calibration, plot_importance, plot_leaderboard, plot_trust
from fedlore.report.panels import cases, read_scores
from fedlore.report.plots import confusion_matrix
from fedlore.report.write import plots

from .rows import confusion, history, row, table


def test_a_confusion_matrix_has_the_names_of_the_classes():
    (case,) = cases(read_scores(table()))
    (plot,) = confusion_matrix(case, confusion(), "c", ("soft", "firm", "hard"))
    axes = figure(plot).axes[0]
    for told in (axes.get_xticklabels(), axes.get_yticklabels()):
        assert [label.get_text() for label in told] == ["soft", "firm", "hard"]


def all_plots() -> list:
    """One plot of every kind."""
    swept = [r for t in (0.0, 0.5) for r in table(trust=t) if r["approach"] == "FLwKM"]
    shares = [r for r in table(share=0.3) if r["approach"] == "FLwKM"]
    (case,) = cases(read_scores(table() + shares))
    (other,) = cases(read_scores(swept))
    made = plots(other) + plots(case, history=history(), confusion=confusion())
    return list({plot.name.rsplit("-", 1)[1]: plot for plot in made}.values())


PLOTS = {plot.name.rsplit("-", 1)[1]: plot for plot in all_plots()}


def test_there_is_a_plot_of_every_kind():
    assert set(PLOTS) == {
        *("means", "ta", "pov", "differences", "trust", "share", "rounds", "confusion")
    }


@pytest.mark.parametrize("kind", PLOTS)
def test_a_plot_has_title_units_and_legend(kind):
    made = figure(PLOTS[kind])
    axes = made.axes[0]
    assert made.get_suptitle().startswith(PLOTS[kind].title[:20])
    assert axes.get_xlabel() and (axes.get_ylabel() or axes.get_yticklabels())
    unit = {"trust": "λ", "rounds": "round", "confusion": "class", "differences": "points"}
    assert unit.get(kind, "%") in axes.get_xlabel()
    (legend,) = made.legends
    assert all(text.get_text() for text in legend.get_texts())
    assert PLOTS[kind].caption


def test_what_is_drawn_is_what_was_scored():
    bars = [group for group in figure(PLOTS["ta"]).axes[0].containers if hasattr(group, "patches")]
    assert [bar.get_width() for bar in bars[0].patches] == pytest.approx([50.5, 60.5])
    x, y = figure(PLOTS["trust"]).axes[0].lines[0].get_data()
    assert list(x) == [0.0, 0.5] and list(y) == pytest.approx([75.5, 75.5])
    x, y = figure(PLOTS["rounds"]).axes[0].lines[0].get_data()
    assert list(x) == [1, 5, 10] and list(y) == pytest.approx([31, 35, 40])


def test_violations_show_who_has_some_and_name_who_has_none():
    labels = [text.get_text() for text in figure(PLOTS["pov"]).legends[0].get_texts()]
    assert labels == ["ML", "FL"]
    assert "without a bar: P-KM, MLwKM, FLwKM, FL+mask, lore" in PLOTS["pov"].caption
    (case,) = cases(read_scores([row("lore", pov=0.0), row("FLwKM", pov=0.0)]))
    assert [p.name for p in plots(case)] == ["results-means", "results-ta"]


def test_the_confusion_is_of_lore_and_counts_the_diagonal():
    plot = PLOTS["confusion"]
    assert plot.title == "Confusion matrix of lore"
    assert "30 predictions of all clients, one seed; 80.0 % of them are right" in plot.caption
    numbers = [text.get_text() for text in figure(plot).axes[0].texts]
    assert sorted(numbers) == ["20"] * 3 + ["80"] * 3


def test_an_expert_who_abstains_has_a_column_of_its_own():
    rows = [{"approach": "P-KM", "label": 0, "predicted": -1, "count": 3}]
    (case,) = cases(read_scores([row("P-KM")]))
    made = figure(plots(case, confusion=rows)[-1])
    assert [t.get_text() for t in made.axes[0].get_xticklabels()] == ["0", "no answer"]


@pytest.mark.parametrize(
    ("kind", "bad", "message"),
    [
        ("confusion", {"label": 0, "predicted": 0, "count": -1}, "count must be a whole number"),
        ("confusion", {"label": 0, "count": 1}, "needs 'label' and 'predicted'"),
        ("history", row(round=1.5), "round must be a whole number, got 1.5"),
    ],
)
def test_side_rows_are_checked_too(kind, bad, message):
    (case,) = cases(read_scores([row()]))
    with pytest.raises(FedloreError, match=message):
        plots(case, **{kind: [{"approach": "FL", **bad}]})


def test_side_rows_of_another_case_stay_there():
    found = cases(read_scores(table() + table(kind="conformal95")))
    tagged = [{**h, "range": "conformal95"} for h in history()]
    names = [[p.name for p in plots(case, history=tagged)] for case in found]
    assert [any("rounds" in name for name in one) for one in names] == [False, True]


def test_a_curve_keeps_its_name_where_another_has_ended():
    rows = [row(share=s, round=at) for s, ends in ((0.1, 4), (0.01, 8)) for at in range(1, ends)]
    (case,) = cases(read_scores([row(share=0.01), row(share=0.1)]))
    plot = next(p for p in plots(case, history=rows) if p.name.endswith("rounds"))
    lines = figure(plot).axes[0].lines
    assert [(l.get_label(), len(l.get_xdata())) for l in lines] == [
        *(("FL, 1 % of the rows", 7), ("FL, 10 % of the rows", 3))
    ]


def test_inlined_ids_are_prefixed_and_ink_follows_the_page():
    drawing = draw(PLOTS["means"])
    svg = inline(drawing, "p7")
    assert ' id="p7-figure_1"' in svg and "currentColor" in svg
    assert "#1b1e23" not in svg and "#1b1e23" in drawing.svg
    assert svg.startswith("<svg") and "<metadata" not in svg and 'role="img"' in svg
    assert drawing.png.startswith(b"\x89PNG") and drawing.svg == draw(PLOTS["means"]).svg


def test_drawing_leaves_the_callers_settings_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    figure(PLOTS["means"])
    assert dict(matplotlib.rcParams) == before


def test_names_that_matplotlib_would_hide_or_compute_are_shown():
    (case,) = cases(
        read_scores([row("_hidden", ta=0.5), row("$\\frac$", ta=0.6), row("焦", ta=0.7)])
    )
    svg = draw(plots(case)[1]).svg
    assert "_hidden" in svg and "$\\frac$" in svg and "焦" in svg
    assert short_text("x" * 40) == "x" * 23 + "…"


def test_colours_differ_and_stay():
    assert len(set(COLOURS.values())) == len(COLOURS) == 8
    names = ["a stranger", "another", "a third", "one more"]
    assert [colour(name) for name in names] == [colour(name) for name in names]
    assert all(re.fullmatch("#[0-9A-Fa-f]{6}", colour(name)) for name in [*names, *COLOURS])
    assert all(colour(name) == own for name, own in COLOURS.items())
    assert not {colour(name) for name in names} & {*COLOURS.values()}
    assert shades(["FL", "FLwKM", "FLwKM"]) == [1.0, pytest.approx(0.65), 1.0]


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(FedloreError, match=r"pip install 'fedlore\[plot\]'"):
        figure(PLOTS["means"])


def test_plots_are_painted_on_axes_that_are_given_or_made():
    line = BenefitLine("lore", 0.8, 0.7, 0.9)
    bins = (ReliabilityBin(0.6, 0.5, 10), ReliabilityBin(0.9, 0.8, 20))
    found = Benefit("accuracy", 30, (line, BenefitLine("local best", 0.9, 0.8, 0.95)), {}, {}, line,
                    "", bins)  # fmt: skip
    fitted = SimpleNamespace(benefit=lambda client: found)
    given = Figure().subplots()
    assert plot_leaderboard(fitted, "a", ax=given) is given
    assert [text.get_text() for text in given.get_yticklabels()] == ["local best", "lore"]
    made = plot_importance({"ash": 0.1, "mine": -0.3})
    assert [bar.get_width() for bar in made.patches] == [-0.3, 0.1]
    assert plot_calibration(fitted, "a").get_xlabel() == "probability of the top label, %"
    rows = [
        {"approach": "FLwKM", "client": "a", "seed": 0, "ta": 0.5 + trust, "trust": trust}
        for trust in (0.0, 0.1, 0.2)
    ]
    assert plot_trust(rows).get_xlabel() == "trust in the expert, λ"
    with pytest.raises(FedloreError, match="one λ"):
        plot_trust(rows[:1])
    pyplot.close("all")
