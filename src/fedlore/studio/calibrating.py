"""A calibrated range by a form: measured on the site's own rows, as `fedlore calibrate` does it."""

from typing import Any

from ..answers import Measured
from ..errors import FedloreError
from ..knowledge.conformal import ConformalInterval, ConformalRange
from ..knowledge.content import FILE, files_at, toml_in
from ..knowledge.soft import lone_expert
from .against import rows_of_site
from .asked import Calibrating
from .asking import usable
from .checks import judge
from .desk import Workdesk
from .paper import edit_toml


def calibrate_draft(desk: Workdesk, said: Calibrating) -> None:
    """Put a calibrated range into the draft, in the place of the one that was there."""
    with desk.lock:
        desk.check(said.token)
        members = desk.members
        known, _ = usable(judge(members).checkup)
        values = toml_in(*files_at(members))
        scorers = values.get("predict", {}).get("sources", [])
        if known.prediction is None or len(scorers) != 1:
            raise FedloreError(
                f"a range is calibrated on one source of predictions, there are {len(scorers)}"
            )
        limits = values.get("range", {})
        if limits.get("combine", "all") != "all":
            raise FedloreError("a calibrated range cannot be added to alternatives (combine = any)")
        rows = rows_of_site(desk.place.data, judge(members).checkup)
        measured: dict[str, Any]
        if isinstance(rows, Measured):
            interval = ConformalInterval.calibrate(known.prediction, rows, alpha=said.alpha)
            measured = {"rows": interval.rows, "thresholds": [interval.radius]}
        else:
            expert = lone_expert(known.prediction)
            assert expert is not None  # there is one source
            found = ConformalRange.calibrate(
                expert, rows, alpha=said.alpha, per_class=said.per_class
            )
            measured = {"score": found.score, "rows": found.rows}
            measured |= {"thresholds": list(found.thresholds)}
        sources = limits.get("sources", [])
        old = [i for i, source in enumerate(sources) if "conformal" in source]
        place = old[0] if old else len(sources)
        entry = {"conformal": {"alpha": said.alpha, **measured, "scorer": dict(scorers[0])}}
        text = members[FILE].decode("utf-8-sig")
        if old:
            text = edit_toml(text, ["range", "sources", place], None)
        text = edit_toml(text, ["range", "sources", len(sources) - len(old[:1])], entry)
        text = edit_toml(text, ["outside"], "widen")  # a range that errs now and then
        if known.line is None:
            # soft probabilities reach everywhere: what lies outside the range is cut off
            text = edit_toml(text, ["conflict"], "restrict")
            soft = sum("confidence" in source for source in sources)  # they exclude nothing
            if len(sources) - len(old) - soft == 1 and "empty" not in limits:
                text = edit_toml(text, ["range", "empty"], "first")  # the expert has the last word
        desk.change(said.token, {FILE: text.encode()}, who=said.who, what="a calibrated range")
