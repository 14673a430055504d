"""ground -> knowledge -> transform -> algorithms -> engine -> tools -> experiments -> cli."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "fedlore"

#: What each layer may import of fedlore. Names are modules or packages right below fedlore.
GROUND = {"config", "errors", "examples", "inject", "lesson", "metrics", "nets", "rng", "scaler"}
GROUND |= {"tree", "wire", "aggregate"}
PERSONAL = GROUND | {"knowledge", "personal", "regression"}
MAY_IMPORT = {
    **{name: GROUND for name in GROUND},
    "knowledge": GROUND,
    "personal": GROUND | {"knowledge"},
    "regression": GROUND | {"knowledge", "personal"},
    "algorithms": GROUND,
    "privacy": GROUND,
    "engine": PERSONAL | {"algorithms", "privacy", "bundle"},
    "tuning": GROUND | {"knowledge", "personal", "regression", "algorithms", "engine"},
    "data": GROUND | {"knowledge"},
    "bundle": PERSONAL | {"data"},
    "graph": PERSONAL | {"bundle"},
    "certificate": PERSONAL | {"bundle", "graph"},
    "serving": PERSONAL | {"bundle", "data"},
    "blend": PERSONAL | {"bundle", "data"},
    "estimator": PERSONAL | {"algorithms", "engine", "tuning"},
    "federation": GROUND
    | {"knowledge", "personal", "algorithms", "privacy", "engine", "data", "bundle"},
    "experiments": PERSONAL | {"algorithms", "privacy", "engine", "tuning", "data", "bundle"},
    "report": GROUND | {"knowledge", "algorithms", "engine", "experiments"},
    "cli": {"*"},
    "__init__": {"*"},
    "__main__": {"cli"},
}
FILES = sorted(SOURCE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The parts of fedlore that a file imports, by the name right below the package."""
    package = ("fedlore", *path.relative_to(SOURCE).parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module or "").split("."))
            names = [(*module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        else:
            continue
        found |= {next(p for p in n[1:] if p) for n in names if n[0] == "fedlore" and len(n) > 1}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_downwards(path):
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    allowed = MAY_IMPORT[part] | {part}
    if "*" not in allowed:
        assert imported(path) <= allowed


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_files_stay_small(path):
    assert len(path.read_text().splitlines()) <= 300


def test_the_command_line_packages_stay_in_the_command_line():
    for path in FILES:
        if "cli" not in path.parts:
            for node in ast.walk(ast.parse(path.read_text())):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not {n.split(".")[0] for n in names} & {"typer", "rich", "click"}, path


def test_nothing_is_called_utils():
    assert not {p.stem for p in FILES} & {"utils", "helpers", "common", "misc"}
