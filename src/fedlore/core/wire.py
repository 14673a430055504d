"""The values that cross between server and client, and what an upload must look like."""

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Protocol

import torch
from torch import Tensor

from ..errors import FedloreError
from . import tree
from .one_shot import sum_shapes
from .scaler import Inputs, moments
from .store import layout_of, to_bytes
from .tree import Payload

__all__ = ["Reply", "Task", "Transport"]


@dataclass(frozen=True)
class TaskKind:
    """What a server may ask of a client, and how the answer is treated.

    A filter may put something else in the upload's place, and adds tasks of its own
    (`privacy.settings.ADDED`).
    """

    holds: str  # what the upload holds
    summed: bool = False  # only the sum over clients is needed: filters may hide single uploads
    alone: bool = False  # a client does it for itself: any number of answers will do
    trains: bool = False  # by the plan's seed and rate; the client keeps what came of it
    noised: bool = False  # a privacy budget can cover it
    patience: int = 1  # deadlines that a client may take for it
    recipe: bool = False  # a task of lore, which other trainings do not have
    bits: int = 0  # of the largest |weight × value| of one client, where uploads are encrypted
    misfit: str = "names, shapes or kinds other than the model's"


TASK_KINDS = {
    "train": TaskKind(
        "differences with the model's names and shapes",
        summed=True,
        trains=True,
        noised=True,
        bits=20,
    ),
    "finish": TaskKind("nothing: the last local steps stay at home", alone=True, trains=True),
    "evaluate": TaskKind("nothing; the scores are plain numbers in metrics", alone=True),
    "moments": TaskKind(
        "row count, sums and squares of the features, for a common scaling",
        summed=True,
        bits=40,
        misfit="sums of features with other names or shapes than asked for",
    ),
    "gram": TaskKind(
        "sums of products of centred rows, for the one-shot model",
        summed=True,
        noised=True,
        recipe=True,
        bits=40,
        misfit="sums of rows with other names or shapes than asked for",
    ),
    "vote": TaskKind(
        "the summed loss of a trial on rows it was not trained on, and their number",
        summed=True,
        recipe=True,
        bits=40,
        misfit="sums of other names or shapes than asked for",
    ),
    "ensemble": TaskKind(
        "nothing: what a site chooses from the finished trainings stays at home",
        alone=True,
        patience=10,  # nobody waits for it but the site itself
        recipe=True,
    ),
}
#: Tasks whose uploads are only read as a sum, and those of lore alone.
SUMMED = tuple(name for name, kind in TASK_KINDS.items() if kind.summed)
LORE_TASKS = tuple(name for name, kind in TASK_KINDS.items() if kind.recipe)
TRAININGS = tuple(name for name, kind in TASK_KINDS.items() if kind.trains)
NOISED = tuple(name for name, kind in TASK_KINDS.items() if kind.noised)

#: Begins the names of bundles that a filter adds to a task: no part of what a client is asked.
ASIDE = "aside."
#: Begins the names of bundles that one client alone is told; its own name follows.
ONLY = "only."


@dataclass(frozen=True)
class Task:
    """What the server asks of the clients in one exchange."""

    kind: str
    round: int
    sent: Payload = field(default_factory=dict)
    seed: int = 0
    rate: float = 1.0  # the schedule's factor on the plan's learning rate this round
    accepted: Mapping[str, int] = field(default_factory=dict)  # client -> last round merged
    trial: str = ""  # which candidate and fold is trained; "" where nothing is being chosen
    sums: bool = False  # the server needs no single upload: a reply may stand for many clients
    receipt: str = ""  # what the server holds of the clients' books; no part of the question

    def for_client(self, client: str) -> "Task":
        """The task as one client gets it, which hears nothing of the others' rounds."""
        own = {client: self.accepted[client]} if self.accepted.get(client) else {}
        sent = {
            key: bundle
            for key, bundle in self.sent.items()
            if not key.startswith(ONLY) or key == ONLY + client
        }
        return replace(self, accepted=own, sent=sent)

    def question(self) -> "Task":
        """The task without what filters add to it: who is asked it again is asked the same."""
        sent = {key: bundle for key, bundle in self.sent.items() if not key.startswith(ASIDE)}
        same = len(sent) == len(self.sent) and not self.receipt
        return self if same else replace(self, sent=sent, receipt="")


@dataclass(frozen=True)
class Reply:
    """What one client answers, or several simulated ones: then the upload is their mean."""

    client: str
    round: int
    upload: Payload = field(default_factory=dict)
    rows: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    members: tuple[str, ...] = ()  # those it stands for, where they are several
    books: str = ""  # how far the client's own books go, for the server to keep

    @property
    def names(self) -> tuple[str, ...]:
        """Everyone whose answer this is."""
        return self.members or (self.client,)


class Transport(Protocol):
    """How tasks reach clients: in process, stacked, over a network, or through filters."""

    def clients(self) -> Sequence[str]: ...

    def exchange(self, task: Task, to: Sequence[str]) -> Iterable[Reply]:
        """Send the task to these clients; replies come in any order, and some may not come."""


def digest(what: Task | Payload) -> str:
    """A hash of all that a task says, every field of it, or of named tensors alone."""
    found = hashlib.sha256()
    for piece in _pieces(what):
        found.update(len(piece).to_bytes(8, "big") + piece)  # no two ways to cut the same bytes
    return found.hexdigest()


def name_content(task: Task) -> str:
    """What a task asks about, wherever in a run it stands: its kind and all that was sent with it.

    Candidate, fold, round and rate are no part of it: from the same start they give answers that
    are next to the same, or that add up to one another.
    """
    sent = {key: b for key, b in task.sent.items() if not key.startswith((ASIDE, ONLY))}
    return f"{task.kind} {digest(sent)}"


def name_quantity(task: Task) -> str:
    """The same, but all sums of products are one: they are of the same rows."""
    return task.kind if task.kind == "gram" else name_content(task)


def _pieces(value: object) -> Iterator[bytes]:
    if isinstance(value, Task):
        for entry in fields(value):
            yield entry.name.encode()
            yield from _pieces(getattr(value, entry.name))
    elif isinstance(value, Tensor):
        bundle = {"": value}
        yield repr(layout_of(bundle)).encode()
        yield to_bytes(bundle)
    elif isinstance(value, Mapping):
        yield f"{len(value)} entries".encode()
        for name, inner in sorted(value.items()):
            yield str(name).encode()
            yield from _pieces(inner)
    elif isinstance(value, tuple | list):
        yield f"{len(value)} values".encode()
        for inner in value:
            yield from _pieces(inner)
    elif value is None or isinstance(value, bool | int | float | str | bytes):
        yield f"{type(value).__name__} {value!r}".encode()
    else:
        raise FedloreError(f"a task cannot hold {type(value).__name__}: it could not be hashed")


MISFIT = TASK_KINDS["train"].misfit
Shapes = dict[str, dict[str, tuple[object, ...]]]


def wanted_of(
    task: Task,
    uploads: Sequence[str],
    features: int,
    *,
    terms: int = 0,
    inputs: Inputs | None = None,
) -> Payload:
    """Tensors with the names, shapes and kinds that a plain answer to a task has.

    The one-shot model, where there is one, has so many `terms`.
    """
    if task.kind == "train":
        return {key: task.sent[key] for key in uploads}
    if task.kind == "gram" and terms:
        like = {n: torch.zeros(s, dtype=torch.float64) for n, s in sum_shapes(terms).items()}
        return {"gram": like}
    if task.kind == "vote":  # of one training, of all one-shot models that were sent, of starts
        sent = task.question().sent
        starts = sent["starts"]["shares"] if "starts" in sent else (None,)
        sizes = {"loss": len(starts) if task.trial else len(sent), "rows": 1}
        return {"vote": {n: torch.zeros(m, dtype=torch.float64) for n, m in sizes.items()}}
    if task.kind != "moments":
        return {}
    row = torch.zeros(1, features)
    return {"moments": moments(row) if inputs is None else inputs.moments(row)}


def find_flaw(
    upload: Payload, wanted: Payload, *, largest: float = math.inf, misfit: str = MISFIT
) -> str | None:
    """Why an upload cannot be used in place of what was wanted, or None."""
    if shapes_of(upload) != shapes_of(wanted):
        return misfit
    if not tree.finite(upload):
        return "values that are not finite"
    length = longest(upload)
    return f"norm {length:.4g} is above {largest:g}" if length > largest else None


#: The scores that clients may report.
SCORES = ("ta", "nll", "pov", "rmse", "mae", "r2")
#: And what a column is worth to a site, by its place in the schema: value, and 95 % interval.
WORTH = ("worth {}", "worth {} low", "worth {} high")
#: Under which sites hear, by column, what others told: (s, 3), a site a row, without its name.
TOLD = "worth"
#: Besides: steps that a training took, and what encryption lost of a sum.
_BESIDE = ("steps", "loss")


def find_bad_metric(metrics: Mapping[str, float]) -> str | None:
    """Why the numbers beside an upload cannot be used, or None."""
    worths = {name for name in metrics if re.fullmatch(r"worth [0-9]{1,5}( low| high)?", name)}
    if not {*metrics} - worths <= {*SCORES, *_BESIDE}:
        return "a metric that was not asked for"
    return None if all(map(math.isfinite, metrics.values())) else "a metric is not finite"


def longest(upload: Payload) -> float:
    """The largest norm of a bundle."""
    return max((tree.norm(bundle) for bundle in upload.values()), default=0.0)


def shapes_of(payload: Payload) -> Shapes:
    """Kind and shape of every tensor by name."""
    return {
        key: {name: (t.dtype, *t.shape) for name, t in bundle.items()}
        for key, bundle in payload.items()
    }
