"""MLflow and TensorBoard, told of a finished folder: stores on this machine, no network."""

import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..core.history import check_writable
from ..errors import FedloreError, unknown
from ..federation.settings import TRACKERS
from .tracks import TrackedRun, read_tracks

STORE = "tracking"  # the folder of a run in which its store is, where nobody names another
_BATCH = 100  # parameters, and metrics, that MLflow takes at once


class Tracker(Protocol):
    """A place for runs."""

    @property
    def hint(self) -> str:
        """How to look at it."""

    def write(self, run: TrackedRun) -> bool:
        """Tell of a run; whether it was not known yet."""


@dataclass(frozen=True)
class Tracked:
    """What a tracker was told."""

    fresh: int
    known: int
    store: Path
    hint: str


def track_folder(folder: Path, tracker: str, store: Path | None = None) -> Tracked:
    """Tell a tracker of all runs of a folder; one that it knows is not told twice."""
    runs = read_tracks(folder)
    place = store or folder / STORE
    opened = open_tracker(tracker, place)
    with _explained(place):
        fresh = sum(opened.write(run) for run in runs)
    return Tracked(fresh, len(runs) - fresh, place, opened.hint)


def open_tracker(name: str, store: Path) -> Tracker:
    """The tracker of a name, once its package is there and its store can be written."""
    if name not in TRACKERS:
        raise FedloreError(unknown("tracker", name, TRACKERS), code="setting")
    if importlib.util.find_spec(name) is None:
        raise FedloreError(f"{name} is missing: pip install 'fedlore[{name}]'")
    check_writable(store / "store")
    with _explained(store):
        return MlflowStore.at(store) if name == "mlflow" else TensorBoardStore(store.resolve())


@contextmanager
def _explained(store: Path) -> Iterator[None]:
    """A store that its own library cannot use is one sentence."""
    try:
        yield
    except FedloreError:
        raise
    except Exception as error:  # the libraries have many kinds, and share none
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise FedloreError(
            f"'{store}' cannot be used as a store ({reason}): name another folder with --into"
        ) from error


@dataclass(frozen=True)
class MlflowStore:
    """An SQLite file and a folder of artefacts, by MLflow's own client."""

    folder: Path
    client: Any

    @staticmethod
    def at(folder: Path) -> "MlflowStore":
        # before it is imported: else it reports who uses it, and says which tables it makes
        os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
        from mlflow.tracking import MlflowClient

        place = folder.resolve()
        return MlflowStore(place, MlflowClient(f"sqlite:///{place / 'mlflow.db'}"))

    @property
    def hint(self) -> str:
        return f"mlflow ui --backend-store-uri sqlite:///{self.folder / 'mlflow.db'}"

    def write(self, run: TrackedRun) -> bool:
        from mlflow.entities import Metric, Param, RunTag

        group = self._group(run.group)
        same = self.client.search_runs([group], f"tags.`fedlore.key` = '{run.key}'")
        if any(one.info.status == "FINISHED" for one in same):
            return False
        for broken in same:  # a process ended while it was told
            self.client.delete_run(broken.info.run_id)
        made = self.client.create_run(group, run_name=run.name).info
        now = made.start_time
        self.client.log_batch(made.run_id, tags=[RunTag("fedlore.key", run.key)])
        metrics = [Metric(_plain(p.name), p.value, now, p.step) for p in run.points]
        parameters = [Param(_plain(name), value) for name, value in run.parameters.items()]
        for part in _parts(metrics):
            self.client.log_batch(made.run_id, metrics=part)
        for part in _parts(parameters):
            self.client.log_batch(made.run_id, params=part)
        for path in run.files:
            self.client.log_artifact(made.run_id, str(path), _home(path))
        for name, text in run.texts.items():
            self.client.log_text(made.run_id, text, name)
        self.client.set_terminated(made.run_id)
        return True

    def _group(self, name: str) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        where = (self.folder / "artifacts").as_uri()
        return str(self.client.create_experiment(name, artifact_location=where))


@dataclass(frozen=True)
class TensorBoardStore:
    """One folder of events for each run, by torch's own writer."""

    folder: Path

    @property
    def hint(self) -> str:
        return f"tensorboard --logdir {self.folder}"

    def write(self, run: TrackedRun) -> bool:
        from torch.utils.tensorboard import SummaryWriter

        name = re.sub(r"[^A-Za-z0-9._-]+", "-", run.name)
        place = self.folder / f"{name}-{run.key[:8]}"
        if (place / "done").exists():
            return False
        for broken in place.glob("events.*"):  # a process ended while it was told
            broken.unlink()
        with SummaryWriter(str(place)) as writer:
            for point in run.points:
                writer.add_scalar(point.name, point.value, point.step)
            rows = "".join(f"| {_cell(n)} | {_cell(v)} |\n" for n, v in run.parameters.items())
            writer.add_text("parameters", f"| | {run.group} |\n|---|---|\n{rows}")
            if run.files:  # it keeps no files: where they lie
                listed = "\n".join(f"- {path.resolve()}" for path in run.files)
                writer.add_text("files", listed)
            for name, text in run.texts.items():
                writer.add_text(name, text)
        (place / "done").touch()
        return True


def _parts(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for first in range(0, len(values), _BATCH):
        yield values[first : first + _BATCH]


def _plain(name: str) -> str:
    """A name that MLflow takes."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def _home(path: Path) -> str | None:
    """Bundles and pages of sites apart, the rest on top."""
    return {".lore": "bundles", ".json": "sites"}.get(path.suffix) or (
        f"sites/{path.parent.name}" if path.stem == "benefit" else None
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
