"""The plots of docs/explain/speed.md, from the rows in benchmarks/results."""

import csv
import statistics
from pathlib import Path

import matplotlib.pyplot as plt

HERE = Path(__file__).parent
IMAGES = HERE.parent / "docs" / "explain" / "img"


def read(name: str) -> list[dict[str, str]]:
    path = HERE / "results" / name
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def peers() -> None:
    """Steady rounds of everyone on each workload."""
    rows = read("peers.csv")
    if not rows:
        return
    workloads = sorted({r["workload"] for r in rows})
    names = list(dict.fromkeys(r["peer"] for r in rows))
    figure, axes = plt.subplots(1, len(workloads), figsize=(3.2 * len(workloads), 3.4))
    for axis, workload in zip(axes, workloads, strict=True):
        of = {
            n: [float(r["round_ms"]) for r in rows if (r["workload"], r["peer"]) == (workload, n)]
            for n in names
        }
        middle = {n: statistics.median(v) for n, v in of.items() if v}
        for n, value in middle.items():  # dots: the length of a bar says nothing on a log scale
            own = n.startswith("fedlore")
            axis.plot(value, names.index(n), "o", color="#b3541e" if own else "#8a9aa5")
            axis.annotate(f"{value:.0f}", (value, names.index(n)), xytext=(0, 5),
                          textcoords="offset points", ha="center", fontsize=6)  # fmt: skip
        axis.set_yticks(range(len(names)), names)
        axis.invert_yaxis()
        axis.set_xscale("log")
        axis.margins(x=0.15)
        axis.minorticks_off()
        axis.set_title(f"{workload}: ms per steady round", fontsize=9)
        axis.tick_params(labelsize=7)
        if axis is not axes[0]:
            axis.set_yticklabels([])
    figure.tight_layout()
    figure.savefig(IMAGES / "speed_peers.png", dpi=130)


def scaling() -> None:
    """µs per client step against the number of clients."""
    figure, axis = plt.subplots(figsize=(5.2, 3.4))
    cpu = [r for r in read("scaling.csv") if r["kind"] == "clients"]
    card = [r for r in read("gpu.csv") if r["model"] == "mlp"]
    for rows, label, colour in ((cpu, "one core", "#8a9aa5"), (card, "H200", "#b3541e")):
        if rows:
            x = [int(r["clients"]) for r in rows]
            axis.plot(x, [float(r["us_per_client_step"]) for r in rows], "o-", label=label,
                      color=colour)  # fmt: skip
    axis.axhline(0.14, color="#b3541e", linewidth=0.8, linestyle=":")
    axis.text(5, 0.155, "bandwidth floor of the card", fontsize=7, color="#b3541e")
    axis.set(xscale="log", yscale="log", xlabel="clients", ylabel="µs per client step")
    axis.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(IMAGES / "speed_scaling.png", dpi=130)


if __name__ == "__main__":
    IMAGES.mkdir(parents=True, exist_ok=True)
    peers()
    scaling()
