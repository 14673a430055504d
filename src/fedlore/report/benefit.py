"""A site's private page: what it gains by taking part, measured on its own rows."""

import json
import math
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..core.metrics import ReliabilityBin
from ..core.store import write_private
from ..errors import FedloreError
from ..look.page import Section, page
from ..look.plots import DrawnPlot, draw
from ..look.tables import TextTable
from ..models.benefit import BenefitLine, say_gain
from ..words import say
from .panels import plain_text
from .reliability import TERMS as RELIABILITY
from .reliability import held_table, reliability_plot, scores_table

_SHOWN = {
    "local best": "local best, without the others",
    "network": "federation with knowledge",
    "one_shot": "one-shot model of the federation",
    "mixture": "ensemble of all of them",
}
_TERMS = {
    "local best": "all models that this site makes from its own rows, weighed by rows they had not "
    "seen",
    "expert": "the expert's own answer",
    "federation without knowledge": "one network that all sites train together, unaware of any "
    "expert",
    "federation with knowledge": "the shared network of the recipe, seen through this site's "
    "knowledge",
    "one-shot model of the federation": "a linear model from sums that every site sends once",
    "ensemble": "all of these, with weights that this site chose on its own rows: what it predicts "
    "with",
    "cost of removing": "how much worse the ensemble would be without a member; below 0 it would "
    "be better",
}
_WORTH = {
    "worth of a column": "how much worse the models that this site makes alone would be if it did "
    "not measure the column: made anew from the same rows without it, where knowledge that needs "
    "it is unknown; below 0 they would be better",
}
_READING = (
    "Every number stands on this site's own training rows, each predicted by models that had not "
    "seen it; the intervals are made to hold for 95 % of such drawings of rows. Members, weights "
    "and temperature of the ensemble were chosen on other rows than those it is judged by.",
    "This page is this site's own: nothing of it was sent to anybody.",
)


def write_benefit(path: Path) -> Path:
    """The page of a benefit.json, beside it; returns its path."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        html = benefit_page(table)
        target = path.with_suffix(".html")
        write_private(target, html.encode())
    except OSError as error:
        raise FedloreError(
            f"cannot write '{path.with_suffix('.html')}': {error.strerror}"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise FedloreError(f"'{path}' is not a table of a site: {error!r}") from None
    return target


def benefit_page(table: Mapping[str, Any]) -> str:
    """The page of one site's table, as `Benefit.plain` gives it, with its name under `site`."""
    site = plain_text(table["site"])
    basis = say(
        "{rows} rows of this site, each predicted by models that had not seen it; {members} "
        "members, weighed on other rows than those they are judged by",
        rows=int(table["rows"]),
        members=len(table["weights"]),
    )
    facts = {say("what it rests on"): basis, say("what would change it"): _doubts(table)}
    if table.get("left out"):
        facts[say("left out")] = plain_text(table["left out"])
    ways = say("What each way is worth here")
    tables = [_ways(table), _members(table)]
    terms = _TERMS
    if table.get("columns"):
        tables.append(_columns(table))
        terms = terms | _WORTH
    sections = [Section(ways, (), tuple(tables))]
    if table.get("diagram"):
        sections.append(_reliability(table))
        terms = terms | (RELIABILITY if table["measure"] == "accuracy" else {})
    return page(
        say("What {site} gains by taking part", site=site),
        headline=_headline(table, site),
        facts=facts,
        reading=[say(text) for text in _READING],
        terms={say(name): say(text) for name, text in terms.items()},
        sections=sections,
    )


def _headline(table: Mapping[str, Any], site: str) -> str:
    """What the site has on its own, and what with the others."""
    share = table["measure"] == "accuracy"
    values = {str(line["name"]): line["value"] for line in table["lines"]}
    if not {"local best", "mixture"} <= values.keys():
        return plain_text(table["sentence"])
    alone, ours = (f"{_number(values[name], share)}" for name in ("local best", "mixture"))
    if share:
        text = "On its own, {site}'s best model is right on {alone} % of its rows; with the "\
            "federation {ours} %."  # fmt: skip
    else:
        text = "On its own, {site}'s best model misses by {alone} (RMSE); with the federation by "\
            "{ours}."  # fmt: skip
    gain = say_gain(
        BenefitLine(**table["gain"]), "local best", int(table["rows"]), table["measure"]
    )
    return f"{say(text, site=site, alone=alone, ours=ours)} {gain}"


def _doubts(table: Mapping[str, Any]) -> str:
    """How many rows would settle it, and whom it hangs on."""
    share, gain, rows = table["measure"] == "accuracy", table["gain"], int(table["rows"])
    value, half = float(gain["value"]), (float(gain["high"]) - float(gain["low"])) / 2
    said = []
    if float(gain["low"]) <= 0 <= float(gain["high"]):
        if value != 0 and half < 30 * abs(value):
            enough = math.ceil(1.05 * rows * (half / value) ** 2)
            said.append(say("about {rows} rows like these would settle it", rows=enough))
        else:
            said.append(say("more rows would hardly settle it: the two are nearly equal"))
    costs = {name: float(cost) for name, cost in table["costs"].items()}
    unit = say("points") if share else "RMSE"
    for name, cost in sorted(costs.items(), key=lambda pair: -pair[1])[:1]:
        if cost > 0:
            text = "without {member} it would be {cost} {unit} worse"
            said.append(say(text, member=_show(name), cost=_number(cost, share), unit=unit))
    said.append(say("rows of another kind than these: fedlore monitor watches for them"))
    return "; ".join(said)


def _reliability(table: Mapping[str, Any]) -> Section:
    """Whether the mixture's probabilities mean what they say, on rows that it had not seen."""
    number = table["measure"] != "accuracy"
    bins = [ReliabilityBin(**part) for part in table["diagram"]]
    shown = held_table(bins) if number else scores_table(table["probabilities"])
    drawn: tuple[DrawnPlot, ...] = ()
    if find_spec("matplotlib") is not None:  # the table says it without
        plots = reliability_plot({"ensemble": bins}, "reliability", "", number=number)
        drawn = tuple(draw(plot) for plot in plots)
    title = "Do its intervals hold?" if number else "Do its probabilities mean what they say?"
    return Section(title, (), (shown,), drawn)


def _ways(table: Mapping[str, Any]) -> TextTable:
    share = table["measure"] == "accuracy"
    body = [
        (
            _show(line["name"]),
            _number(line["value"], share),
            say("{low} to {high}", **{end: _number(line[end], share) for end in ("low", "high")}),
        )
        for line in table["lines"]
    ]
    head = ("way", "rows predicted right, %" if share else "RMSE", "95 % interval")
    title = say("Ways to predict, on rows that no model had seen")
    return TextTable.of(title, [say(name) for name in head], body)


def _members(table: Mapping[str, Any]) -> TextTable:
    share = table["measure"] == "accuracy"
    costs = table["costs"]
    body = [
        (
            _show(name),
            f"{100 * float(weight):.0f}",
            _number(costs[name], share, "+") if name in costs else "–",
        )
        for name, weight in table["weights"].items()
    ]
    cost = "cost of removing it, points" if share else "cost of removing it, RMSE"
    head = [say(name) for name in ("member", "weight, %", cost)]
    return TextTable.of(say("Members of the ensemble"), head, body)


def _columns(table: Mapping[str, Any]) -> TextTable:
    share = table["measure"] == "accuracy"
    body = [
        (
            plain_text(line["name"]),
            _number(line["value"], share, "+"),
            say("{low} to {high}", **{e: _number(line[e], share, "+") for e in ("low", "high")}),
        )
        for line in table["columns"]
    ]
    worth = "worth, points" if share else "worth, RMSE"
    head = [say(name) for name in ("column", worth, "95 % interval")]
    return TextTable.of(say("Columns that a site may lack"), head, body)


def _show(name: object) -> str:
    text = plain_text(name)
    if text in _SHOWN:
        return say(_SHOWN[text])
    return ", ".join(say(part) for part in text.split(", "))  # a model, and how it hears the expert


def _number(value: Any, share: bool, sign: str = "") -> str:
    return f"{100 * float(value):{sign}.1f}" if share else f"{float(value):{sign}.3g}"
