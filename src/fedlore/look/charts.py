"""Line charts as small SVG: for pages that are drawn anew every few seconds, without matplotlib.

They take their colours from the style sheet by class, so that a page may forbid inline styles.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

Points = Sequence[tuple[float, float]]
_WIDE, _HIGH = 480, 220  # units of the drawing
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 10, 36
_LINES = 4  # of a grid, about


@dataclass(frozen=True)
class Chart:
    """Lines over rounds: what they show, each of them faint, and one in front of them all."""

    title: str
    caption: str  # a sentence below it, and what is read aloud instead of it
    across: str  # what the horizontal axis counts
    each: Mapping[str, Points] = field(default_factory=dict)
    front: Points = ()
    floor: float | None = None  # where the vertical axis begins at the latest


def show_chart(chart: Chart) -> str:
    """A chart as a figure; empty text where there is no point to show."""
    lines = [*chart.each.values(), chart.front]
    points = [(x, y) for line in lines for x, y in line if math.isfinite(y)]
    if not points:
        return ""
    low, high = min(y for _, y in points), max(y for _, y in points)
    if chart.floor is not None:
        low = min(low, chart.floor)
    ticks = nice_ticks(low, high)
    first, last = min(x for x, _ in points), max(x for x, _ in points)
    scale = _Scale((first, max(last, first + 1)), (ticks[0], ticks[-1]))
    parts = [_grid(ticks, whole_ticks(first, last), scale, chart.across)]
    for name, line in chart.each.items():
        parts.append(_line("each", line, scale, name))
    parts.append(_line("front", chart.front, scale, ""))
    label = escape(f"{chart.title}. {chart.caption}", quote=True)
    return (
        f'<figure class="chart">\n<h3>{escape(chart.title)}</h3>\n'
        f'<svg viewBox="0 0 {_WIDE} {_HIGH}" role="img" aria-label="{label}">\n'
        + "\n".join(part for part in parts if part)
        + "\n"
        f"</svg>\n<figcaption>{escape(chart.caption)}</figcaption>\n</figure>\n"
    )


def nice_ticks(low: float, high: float) -> list[float]:
    """Round numbers from below the lowest to above the highest.

    >>> nice_ticks(0.11, 0.48)
    [0.1, 0.2, 0.3, 0.4, 0.5]
    >>> nice_ticks(3.0, 3.0)
    [1.0, 2.0, 3.0, 4.0, 5.0]
    """
    if high <= low:
        around = max(1.0, abs(low) / 2)
        low, high = low - around, high + around
    raw = (high - low) / _LINES
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(size * times for times in (1, 2, 5, 10) if size * times >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * i, 12) for i in range(first, last + 1)]


def whole_ticks(low: float, high: float) -> list[int]:
    """The same in whole numbers, such as rounds, and none beyond the highest.

    >>> whole_ticks(1, 12), whole_ticks(3, 3)
    ([1, 4, 7, 10], [3])
    """
    return list(range(int(low), int(high) + 1, max(1, math.ceil((high - low) / _LINES))))


@dataclass(frozen=True)
class _Scale:
    across: tuple[float, float]
    upward: tuple[float, float]

    def x(self, value: float) -> float:
        low, high = self.across
        return _LEFT + (value - low) / (high - low) * (_WIDE - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.upward
        return _HIGH - _BOTTOM - (value - low) / (high - low) * (_HIGH - _TOP - _BOTTOM)


def _grid(ticks: Sequence[float], xs: Sequence[int], scale: _Scale, across: str) -> str:
    parts = []
    for tick in ticks:
        y = scale.y(tick)
        parts.append(f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDE - _RIGHT}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" class="end">{_short(tick)}</text>')
    for x in xs:
        parts.append(
            f'<text x="{scale.x(x):.1f}" y="{_HIGH - _BOTTOM + 16}" class="mid">{x}</text>'
        )
    middle = (_LEFT + _WIDE - _RIGHT) / 2
    parts.append(f'<text x="{middle:.1f}" y="{_HIGH - 4}" class="mid">{escape(across)}</text>')
    return "\n".join(parts)


def _line(kind: str, points: Points, scale: _Scale, name: str) -> str:
    """A line, with a dot where it is a single point; gaps where a number is not finite."""
    finite = [(scale.x(x), scale.y(y)) for x, y in points if math.isfinite(y)]
    if not finite:
        return ""
    title = f"<title>{escape(name)}</title>" if name else ""
    if len(finite) == 1:
        x, y = finite[0]
        return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5">{title}</circle>'
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in finite)
    return f'<path class="{kind}" d="M{path}">{title}</path>'


def _short(number: float) -> str:
    """A number that fits beside an axis.

    >>> [_short(n) for n in (0.25, 3000.0, 30_000.0, 2.5e6)]
    ['0.25', '3000', '30k', '2.5M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size * (10 if letter == "k" else 1):
            return f"{number / size:.3g}{letter}"
    return f"{number:.6g}"
