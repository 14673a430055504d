"""Write the files of this folder anew, with the code of version 0.1.0 and no other.

    git worktree add ../fedlore-0.1.0 0.1.0
    PYTHONPATH=../fedlore-0.1.0/src python tests/files/v0_1_0/make.py

Later versions must read what lies here, or refuse it with a sentence that says what to do
(tests/test_old_files.py). So it is made once and then kept: this script is how, not a step of
any build. Keys and certificates are of a federation that never left one machine.
"""

import csv
import hashlib
import json
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import torch

import fedlore
from fedlore.bundle import answer_rows, bundle_of, read_bundle, read_rows_checked, write_bundle
from fedlore.engine import NumberClient
from fedlore.engine.journal import read_state
from fedlore.nets import mlp
from fedlore.privacy.ledger import Ledger
from fedlore.regression import HEARD, Measured, read_numbers

HERE = Path(__file__).parent
SITES = ("mine-1", "mine-2", "mine-3")
FEATURES = """\
[[features]]
name = "ash"
unit = "%"
low = 0.0
high = 40.0

[[features]]
name = "sulfur"
unit = "%"
low = 0.0
high = 5.0

[[features]]
name = "process"
levels = ["raw", "washed"]
"""
GRADES = f"""\
trust = 0.3
outside = "widen"
conflict = "restrict"
label = "grade"
classes = ["C", "B", "A"]
edges = [40.0, 70.0]

{FEATURES}
[card]
owner = "the expert of OWNER"
note = "simulated"

[[predict.sources]]
table = "predict.csv"
[[predict.sources]]
formula = "100 - 2*ash - 8*sulfur"

[[range.sources]]
table = "range.csv"
[[range.sources]]
lower = "100 - 2*ash - 8*sulfur - SLACK"
upper = "100 - 2*ash - 8*sulfur + SLACK"
"""
NUMBER = f"""\
trust = 0.3
outside = "widen"
conflict = "project"

[target]
name = "strength"
unit = "MPa"
lower = 0.0
upper = 100.0
bins = 10

{FEATURES}
[[predict.sources]]
formula = "max(0, 100 - 2*ash - 8*sulfur)"

[[range.sources]]
lower = "max(0, 80 - 2*ash - 8*sulfur)"
upper = "max(30, 120 - 2*ash - 8*sulfur)"
[[range.sources]]
table = "limits.csv"
"""
PREDICT = "ash [%],process,then,rule\n> 30,,C,dirty\n< 5,washed,A,clean\n"
RANGE = "sulfur [%],process,then,rule\n> 3,,C..B,sulfurous\n,raw,C..A,\n"
LIMITS = "sulfur [%],then,rule\n> 3,<= 75,sulfurous\n"
RUN = """\
name = "three mines"
rounds = 4
seed = 0

[run]
sites = "sites"
approaches = ["P-KM", "FLwKM", "lore"]
recipe = "fixed"

[model]
kind = "mlp"
hidden = [6]

[plan]
epochs = 1
batch = 16
lr = 0.05
"""
DEPLOYED = (
    ("hidden = [64, 64]", "hidden = [6]"),
    ("epochs = 5", "epochs = 1"),
    ("rounds = 10", "rounds = 4"),
    ('name = "fedper" ', 'name = "ditto" '),
    ('settings = {private = ["first", "last"]}', "settings = {}"),
    ("[privacy]\n", '[privacy]\ndp = {epsilon = 8.0, delta = 1e-5, level = "site"}\n'),
)


def main() -> None:
    if hasattr(fedlore, "__version__"):
        sys.exit(f"these files are made by fedlore 0.1.0, this is {fedlore.__version__}")
    torch.set_num_threads(1)
    for name in ("run", "new", "bundles", "deployed", "init"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    make_run()
    make_bundles()
    make_number()
    make_new()
    make_deployed()
    clear_deployed()
    write_digests()


def make_run() -> None:
    """A federation of three small sites, and what `fedlore run` wrote about it."""
    for i, name in enumerate(SITES):
        home = HERE / "run" / "sites" / name
        home.mkdir(parents=True)
        text = GRADES.replace("OWNER", name).replace("SLACK", str(20 + 5 * i))
        (home / "knowledge.toml").write_text(text)
        (home / "predict.csv").write_text(PREDICT)
        (home / "range.csv").write_text(RANGE)
        (home / "train.csv").write_text(rows(40, seed=i))
        (home / "test.csv").write_text(rows(20, seed=10 + i))
    (HERE / "run" / "federation.toml").write_text(RUN)
    out = HERE / "run" / "results"
    cli("run", HERE / "run" / "federation.toml", "--out", out)
    for path in out.iterdir():  # the report: pictures, and nothing reads it
        if path.suffix != ".jsonl" and path.name != "weights":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def make_bundles() -> None:
    """One that hears its expert as a zip, one that does not as a folder, and what they answer."""
    home = HERE / "bundles"
    home.mkdir()
    (home / "rows.csv").write_text(rows(24, seed=20))
    results = HERE / "run" / "results"
    lore, plain = home / "hearing.lore", home / "plain"
    cli("export", results, "--client", "mine-1", "--approach", "lore", "--out", lore)
    cli("export", results, "--client", "mine-2", "--approach", "FLwKM", "--out", plain)
    cli("export", lore, "--onnx", home / "hearing.onnx")
    cli("certify", lore, "--out", home / "hearing.certificate.json", codes=(0, 1))
    answer(lore, home / "rows.csv")
    answer(plain, home / "rows.csv")


def make_number() -> None:
    """A regression that hears its expert, as a folder."""
    home = HERE / "bundles"
    source = home / "source"
    source.mkdir()
    (source / "knowledge.toml").write_text(NUMBER)
    (source / "limits.csv").write_text(LIMITS)
    file = read_numbers(source / "knowledge.toml")
    clients = [NumberClient(f"lab-{i}", measured(40, i), file.knowledge) for i in range(2)]
    fitted = fedlore.fit(
        clients,
        mlp(3 + HEARD, file.bins.k, hidden=(6,)),
        task="regression",
        bins=file.bins,
        hears=True,
        plan=fedlore.Plan(epochs=1, lr=0.05),
        rounds=4,
        scale=True,
    )
    write_bundle(bundle_of(fitted.model("lab-0"), "lab-0", schema=file.schema), home / "number")
    shutil.rmtree(source)
    answer(home / "number", home / "rows.csv")


def make_new() -> None:
    """The federation.toml of `fedlore new`."""
    cli("new", HERE / "new")
    for path in (HERE / "new").iterdir():
        if path.name != "federation.toml":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def make_deployed() -> None:
    """A coordinator's folder after a training, with the folders of its three sites."""
    home = HERE / "deployed"
    schema = HERE / "run" / "sites" / "mine-1" / "knowledge.toml"
    where = ("--address", "127.0.0.1:19377", "--schema", schema, "--name", "mines")
    cli("federation", "init", home, *where, "--days", "36500")
    (HERE / "init").mkdir()
    shutil.copy(home / "federation.toml", HERE / "init")
    text = (home / "federation.toml").read_text()
    for old, new in DEPLOYED:
        assert old in text, old
        text = text.replace(old, new, 1)
    (home / "federation.toml").write_text(text)
    for name in SITES:
        cli("federation", "add-site", name, "--dir", home)
        with zipfile.ZipFile(home / "kits" / f"{name}.zip") as kit:
            kit.extractall(home / "sites")
        site = home / "sites" / name
        (site / "site.key").chmod(0o600)
        (site / "data").mkdir()
        for file in (HERE / "run" / "sites" / name).iterdir():
            shutil.copy(file, site / "data" if file.name.startswith("t") else site)
        toml = (site / "site.toml").read_text().replace("# knowledge", "knowledge")
        (site / "site.toml").write_text(toml.replace("# test", "test"))
    cli("up", home)
    cli("export", home / "sites" / "mine-1", "--out", HERE / "bundles" / "deployed.lore")
    answer(HERE / "bundles" / "deployed.lore", HERE / "bundles" / "rows.csv")


def clear_deployed() -> None:
    """Leave what a later version may have to read: one site of the three, no logs, no locks."""
    home = HERE / "deployed"
    for name in SITES[1:]:
        shutil.rmtree(home / "sites" / name)
        (home / "kits" / f"{name}.zip").unlink()
    for name in ("flower", "logs"):
        shutil.rmtree(home / name)
    for path in [*home.rglob("*.lock"), *home.rglob("lock"), *home.rglob("*.log")]:
        path.unlink()


def write_digests() -> None:
    """What the state files hold, by a hash over all their tensors."""
    home = HERE / "deployed"
    site = home / "sites" / "mine-1"
    files = [*home.glob("journal/*"), home / "shared.weights"]
    files += [site / "personal.weights", *site.glob("state/*")]
    found = {}
    for path in sorted(files):
        _, payload = read_state(path)
        digest = hashlib.sha256()
        for key, tensors in sorted(payload.items()):
            for name, values in sorted(tensors.items()):
                digest.update(f"{key} {name} {tuple(values.shape)} {values.dtype}".encode())
                digest.update(values.contiguous().numpy().tobytes())
        found[str(path.relative_to(home))] = digest.hexdigest()
    ledger = Ledger(site / "ledger.json")
    text = json.dumps({"states": found, "spent": ledger.spent("site", 1e-5)}, indent=1)
    (home / "digests.json").write_text(text + "\n")
    (site / ".ledger.json.lock").unlink(missing_ok=True)


def rows(n: int, *, seed: int) -> str:
    """Simulated rows with their grade."""
    lines = ["ash,sulfur,process,grade"]
    for ash, sulfur, washed, value in simulated(n, seed):
        grade = "CBA"[(value >= 40) + (value >= 70)]
        lines.append(f"{ash},{sulfur},{'washed' if washed else 'raw'},{grade}")
    return "\n".join(lines) + "\n"


def measured(n: int, seed: int) -> Measured:
    found = simulated(n, seed)
    y = [min(max(value, 0.0), 100.0) for *_, value in found]
    return Measured(torch.tensor([row[:3] for row in found]), torch.tensor(y).double())


def simulated(n: int, seed: int) -> list[tuple[float, float, float, float]]:
    draw = random.Random(seed)
    found = []
    for _ in range(n):
        ash, sulfur = round(draw.uniform(0, 40), 2), round(draw.uniform(0, 5), 2)
        washed = float(draw.random() < 0.5)
        value = 100 - 2 * ash - 8 * sulfur + 6 * washed + draw.uniform(-8, 8)
        found.append((ash, sulfur, washed, value))
    return found


def answer(bundle: Path, file: Path) -> None:
    """What a bundle answers: the text of `fedlore predict --why`, and the bits."""
    name = bundle.with_suffix("").name
    cli("predict", bundle, file, "--why", "--out", bundle.with_name(f"{name}.answers.csv"))
    found = read_bundle(bundle)
    with open(file, newline="") as lines:
        records = [
            {"ash": float(row["ash"]), "sulfur": float(row["sulfur"]), "process": row["process"]}
            for row in csv.DictReader(lines)
        ]
    x = read_rows_checked(records, found)
    answers = answer_rows(found, x)
    bits = {
        "torch": torch.__version__,
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "x": x.tolist(),
        "probabilities": answers.probabilities.tolist(),
        "predicted": answers.predicted.tolist(),
    }
    bundle.with_name(f"{name}.bits.json").write_text(json.dumps(bits) + "\n")


def cli(*arguments: object, codes: tuple[int, ...] = (0,)) -> None:
    done = subprocess.run([sys.executable, "-m", "fedlore", *map(str, arguments)])
    assert done.returncode in codes, arguments


if __name__ == "__main__":
    main()
