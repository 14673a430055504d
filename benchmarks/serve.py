"""`fedlore serve` under load: latency at a fixed rate, and a flood with malformed bodies.

The rate is open-loop: requests are sent when they are due, whether or not earlier ones have been
answered, and a latency counts from the moment a request was due. Gaps are even, or drawn from an
exponential distribution (`poisson`), which bunches them. The service runs in a process of its own
on loopback with one torch thread; the generator shares the machine with it.

The flood is wrk with benchmarks/serve.lua (a third of its bodies are malformed), without one this
generator as fast as it can. Counts of answers come from the service's own /metrics, memory from
/proc.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import torch
from setting import machine, write_csv

from fedlore import Knowledge, Personal
from fedlore.bundle import bundle_of, write_bundle
from fedlore.core.nets import mlp
from fedlore.core.scaler import Scaler

PLANT = Path(__file__).parent.parent / "examples" / "coke" / "plant-1"
BAD = (
    b"",
    b"{",
    b"[]",
    b'{"Mt": NaN}',
    b"\xff\xfe\x00",
    b'{"Mt": "x"}',
    b"[" * 5000,
    b'[{"Mt": 1}, 2]',
    b'{"\\ud800": 1}',
)


def bundle(folder: Path) -> tuple[Path, bytes]:
    """Plant 1 of the example, 17 features, 20 grades, 20 rules a table, MLP 128-128; and a row."""
    known = Knowledge.read(PLANT / "knowledge.toml")
    assert known.schema is not None
    lines = [line.split(",") for line in (PLANT / "test.csv").read_text().splitlines()]
    row = dict(zip(lines[0][:-1], map(float, lines[1][:-1]), strict=True))
    d, k = len(known.schema.features), len(known.schema.classes)
    x = torch.tensor([[float(v) for v in line[:-1]] for line in lines[1:]])
    personal = Personal(mlp(d, k, hidden=(128, 128)), known, scaler=Scaler.of(x))
    write_bundle(bundle_of(personal, "plant-1"), folder / "plant-1.lore")
    return folder / "plant-1.lore", json.dumps(row).encode()


@contextmanager
def service(path: Path) -> Iterator[tuple[int, int]]:
    """Process id and port of a running service."""
    command = [sys.executable, "-m", "fedlore", "serve", str(path), "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        yield process.pid, int(line.split("127.0.0.1:")[1].split(",")[0])
    finally:
        process.terminate()
        process.wait(20)


def request(body: bytes) -> bytes:
    head = (
        "POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def answer(reader: asyncio.StreamReader) -> tuple[int, bool]:
    """Status of one response, and whether the connection stays."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = head.decode("latin-1").lower()
    size = int(fields.split("content-length: ")[1].split("\r\n")[0])
    await reader.readexactly(size)
    return int(fields.split(" ", 2)[1]), "connection: close" not in fields


async def at_rate(port: int, body: bytes, *, rate: float, seconds: float, poisson: bool):
    """Latencies in seconds of requests that are due at a fixed mean rate, and all statuses."""
    free: asyncio.LifoQueue = asyncio.LifoQueue()
    sent, latencies, statuses = request(body), [], []
    draw = random.Random(0)

    async def one(due: float) -> None:
        talk = free.get_nowait() if not free.empty() else None
        reader, writer = talk or await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        status, stays = await answer(reader)
        latencies.append(time.perf_counter() - due)
        statuses.append(status)
        if stays:
            free.put_nowait((reader, writer))
        else:
            writer.close()

    due = time.perf_counter() + 0.1
    end, jobs = due + seconds, []
    while due < end:
        wait = due - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        jobs.append(asyncio.create_task(one(due)))
        due += draw.expovariate(rate) if poisson else 1 / rate
    await asyncio.gather(*jobs)
    while not free.empty():
        free.get_nowait()[1].close()
    return latencies, statuses


async def flood(port: int, body: bytes, *, seconds: float, connections: int = 16) -> None:
    """As fast as it goes, a third malformed: what wrk does where there is no wrk."""
    end = time.perf_counter() + seconds
    bodies = [request(body)] * (2 * len(BAD)) + [request(bad) for bad in BAD]

    async def talk(seed: int) -> None:
        draw = random.Random(seed)
        reader = writer = None
        while time.perf_counter() < end:
            if reader is None or writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(draw.choice(bodies))
            _, stays = await answer(reader)
            if not stays:
                writer.close()
                reader = writer = None

    await asyncio.gather(*(talk(i) for i in range(connections)))


def memory(pid: int) -> float:
    """Resident MiB of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


def counted(port: int) -> dict[str, int]:
    """Answers by status, as the service counts them."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    found: dict[str, int] = {}
    for line in text.splitlines():
        if line.startswith("fedlore_requests_total{"):
            status = line.split('status="')[1][:3]
            found[status] = found.get(status, 0) + int(float(line.rsplit(" ", 1)[1]))
    return found


def latency(path: Path, body: bytes, seconds: float, rate: float) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    with service(path) as (_, port):
        asyncio.run(at_rate(port, body, rate=50, seconds=2, poisson=False))  # warm up
        for poisson in (False, True):
            found, statuses = asyncio.run(
                at_rate(port, body, rate=rate, seconds=seconds, poisson=poisson)
            )
            assert set(statuses) == {200}, set(statuses)
            found.sort()
            ms = {
                f"p{q}_ms": round(1e3 * found[min(len(found) - 1, len(found) * q // 100)], 2)
                for q in (50, 90, 99)
            }
            row = {
                "run": "poisson gaps" if poisson else "even gaps",
                "requests": len(found),
                "per_second": rate,
                "mean_ms": round(1e3 * statistics.fmean(found), 2),
                **ms,
                "max_ms": round(1e3 * found[-1], 2),
            }
            print(row)
            rows.append(row)
    return rows


def flooded(path: Path, body: bytes, seconds: float) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    with service(path) as (pid, port), tempfile.TemporaryDirectory() as folder:
        row_file = Path(folder) / "row.json"
        row_file.write_bytes(body)
        wrk = shutil.which("wrk")

        def run(length: float) -> None:
            if wrk is None:
                asyncio.run(flood(port, body, seconds=length))
                return
            lua = Path(__file__).with_name("serve.lua")
            load = [wrk, "-t1", "-c16", f"-d{length:.0f}s", "-s", str(lua)]
            address = f"http://127.0.0.1:{port}"
            subprocess.run([*load, address, "--", str(row_file)], check=True)

        run(10)  # warm up: pools and caches have their size after this
        before, first = memory(pid), counted(port)
        points = [before]
        for _ in range(4):
            run(seconds / 4)
            points.append(memory(pid))
        last = counted(port)
        new = {status: last[status] - first.get(status, 0) for status in sorted(last)}
        row: dict[str, object] = {
            "run": "wrk" if wrk else "own flood",
            "seconds": seconds,
            "answers": " ".join(f"{status}:{count}" for status, count in new.items()),
            "failed_5xx": sum(count for status, count in new.items() if status >= "500"),
            "rss_mib": " ".join(f"{p:.1f}" for p in points),
            "growth_mib": round(points[-1] - before, 1),
        }
        print(row)
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=30, help="of each rate; 0 leaves it out")
    parser.add_argument("--flood", type=float, default=60, help="seconds; 0 leaves it out")
    parser.add_argument(
        "--realtime", action="store_true", help="ahead of all other work on a shared machine"
    )
    parser.add_argument("--out", help="CSV file to write; the flood goes beside it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))  # the service inherits it
    priority = "real-time" if options.realtime else f"nice {os.nice(0)}"
    load = round(os.getloadavg()[0], 1)  # how busy others keep the machine
    about = {
        **machine(),
        "priority": priority,
        "load": load,
        "fastapi": version("fastapi"),
        "uvicorn": version("uvicorn"),
    }
    with tempfile.TemporaryDirectory() as folder:
        path, body = bundle(Path(folder))
        rows = latency(path, body, options.seconds, options.rate) if options.seconds else []
        more = flooded(path, body, options.flood) if options.flood else []
    if options.out:
        for some, place in ((rows, options.out), (more, options.out.replace(".csv", "-flood.csv"))):
            if some:
                write_csv([row | about for row in some], place)


if __name__ == "__main__":
    main()
