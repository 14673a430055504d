"""One round of a deployed federation: server, gate, sites and training as processes with TLS.

Seconds are the median over the rounds of one training, from one journal entry to the next. The
requests are those that Flower's SuperLink was asked, counted in its own log in a second training,
since writing such a log takes time.
"""

import argparse
import csv
import os
import re
import statistics
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from setting import machine, write_csv

from fedlore.federation.coordinator.training import Reports, train_federation
from fedlore.federation.household import run_household
from fedlore.federation.kits.kit import add_local_site
from fedlore.federation.processes import free_port
from fedlore_coke.starter import make_trial

HERE = Path(__file__).parent
PLANTS = 4
FILES = ("train.csv", "test.csv", "knowledge.toml")


def make_folder(folder: Path, sites: int, rounds: int, masked: bool) -> None:
    """The four plants; beyond them, sites with copies of their rows."""
    address = f"127.0.0.1:{free_port()}"
    settings = {"rounds": rounds, "test_rows": 50, "secure": masked}
    make_trial(folder, sites=min(sites, PLANTS), address=address, **settings)
    homes = sorted((folder / "sites").iterdir())
    paths = {"data": FILES[0], "test": FILES[1], "knowledge": FILES[2]}
    for number in range(len(homes), sites):
        home = add_local_site(folder, f"copy-{number:03d}", paths=paths)
        for name in FILES:
            (home / name).write_bytes((homes[number % PLANTS] / name).read_bytes())


def train(folder: Path) -> list[float]:
    """Seconds of each round but the first."""
    ends: list[float] = []
    train_federation(folder, reports=Reports(round=lambda run, took: ends.append(time.monotonic())))
    return [after - before for before, after in zip(ends, ends[1:], strict=False)]


def requests(log: Path) -> dict[str, int]:
    """How often each route was asked for."""
    found: dict[str, int] = {}
    for route in re.findall(r'"(?:POST|GET) /v1/([a-z-]+/[a-z-]+)', log.read_text()):
        found[route] = found.get(route, 0) + 1
    return found


def resident(pid: int) -> float:
    """Megabytes of memory that a process holds."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


def go_ahead() -> None:
    """Put all processes of this benchmark before others of a busy machine (Linux, root)."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(words[1])
    family = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    for pid in family:
        with suppress(OSError):  # the kernel allows one such change in a tenth of a second
            Path(f"/proc/{pid}/autogroup").write_text("-20")


def measure(
    sites: int, masked: bool, rounds: int, *, count: bool, ahead: bool
) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "fed"
        make_folder(folder, sites, rounds, masked)
        os.environ["FLWR_LOG_LEVEL"] = "DEBUG" if count else "INFO"
        with run_household(folder, say=print) as federation:
            if ahead:
                go_ahead()
            took = train(folder)
            memory = max(resident(child.pid) for child in federation.sites.values())
        asked = requests(folder / "logs" / "superlink.log") if count else {}
    row: dict[str, object] = {"sites": sites, "masked": masked, "rounds": rounds}
    row["seconds"] = round(statistics.median(took), 3)
    row["slowest"] = round(max(took), 3)
    row["site_mb"] = round(memory)
    if count:
        print({route: round(n / rounds, 1) for route, n in sorted(asked.items())})
        row["requests"] = round(sum(asked.values()) / rounds)
    return row


def read_rows(path: Path) -> list[dict[str, object]]:
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return [dict(row) for row in csv.DictReader(file)]


def _same(one: dict[str, object], other: dict[str, object]) -> bool:
    """Whether two rows are of one case under one label: the newer takes the place of the older."""
    return all(str(one[key]) == str(other[key]) for key in ("label", "sites", "masked"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default="4,4m,20m", help="sites, with m under masks")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--label", default="", help="what is measured, for the table")
    parser.add_argument("--no-count", action="store_true")
    parser.add_argument("--ahead", action="store_true", help=str(go_ahead.__doc__))
    parser.add_argument("--out", default=str(HERE / "results" / "federation.csv"))
    options = parser.parse_args()
    rows = read_rows(Path(options.out))  # what was measured before stays in the table
    for case in options.cases.split(","):
        sites, masked = int(case.removesuffix("m")), case.endswith("m")
        row = {
            "label": options.label,
            **measure(sites, masked, options.rounds, count=False, ahead=options.ahead),
        }
        row["requests"] = ""
        if not options.no_count:
            row["requests"] = measure(sites, masked, options.rounds, count=True, ahead=False)[
                "requests"
            ]
        row |= {"date": time.strftime("%Y-%m-%d"), **machine()}
        print(row, flush=True)
        rows = [one for one in rows if not _same(one, row)] + [row]
        write_csv(rows, options.out)


if __name__ == "__main__":
    main()
