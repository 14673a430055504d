"""What a site remembers, on its own disk: one version for each of the last rounds it answered."""

import hashlib
from pathlib import Path

from ...core.store import clear_parts
from ...core.tree import Payload
from ...core.wire import Reply, Task, digest
from ..journal import Damaged, read_state, write_state
from ..remote import Refusal

KEEP = 5  # settled versions, for a coordinator whose last journal entries were damaged


class Store:
    """Memory and the last reply of one training; another starts from nothing.

    A task names the last round of this site that the coordinator used, and the version after that
    round is the one that counts. So void rounds, late replies and resumed runs change nothing.
    """

    def __init__(self, folder: Path, run: str, trial: str = "") -> None:
        self._folder = folder
        self._run = hashlib.sha256(run.encode()).hexdigest()[:16]
        # a trial that was not agreed to is refused before its name gets here
        self._name = self._run + (f".{trial.replace('/', '_')}" if trial else "")

    def settle(self, accepted: int) -> Payload:
        """The memory that the coordinator knows of."""
        if accepted == 0:
            return {}
        try:
            return read_state(self._path(accepted))[1]
        except Damaged:
            raise Refusal(
                f"this site's memory of round {accepted} is lost: start a new run (train without "
                "--resume), or leave this site out"
            ) from None

    def keep(self, memory: Payload) -> None:
        """Write down what a training left at this site that is needed after it."""
        write_state(self._folder / f"final-{self._name}", {}, memory)

    def kept(self) -> Payload | None:
        """What a training left at this site, None where it was not there at its end."""
        try:
            return read_state(self._folder / f"final-{self._name}")[1]
        except Damaged:
            return None

    def commit(self, task: Task, accepted: int, memory: Payload, reply: Reply) -> None:
        """Write down what was answered before it is sent."""
        write_state(self._path(task.round), {"round": task.round}, memory)
        about = {"key": digest(task), "round": reply.round, "rows": reply.rows}
        about["metrics"] = {k: float(v) for k, v in reply.metrics.items()}
        write_state(self._folder / f"reply-{self._name}", about, reply.upload)
        clear_parts(self._folder, "*-*")
        settled = [p for p in self._versions() if _round(p) <= accepted]
        for path in settled[:-KEEP]:
            path.unlink(missing_ok=True)
        for path in self._folder.glob("*-*"):
            what, _, of = path.name.partition("-")
            other_run = of.partition(".")[0].partition("-")[0] != self._run
            other_trial = of.partition("-")[0] != self._name
            # other trainings are over; of this run what they left may still be needed
            over = other_run if what == "final" else other_trial
            if what in ("memory", "reply", "final") and over:
                path.unlink(missing_ok=True)

    def again(self, site: str, task: Task) -> Reply | None:
        """The reply to the very same task, if it was answered last: nothing is drawn twice."""
        try:
            about, upload = read_state(self._folder / f"reply-{self._name}")
        except Damaged:
            return None
        if about["key"] != digest(task):
            return None
        return Reply(site, about["round"], upload, about["rows"], about["metrics"])

    def _path(self, round: int) -> Path:
        return self._folder / f"memory-{self._name}-{round:06d}"

    def _versions(self) -> list[Path]:
        return sorted(self._folder.glob(f"memory-{self._name}-*"))


def _round(path: Path) -> int:
    return int(path.name.rpartition("-")[2])
