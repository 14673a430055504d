"""What functions come to, frozen case by case: rows on edges, ties, nothing, one, too many.

Every public function of a `room_*.py` beside this file is a case; where it refuses something, the
kind of error is kept and not its sentence. `python -m tests.golden.values NAME ...` writes cases
anew (without a name all): only for a change that is meant.
"""

import importlib
import inspect
import json
import math
import sys
from collections.abc import Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from pathlib import Path, PurePath

import numpy as np
import torch

from fedlore.look.plots import Plot, figure, with_style

HERE = Path(__file__).parent
VALUES = HERE / "values.json"
_LOOKS = ("label", "alpha", "linewidth", "linestyle", "marker", "text", "ha", "rotation", "color")
_LOOKS += ("facecolor", "edgecolor", "fontsize", "sizes")
_NEAR, _LITTLE = 2e-5, 1e-6  # what processors may differ by


def cases() -> dict[str, Callable[[], object]]:
    """All of them by room and name."""
    found = {}
    for path in sorted(HERE.glob("room_*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        for name, one in inspect.getmembers(module, inspect.isfunction):
            if one.__module__ == module.__name__ and not name.startswith("_"):
                found[f"{path.stem.removeprefix('room_')}.{name}"] = one
    return found


def tried(function: Callable[..., object], *args: object, **said: object) -> object:
    """What a call gives, or how it is refused."""
    try:
        return plain(function(*args, **said))
    except Exception as refused:
        return f"refused: {type(refused).__name__}"


def plain(value: object) -> object:
    """A value as JSON, with its numbers."""
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, float):
        return float(f"{value:.8g}") if math.isfinite(value) else str(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, PurePath):
        return value.name
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, Set):
        return sorted(map(str, value))
    return [plain(one) for one in value]  # type: ignore[attr-defined]


def drawn(plot: Plot) -> list:
    """What a plot draws, without its fonts: words, marks, lines, areas and axes."""
    with with_style():
        made = figure(plot)
        axes = made.axes[0]
        kept = [axes.get_xlim(), axes.get_ylim(), axes.get_xscale(), axes.get_yscale()]
        for axis in (axes.xaxis, axes.yaxis):
            shown = axis.get_tick_params()
            told = [shown.get(name) for name in ("length", "gridOn", "labelrotation")]
            kept += [axis.get_label_text(), axis.get_ticklocs(), told, axis.get_inverted()]
        kept += [t.get_text() for t in (*axes.get_xticklabels(), *axes.get_yticklabels())]
        kept += [spine.get_visible() for spine in axes.spines.values()]
        for one in (*axes.lines, *axes.collections, *axes.patches, *axes.texts, *made.texts):
            said = [get() for name in _LOOKS if (get := getattr(one, f"get_{name}", None))]
            where = getattr(one, "get_xydata", getattr(one, "get_position", list))()
            spots = getattr(one, "get_offsets", list)()
            areas = [] if len(spots) else [p.vertices for p in getattr(one, "get_paths", list)()]
            box = one.get_bbox().bounds if hasattr(one, "get_bbox") else []
            told = [v if isinstance(v, str | float) else str(plain(v)) for v in said]
            kept.append([told, np.asarray(where), spots, areas, box])
        legend = made.legends[0]
        kept += [[t.get_text() for t in legend.get_texts()], legend._ncols, made.get_size_inches()]
        return [plain(one) for one in kept]


def differences(now: object, before: object, at: str = "") -> list[str]:
    """Where two values differ, and how."""
    if isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        parts = [(f"{at}[{i}]", a, b) for i, (a, b) in enumerate(zip(now, before, strict=True))]
    elif isinstance(now, dict) and isinstance(before, dict) and list(now) == list(before):
        parts = [(f"{at}.{key}", now[key], before[key]) for key in now]
    else:
        numbers = all(type(one) in (int, float) for one in (now, before))
        if (
            now == before
            or numbers
            and math.isclose(
                now,
                before,
                rel_tol=_NEAR,
                abs_tol=_LITTLE,  # type: ignore[arg-type]
            )
        ):
            return []
        return [f"{at}: {now!r} in place of {before!r}"]
    return [told for where, a, b in parts for told in differences(a, b, where)]


def freeze(only: list[str]) -> None:
    known = json.loads(VALUES.read_text()) if VALUES.exists() else {}
    every = cases()
    known = {name: known.get(name) for name in every}
    for name, one in every.items():
        if not only or any(name.startswith(said) for said in only) or known[name] is None:
            known[name] = plain(one())
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in known.items())
    VALUES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    freeze(sys.argv[1:])
