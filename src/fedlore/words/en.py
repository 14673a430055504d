"""English."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Sentence = str | Callable[[Mapping[str, Any]], str]

SHOWN = 5  # rows named in a sentence
#: Texts of pages by the English one; English is what the code says.
TEXTS: dict[str, str] = {}

#: What can be wrong over the whole scope: the sentence of a finding, and of what stayed open.
_CLAIMS: dict[str, str] = {
    "outside-range": "the prediction leaves the range",
    "undefined/prediction": "'{formula}' has no value, so the prediction abstains",
    "undefined/lower": "'{formula}' has no value, so the lower limit does not limit",
    "undefined/upper": "'{formula}' has no value, so the upper limit does not limit",
    "unreached": "any row is predicted to be '{name}'",
    "empty-range/limits": "the lower limit exceeds the upper one",
    "empty-range/above": "the lower limit exceeds the upper bound",
    "empty-range/below": "the upper limit lies below the lower bound",
    "empty-range/error": "the ranges together leave no class, so that the row is refused",
    "empty-range/first": "the ranges together leave no class, so that the first one counts",
    "empty-range/all": "the ranges together leave no class, so that every class is allowed",
}
_STEPS: dict[str, str] = {
    "anything": "anything more: {reason}",
    "overlap": "which rules overlap",
    "gaps": "whether there are gaps",
    "more-gaps": "whether there are more gaps",
    "empty-range": "which ranges can be empty",
    "unreachable": "whether {rules} ever apply",
    "outside-range": "whether {rules} stay inside the range",
}


def show_value(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _shown_by(claim: str) -> Sentence:
    """A claim, and a row that shows it."""

    def sentence(a: Mapping[str, Any]) -> str:
        row = ", ".join(f"{name} {show_value(value)}" for name, value in a["row"].items())
        return f"{_CLAIMS[claim].format_map(a)}, for example where {row}"

    return sentence


def _where(region: Mapping[str, str]) -> str:
    """A region in words: its cells, joined."""
    texts = []
    for name, cell in region.items():
        link = " " if cell[0] in "<>=" or cell.startswith(("in ", "not ")) else " = "
        texts.append(name + (" in " if cell[0] in "[(" else link) + cell)
    return " and ".join(texts) or "anything holds"


def _in_region(text: str) -> Sentence:
    """A sentence with {where}, the region of the finding."""
    return lambda a: text.format_map({**a, "where": _where(a["region"])})


def _rows(rows: Sequence[int]) -> str:
    more = f" and {len(rows) - SHOWN} more" if len(rows) > SHOWN else ""
    return f"row{'s' if len(rows) > 1 else ''} {', '.join(map(str, rows[:SHOWN]))}{more}"


def _with_rows(text: str) -> Sentence:
    """A sentence with {count} and {listed}, from the argument `rows`; many of them before `|`."""

    def say(a: Mapping[str, Any]) -> str:
        verb = 1 if len(a["rows"]) == 1 else 0
        words = re.sub(r"<(.*?)\|(.*?)>", lambda m: str(m[1 + verb]), text)
        return words.format_map({**a, "count": len(a["rows"]), "listed": _rows(a["rows"])})

    return say


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _empty_tables(a: Mapping[str, Any]) -> str:
    *names, last = a["rules"]
    return f"{', '.join(names)} and {last} together leave no class where {_where(a['region'])}"


def _example(text: str) -> Sentence:
    return lambda a: text.format_map(a) + (f" ({a['note']})" if a["note"] else "")


_HELD = {
    "range": "the shape then holds between rows of the same range only, and the network does "
    "not hear the range",
    "prediction": "it is withheld from the network and from the answer (λ counts as 0), and "
    "the shape holds without it",
}


def between_words(a: Mapping[str, Any], text: str) -> str:
    """Between which values rows lie; nothing where all of a region was asked."""
    ends = a.get("between")
    return text.format(feature=a["feature"], low=ends[0], high=ends[1]) if ends else ""


def _side_of_turn(a: Mapping[str, Any]) -> str:
    """On which side of its turn a shape is meant; nothing where it has none."""
    return f"where {a['feature']} {a['side']} {a['turn']:g}, " if a.get("side") else ""


def _shape_broken(a: Mapping[str, Any]) -> str:
    side, way = a["side"], ("down", "up") if a["sign"] < 0 else ("up", "down")
    did = f"does not move {way[0]}"
    if side == "prediction":
        did = f"moves {way[1]}, or speaks on one side only"
    others = ", ".join(f"{name} = {value}" for name, value in a["others"].items())
    at = f" at {others}" if others else ""
    low, high = a["low"], a["high"]
    moved = f"from {a['feature']} = {low:g} to {high:g}{at} the {side} {did}"
    return f"'{a['shape']}', but {moved}: {_HELD[side]}"


def _soft(a: Mapping[str, Any]) -> str:
    parts = ((a["rules"], "rule"), (a["formulas"], "formula source"))
    counted = " and ".join(_plural(n, what) for n, what in parts if n)
    return (
        f"{counted} {'holds' if a['rules'] + a['formulas'] == 1 else 'hold'} in most cases only: "
        "what they say weighs in the prediction, excludes no class, and is counted by no "
        "certificate"
    )


def _soft_weak(a: Mapping[str, Any]) -> str:
    does = "says nothing" if a["share"] == a["even"] else "speaks against what it names"
    return (
        "{rule} gives {share:g} to {named} of {classes} classes and so {does}: an even spread "
        "gives them {even:.3g}".format_map({**a, "does": does})
    )


def round_confidence(a: Mapping[str, Any], text: str) -> str:
    """Two digits, three where two would hide the difference."""
    low, high, share = a["low"], a["high"], a["share"]
    digits = 3 if round(low, 2) <= share <= round(high, 2) else 2
    was = {"was": a["right"] / a["rows"], "least": low, "most": high}
    return text.format_map({**a, **{name: f"{value:.{digits}f}" for name, value in was.items()}})


def _confidences(a: Mapping[str, Any]) -> str:
    chance = f", {a['by_chance']:.2g} would be so by chance" if a["wrong"] else ""
    return (
        f"{_plural(a['found'], 'confidence')} looked at: {a['wrong']} outside what the rows allow "
        f"(exact binomial intervals, 95 %){chance}"
    )


def _absent(a: Mapping[str, Any]) -> str:
    verbs = ("needs it and stays", "need it and stay")[a["rules"] != 1]
    needs = f"{_plural(a['rules'], 'rule')} {verbs} open in every row without a value of it"
    return f"this site does without '{a['feature']}': {needs if a['rules'] else 'no rule needs it'}"


_CORRECT = "correct the prediction or widen the range"
_LIMITS = "correct the limits, or bound one by the other with min or max"
_SOURCES = "correct one of them, or say with 'empty' what is to be done there"
_GUARD = "narrow the scope, or guard it: where(x > 0, log(x), ...)"
_ONE_WRONG = "correct the rule or the formula: one of them is wrong there"
_LABELS = (
    "look at these rows: the label or the range is wrong (in training, policy outside = {policy})"
)
_TRUST_LOW = "keep trust low, or leave the prediction out"

_OF = ("prediction", "lower", "upper")
_EMPTY = dict.fromkeys(("limits", "above", "below"), _LIMITS)
_EMPTY |= dict.fromkeys(("error", "first", "all"), _SOURCES)


def _stretches(a: Mapping[str, Any]) -> str:
    """On which days something is so, and what."""
    texts = []
    for since, until in a["days"]:
        ends = (since and f"from {since}", until and f"until {until}")
        texts.append(" ".join(end for end in ends if end))
    return f"{' and '.join(texts)}: {a['message']}"


def _ended(a: Mapping[str, Any]) -> str:
    some = ", ".join(a["of"][:SHOWN])
    more = f" and {len(a['of']) - SHOWN} more" if len(a["of"]) > SHOWN else ""
    return f"no longer valid on {a['day']}: {some}{more}"


def _seen(seen: Mapping[str, int]) -> str:
    """What was looked at: examples, rows of data, monitored rows."""
    words = {"examples": "example", "data": "row of data", "monitored": "monitored row"}
    texts = []
    for kind, count in seen.items():
        head, _, tail = words[kind].partition(" ")
        plural = words[kind] if count == 1 else f"{head}s {tail}".strip()
        if kind == "monitored" and count != 1:
            plural = "monitored rows"
        texts.append(f"{count} {plural}")
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _never_applied(a: Mapping[str, Any]) -> str:
    some = ", ".join(a["of"][:SHOWN])
    more = f" and {len(a['of']) - SHOWN} more" if len(a["of"]) > SHOWN else ""
    many = f"{len(a['of'])} of {a['rules']} rules"
    return f"{many} applied to none of {_seen(a['seen'])}: {some}{more}"


#: Kind, or kind/case -> what was found, what to do.
FINDINGS: dict[str, tuple[Sentence, Sentence]] = {
    # faults that were refused with a sentence of their own
    "cell": ("{error}", ""),
    "header": ("{error}", ""),
    "source": ("{error}", ""),
    "file": ("{error}", ""),
    "data": ("{error}", ""),
    "example": ("{error}", ""),
    # sheets
    "size/empty": ("the table has no rules", ""),
    "size/long": ("the table has more than {most} rules", ""),
    "priority/column": ("the table has column 'priority' and the policy is {policy}", ""),
    "priority/no-column": ("the table has no column 'priority' and the policy is {policy}", ""),
    "confidence/policy": (
        "rules with a confidence go with the hit policy {fits}, got {policy}",
        "",
    ),
    "cell/width": ("the row has {cells} cells, the header {columns}", ""),
    "header/outcome": (
        lambda a: (
            "there must be one outcome column, "
            + " or ".join(f"'{name}'" for name in a["wanted"])
            + f", found {a['found']}"
        ),
        "",
    ),
    # dates
    "days": (_stretches, ""),
    "date-empty": (
        "{of} holds on no day: it begins on {since}, and {until} is the first day without it",
        "correct one of the two dates",
    ),
    "date-past": (_ended, "keep it for fedlore monitor and older answers, or delete it"),
    "date-gap/table": (
        "from {since} until {until} no rule of the table is valid",
        "close the gap, or leave it so on purpose",
    ),
    "date-gap/side": (
        "from {since} until {until} nothing of [{side}] is valid",
        "close the gap, or leave it so on purpose",
    ),
    "run-out": ("nothing of [{side}] is valid from {end} on", "write new rules before that day"),
    "gave-up/stretches": (
        "gave up: the first {most} of {all} stretches of time were checked",
        "delete rules that ended long ago",
    ),
    "never-applied": (
        _never_applied,
        "look for rows that such a rule is about, or ask whether it is still needed",
    ),
    # rules by themselves
    "no-effect": (
        "{rule} allows every class, so it narrows nothing",
        "delete it, or name fewer classes",
    ),
    "duplicate": ("{rule} repeats {before}", "delete one of the two"),
    "outside-scope": (
        "{rule} never applies: '{feature}' {cell} lies outside the scope {low}..{high}",
        "check the number and its unit, or widen the declared scope",
    ),
    "beyond-scope": ("'{feature}' reaches beyond its scope in {rules}", ""),
    "same-in-float32": (
        "{one} and {other} are one number in single precision",
        "use one of the two, or keep the data in float64",
    ),
    "beyond-bounds": (
        "{rule} says '{text}', and the bounds are {lower:g} to {upper:g}",
        "correct the rule, or the bounds at all sites",
    ),
    # rules together
    "unreachable": (
        "{rule} never applies: all its rows go to {before}",
        "move it up, narrow the rules before it, or delete it",
    ),
    "contradiction": (
        _in_region("{rule} and {other} say different things where {where}"),
        "narrow one of them",
    ),
    "tie": (
        _in_region("{rule} and {other} say different things where {where}"),
        "narrow one of them, or rank them",
    ),
    "overlap": (
        _in_region(
            "rules with different outcomes overlap in {pairs} pairs, and the earlier wins: {rule} "
            "before {other} where {where}"
        ),
        "",
    ),
    "gap/predict": (
        _in_region("no rule applies where {where}; there the table abstains"),
        "add a rule, or leave it so on purpose",
    ),
    "gap/range": (
        _in_region("no rule applies where {where}; there the table allows every class"),
        "add a rule, or leave it so on purpose",
    ),
    "empty-range/rules": (
        _empty_tables,
        "widen what one of them allows, or narrow its conditions",
    ),
    "outside-range/rules": (
        _in_region("{rule} says {outcome}, which {rival} forbids where {where}"),
        "change one of the two rules, or narrow its conditions",
    ),
    "more": ("{count} more of kind '{of}'", ""),
    # formulas and sources over the scope
    "outside-range": (_shown_by("outside-range"), _CORRECT),
    **{f"undefined/{of}": (_shown_by(f"undefined/{of}"), _GUARD) for of in _OF},
    "unreached": (
        "no row of the scope is predicted to be '{name}' ({low:g} to {high:g})",
        "check the edges and the units of the features",
    ),
    **{f"empty-range/{how}": (_shown_by(f"empty-range/{how}"), do) for how, do in _EMPTY.items()},
    "outside-range/formula": ("{rule}: the prediction leaves the range", _ONE_WRONG),
    "empty-range/formula": ("{rule}: the formulas leave none of its numbers", _ONE_WRONG),
    "unchecked": ("the {model} is not checked over the scope", ""),
    "statistical": (
        "a range here is statistical: it misses the label now and then, as its level says",
        "",
    ),
    # what stayed open
    "gave-up/boxes": (
        lambda a: (
            "gave up: too many boxes to decide whether "
            f"{_CLAIMS[a['about']].format_map(a)} somewhere"
        ),
        "narrow the scope, or allow a larger budget",
    ),
    "gave-up/model": (
        lambda a: (
            f"gave up: a {a['model']} cannot be looked into to decide whether "
            f"{_CLAIMS[a['about']].format_map(a)}"
        ),
        "say it as a table or a formula",
    ),
    "gave-up/steps": (
        lambda a: f"gave up: too many steps to decide {_STEPS[a['about']].format_map(a)}",
        "split the table, or allow more steps",
    ),
    "gave-up/classes": ("not decided whether {rules} keep prediction and range together", ""),
    "gave-up/numbers": ("not decided whether {rules} and the formulas leave a number", ""),
    # soft rules
    "soft": (_soft, ""),
    "soft-unheard": (
        "trust is 0, so that the answer follows no prediction, and nothing that holds in most "
        "cases only",
        "give trust, or let it be chosen (fedlore tune)",
    ),
    "soft-outright": (
        "where a prediction names a class outright, ranges that hold in most cases only do not "
        "move it",
        "give the prediction a confidence, or a formula a spread",
    ),
    "soft-weak": (
        _soft_weak,
        "give it the share of cases in which it holds, or name the others",
    ),
    "counted-twice": (
        "{rule} names the same classes as {other}, within its rows: where both hit they count as "
        "two witnesses",
        "end the wider one where the narrower begins",
    ),
    "confidence": (
        lambda a: round_confidence(
            a,
            "{name} says {share:g}, was right in {right} of {rows} rows ({was}, {least} to {most})",
        ),
        lambda a: round_confidence(a, "write {was}, or look at its rows"),
    ),
    "confidences": (_confidences, ""),
    # shapes
    "shape-kept": ("'{shape}' is kept by range and prediction over the whole scope", ""),
    "shape-unknown": (
        lambda a: (
            f"whether the {a['side']} keeps '{a['shape']}' over the whole scope was not "
            f"decided: {_HELD[a['side']]}"
        ),
        "",
    ),
    "shape-range": (
        _shape_broken,
        "correct the range or the shape, or limit the shape with 'where'",
    ),
    "shape-prediction": (
        _shape_broken,
        "correct the prediction or the shape, or limit the shape with 'where'",
    ),
    "shape-data": (
        lambda a: (
            "'{shape}', but in {rows} rows{there} the answer {does} with {feature}, everything "
            "else equal: {slope:+.3g} ± {error:.2g} a unit".format_map(
                {
                    **a,
                    "does": "rises" if a["slope"] > 0 else "falls",
                    "there": between_words(a, " with {feature} from {low:g} to {high:g}"),
                }
            )
        ),
        lambda a: (
            "look at these rows: the shape is false here, or "
            + ("it turns elsewhere" if a.get("between") else "holds in a part only")
        ),
    ),
    # trust by row
    "trust-unused": (
        "[trust] says how far the expert's prediction is followed, and there is none",
        "say a prediction in [[predict.sources]], or leave [trust] out",
    ),
    "trust-empty": (
        "[trust] region {number}: no row of the scope lies where {region_text}",
        "correct the region, or widen the scope of its features",
    ),
    "trust-data": (
        lambda a: (
            "trust is {trust:g} where {region_text} and {usual:g} elsewhere, but in {rows} rows "
            "there the expert misses by {word} than in the {others} others: {here:.3g} against "
            "{there:.3g} on average".format_map(
                {**a, "word": "more" if a["here"] > a["there"] else "less"}
            )
        ),
        "look at these rows: the region may be turned round, or leave its trust out and let the "
        "site learn it",
    ),
    # examples and data
    "example/columns": ("{error}", ""),
    "example/many": ("there are more than {most} examples", ""),
    "example/fault": (_example("{error}"), "correct the rules, or the example if it is wrong"),
    "example/expect": (
        _example("{wanted} is expected, the expert says {got}"),
        "correct the rules, or the example if it is wrong",
    ),
    "example/allowed": (
        _example("{wanted} is to be possible, it is {got}"),
        "correct the rules, or the example if it is wrong",
    ),
    "example/impossible": (
        _example("{wanted} is to be possible, and is not"),
        "correct the rules, or the example if it is wrong",
    ),
    "out-of-scope": (
        _with_rows(
            "{count} <rows have|row has> '{feature}' outside its scope {low:g} to {high:g}: "
            "{listed}"
        ),
        "correct the value, or widen the scope if the knowledge holds there too",
    ),
    "absent": (_absent, ""),
    "absent-values": (
        "'{feature}' has values in {rows} rows, and knowledge.toml says that this site does not "
        "measure it; they are used",
        "leave have = false out once it is measured",
    ),
    "measure/off": (
        "in {count} of the {rows} rows that have both, what '{own}' comes to lies further from "
        "'{feature}' than within = {within:g}: by {mean:+.3g} on average, by {most:.3g} at most",
        "correct by, or say within = {most:.3g}",
    ),
    "measure/holds": (
        "what '{own}' comes to lies within {within:g} of '{feature}' in all {rows} rows that have "
        "both",
        "",
    ),
    "empty-column": (
        "'{feature}' is missing in every row",
        "say have = false of it if this site does not measure it, or see why",
    ),
    "constant-column": ("'{feature}' has one value only", "leave it out, or see why"),
    "copied-column": ("'{feature}' is a copy of '{other}'", "leave one of them out"),
    "id-column": (
        "'{feature}' looks like a number that names rows: no two are alike",
        "leave it out unless it is measured: what is learned from it holds for no other row",
    ),
    "label-column": (
        "'{feature}' says the label in other words",
        "leave it out if it is not known before the label is",
    ),
    "one-class": ("all {rows} labels are '{name}'", "nothing can be learned from these rows alone"),
    "unscored": (
        _with_rows("{count} <rows|row> cannot be scored and <are|is> left out: {listed} ({why})"),
        "",
    ),
    "label-outside": (
        _with_rows("{count} <labels lie outside their|label lies outside its> range: {listed}"),
        _LABELS,
    ),
    "label-outside/number": ("{count} labels lie outside their set", _LABELS),
    "label-beyond": (
        "{count} labels lie beyond the bounds {lower:g} to {upper:g}",
        "correct them, or widen the bounds at all sites",
    ),
    "outside-range/rows": (
        "the prediction leaves the range in {count} rows (policy conflict = {policy})",
        "",
    ),
    "outside-range/number-rows": (
        "the prediction leaves the set in {count} rows (policy conflict = {policy})",
        "",
    ),
    "weak-expert": (
        "the prediction is right on {hits:.1%} of the rows; always saying the commonest class is "
        "right on {majority:.1%}",
        _TRUST_LOW,
    ),
    "weak-expert/number": (
        "the prediction misses by {error:.4g}; always naming the mean misses by {spread:.4g}",
        _TRUST_LOW,
    ),
}


def number_text(value: float) -> str:
    """A number as a person would write it."""
    return f"{value:.6g}"


def case_words(confidence: float) -> str:
    """How often something holds, for the end of a line; nothing where it always does.

    >>> case_words(0.9), case_words(1.0)
    (' (in 90 % of cases)', '')
    """
    return "" if confidence == 1.0 else f" (in {100 * confidence:.4g} % of cases)"


def share_words(shares: Mapping[str, float]) -> str:
    """Members of an ensemble with their weights."""
    known = {"network": "shared network", "one_shot": "one-shot model of the federation"}
    named = {known.get(name, name): weight for name, weight in shares.items()}
    return ", ".join(f"{name} {100 * weight:.3g} %" for name, weight in named.items())


_SHARED = {
    "network": "the shared network",
    "one_shot": "the federation's one-shot model",
}


def count_opinions(own: Sequence[str]) -> list[tuple[str, int]]:
    """Answers and how many say each, the commonest first."""
    return sorted(Counter(own).items(), key=lambda pair: -pair[1])


def _opinions(a: Mapping[str, Any]) -> str:
    """Who of an ensemble says what by itself."""
    counted, own = count_opinions(a["own"]), len(a["own"])
    parts = []
    if len(counted) == 1:
        all_of = {1: "your own model says", 2: "both your own models say"}
        parts.append(f"{all_of.get(own, f'all {own} of your own models say')} {counted[0][0]}")
    elif counted:
        (most, count), *others = counted
        verb = "says" if count == 1 else "say"
        first = f"{count} of your {own} own models {verb} {most}"
        parts.append(", ".join([first, *(f"{n} {answer}" for answer, n in others)]))
    parts += [f"{_SHARED[name]} leans to {answer}" for name, answer in a["shared"].items()]
    return "; ".join(parts)


def number_span(values: Sequence[float], to: str) -> str:
    """Numbers from the least to the greatest, one where they read the same."""
    ends = dict.fromkeys(f"{end:.4g}" for end in (min(values), max(values)))
    return to.join(ends)


def _number_opinions(a: Mapping[str, Any]) -> str:
    own = len(a["own"])
    parts = [f"{_SHARED[name]} {value:.4g}" for name, value in a["shared"].items()]
    if own:
        who = "your own model says" if own == 1 else f"your {own} own models say"
        parts.insert(0, f"{who} {number_span(a['own'], ' to ')}")
    return "; ".join(parts)


def _change(a: Mapping[str, Any]) -> str:
    before, after, answer = (
        value if isinstance(value, str) else f"{value:.5g}"
        for value in (a["before"], a["after"], a["answer"])
    )
    unit = f" {a['unit']}" if a["unit"] else ""
    return (
        f"smallest change to another answer: {a['feature']} {after}{unit} in place of {before} "
        f"makes it {answer} (one input at a time, {a['grid']} values of each tried)"
    )


def effect_words(effects: Mapping[str, float]) -> str:
    """Inputs with how far each moved the answer."""
    return ", ".join(f"{name} ({by:+.2g})" for name, by in effects.items())


def _missing(a: Mapping[str, Any]) -> str:
    rules = f"{_plural(a['rules'], 'rule')} not applied" if a["rules"] else "no rule needs it"
    return f"{a['feature']} is missing: {rules}"


def _out_of_scope(a: Mapping[str, Any]) -> str:
    unit = f" {a['unit']}" if a["unit"] else ""
    return (
        f"out of scope: {a['feature']} = {number_text(a['value'])}{unit}, the knowledge is "
        f"declared for {a['low']:g} to {a['high']:g}"
    )


SAME_RANGE = " between rows of the same range"  # where the range itself does not move so
_SIDES = {"expert": "expert's formula", "lower": "at least", "upper": "at most"}

#: Kind -> a line of why a row is answered so. {model} is who answers beside the expert.
REASONS: dict[str, Sentence] = {
    # what knowledge says
    "text": "{text}",
    "rule": lambda a: f"{a['place']}, {a['rule']}: {a['text']}{case_words(a['confidence'])}",
    "formula": lambda a: f"{_SIDES[a['side']]} {a['text']} = {number_text(a['value'])}",
    "limit": lambda a: f"{_SIDES[a['side']]} {number_text(a['value'])}",
    "conformal-classes": "statistical range at level {level:.4g}: {allowed} of {classes} classes",
    "conformal-number": lambda a: (
        f"statistical interval at level {a['level']:.4g}: {number_text(a['radius'])} on either side"
    ),
    "range-model": "a range given by a {model}",
    "prediction-model": "a prediction by a {model}",
    "confusion": "{inner} (heard through his confusion)",
    "soft": lambda a: f"{a['inner']}{case_words(a['confidence'])}",
    "missing": _missing,
    "forbidden": "the expert says {outcome}, which the range forbids: he is not heard",
    "forbidden-part": "the expert says {outcome}, which the range forbids: that part is cut off",
    "forbidden-moved": "the expert says {outcome}, which the range forbids: the nearest number "
    "that it allows is taken",
    "shape": lambda a: (
        f"'{a['shape']}' holds here: "
        f"{_side_of_turn(a)}more {a['feature']} never "
        f"{'lowers' if a['sign'] > 0 else 'raises'} the answer{'' if a['kept'] else SAME_RANGE}"
    ),
    "shape-silent": "'{shape}' does not speak here",
    "trust-stated": "trust {trust:.3g} here, where {where}",
    "trust-learned": "trust {trust:.3g} here, learned by this site",
    "trust-usual": "trust {trust:.3g} here, as everywhere, since {missing} is missing",
    # who decided
    "only-class": "{answer} is the only class that the range allows",
    "expert-outweighs": "the expert's {answer} outweighs the {model}, with trust {trust:g}",
    "expert-tied": "the expert holds {expert} equally likely, with trust {trust:g}; of these the "
    "{model} favours {answer}",
    "both-say": "expert and {model} both say {answer}",
    "both-favour": "{answer} is what expert and {model} together favour, with trust {trust:g}",
    "no-expert": "the {model} says {answer}; there is no expert's prediction",
    "expert-silent": "the {model} says {answer}; the expert is silent",
    "expert-unheard": "the {model} says {answer}; the expert's {expert} has no weight in it",
    "model-outweighs": "the {model}'s {answer} outweighs the expert's {expert}, trust {trust:g}",
    "only-number": lambda a: f"{number_text(a['answer'])} is the only number that the range allows",
    "expert-number": lambda a: (
        f"{number_text(a['answer'])} is the expert's number, with trust {a['trust']:g}"
    ),
    "mixed-number": lambda a: (
        f"{number_text(a['answer'])} mixes the expert's "
        f"{number_text(a['expert'])} and the {a['model']}, trust {a['trust']:g}"
    ),
    "model-number": lambda a: (
        f"the {a['model']} says {number_text(a['answer'])} within "
        f"{number_text(a['low'])} to {number_text(a['high'])}"
    ),
    "inputs": lambda a: f"moved most by {effect_words(a['effects'])}",
    "opinions": _opinions,
    "opinions-number": _number_opinions,
    "change": _change,
    "change-none": "no input by itself brings another answer within its scope ({grid} values of "
    "each tried)",
    "members": lambda a: f"weights: {share_words(a['shares'])}",
    # what lies outside
    "scope-level": "out of scope: {feature} has a level that nobody named",
    "scope-number": _out_of_scope,
}
