"""The site's files and the draft on top of them; every change is on disk before it is answered."""

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..config import read_toml
from ..core.store import clear_parts, write_whole
from ..data.rows import ROW_KINDS
from ..errors import FedloreError, KnowledgeError
from ..knowledge.content import FILE


@dataclass(frozen=True)
class Workplace:
    """A site's folder: its knowledge file, and rows and a model where there are some."""

    folder: Path
    knowledge: Path  # knowledge.toml, or what site.toml calls it
    data: Path | None = None
    bundle: Path | None = None

    @property
    def ensemble(self) -> Path:
        """The folder of the knowledge file: its tables are named relative to it."""
        return self.knowledge.parent

    @property
    def state(self) -> Path:
        """What the studio keeps for itself: drafts and versions."""
        return self.ensemble / "studio"


def find_workplace(
    folder: Path, *, data: Path | None = None, bundle: Path | None = None
) -> Workplace:
    """The files of a site's folder, as `fedlore run` or a deployed federation has them."""
    if not folder.is_dir():
        raise FedloreError(f"'{folder}' is not a folder: name the one of your site")
    site = folder / "site.toml"
    said = read_toml(site) if site.exists() else {}
    knowledge = folder / str(said.get("knowledge") or FILE)
    if data is None:
        named = [folder / str(said["data"])] if "data" in said else []
        data = next((path for path in (*named, *_train_files(folder)) if path.exists()), None)
    if bundle is None:
        bundle = next(iter(sorted(folder.glob("*.lore"))), None)
    return Workplace(folder, knowledge, data, bundle)


def _train_files(folder: Path) -> Iterator[Path]:
    return (folder / f"train{kind}" for kind in ROW_KINDS)


class Overlay(Mapping[str, bytes]):
    """The files beside a knowledge file as they are on disk, some of them replaced."""

    def __init__(self, place: Workplace, changed: Mapping[str, bytes]) -> None:
        self._place, self._changed = place, dict(changed)

    def __getitem__(self, name: str) -> bytes:
        if name in self._changed:
            return self._changed[name]
        if not is_own(self._place, name):
            raise KnowledgeError(
                f"'{name[:200]}' lies outside the site's folder: the studio reads nothing there"
            )
        try:
            return path_of(self._place, name).read_bytes()
        except OSError as error:
            raise KnowledgeError(f"cannot read '{name[:200]}': {error.strerror}") from None

    def __contains__(self, name: object) -> bool:
        if name in self._changed:
            return True
        return (
            isinstance(name, str)
            and is_own(self._place, name)
            and path_of(self._place, name).is_file()
        )

    def __iter__(self) -> Iterator[str]:
        return iter({FILE: None, **dict.fromkeys(self._changed)})

    def __len__(self) -> int:
        return len(list(iter(self)))


def path_of(place: Workplace, name: str) -> Path:
    """Where a file that the knowledge names lies; knowledge.toml is the site's knowledge file."""
    return place.knowledge if name == FILE else place.ensemble / name


def is_own(place: Workplace, name: str) -> bool:
    """Whether a file lies in the site's own folder, so that the studio may write to it."""
    root = place.ensemble.resolve()
    return path_of(place, name).resolve().is_relative_to(root)


class Stale(FedloreError):
    """A change made on a state that is no longer there."""

    kind = "stale"


@dataclass(frozen=True)
class DraftState:
    """What was typed and not saved yet."""

    token: str  # names this very state
    changed: Mapping[str, bytes] = field(default_factory=dict)
    base: Mapping[str, str] = field(default_factory=dict)  # hashes of what the changes began on
    who: str = ""
    what: str = ""
    when: str = ""


@dataclass(frozen=True)
class Step:
    """One change: the files that it touched as they were and as they became; None is no file."""

    what: str
    before: Mapping[str, bytes | None]
    after: Mapping[str, bytes | None]


MOST_STEPS = 200  # changes that can be taken back


class Workspace:
    """One site's knowledge under way. Safe to be asked from several threads."""

    def __init__(self, place: Workplace) -> None:
        self.place = place
        self.lock = threading.RLock()
        self._draft = self._recall()
        #: What was changed, whatever it was, so that it can be taken back and done again.
        self._past: list[Step] = []
        self._future: list[Step] = []
        #: Who changed what and when, for whoever comes too late, and the files on disk then.
        self._last = ("", "", "", "")

    @property
    def draft(self) -> DraftState:
        """What was typed so far."""
        return self._draft

    @property
    def token(self) -> str:
        """The name of the present state, the same after a restart."""
        with self.lock:
            return self._draft.token or self.saved_token

    @property
    def members(self) -> Overlay:
        """The files with the draft on top, as everything that reads knowledge takes them."""
        return Overlay(self.place, self._draft.changed)

    @property
    def saved(self) -> Overlay:
        """The files as they are on disk."""
        return Overlay(self.place, {})

    def change(self, token: str, files: Mapping[str, bytes], *, who: str, what: str) -> DraftState:
        """Replace some files of the draft; on disk before it returns."""
        with self.lock:
            self.check(token)
            for name in files:
                if not is_own(self.place, name):
                    raise FedloreError(f"'{name}' lies outside this site's folder")
            before = self._contents(files)
            fresh = self._put(files, who=who, what=what)
            self._record(Step(what, before, files))
            return fresh

    def undo(self, token: str, *, who: str) -> None:
        """Take the last change back: cells, settings, a table, a discarded draft."""
        self._travel(token, self._past, self._future, who)

    def redo(self, token: str, *, who: str) -> None:
        """Do again what was taken back last."""
        self._travel(token, self._future, self._past, who)

    @property
    def steps(self) -> dict[str, str]:
        """What undo and redo would change, empty where there is nothing."""
        ends = {"undo": self._past[-1:], "redo": self._future[-1:]}
        return {key: some[0].what if some else "" for key, some in ends.items()}

    def _travel(self, token: str, here: list[Step], there: list[Step], who: str) -> None:
        with self.lock:
            self.check(token)
            if not here:
                return
            step = here[-1]
            back = here is self._past
            now_, then = (step.after, step.before) if back else (step.before, step.after)
            for name, data in self._contents(now_).items():
                if now_[name] is not None and now_[name] != data:
                    self._past, self._future = [], []
                    raise FedloreError(
                        f"'{name}' was changed by another program since: nothing is taken back"
                    )
            self._put(then, who=who, what=step.what)
            there.append(here.pop())

    def _record(self, step: Step) -> None:
        if step.before != step.after:
            self._past, self._future = [*self._past, step][-MOST_STEPS:], []

    def _contents(self, names: Iterable[str]) -> dict[str, bytes | None]:
        members = self.members
        return {name: members[name] if name in members else None for name in names}

    def _put(self, files: Mapping[str, bytes | None], *, who: str, what: str) -> DraftState:
        base, changed = dict(self._draft.base), dict(self._draft.changed)
        for name, data in files.items():
            begun = base.setdefault(name, self._hash(name))
            if data is None or begun == hash_bytes(data):  # not there yet, or typed back again
                changed.pop(name, None)
                del base[name]
            else:
                changed[name] = data
        token = secrets.token_hex(8) if changed else ""
        fresh = DraftState(token, changed, base, who, what, now())
        self._remember(fresh)
        self._note(fresh)
        return fresh

    def check(self, token: str) -> None:
        """Refuse whoever has not seen the present state."""
        if token == self.token:
            return
        who, what, when, saved = self._last
        if saved != self.saved_token:  # whoever wrote there came after
            what = ""
        change = f"{who or 'another window'} changed {what} at {when[11:16]}" if what else (
            "another program changed the files on disk"
        )  # fmt: skip
        raise Stale(f"{change}: load the newer state, then repeat your last change")

    def save(self, token: str, *, who: str) -> list[str]:
        """Write the draft to the site's files, tables first; the names of what was written."""
        with self.lock:
            self.check(token)
            draft = self._draft
            for name, data in draft.changed.items():
                if self._hash(name) not in (draft.base[name], hash_bytes(data)):
                    raise Stale(
                        f"'{name}' was changed on disk by another program since this draft began: "
                        "discard the draft, or put that file away first"
                    )
            names = sorted(draft.changed, key=lambda name: name == FILE)  # the file itself last
            try:
                for name in names:
                    path = path_of(self.place, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_whole(path, draft.changed[name])
            except OSError as error:
                raise FedloreError(
                    f"cannot write '{name}': {error.strerror}; the draft is kept"
                ) from None
            self._forget(who, "the files (saved)")
            return names

    def discard(self, token: str, *, who: str) -> None:
        """Drop the draft; the files stay as they are."""
        with self.lock:
            self.check(token)
            before, what = dict(self._draft.changed), "the files (draft discarded)"
            self._forget(who, what)
            self._record(Step(what, before, self._contents(before)))

    def hashes(self, names: Iterable[str]) -> dict[str, str]:
        """Hashes of files on disk by name; empty where there is none."""
        return {name: self._hash(name) for name in names}

    def _forget(self, who: str, what: str) -> None:
        self._file.unlink(missing_ok=True)
        self._draft = DraftState("")
        self._last = (who, what, now(), self.saved_token)

    def _note(self, draft: DraftState) -> None:
        self._draft = draft
        self._last = (draft.who, draft.what, draft.when, self.saved_token)

    @property
    def _file(self) -> Path:
        return self.place.state / "draft.json"

    def _hash(self, name: str) -> str:
        try:
            return hash_bytes(path_of(self.place, name).read_bytes())
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise FedloreError(f"cannot read '{name}': {error.strerror}") from None

    @property
    def saved_token(self) -> str:
        """The state without a draft: a hash of every file that the folder has for knowledge."""
        kinds = (".toml", ".csv", ".tsv", ".xlsx", ".xlsm")
        ensemble = self.place.ensemble
        found = sorted(p for p in ensemble.iterdir() if p.suffix.lower() in kinds and p.is_file())
        said = [(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in found]
        return hash_bytes(json.dumps(said).encode())[:16]

    def _remember(self, draft: DraftState) -> None:
        if not draft.changed:
            self._file.unlink(missing_ok=True)
            return
        values = {
            "token": draft.token,
            "files": {name: _packed(data) for name, data in draft.changed.items()},
            "base": dict(draft.base),
            "who": draft.who,
            "what": draft.what,
            "when": draft.when,
        }
        try:
            self.place.state.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, json.dumps(values, ensure_ascii=False, indent=1))
        except OSError as error:
            raise FedloreError(
                f"the draft cannot be kept on disk: {error.strerror}; what you typed is in this "
                "page only"
            ) from None

    def _recall(self) -> DraftState:
        clear_parts(self.place.state, "draft.json.*")
        try:
            values = json.loads(self._file.read_text(encoding="utf-8"))
            files = {name: _unpacked(said) for name, said in values["files"].items()}
            words = {key: str(values[key]) for key in ("token", "who", "what", "when")}
            base = {str(name): str(values["base"][name]) for name in files}
            return DraftState(changed=files, base=base, **words)
        except FileNotFoundError:
            return DraftState("")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise FedloreError(
                f"'{self._file}' is not a draft of the studio ({error}): put it away to go on"
            ) from None


def hash_bytes(data: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def now() -> str:
    """The time, to the second, as it is written down."""
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")


def _packed(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _unpacked(said: Mapping[str, Any]) -> bytes:
    if "text" in said:
        return str(said["text"]).encode()
    return base64.b64decode(said["base64"], validate=True)
