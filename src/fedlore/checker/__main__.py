"""python checker CERTIFICATE BUNDLE|MODEL.onnx [KEY]

With KEY, 64 hexadecimal digits, the knowledge must be signed by that key.

Exit code 0: it holds, and the last line says whether part of it was only tested on rows; 1: it does
not hold; 2: this is not how it is called.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any


def package() -> Any:
    """This folder with `kernel` and `errors` beside it, as parts of one package."""
    if __package__:
        return importlib.import_module(__package__)
    together = ModuleType("range_checker")
    together.__path__ = [str(Path(__file__).resolve().parent.parent)]
    sys.modules["range_checker"] = together
    return importlib.import_module("range_checker.checker")


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
