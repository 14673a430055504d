"""What a tracker is told of a finished folder: parameters, scores by round and site, files.

There are three kinds: of `fedlore run`, of a coordinator, which holds what sites have told, and of
a site, whose own rows are scored here and nowhere else.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..bundle import read_bundle
from ..core.history import Row, read_rows
from ..core.store import write_whole
from ..errors import FedloreError
from ..federation.journal import read_state
from ..federation.site.export import bundle_of_kit
from ..federation.site.folder import read_kit
from ..federation.terms import read_terms
from .weights import weights_path

SETTINGS = "settings.json"  # of a run's folder: what was set, by the fingerprint in its rows
_LONGEST = 500  # letters of a parameter


@dataclass(frozen=True)
class Point:
    """One number of a run."""

    name: str  # score/site
    value: float
    step: int = 0  # the round


@dataclass(frozen=True)
class TrackedRun:
    """One run of a tracker."""

    group: str  # such as the federation's name
    name: str
    parameters: Mapping[str, str]
    points: tuple[Point, ...]
    files: tuple[Path, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)  # name of a file -> its text

    @property
    def key(self) -> str:
        """By which the same run is known, however often it is told."""
        points = [(p.name, p.value, p.step) for p in self.points]
        told = json.dumps([self.group, self.name, dict(self.parameters), points], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:16]


def read_tracks(folder: Path) -> list[TrackedRun]:
    """All runs of a folder."""
    if (folder / "results.jsonl").is_file():
        return list(_of_results(folder))
    if (folder / "site.toml").is_file():
        return [_of_site(folder)]
    if (folder / "scores.jsonl").is_file():
        return [_of_coordinator(folder)]
    raise FedloreError(
        f"'{folder}' holds nothing to track: it must be the folder of a fedlore run, or of a "
        "coordinator or a site after a training"
    )


def keep_settings(out: Path, config: str, settings: Mapping[str, Any]) -> None:
    """Write down what a fingerprint stands for, so that a tracker can be told later."""
    path = out / SETTINGS
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    if config not in known:
        text = json.dumps(known | {config: _flat(settings)}, indent=1)
        out.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)


def _of_results(out: Path) -> Iterator[TrackedRun]:
    """One run for each approach and seed."""
    rows, history = read_rows(out / "results.jsonl"), _rows(out / "rounds.jsonl")
    path = out / SETTINGS
    settings = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    first = min((int(row["seed"] or 0) for row in rows), default=0)
    for approach, seed in dict.fromkeys((row["approach"], row["seed"]) for row in rows):
        own = [r for r in rows if (r["approach"], r["seed"]) == (approach, seed)]
        past = [r for r in history if (r.get("approach"), r.get("seed")) == (approach, seed)]
        last = max((int(r["round"] or 0) for r in past), default=0)
        points = [*_points(past), *_points({**row, "round": last} for row in own)]
        points += _means(own, last)
        found = settings.get(str(own[0].get("config")), {}) | _same_in_all(own)
        files = [out / name for name in ("report.html", "tables.md")]
        bundles = []
        if seed == first:  # weights are kept of the first alone
            bundles = sorted(weights_path(out, str(approach), "").parent.glob("*.lore"))
        if approach == "lore":
            files += sorted((out / "sites").glob("*/benefit.*"))
        yield TrackedRun(
            str(own[0].get("dataset", "fedlore")),
            str(approach) if seed == first else f"{approach}, seed {seed}",
            found,
            tuple(dict.fromkeys(points)),
            tuple(path for path in (*files, *bundles) if path.is_file()),
            {f"cards/{path.stem}.md": read_bundle(path).card for path in bundles},
        )


def _of_coordinator(folder: Path) -> TrackedRun:
    """What sites have told of themselves, and nothing else of them."""
    rows = [row for row in read_rows(folder / "scores.jsonl") if "client" in row]
    path = folder / "shared.weights"
    about = read_state(path)[0] if path.is_file() else {}
    terms = read_terms(about["terms"]) if about else None
    past = _rows(folder / "rounds.jsonl")
    seconds = (Point("seconds", float(r["seconds"] or 0.0), int(r["round"] or 0)) for r in past)
    points = [*_points(rows), *seconds]
    name = "federation" if terms is None else terms.federation
    files = [folder / "scores.jsonl", path]
    found = {} if terms is None else _flat(json.loads(terms.text()))
    return TrackedRun(
        name, f"coordinator, run {about.get('run', '')}", found, tuple(points), _there(files)
    )


def _of_site(folder: Path) -> TrackedRun:
    """A site's own model on its own test rows, whatever its policy lets others know."""
    kit, bundle = read_kit(folder), bundle_of_kit(folder)
    about = read_state(kit.path("personal.weights"))[0]
    terms = read_terms(about["terms"])
    client: Any = kit.client(terms.schema, terms.bins)
    scores = {} if client.test is None else client.score(bundle.personal)
    step = int(about["round"])
    points = [*_points([{**scores, "client": client.id, "round": step}])]
    benefit = kit.path("benefit.json")
    return TrackedRun(
        terms.federation,
        f"{client.id}, run {about['run']}",
        _flat(json.loads(terms.text())),
        tuple(points),
        _there([benefit, kit.path("audit.jsonl")]),
        {f"cards/{client.id}.md": bundle.card},
    )


def _there(files: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(path for path in files if path.is_file())


def _rows(path: Path) -> list[Row]:
    return read_rows(path) if path.is_file() else []


_PLACES = ("seed", "share", "round", "trust")  # numbers that say where, not how well


def _points(rows: Iterable[Row]) -> Iterator[Point]:
    """The scores of rows, each of one site in one round."""
    for row in rows:
        for name, value in row.items():
            if name not in _PLACES and _is_number(value):
                of = f"{name}/{row['client']}" if row.get("client") else name
                yield Point(of, float(value or 0.0), int(row.get("round") or 0))


def _means(rows: list[Row], step: int) -> Iterator[Point]:
    """Scores that all sites have, over all of them alike."""
    names = [n for n in rows[0] if n not in _PLACES and all(_is_number(r.get(n)) for r in rows)]
    for name in names:
        yield Point(name, sum(float(row[name] or 0.0) for row in rows) / len(rows), step)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _same_in_all(rows: list[Row]) -> dict[str, str]:
    """What is said of the run and not of a site."""
    found = {}
    for name, value in rows[0].items():
        said = name in _PLACES or not _is_number(value)
        if said and value is not None and name != "client" and len(str(value)) <= _LONGEST:
            if all(row.get(name) == value for row in rows):
                found[name] = str(value)
    return found


def _flat(values: Mapping[str, Any], above: str = "") -> dict[str, str]:
    """Settings by names such as plan.lr; what is left open, and the schema's columns, are not."""
    found: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{above}{name}.")
        elif value not in (None, "", [], ()):
            text = value if isinstance(value, str) else json.dumps(value)
            if len(text) <= _LONGEST:
                found[above + name] = text
    return found
