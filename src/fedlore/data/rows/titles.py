"""Columns found by their titles: `ash`, `ash [%]`, `ash (%)`, or the title that a feature names."""

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from ...kernel.schema import Feature, Schema
from .problems import refusal

Extra = Literal["ignore", "error"]

_TITLE = re.compile(r"\s*(.*?)\s*(?:\[([^\[\]]*)\]|\(([^()]*)\))?\s*", re.DOTALL)


def name_and_unit(title: str) -> tuple[str, str | None]:
    """A title without its unit, and the unit where there is one.

    >>> name_and_unit(" ash [%]"), name_and_unit("heat (MJ/kg)"), name_and_unit("oven")
    (('ash', '%'), ('heat', 'MJ/kg'), ('oven', None))
    """
    parts = _TITLE.fullmatch(title)
    assert parts is not None  # the pattern takes any text
    return parts[1], parts[2] if parts[2] is not None else parts[3]


def find_columns(
    titles: Sequence[str],
    schema: Schema,
    *,
    label: str | None = None,
    extra: Extra = "ignore",
    also: Sequence[str] = (),
    units: Mapping[int, str] | None = None,
    place: str = "",
) -> list[int]:
    """Where each feature stands, then the label if one is asked for.

    Absent, doubled or wrongly measured columns are refused together; so are those that nobody
    asked for where `extra` is "error", except the label and `also`. `units` are told by the file
    beside its titles.
    """
    known = schema.titles
    features = {feature.name: feature for feature in schema.features}
    asked = [*schema.names, *([] if label is None else [label])]
    found: dict[str, int] = {}
    wrong: list[str] = []
    for position, title in enumerate(titles):
        full = title.strip()
        name, unit = (full, None) if full in known or full == label else name_and_unit(title)
        name = known.get(name, name)
        if name not in asked:
            if extra == "error" and name != schema.label and title not in also:
                near = _near(name, schema.names)
                wrong.append(f"there is no feature '{name}'{near} (extra columns are refused)")
            continue
        if name in found:
            wrong.append(f"the column '{name}' is there twice")
        found.setdefault(name, position)
        told = (units or {}).get(position, unit)
        if name in features and told is not None and not _same_unit(told, features[name]):
            own = features[name].unit
            wrong.append(f"the column '{name}' is in [{told}], the model takes it in [{own}]")
    for name in asked:
        if name not in found:
            sought = features[name].column or name if name in features else name
            wrong.append(f"the column '{sought}' is missing{_near(sought, titles)}")
    if wrong:
        raise refusal(place, wrong)
    return [found[name] for name in asked]


def passed_over(titles: Sequence[str], schema: Schema, also: Sequence[str]) -> tuple[str, ...]:
    """The titles of columns that are neither features nor the label nor `also`."""
    known = {*schema.names, *(f.column for f in schema.features), schema.label, *also}
    return tuple(t for t in titles if not {t, t.strip(), name_and_unit(t)[0]} & known)


def _same_unit(told: str, feature: Feature) -> bool:
    """A feature without a unit is not contradicted by one."""
    return not feature.unit or " ".join(told.split()) == " ".join(feature.unit.split())


def _near(name: str, titles: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, titles, n=1)
    if near:
        return f"; did you mean '{near[0]}'?"
    return "; there are: " + ", ".join(titles[:8]) + (", ..." if len(titles) > 8 else "")
