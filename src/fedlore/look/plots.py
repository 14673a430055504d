"""Plots as values, and the one place that imports matplotlib."""

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import FedloreError

__all__ = ["DrawnPlot", "INK", "Plot", "draw", "save_drawing"]

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, PAPER = "#1b1e23", "#fefefe"  # told apart from all other colours when they are replaced
WIDTH = 6.0  # inches at 72 units each: small enough to be read on a telephone
PAD = 0.09  # inches around everything
_STYLE: Any = {
    "axes.edgecolor": INK,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.labelsize": 12,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "figure.facecolor": PAPER,
    "figure.constrained_layout.h_pad": PAD,
    "figure.constrained_layout.w_pad": PAD,
    "font.size": 12,
    "grid.alpha": 0.15,
    "grid.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 11.5,
    "legend.labelcolor": INK,
    "savefig.dpi": 160,
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and recoloured
    "svg.hashsalt": "fedlore",  # the same plot has the same bytes
    "text.color": INK,
    "text.parse_math": False,  # a name with a dollar sign is a name
    "xtick.color": INK,
    "ytick.color": INK,
}


@dataclass(frozen=True)
class Plot:
    """A plot that can be drawn: what it is called, what it says, and how to paint it."""

    name: str  # of its files
    title: str
    subtitle: str
    caption: str  # a sentence below it, and what is read aloud instead of it
    height: float  # inches below its title
    paint: "Callable[[Axes], None]"


def figure(plot: Plot) -> "Figure":
    """The plot as a matplotlib figure with its title and, below, its legend."""
    with with_style():
        from matplotlib.figure import Figure

        title = textwrap.wrap(plot.title, 44, max_lines=2, placeholder=" …")
        subtitle = textwrap.wrap(plot.subtitle, 58, max_lines=2, placeholder=" …")
        height = plot.height + 0.22 * (len(title) + len(subtitle))
        made = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = made.subplots()
        plot.paint(axes)
        handles, labels = axes.get_legend_handles_labels()
        longest = max((len(label) for label in labels), default=1)
        columns = max(1, int(72 * WIDTH / (50 + 7 * longest)))  # units for a sign and its name
        made.legend(handles, labels, loc="outside lower center", ncols=min(columns, len(labels)))
        # the title keeps empty lines free for the subtitle, which has another weight
        room = "\n".join([*title, *(" " for _ in subtitle)])
        made.suptitle(room, x=0.01, ha="left", fontsize=14, weight="bold")
        below = PAD + 14 * 1.25 * len(title) / 72  # inches from the top
        made.text(0.01, 1 - below / height, "\n".join(subtitle), va="top", fontsize=11.5)
        return made


def short_text(name: str) -> str:
    """A name that fits beside a plot; a leading underscore would hide it from a legend."""
    name = name if len(name) <= 24 else f"{name[:23]}…"
    return f"\u200b{name}" if name.startswith("_") else name


@dataclass(frozen=True)
class DrawnPlot:
    """A plot as it was drawn, dark on white."""

    plot: Plot
    svg: str
    png: bytes


def draw(plot: Plot) -> DrawnPlot:
    """Draw a plot."""
    svg, png = io.StringIO(), io.BytesIO()
    made = figure(plot)
    with with_style():
        made.savefig(svg, format="svg", metadata={"Date": None})
        made.set_layout_engine("none")  # it is laid out by now, and once is enough
        made.savefig(png, format="png")
    return DrawnPlot(plot, svg.getvalue(), png.getvalue())


def save_drawing(drawing: DrawnPlot, folder: Path) -> None:
    """Write a drawing as .svg and .png."""
    (folder / f"{drawing.plot.name}.svg").write_text(drawing.svg, encoding="utf-8")
    (folder / f"{drawing.plot.name}.png").write_bytes(drawing.png)


def inline(drawing: DrawnPlot, prefix: str) -> str:
    """A drawing as an <svg> element for a page: no background, ink in the colour of the text."""
    svg = drawing.svg[drawing.svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, count=1, flags=re.DOTALL)
    # several plots share one page, and ids must differ within it
    svg = re.sub(r'(\sid="|url\(#|href="#)', rf"\1{prefix}-", svg)
    svg = svg.replace(INK, "currentColor").replace(PAPER, "none")
    size = re.search(r'viewBox="[^"]*"', svg)
    assert size is not None
    head = f'<svg xmlns:xlink="http://www.w3.org/1999/xlink" {size[0]} role="img"'
    label = escape(f"{drawing.plot.title}. {drawing.plot.caption}", quote=True)
    return re.sub(r"<svg[^>]*>", lambda _: f'{head} aria-label="{label}">', svg, count=1).strip()


@contextmanager
def with_style() -> Iterator[None]:
    """The report's style while drawing, and nothing of it afterwards."""
    try:
        import matplotlib
    except ImportError:
        raise FedloreError("a report with plots needs: pip install 'fedlore[plot]'") from None
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # a name in a script that the drawing font lacks is still right in the page
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield
