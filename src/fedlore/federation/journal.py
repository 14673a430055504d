"""What must survive a crash, on disk: all or nothing, with a checksum, without pickle."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from ..core.store import Unreadable, clear_parts, pack_payload, unpack_payload, write_whole
from ..core.tree import Payload
from ..engine.loop import Run
from ..engine.lore import DoneStep
from ..errors import FedloreError

FORMAT = 2  # of all files that `write_state` writes
_START = "start.journal"
_FIRST = b"fedlore 1\n"  # how files of format 1 begin


class Damaged(FedloreError):
    """A file that is not what was written."""

    kind = "state-damaged"


def write_state(
    path: Path, header: Mapping[str, Any], payload: Payload, *, private: bool = False
) -> None:
    """Write tensors and a header so that a crash leaves the old file or the new one."""
    data = pack_payload(payload, {"format": FORMAT, **header})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data, private=private)
    except OSError as error:
        raise FedloreError(
            f"cannot write '{path}': {error.strerror}; what was written before is safe"
        ) from None


def read_state(path: Path) -> tuple[dict[str, Any], Payload]:
    """Read what `write_state` wrote; anything else is `Damaged`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise Damaged(f"cannot read '{path}': {error.strerror}") from None
    if data.startswith(_FIRST):
        _check_format(path, 1)
    try:
        header, payload = unpack_payload(data)
    except Unreadable as error:
        raise Damaged(f"'{path}' is damaged: {error}") from None
    _check_format(path, header.pop("format", 1))
    return header, payload


def _check_format(path: Path, found: object) -> None:
    if found != FORMAT:
        raise FedloreError(
            f"'{path}' has format {found}, this fedlore reads format {FORMAT}: finish with the "
            "version that wrote it, or start anew"
        )


@dataclass(frozen=True)
class JournalEntry:
    """Where a run stood after one round."""

    run: Run
    about: dict[str, Any]  # whatever the coordinator needs to go on: the run's name, its terms
    common: Payload  # tensors that all rounds share, such as the scaling

    @property
    def trial(self) -> str:
        """The training that the round is of, where there are several."""
        return str(self.about.get("trial", ""))

    @property
    def number(self) -> int:
        """Counts the rounds of all trainings."""
        return int(self.about.get("number", self.run.round))


@dataclass(frozen=True)
class Journal:
    """One file for each of the last rounds, and one for each step of a recipe that is chosen."""

    folder: Path
    keep: int = 4

    def begin(self, about: Mapping[str, Any]) -> None:
        """Write down which training begins, before anybody is asked anything."""
        write_state(self.folder / _START, {"about": dict(about)}, {}, private=True)

    def begun(self) -> dict[str, Any] | None:
        """What `begin` wrote; None where no training has begun."""
        path = self.folder / _START
        return dict(read_state(path)[0]["about"]) if path.exists() else None

    def put_aside(self, archive: Path) -> bool:
        """Make room for another training; whether any was there before. None is ever erased."""
        if self.folder.exists() and any(self.folder.iterdir()):
            about: dict[str, Any] = {}
            with suppress(FedloreError):
                about = self.begun() or {}
            name = str(about.get("run", "unnamed"))
            archive.mkdir(mode=0o700, exist_ok=True)
            places = (archive / (name if n == 1 else f"{name}-{n}") for n in count(1))
            self.folder.rename(next(place for place in places if not place.exists()))
        return archive.exists()

    def save(self, run: Run, about: Mapping[str, Any], common: Payload | None = None) -> None:
        """Write down a round before the next one starts."""
        payload = {f"state.{key}": bundle for key, bundle in run.state.items()}
        payload |= {f"common.{key}": bundle for key, bundle in (common or {}).items()}
        rows = [dict(row) for row in run.rows]
        header = {"round": run.round, "accepted": run.accepted, "rows": rows, "about": dict(about)}
        number = int(about.get("number", run.round))
        write_state(self.folder / f"round-{number:06d}.journal", header, payload, private=True)
        for old in self.files()[self.keep :]:
            old.unlink(missing_ok=True)
        clear_parts(self.folder, "round-*")

    def files(self) -> list[Path]:
        """The newest first."""
        return sorted(self.folder.glob("round-*.journal"), reverse=True)

    def last(self) -> tuple[JournalEntry | None, list[str]]:
        """The newest round that can be read, and what was wrong with those after it."""
        wrong = []
        for path in self.files():
            try:
                header, payload = read_state(path)
            except Damaged as error:
                wrong.append(str(error))
                continue
            run = Run(
                _part("state.", payload),
                int(header["round"]),
                {str(k): int(v) for k, v in header["accepted"].items()},
                list(header["rows"]),
            )
            return JournalEntry(run, header["about"], _part("common.", payload)), wrong
        return None, wrong

    def add(self, step: DoneStep, number: int) -> None:
        """Write down a step, the `number`th of them, before the next one starts."""
        header = {"name": step.name, "accepted": dict(step.accepted)}
        write_state(self.folder / f"step-{number:06d}.journal", header, step.payload, private=True)
        clear_parts(self.folder, "step-*")

    def steps(self) -> tuple[dict[int, DoneStep], list[str]]:
        """The steps that can be read by their numbers, and what was wrong with the others."""
        found, wrong = {}, []
        for path in sorted(self.folder.glob("step-*.journal")):
            try:
                header, payload = read_state(path)
            except Damaged as error:
                wrong.append(str(error))
                continue
            accepted = {str(k): int(v) for k, v in header["accepted"].items()}
            number = int(path.stem.partition("-")[2])
            found[number] = DoneStep(str(header["name"]), payload, accepted)
        return found, wrong


def _part(prefix: str, payload: Payload) -> Payload:
    return {k.removeprefix(prefix): b for k, b in payload.items() if k.startswith(prefix)}
