"""Rows for a knowledge file: on its numbers, one float32 beside them, holes, extremes, anywhere."""

import re
import tomllib
import zlib

import numpy as np

from .cases import Files

COUNT = 2000
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e\d+)?")


def columns_of(files: Files) -> list[dict]:
    return tomllib.loads(files["knowledge.toml"])["features"]


def rows_of(name: str, files: Files, count: int = COUNT) -> list[list[str]]:
    """The cells of `count` rows, as a CSV file holds them."""
    draw = np.random.default_rng(zlib.crc32(name.encode()))
    marks = _near(files)
    cells = [_cells(feature, draw, marks, count) for feature in columns_of(files)]
    rows = [list(row) for row in zip(*cells, strict=True)]
    return [row if any(row) else ["0.0", *row[1:]] for row in rows]  # a blank line is no row


def csv_of(files: Files, rows: list[list[str]]) -> str:
    head = ",".join(feature["name"] for feature in columns_of(files))
    return "\n".join([head, *(",".join(row) for row in rows)]) + "\n"


def matrix_of(files: Files, rows: list[list[str]]) -> np.ndarray:
    """The rows as a graph takes them: (n, d) float64, levels by their place, holes as NaN."""
    columns = []
    for feature, cells in zip(columns_of(files), zip(*rows, strict=True), strict=True):
        levels = feature.get("levels")
        places = {level: place for place, level in enumerate(levels or ())}
        columns.append([_value(cell, places, levels) for cell in cells])
    return np.array(columns, dtype=np.float64).T


def _value(cell: str, places: dict[str, int], levels: list[str] | None) -> float:
    if not cell:
        return np.nan
    return float(cell) if levels is None else float(places.get(cell, len(places)))


def _near(files: Files) -> np.ndarray:
    """Every number of the files, and its neighbours in float32."""
    found = {float(n) for text in files.values() for n in _NUMBER.findall(text)}
    exact = np.array(sorted(n for n in found if n < 1e6), dtype=np.float32)
    up, down = np.float32(np.inf), np.float32(-np.inf)
    return np.concatenate([exact, np.nextafter(exact, up), np.nextafter(exact, down)])


def _cells(feature: dict, draw: np.random.Generator, marks: np.ndarray, count: int) -> list[str]:
    rare = 0.2 if "missing" in feature else 0.002
    holes = draw.random(count) < rare
    if "levels" in feature:
        named = draw.choice(feature["levels"], count)
        strange = draw.random(count) < (0.1 if feature.get("other") else 0.002)
        drawn = zip(named, holes, strange, strict=True)
        return ["" if h else "elsewhere" if s else str(v) for v, h, s in drawn]
    low, high = feature["low"], feature["high"]
    inside = marks[(marks >= low) & (marks <= high)]
    picked = draw.choice(inside if len(inside) else np.float32([low, high]), count)
    free = draw.uniform(low, high, count).astype(np.float32)
    outside = draw.uniform(low - (high - low), high + (high - low), count).astype(np.float32)
    extreme = draw.choice(np.float32([1e30, -1e30, 0.0, -0.0, low, high]), count)
    kind = draw.random(count)
    value = np.where(kind < 0.45, picked, free)
    value = np.where(kind > 0.94, outside, value)
    value = np.where(kind > 0.985, extreme, value)
    return ["" if hole else repr(float(v)) for v, hole in zip(value, holes, strict=True)]
