"""python checker CERTIFICATE BUNDLE|MODEL.onnx: exit code 0 where everything holds, else 1."""

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
    if len(arguments) != 2:
        print("usage: python checker CERTIFICATE BUNDLE|MODEL.onnx", file=sys.stderr)
        return 1
    lines = package().check(Path(arguments[0]), Path(arguments[1]))
    for line in lines:
        print(line)
    good = all(line.holds for line in lines)
    print("the certificate holds" if good else "THE CERTIFICATE DOES NOT HOLD")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
