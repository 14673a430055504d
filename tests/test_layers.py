"""The rooms of the house: what stands above may import what lies below, never the reverse."""

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "fedlore"

#: From the ground up: a room may import its own parts and the rooms before it.
ROOMS = (
    "version errors words config kernel checker core answers look knowledge models algorithms "
    "privacy data engine bundle studio federation experiments experiments report testing"
).split()
#: A room that may import less than its place allows.
GROUND = {"errors", "words", "kernel", "config", "answers"}
LESS = {
    "version": set(),
    "errors": set(),
    "words": set(),
    "kernel": {"errors", "words", "config"},  # numpy alone, so that it can be copied
    "checker": {"errors", "words", "kernel", "config"},
    "config": {"errors"},
    "core": {"errors", "words", "kernel", "config"},
    "answers": {"errors", "kernel", "config", "core"},
    "look": {"errors", "words"},
    "algorithms": GROUND | {"core"},
    "privacy": GROUND | {"core", "algorithms"},
    "data": GROUND | {"core", "knowledge"},
    "bundle": GROUND | {"version", "checker", "core", "look", "knowledge", "models", "data"},
    "studio": GROUND | {"core", "look", "knowledge", "models", "data", "bundle"},
    "testing": GROUND | {"core", "knowledge", "models", "algorithms", "privacy", "engine"},
    "flower": {"federation"},
    "sklearn": GROUND | {"core", "knowledge", "models", "algorithms", "data", "engine"},
}
#: What a file imports from above, inside a function, so that nobody pays who does not call it.
LATE = {
    "engine/training.py": {"bundle"}  # saving: training itself needs no archive
}
#: The second level: parts of a room from the ground up; what is not named is its ground floor.
PARTS = {
    "privacy": ("dp", "secagg", "ckks"),
    "engine": ("stacked", "tuning", "lore"),
    "bundle": ("monitor", "onnx", "certify", "serve"),
    "federation": ("kits", "flower", "coordinator", "site", "pages"),
}
#: Arrows between parts that point up on purpose, each with its reason.
UP = {
    ("models", "__init__"): "hands out the public names",
    ("privacy", "__init__"): "hands out the public names",
    ("bundle", "__init__"): "hands out the public names",
    ("privacy", "settings"): "puts the filters together",
    ("engine", "training"): "chooses the engine",
    ("engine", "__init__"): "hands out the public names",
    ("federation", "household"): "runs server and sites as processes",
    ("engine", "fit"): "lets be chosen what is to be chosen before the training",
}
TOP = {"cli", "__init__", "__main__"}
#: The public names are found on first use, so that the package itself waits for nothing.
UNLOADED = {()}
FILES = sorted(SOURCE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imported(path: Path, *, late: bool = True) -> set[tuple[str, ...]]:
    """The modules of fedlore that a file imports, lazily or not, as paths below the package."""
    package = ("fedlore", *path.relative_to(SOURCE).parts[:-1])
    found = set()
    tree = parsed(path)
    for node in ast.walk(tree) if late else tree.body:
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


@cache
def arrows() -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """Which file imports which, lazily or not."""
    files = {path.relative_to(SOURCE).with_suffix("").parts: path for path in FILES}

    def file_of(name: tuple[str, ...]) -> tuple[str, ...]:
        while name and name not in files and (*name, "__init__") not in files:
            name = name[:-1]
        return name if name in files else (*name, "__init__")

    return {
        name: {file_of(seen) for seen in imported(path)} - {name} for name, path in files.items()
    }


def shown(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def rooms_above(path: Path) -> set[str]:
    """The rooms that a file imports and may not."""
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if room in TOP:
        return set()
    below = set(ROOMS[: ROOMS.index(room)]) if room in ROOMS else set()
    allowed = LESS.get(room, below) | {room}
    early, all_ = ({name[0] for name in imported(path, late=late)} for late in (False, True))
    return (early - allowed) | (all_ - allowed - LATE.get(shown(path), set()))


def parts_above(path: Path) -> set[str]:
    """The parts of its own room that a file imports and may not."""
    room, *rest = path.relative_to(SOURCE).parts
    parts = PARTS.get(room)
    own = rest[0].removesuffix(".py") if rest else ""
    if parts is None or (room, own) in UP:
        return set()
    place = parts.index(own) if own in parts else -1
    seen = {name[1] for name in imported(path) if name[0] == room and len(name) > 1}
    return {part for part in seen if part in parts and parts.index(part) > place}


@pytest.mark.parametrize("above", [rooms_above, parts_above])
def test_files_import_what_lies_below(above):
    assert {shown(path): found for path in FILES if (found := above(path))} == {}


@pytest.mark.parametrize(
    "room", ["kernel", "checker", "core", "knowledge", "models", "bundle", "experiments"]
)
def test_no_file_imports_itself_over_others(room):
    """Files that nothing else in the room waits for are taken away, until none is left."""
    left = {name: seen for name, seen in arrows().items() if name[0] == room}
    while free := [name for name, seen in left.items() if not seen & set(left)]:
        for name in free:
            del left[name]
    assert not left


def test_a_file_is_one_idea():
    files = [path for path in FILES if path.parent.name != "words"]  # a language is one file
    lines = {shown(path): len(path.read_text().splitlines()) for path in files}
    assert {name: count for name, count in lines.items() if count > 600} == {}


def test_the_house_has_few_doors():
    rooms = [p for p in SOURCE.iterdir() if p.is_dir() and (p / "__init__.py").exists()]
    modules = [p for p in SOURCE.glob("*.py")]
    assert len(rooms) <= 20 and len(modules) <= 8


def test_the_command_line_packages_stay_in_the_command_line():
    for path in FILES:
        if "cli" not in path.parts:
            for node in ast.walk(parsed(path)):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not {n.split(".")[0] for n in names} & {"typer", "rich", "click"}, path


def test_nothing_is_called_utils():
    assert not {p.stem for p in FILES} & {"utils", "helpers", "common", "misc"}


def test_a_site_runs_nothing_of_its_coordinator():
    site = [path for path in FILES if path.is_relative_to(SOURCE / "federation" / "site")]
    wrong = [
        shown(p) for p in site if ("federation", "coordinator") in {n[:2] for n in imported(p)}
    ]
    assert site and not wrong


def test_no_imports_go_in_a_circle():
    """Lazy ones included: a module can be read once all that it names have been read."""
    named = {}
    for path in FILES:
        parts = path.relative_to(SOURCE).with_suffix("").parts
        named[parts[:-1] if parts[-1] == "__init__" else parts] = path
    left = {
        module: {name if name in named else name[:-1] for name in imported(path)} - {module, ()}
        for module, path in named.items()
        if module not in UNLOADED
    }
    while ready := [module for module, needs in left.items() if not needs & left.keys()]:
        for module in ready:
            del left[module]
    assert sorted(".".join(module) for module in left) == []
