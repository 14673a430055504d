"""What a command is given, looked at before the work: is it there, readable, of its kind?"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ..errors import ConfigError

#: What a path may be -> in words, and how one comes by it.
PATH_KINDS: dict[str, tuple[str, str]] = {
    "knowledge": ("a knowledge.toml", "fedlore draft ROWS.csv --label COLUMN writes one"),
    "rows": ("a file of rows", "rows are CSV, XLSX, Parquet or JSON"),
    "federation": ("a federation.toml or a folder of sites", "fedlore new FOLDER writes one"),
    "bundle": ("a bundle", "fedlore export RESULTS --client SITE --out NAME.lore writes one"),
    "kit": ("a site's kit", "fedlore federation add-site NAME makes one"),
    "public key": ("a site's site.pub", "fedlore doctor KIT makes one in the site's folder"),
    "coordinator": ("a coordinator's folder", "fedlore federation init FOLDER makes one"),
    "run": ("a folder of results", "fedlore run federation.toml --out FOLDER makes one"),
    "settings": ("a TOML file of settings", "docs/how-to shows one"),
    "site": ("the folder of a site", "fedlore new FOLDER writes some"),
    "token": ("a file with a token", "write it into a file of its own"),
    "certificate": ("a certificate", "fedlore certify NAME.lore writes one"),
    "tables": ("a DMN file", "modelling tools save decision tables as one, and so does export"),
    "demo": ("the results of a demo", "fedlore demo makes some"),
    "graph": ("an ONNX graph", "fedlore export RESULTS --client SITE --onnx NAME.onnx writes one"),
    "metrics": ("a file of metrics", "fedlore monitor --metrics writes one"),
    "page": ("a page", "fedlore monitor --page writes one"),
    "plan": ("the plan of a blend", "fedlore blend makes one"),
    "record": ("a monitor's record", "fedlore monitor NAME.lore ROWS keeps one"),
    "study": ("the tables of a study", "fedlore paper and fedlore leak make some"),
}
#: What is gone on with, or drawn anew from what goes on, whenever its command is called again.
CONTINUED = ("metrics", "page", "record", "run", "study")
_ROWS = (".csv", ".tsv", ".xlsx", ".parquet", ".json", ".csv.gz")
_FOLDERS = ("site", "bundle", "kit", "coordinator", "run", "federation")


def check_doors(
    command: str, paths: Mapping[str, tuple[str, ...]], given: Mapping[str, object]
) -> None:
    """Refuse what cannot be meant, in one sentence that says what to do."""
    for name, value in given.items():
        kinds = paths.get(name, ())
        for path in _given(value) if kinds else ():
            _check(command, path, kinds)


def check_outputs(
    command: str,
    paths: Mapping[str, tuple[str, ...]],
    writes: Mapping[str, str],
    given: Mapping[str, object],
    *,
    force: bool = False,
) -> None:
    """Refuse to write over what the command reads, and over anything of another kind.

    What has the kind that is written is replaced with `force`, whole or not at all.
    """
    inputs = [place for name in paths for place in _given(given.get(name))]
    outputs = [(name, place) for name in writes for place in _given(given.get(name))]
    for number, (name, place) in enumerate(outputs):
        option = f"--{name.replace('_', '-')} '{place}'"
        if any(_same(place, one) for one in inputs):
            raise ConfigError(
                f"{option} is an input of this command and would be lost: name another file"
            )
        if any(_same(place, other) for _, other in outputs[:number]):
            raise ConfigError(f"{option} is written twice: name two files")
        if place.is_dir() or place.is_file() and place.stat().st_size:
            _check_output(command, option, place, writes[name], force)


def _check_output(command: str, option: str, place: Path, kind: str, force: bool) -> None:
    from ..knowledge.signing import find_signature

    found, would = recognise(place), f"would write {PATH_KINDS[kind][0]} over it"
    if found is None and place.is_file():
        raise ConfigError(
            f"{option} exists and was not written by fedlore {command}, and this {would}: "
            "name another file"
        )
    if found not in (None, kind):
        raise ConfigError(
            f"{option} is {PATH_KINDS[found][0]}, and fedlore {command} {would}: name another file"
        )
    if kind == "knowledge" and find_signature(place) is not None:
        raise ConfigError(f"{option} is signed and is not written over: name another file")
    if found == kind and kind not in CONTINUED and not force:
        raise ConfigError(f"{option} exists already: name another, or replace it with --force")


def _given(value: object) -> list[Path]:
    values = value if isinstance(value, list | tuple) else (value,)
    return [Path(str(one)) for one in values if one is not None and str(one) != "-"]


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there yet
        return one.resolve() == other.resolve()


def _check(command: str, path: Path, kinds: tuple[str, ...]) -> None:
    words = " or ".join(PATH_KINDS[kind][0] for kind in kinds)
    try:
        there = path.exists()
    except OSError as error:
        raise ConfigError(f"'{path}' cannot be looked at: {error.strerror}") from None
    except ValueError as error:  # a zero in its name
        raise ConfigError(f"{str(path)!r} is not a path: {error}") from None
    if not there:
        raise ConfigError(f"there is no '{path}'{_near(path) or f'; {PATH_KINDS[kinds[0]][1]}'}")
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        raise ConfigError(f"'{path}' cannot be read: its owner must allow it (chmod u+r)")
    found = recognise(path)
    if found is None or found in kinds or "settings" in kinds and found in _TOML:
        if path.is_dir() and not set(kinds) & set(_FOLDERS):
            raise ConfigError(
                f"'{path}' is a folder, and fedlore {command} takes {words}{_inside(path, kinds)}"
            )
        return
    raise ConfigError(
        f"'{path}' is {PATH_KINDS[found][0]}, and fedlore {command} takes {words}"
        f"{_inside(path, kinds)}; {PATH_KINDS[kinds[0]][1]}"
    )


_TOML = ("knowledge", "federation", "kit")
_NAMED = {".lore": "bundle", ".onnx": "graph", ".dmn": "tables"}
_MARKS = {
    b"# HELP fedlore_": "metrics",
    b'"fedlore range certificate"': "certificate",
    b'"fedlore monitor ': "record",
    b'<meta name="generator" content="fedlore">': "page",
}  # near the start of a file -> what it is
_PLANS = ("plan", "change")


def recognise(path: Path) -> str | None:
    """What kind of thing a path is by its name and its neighbours; None where that is not clear."""
    if path.is_dir():
        if (path / "manifest.sha256").is_file():
            return "bundle"
        if (path / "site.toml").is_file():
            return "kit"
        if (path / "ca.crt").is_file():
            return "coordinator"
        if (path / "results.jsonl").is_file() and (path / "weights").is_dir():
            return "run"
        if (path / "federation.toml").is_file():
            return "federation"
        if (path / "results.jsonl").is_file():
            return "demo"
        return "plan" if any((path / f"{name}.json").is_file() for name in _PLANS) else None
    if path.suffix in _NAMED:
        return _NAMED[path.suffix]
    if path.suffix == ".toml":
        return _recognise_toml(path)
    with suppress(OSError), open(path, "rb") as file:  # whoever reads it says what is wrong
        start = file.read(1 << 12)
        for mark, kind in _MARKS.items():
            if mark in start:
                return kind
    return "rows" if path.name.lower().endswith(_ROWS) else None


def _recognise_toml(path: Path) -> str | None:
    import tomllib

    try:
        keys = set(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError):
        return None  # whoever reads it says what is wrong
    if keys & {"features", "predict", "range"}:
        return "knowledge"
    return "federation" if keys & {"rounds", "run", "plan", "model"} else None


def _near(path: Path) -> str:
    """The file beside it that was probably meant."""
    try:
        names = [one.name for one in path.parent.iterdir()]
    except OSError:
        return f", nor a folder '{path.parent}'" if not path.parent.exists() else ""
    import difflib

    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f"; did you mean '{path.with_name(close[0])}'?" if close else ""


def _inside(path: Path, kinds: tuple[str, ...]) -> str:
    """The file in a folder that was probably meant."""
    if not path.is_dir():
        return ""
    for one in sorted(path.iterdir())[:1000]:
        if one.is_file() and recognise(one) in kinds:
            return f": did you mean '{one}'?"
    return ""
