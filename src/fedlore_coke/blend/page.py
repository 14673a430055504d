"""A blend plan as tables, plots and one page, in the style of the other reports."""

import json
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fedlore.core.history import write_rows
from fedlore.look.page import Section, page, save_page
from fedlore.look.plots import INK, Plot, draw
from fedlore.look.tables import TextTable, literal, markdown

from . import Blend, BlendPlan, Point, Relaxation
from .judge import equal
from .words import as_json, between, front, plan_summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"  # of Okabe and Ito's palette
_READING = (
    "Prices are those of the list, per tonne as charged. P is the probability that the site's own "
    "model gives to the target; it is as good as the model. The range is what the site's expert "
    "allows: a plan for the worst case holds for everything in it.",
    "Each plan was mixed and predicted again by a checker that shares no code with the search but "
    "the mixing rules. Fronts and relaxations come from a shorter search than the plan itself.",
)


def blend_tables(plan: BlendPlan) -> list[TextTable]:
    """Everything that is known of a plan, table by table."""
    order = plan.order
    made = []
    blend = plan.blend or plan.nearest
    if blend is not None:
        title = "The blend" if plan.blend else "The nearest blend, which is not good enough"
        made += [_coals(plan, blend, title), _forecast(plan, blend)]
        if blend.sides:
            rows = [[s.limit, s.wanted, s.found, "yes" if s.kept else "no"] for s in blend.sides]
            said = ("limit", "wanted", "promised or blended", "kept")
            made.append(TextTable.of("Other limits", said, rows, words=(0, 1, 2, 3)))
    if plan.costs:
        rows = [[name, f"{cost:,.2f}"] for name, cost in plan.costs.items()]
        rows += [["mean", f"{sum(plan.costs.values()) / len(plan.costs):,.2f}"]]
        made.append(TextTable.of("Costs by scenario", ("prices", "cost per tonne"), rows))
    if plan.binding:
        head = ("what holds the price up", "if it were", "cost per tonne", "saved", "share")
        rows = [_binding(one) for one in plan.binding]
        made.append(TextTable.of("Binding limits", head, rows, words=(0, 1)))
    if plan.runner_up is not None:
        made.append(_coals(plan, plan.runner_up, "The runner-up: the cheapest other set of coals"))
    if plan.without and plan.blend is not None:
        rows = [
            [name, "no plan", ""]
            if cost is None
            else [name, f"{cost:,.2f}", f"{cost - plan.blend.cost:+,.2f}"]
            for name, cost in plan.without
        ]
        away = ("without", "cost per tonne", "more")
        made.append(TextTable.of("If a coal does not arrive", away, rows))
    for title, points in (
        (f"What confidence costs: {order.target.text}", plan.confidences),
        (f"What the target costs, at P >= {order.confidence:g}", plan.targets),
    ):
        if len(points) > 1:
            made.append(_points(title, points))
    if blend is not None:
        made.append(_features(plan, blend))
    return made


def _plots(plan: BlendPlan) -> list[Plot]:
    """Price against confidence, and price against target."""
    if plan.blend is None:
        return []
    made = [_confidence_plot(plan, plan.blend)] if len(plan.confidences) > 1 else []
    return [*made, _target_plot(plan)] if len(plan.targets) > 1 else made


def write_plan(plan: BlendPlan, out: Path, *, facts: Mapping[str, str]) -> Path:
    """plan.json, plan.md, front.jsonl, plan.html and, with matplotlib, plots/."""
    title = f"Blend for {plan.order.target.text}"
    drawn = () if find_spec("matplotlib") is None else tuple(draw(plot) for plot in _plots(plan))
    section = Section(
        "The plan" if plan.blend else "There is no plan",
        () if plan.blend else tuple(plan_summary(plan)),
        tuple(blend_tables(plan)),
        drawn,
    )
    shown = dict(facts)
    if plan.blend is not None:
        short = {"in short": ". ".join(plan_summary(plan))}
        said = f"promised {equal(plan.blend.chance).removeprefix('= ')}, true: not known"
        shown = {**short, f"P({plan.order.target.text})": said, **facts}
    html = page(title, facts=shown, reading=_READING, terms={}, sections=[section])
    text = [f"# {literal(title)}", "", *(f"{literal(s)}  " for s in plan_summary(plan)), ""]
    text += [f"![{literal(d.plot.title)}](plots/{d.plot.name}.png)\n" for d in drawn]
    text.append(markdown(section.tables))
    document = json.dumps({**as_json(plan), "facts": dict(facts)}, indent=2, allow_nan=False)
    files = {"plan.json": document + "\n", "plan.md": "\n".join(text), "plan.html": html}
    save_page(out, files, drawn)
    write_rows(front(plan), out / "front.jsonl")
    return out / "plan.html"


def _binding(found: Relaxation) -> list[str]:
    share = found.saving / (found.cost + found.saving)
    then, saved = (f"{value:,.2f}" for value in (found.cost, found.saving))
    return [found.limit, found.relaxed, then, saved, f"{share:.2%}"]


def _features(plan: BlendPlan, blend: Blend) -> TextTable:
    rules = plan.order.recipe.table
    units = {f.name: f.unit for f in plan.order.recipe.schema.features}
    body = [(n, f"{v:.4g}", units[n], rules[n]) for n, v in blend.features.items()]
    head = ("feature", "of the blend", "unit", "mixing rule")
    return TextTable.of("Blended features", head, body, words=(0, 2, 3))


def _coals(plan: BlendPlan, blend: Blend, title: str) -> TextTable:
    order, coals = plan.order, plan.order.coals
    low, high = coals.bounds
    body = []
    for name, share in blend.shares.items():
        i = coals.place(name)
        bound = f"{low[i]:.0%} to {high[i]:.0%}"
        row = [name, f"{100 * share:.2f}", f"{coals.price[i]:,.2f}", bound]
        if order.tonnes is not None:
            mass = share * order.tonnes
            stock = "" if coals.stock is None else f"{coals.stock[i]:,.0f}"
            row += [f"{mass:,.1f}", stock, f"{mass * coals.price[i]:,.0f}"]
        body.append(row)
    total = ["together", f"{100 * sum(blend.shares.values()):.2f}", f"{blend.cost:,.2f}", ""]
    head = ["coal", "share, %", "price", "bounds"]
    if order.tonnes is not None:
        total += [f"{order.tonnes:,.1f}", "", f"{order.tonnes * blend.cost:,.0f}"]
        head += ["tonnes", "stock", "cost"]
    return TextTable.of(title, head, [*body, total])


def _forecast(plan: BlendPlan, blend: Blend) -> TextTable:
    """The distribution: whatever has a chance, or lies in the range."""
    forecast = blend.forecast
    by_class = any(name in forecast.allowed for name in forecast.chances)
    kept = {n: p for n, p in forecast.chances.items() if p >= 5e-5 or n in forecast.allowed}
    body = [[name, f"{100 * chance:.2f}"] for name, chance in kept.items()]
    head = ["class" if by_class else "number", "probability, %"]
    if by_class:
        head.append("in the range")
        body = [[*row, "yes" if row[0] in forecast.allowed else "no"] for row in body]
    notes = (
        f"Predicted: {forecast.answer}. Range: {between(forecast.allowed)}. "
        f"P({plan.order.target.text}) {equal(blend.chance)}.",
    )
    return TextTable.of("Predicted distribution", head, body, notes=notes)


def _points(title: str, points: Sequence[Point]) -> TextTable:
    body = [
        (
            point.target,
            f"{point.confidence:g}",
            f"{point.cost:,.2f}",
            ", ".join(f"{name} {100 * share:.1f}" for name, share in point.shares.items()),
        )
        for point in points
    ]
    head = ("target", "P at least", "cost per tonne", "coals, %")
    return TextTable.of(title, head, body, words=(0, 3))


def _confidence_plot(plan: BlendPlan, best: Blend) -> Plot:
    order, runner_up = plan.order, plan.runner_up

    def paint(axes: "Axes") -> None:
        x = [point.confidence for point in plan.confidences]
        y = [point.cost for point in plan.confidences]
        axes.plot(x, y, "o-", color=BLUE, label="cheapest blend found")
        _star(axes, best.chance, best.cost)
        if runner_up is not None:
            axes.plot(
                runner_up.chance, runner_up.cost, "D", color=GREEN, label="runner-up", zorder=3
            )
        _floor(axes, plan)
        axes.axvline(order.confidence, color=INK, alpha=0.35, linewidth=1, label="wanted")
        axes.set_xlabel(f"P({order.target.text}) at least")
        axes.set_ylabel("cost per tonne")

    caption = (
        f"Each dot is the cheapest blend found that reaches {order.target.text} with that "
        "probability; below the line no blend was found."
    )
    return Plot(
        "cost-confidence", "Cost against confidence", order.target.text, caption, 4.0, paint
    )


def _target_plot(plan: BlendPlan) -> Plot:
    order = plan.order

    def paint(axes: "Axes") -> None:
        at = range(len(plan.targets))
        cost = [point.cost for point in plan.targets]
        axes.step(at, cost, where="mid", color=BLUE, alpha=0.35)
        axes.plot(at, cost, "o", color=BLUE, label="cheapest blend found")
        for i, point in enumerate(plan.targets):
            if point.target == order.target.text:
                _star(axes, i, point.cost)
        _floor(axes, plan)
        names = [point.target.split(" ", 1)[-1] for point in plan.targets]
        axes.set_xticks(list(at), names, rotation=30, ha="right")
        axes.set_xlabel(order.target.text.split(" ", 1)[0])
        axes.set_ylabel("cost per tonne")

    subtitle = f"each reached with P >= {order.confidence:g}"
    caption = f"The cheapest blend found for easier and harder targets, {subtitle}."
    return Plot("cost-target", "Cost against quality", subtitle, caption, 4.0, paint)


def _star(axes: "Axes", at: float, cost: float) -> None:
    axes.plot(at, cost, "*", color=ORANGE, markersize=15, label="the plan", zorder=4)


def _floor(axes: "Axes", plan: BlendPlan) -> None:
    if plan.floor is not None:
        axes.axhline(plan.floor.cost, color=INK, linestyle=":", label="cheapest of any quality")
