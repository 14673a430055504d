"""The rooms of the house: what stands above may import what lies below, never the reverse."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "fedlore"

#: From the ground up: a room may import its own parts and the rooms before it.
ROOMS = (
    "errors",
    "config",
    "core",
    "look",
    "knowledge",
    "personal",
    "algorithms",
    "privacy",
    "data",
    "bundle",
    "engine",
    "federation",
    "coke",
    "workbench",
    "report",
)
#: Below what lies beside it in the house: a room that may import less than its place allows.
LESS = {
    "errors": set(),
    "config": {"errors"},
    "core": {"errors"},
    "look": {"errors"},
    "algorithms": {"errors", "config", "core"},
    "privacy": {"errors", "config", "core", "algorithms"},
    "data": {"errors", "config", "core", "knowledge"},
    "bundle": {"errors", "config", "core", "look", "knowledge", "personal", "data"},
    "estimator": {"errors", "core", "knowledge", "personal", "algorithms", "engine"},
}
#: The second level: parts of a room from the ground up; what is not named is its ground floor.
PARTS = {
    "personal": ("own",),
    "privacy": ("dp", "secagg", "ckks", "leak"),
    "engine": ("stacked", "tuning"),
    "bundle": ("answer", "onnx", "certificate", "serve"),
    "federation": ("kits", "flower", "coordinator", "site"),
    "coke": ("blend",),
    "workbench": ("paper", "leak"),
}
#: Arrows between parts that point up on purpose, each with its reason.
UP = {
    ("privacy", "__init__"): "hands out the public names",
    ("bundle", "__init__"): "hands out the public names",
    ("privacy", "settings"): "puts the filters together",
    ("engine", "choice"): "chooses the engine",
    ("engine", "__init__"): "hands out the public names",
    ("engine", "fit"): "calls the engine that was chosen",
    ("workbench", "runs"): "runs the recipe",
}
TOP = {"cli", "__init__", "__main__"}
FILES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[tuple[str, ...]]:
    """The modules of fedlore that a file imports, lazily or not, as paths below the package."""
    package = ("fedlore", *path.relative_to(SOURCE).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module.split(".") if node.module else ()))
            names = [(*module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        else:
            continue
        found |= {n[1:] for n in names if n[0] == "fedlore" and len(n) > 1}
    return found


def shown(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", FILES, ids=shown)
def test_rooms_import_what_lies_below(path):
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room in TOP:
        return
    below = set(ROOMS[: ROOMS.index(room)]) if room in ROOMS else set()
    allowed = LESS.get(room, below) | {room}
    assert {name[0] for name in imported(path)} <= allowed


@pytest.mark.parametrize("path", FILES, ids=shown)
def test_parts_of_a_room_import_what_lies_below(path):
    room, *rest = path.relative_to(SOURCE).parts
    parts = PARTS.get(room)
    if parts is None or (room, rest[0].removesuffix(".py")) in UP:
        return
    place = parts.index(rest[0]) if rest[0] in parts else -1
    seen = {name[1] for name in imported(path) if name[0] == room and len(name) > 1}
    above = {part for part in seen if part in parts and parts.index(part) > place}
    assert not above


@pytest.mark.parametrize("path", FILES, ids=shown)
def test_files_stay_small(path):
    assert len(path.read_text().splitlines()) <= 300


def test_the_house_has_few_doors():
    rooms = [p for p in SOURCE.iterdir() if p.is_dir() and (p / "__init__.py").exists()]
    modules = [p for p in SOURCE.glob("*.py")]
    assert len(rooms) <= 16 and len(modules) <= 6


def test_the_command_line_packages_stay_in_the_command_line():
    for path in FILES:
        if "cli" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text())):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not {n.split(".")[0] for n in names} & {"typer", "rich", "click"}, path


def test_nothing_is_called_utils():
    assert not {p.stem for p in FILES} & {"utils", "helpers", "common", "misc"}
