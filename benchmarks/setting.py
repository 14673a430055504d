"""What a benchmark row must say about where it was measured."""

import csv
import os
import platform
import subprocess

import torch


def machine() -> dict[str, str | int]:
    """Threads, versions and commit."""
    try:
        asked = ["git", "rev-parse", "--short", "HEAD"]
        commit = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # a machine without git
        commit = ""
    return {
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count() or 0,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "commit": commit,
    }


def write_csv(rows: list[dict[str, object]], path: str) -> None:
    """Flat rows with one header."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
