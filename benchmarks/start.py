"""How long a command takes before it works: processor time, wall time and modules loaded.

The peers are what nobody can go below: Python with its standard library, and torch by itself.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from setting import machine, write_csv

ROOT = Path(__file__).parent.parent
LINTED = ROOT / "examples" / "coke" / "plant-1" / "knowledge.toml"
RUN = "import sys; sys.argv = ['fedlore', {}]\nfrom fedlore.cli import main\nmain()"
COUNT = "import atexit, sys\natexit.register(lambda: print('modules', len(sys.modules)))\n"
STARTS = {
    "python": "pass",
    "typer and rich": "import typer, rich.table, rich.progress",
    "torch": "import torch",
    "fedlore --help": RUN.format("'--help'"),
    "fedlore --version": RUN.format("'--version'"),
    "fedlore (completion)": RUN.format(""),
    "fedlore lint": RUN.format(f"'lint', {str(LINTED)!r}"),
    "fedlore run --help": RUN.format("'run', '--help'"),
}
REPEATS = 5


def start(code: str, **variables: str) -> tuple[float, float, int]:
    """Processor seconds, wall seconds and modules of one interpreter."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", COUNT + code],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | variables,
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, wall, int(done.stdout.rpartition("modules ")[2])


def main() -> None:
    rows: list[dict[str, object]] = []
    for name, code in STARTS.items():
        asked = {}
        if "completion" in name:
            asked = {"_FEDLORE_COMPLETE": "complete_bash", "COMP_WORDS": "fedlore pre"}
            asked["COMP_CWORD"] = "1"
        found = [start(code, **asked) for _ in range(REPEATS)]
        cpu, wall = (statistics.median(one[i] for one in found) for i in (0, 1))
        rows.append(
            {"start": name, "cpu_s": f"{cpu:.3f}", "wall_s": f"{wall:.3f}", "modules": found[0][2]}
            | machine()
        )
        print(f"{name:22} {cpu:6.2f} s of processor, {wall:6.2f} s, {found[0][2]:5} modules")
    write_csv(rows, str(ROOT / "benchmarks" / "results" / "start.csv"))


if __name__ == "__main__":
    main()
