"""One colour and one marker per approach, in every plot; safe for colour-blind readers."""

import zlib

# after Okabe and Ito's palette, with grey for black so that dark pages show it
COLOURS = {
    "local best": "#F0E442",
    "ML": "#8c8c8c",
    "P-KM": "#CC79A7",
    "MLwKM": "#E69F00",
    "FL": "#56B4E9",
    "FLwKM": "#0072B2",
    "FL+mask": "#009E73",
    "lore": "#D55E00",
}
MARKERS = {
    "local best": "h",
    "ML": "o",
    "P-KM": "P",
    "MLwKM": "s",
    "FL": "^",
    "FLwKM": "D",
    "FL+mask": "v",
    "lore": "*",
}
_OTHERS = ("#882255", "#999933", "#6699CC", "#AA4466", "#44AA99")


def colour(approach: str) -> str:
    """The colour of an approach; an unknown one keeps its colour from plot to plot."""
    return COLOURS.get(approach) or _OTHERS[zlib.crc32(approach.encode()) % len(_OTHERS)]


def marker(approach: str) -> str:
    """The marker of an approach in line plots."""
    return MARKERS.get(approach, "X")


def shades(approaches: list[str]) -> list[float]:
    """Opacity of each line: lines of the same approach go from faint to full."""
    total = {name: approaches.count(name) for name in approaches}
    seen: dict[str, int] = {}
    made = []
    for name in approaches:
        seen[name] = seen.get(name, 0) + 1
        made.append(1.0 if total[name] == 1 else 0.3 + 0.7 * seen[name] / total[name])
    return made
