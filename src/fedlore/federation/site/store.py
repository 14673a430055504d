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
    """Memory and the last reply of one run; another run starts from nothing.

    A task names the last round of this site that the coordinator used, and the version after that
    round is the one that counts. So void rounds, late replies and resumed runs change nothing.
    """

    def __init__(self, folder: Path, run: str) -> None:
        self._folder = folder
        self._run = hashlib.sha256(run.encode()).hexdigest()[:16]

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

    def commit(self, task: Task, accepted: int, memory: Payload, reply: Reply) -> None:
        """Write down what was answered before it is sent."""
        write_state(self._path(task.round), {"round": task.round}, memory)
        about = {"key": digest(task), "round": reply.round, "rows": reply.rows}
        about["metrics"] = {k: float(v) for k, v in reply.metrics.items()}
        write_state(self._folder / f"reply-{self._run}", about, reply.upload)
        clear_parts(self._folder, "*-*")
        settled = [p for p in self._versions() if _round(p) <= accepted]
        for path in settled[:-KEEP]:
            path.unlink(missing_ok=True)
        for path in self._folder.glob("*-*"):  # other runs are over
            if self._run not in path.name and path.name.startswith(("memory-", "reply-")):
                path.unlink(missing_ok=True)

    def again(self, site: str, task: Task) -> Reply | None:
        """The reply to the very same task, if it was answered last: nothing is drawn twice."""
        try:
            about, upload = read_state(self._folder / f"reply-{self._run}")
        except Damaged:
            return None
        if about["key"] != digest(task):
            return None
        return Reply(site, about["round"], upload, about["rows"], about["metrics"])

    def _path(self, round: int) -> Path:
        return self._folder / f"memory-{self._run}-{round:06d}"

    def _versions(self) -> list[Path]:
        return sorted(self._folder.glob(f"memory-{self._run}-*"))


def _round(path: Path) -> int:
    return int(path.name.rpartition("-")[2])
