"""python checker CERTIFICATE BUNDLE|MODEL.onnx [KEY]

With KEY, 64 hexadecimal digits, the knowledge must be signed by that key.

Exit code 0: everything was proved; 3: it holds, and part of it was only tested on rows; 1: it does
not hold; 2: this is not how it is called.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any


def package() -> Any:
    """This folder as a package of its own, wherever it lies."""
    if __package__:
        return importlib.import_module(__package__)
    here = Path(__file__).resolve().parent
    place = importlib.util.spec_from_file_location(
        "range_checker", here / "__init__.py", submodule_search_locations=[str(here)]
    )
    assert place is not None and place.loader is not None
    module = importlib.util.module_from_spec(place)
    sys.modules["range_checker"] = module
    place.loader.exec_module(module)
    return module


def main(arguments: list[str]) -> int:
    """Check and print one line for each thing that was looked at."""
    if len(arguments) not in (2, 3):
        print("usage: python checker CERTIFICATE BUNDLE|MODEL.onnx [KEY]", file=sys.stderr)
        return 2
    checker = package()
    lines = checker.check(Path(arguments[0]), Path(arguments[1]), *arguments[2:])
    for line in lines:
        print(line)
    outcome = checker.outcome_of(lines)
    print(outcome.words)
    return int(outcome.code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
