"""A coordinator's folder as a training would leave it, with sites in every state."""

import json
import math
import os
import socket
from pathlib import Path

from fedlore.engine import Run
from fedlore.federation.coordinator.status import COUNTED, Presence, Sighting
from fedlore.federation.journal import Journal

NOW = 1_800_000_000.0
EVIL = "<img src=x onerror=alert(1)>"
FEDERATION = """name = "coke"
address = "127.0.0.1:9"
rounds = 30
[schema]
features = [{name = "ash", low = 0, high = 20}]
classes = ["I", "II"]
"""

#: last event, whether it was answered, seconds since it was heard, its note -> the word for it
KINDS = {
    "training": ("asked", 0.4, ""),
    "sent": ("reply", 0.4, ""),
    "late": ("silent", 3.0, ""),
    "copied": ("reply", 0.4, ""),
    "lost": ("asked", 30.0, ""),
    "refused": ("refused", 0.4, "round 7: refused: policy: at most 5 rounds"),
    "spent": ("refused", 0.4, "round 7: refused: the privacy budget is spent: ε = 4 of 4"),
    "failed": ("failed", 0.4, f"round 7: failed: the site could not answer {EVIL}"),
    "rejected": ("rejected", 0.4, "round 7: rejected: tensors that are not finite"),
}


def stage(folder: Path, states: list[str], *, rounds: int = 12, now: float = NOW) -> Path:
    """Files of a federation in which one site after the other stands so."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "federation.toml").write_text(FEDERATION)
    names = [f"plant-{i + 1:02d}" for i in range(len(states))]
    records, presence = {}, Presence(lambda: now)
    for name, state in zip(names, states, strict=True):
        last, heard, note = KINDS[state]
        counts = dict.fromkeys(COUNTED, 0) | {"reply": 2 * rounds}
        asked = {"kind": "train", "round": rounds + 1, "at": now - 3.5}
        records[name] = {"counts": counts, "round": rounds, "bytes": 27716 * rounds}
        records[name] |= {"note": note, "last": last, "asked": asked, "seconds": 1.25}
        presence.sites[name] = Sighting(now - heard, 1, 0.0, False, 140, 331_000, 362_000)
        presence.sites[name].copied = now - 60.0 if state == "copied" else 0.0
    write_status(folder, sites=records, round=rounds)
    presence.write(folder / "presence.json", ready=True)
    lines = [
        {"round": r, "asked": len(names), "merged": len(names), "seconds": 1 + (r % 5) / 4}
        | {"bytes": 27_716 * len(names), "at": now, "run": "0f"}
        for r in range(1, rounds + 1)
    ]
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    scores = [
        {"round": r, "client": name, "ta": 0.9 - 0.6 * math.exp(-r / 5) - i / 100, "nll": 2 / r}
        for r in range(1, rounds + 1, 2)
        for i, name in enumerate(names)
    ]
    Journal(folder / "journal").save(Run({}, rounds, {}, scores), {"run": "0f"})
    return folder


def write_status(folder: Path, **facts) -> None:
    known = {"run": "0f", "rounds": 30, "state": "running", "time": NOW}
    known |= {"pid": os.getpid(), "host": socket.gethostname()}
    path = folder / "status.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(known | before | facts))
