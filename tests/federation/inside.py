"""A deployed federation without processes: real kits, workers, journal; messages as bytes."""

import atexit
import json
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from fedlore.core.wire import Task
from fedlore.engine import Local, federate
from fedlore.engine.loop import scale_together
from fedlore.federation.coordinator import training as coordinator
from fedlore.federation.flower.transport import Link
from fedlore.federation.household import local_sites
from fedlore.federation.journal import read_state
from fedlore.federation.kits.certificates import raw_key
from fedlore.federation.kits.kit import enrolled_keys
from fedlore.federation.settings import read_deployed
from fedlore.federation.site.consent import accept_terms
from fedlore.federation.site.folder import read_kit
from fedlore.federation.site.worker import Worker
from fedlore.federation.terms import terms_of
from fedlore_coke.starter import make_trial

from ..laws.test_algorithms import Post, assert_close
from .inprocess import Loopback


def agree(folder: Path) -> None:
    """Let the sites of a folder accept what its federation.toml says now."""
    terms = terms_of(read_deployed(folder), run="", participants=0)
    for home in sorted((folder / "sites").glob("*/site.toml")):
        accept_terms(read_kit(home.parent), terms)


def edited(path: Path, *changes: tuple[str, str]) -> None:
    """A file with some lines changed, all of which must be there; sites agree to what changed."""
    text = path.read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text)
    if path.name == "federation.toml" and (path.parent / "sites").exists():
        agree(path.parent)


def small(folder: Path, *, sites: int = 3, rounds: int = 3, algorithm: str = "fedavg") -> Path:
    """A coordinator's folder with small plants and a small model."""
    shutil.copytree(_plants(sites, rounds), folder)
    changes = [("hidden = [64, 64]", "hidden = [6]"), ("epochs = 5", "epochs = 1")]
    changes += [("deadline = 120.0", "deadline = 1.0"), ('"fedavg"', f'"{algorithm}"')]
    if algorithm in ("scaffnew", "scaffold"):
        changes.append(("lr = 0.05", "lr = 0.05\nmomentum = 0.0\nsteps = 5"))
    edited(folder / "federation.toml", *changes)
    return folder


@cache
def _plants(sites: int, rounds: int) -> Path:
    """Made once: simulating the plants takes longer than training on them."""
    folder = Path(tempfile.mkdtemp(prefix="fedlore-test-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    home = folder / "fed"
    make_trial(home, sites=sites, address="127.0.0.1:9", rounds=rounds, test_rows=30, secure=False)
    allow_all(home)
    return home


def allow_all(folder: Path) -> None:
    """Kits that demand no model and no algorithm: what they do demand has tests of its own."""
    for site in (folder / "sites").glob("*/site.toml"):
        text = site.read_text().replace('models = ["mlp"]', "models = []")
        site.write_text(text.replace('algorithms = ["fedavg"]', "algorithms = []"))


def around(before=lambda task: None, after=lambda task, reply: reply):
    """A site's worker with something done before it answers, or something made of its reply."""

    def wrap(worker):
        def answer(task, terms):
            before(task)
            return after(task, worker(task, terms))

        return answer

    return wrap


class Crash(BaseException):
    """The coordinator ends here, without a word."""


def first_task(terms, kind="train", round=1, *, shift=0.0, **changes):
    """What a coordinator asks first under these terms, with weights of its choice."""
    recipe = terms.recipe()
    initial = {n: p.detach() + shift for n, p in recipe.model.named_parameters()}
    sent = recipe.algorithm.send(recipe.algorithm.init(initial))
    return Task(kind, round, sent, terms.seed, **changes)


def audit_lines(home: Path) -> list[dict]:
    return [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]


def wait_until(true, seconds=300.0):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


class Inside:
    """The sites of a folder in this process, and trainings over them."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.folder = folder
        self.keys = {name: raw_key(key) for name, key in enrolled_keys(folder).items()}
        self.absent: set[str] = set()
        self.wire: list[bytes] = []
        self.wrap = {}  # site -> what to make of its worker
        self.restart()
        monkeypatch.setattr(coordinator, "healthy", lambda address, ca: None)
        monkeypatch.setattr(coordinator, "ATTEMPTS", 1)
        monkeypatch.setattr(coordinator, "_GRACE", 0.01)
        monkeypatch.setattr(Link, "run", lambda link, secret: self.run())

    def restart(self) -> None:
        """Every site anew, with nothing but its folder."""
        self.workers = {home.name: Worker(read_kit(home)) for home in local_sites(self.folder)}

    @contextmanager
    def run(self):
        workers = {name: self.wrap.get(name, lambda w: w)(w) for name, w in self.workers.items()}
        yield Loopback(workers, self.wire, absent=self.absent, keys=self.keys)

    def train(self, *, resume=False, agreeing=True, **reports):
        if agreeing:
            agree(self.folder)
        return coordinator.train_federation(
            self.folder, resume=resume, reports=coordinator.Reports(**reports)
        )


def check_undisturbed(folder: Path) -> None:
    """The shared weights are those of one process, bit by bit."""
    shared = read_state(folder / "shared.weights")[1]
    assert_close(shared, {"model": reference(folder).state["model"]})


def reference(folder: Path, lost: str = ""):
    """The same training in one process, over the reference engine; one site's uploads get lost."""
    federation = read_deployed(folder)
    homes = local_sites(folder)
    terms = terms_of(federation, run="x", participants=len(homes))
    clients = [read_kit(home).client(federation.schema) for home in homes]
    recipe = terms.recipe()
    recipe = replace(recipe, scaler=scale_together(Local(clients, recipe)))
    transport = Post(Local(clients, recipe), lose=lambda t, name: (t.kind, name) == ("train", lost))
    return federate(transport, recipe, federation.rounds, evaluate=federation.rounds)
