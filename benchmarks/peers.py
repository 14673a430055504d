"""fedlore against its peers on four workloads: interleaved runs, medians, one CSV and one plot.

A steady round is the median without the first; a job is the whole process, imports included.
`cpu_ms` is the processor time of the main process in a steady round: for one process it is what
the clock would say if nobody else used the machine.
Peers are installed by benchmarks/peers/install.sh; one that is missing is left out with a note.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from setting import machine, write_csv

HERE = Path(__file__).parent
ROOT = HERE.parent
#: name -> (environment, script, last argument); None is the environment of this process
PEERS = {
    "fedlore": (None, "ours.py", "auto"),
    "fedlore, one process": (None, "ours.py", "stacked:1"),
    "fedlore, Local": (None, "ours.py", "local"),
    "torch loop": (None, "torch_loop.py", "1"),
    "torch loop, 2 processes": (None, "torch_loop.py", "2"),
    "FedJAX 0.0.17": ("fedjax", "fedjax_avg.py", ""),
    "pfl 0.6.0": ("pfl", "pfl_research.py", ""),
    "Flower 1.41.0": ("flower", "flower.py", ""),
}
OURS = [name for name in PEERS if name.startswith("fedlore")]
ROUNDS = {"W1": 60, "W2": 10, "W3": 10, "W4": 10}


def python_of(environment: str | None) -> str | None:
    """The interpreter of a peer's environment, None when it is not installed."""
    if environment is None:
        return sys.executable
    found = ROOT / ".peers" / environment
    return str(found / "bin" / "python") if (found / "ready").exists() else None


def tree_mb(pid: int) -> float:
    """Resident memory of a process and all its children, from /proc; 0 where there is none."""
    total, todo = 0.0, [pid]
    while todo:
        one = todo.pop()
        try:
            status = Path(f"/proc/{one}/status").read_text()
            rss = [line for line in status.splitlines() if line.startswith("VmRSS")]
            total += int(rss[0].split()[1]) / 1024 if rss else 0.0
            children = Path(f"/proc/{one}/task/{one}/children").read_text()
            todo += [int(c) for c in children.split()]
        except OSError:
            continue
    return total


def run(name: str, workload: str, limit: float) -> dict[str, object] | None:
    """One job in a process of its own."""
    environment, script, last = PEERS[name]
    python = python_of(environment)
    if python is None:
        print(f"note: {name} is not installed, left out")
        return None
    command = [python, str(HERE / "peers" / script), workload, str(ROUNDS[workload])]
    began, peak = time.perf_counter(), 0.0
    with subprocess.Popen(
        [*command, last] if last else command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    ) as process:
        while process.poll() is None:
            peak = max(peak, tree_mb(process.pid))
            if time.perf_counter() - began > limit:
                process.kill()
            time.sleep(0.05)
        job = time.perf_counter() - began
        out, problem = process.communicate()
    told = [line for line in out.splitlines() if line.startswith("{")]
    if process.returncode or not told:
        print(f"note: {name} failed on {workload}: {problem.strip().splitlines()[-1:]}")
        return None
    found = json.loads(told[-1])
    steady = statistics.median(found["rounds_s"][1:]) * 1e3
    return {
        "workload": workload,
        "peer": name,
        "round_ms": round(steady, 2),
        "cpu_ms": round(statistics.median(found["cpu_s"][1:]) * 1e3, 2),
        "first_ms": round(found["rounds_s"][0] * 1e3, 1),
        "job_s": round(job, 2),
        "peak_mb": round(peak),
        "loss": round(found["loss"], 4),
        "load": round(os.getloadavg()[0], 1),
    }


def summary(rows: list[dict[str, object]]) -> None:
    """Medians over repeats, and fedlore against the fastest peer."""
    for workload in ROUNDS:
        mine = [r for r in rows if r["workload"] == workload]
        if not mine:
            continue
        print(f"\n{workload:26}{'round ms':>10}{'cpu ms':>9}{'job s':>8}{'MB':>7}{'loss':>9}")
        best: dict[str, dict[str, float]] = {}
        for name in PEERS:
            of = [r for r in mine if r["peer"] == name]
            if of:
                middle = {k: statistics.median(float(r[k]) for r in of)
                          for k in ("round_ms", "cpu_ms", "job_s", "peak_mb", "loss")}  # fmt: skip
                best[name] = middle
                print(f"{name:26}{middle['round_ms']:10.1f}{middle['cpu_ms']:9.1f}{middle['job_s']:8.2f}"
                      f"{middle['peak_mb']:7.0f}{middle['loss']:9.4f}")  # fmt: skip
        others = {n: b for n, b in best.items() if n not in OURS}
        if others and "fedlore" in best:
            for what in ("round_ms", "job_s"):
                fastest = min(others, key=lambda n: others[n][what])
                ratio = others[fastest][what] / best["fedlore"][what]
                print(f"  {what}: {ratio:.1f} times faster than {fastest}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", default=",".join(ROUNDS))
    parser.add_argument("--peers", default="", help="names, separated by ';' (all)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=300, help="seconds for one job")
    parser.add_argument("--out", default=str(HERE / "results" / "peers.csv"))
    parser.add_argument("--rounds", type=int, help="in place of each workload's own number")
    parser.add_argument("--add", action="store_true", help="keep the rows that are there")
    options = parser.parse_args()
    if options.rounds:
        ROUNDS.update(dict.fromkeys(ROUNDS, options.rounds))
    names = options.peers.split(";") if options.peers else list(PEERS)
    rows: list[dict[str, object]] = []
    if options.add and Path(options.out).exists():
        with open(options.out, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    for repeat in range(options.repeats):
        for workload in options.workloads.split(","):
            for name in names:
                found = run(name, workload, options.limit)
                if found is not None:
                    rows.append({**found, "repeat": repeat, "date": time.strftime("%Y-%m-%d"),
                                 **machine()})  # fmt: skip
                    print(f"{workload} {name:26}{found['round_ms']:10.1f} ms  "
                          f"{found['job_s']:7.2f} s  load {found['load']}", flush=True)  # fmt: skip
                    write_csv(rows, options.out)
    summary(rows)


if __name__ == "__main__":
    main()
