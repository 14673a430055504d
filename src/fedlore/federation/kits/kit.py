"""The coordinator's folder, the kits it hands out, and the renewal of certificates."""

import json
import re
import secrets
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from ...core.store import write_private, write_whole
from ...errors import FedloreError, unknown
from ...kernel.schema import Feature, Schema
from ...knowledge.content import dump
from ...knowledge.files import Target
from ...privacy.settings import privacy_table
from ..settings import ROUNDS, read_deployed
from ..terms import terms_of
from .certificates import (
    check_dates,
    new_authority,
    new_server,
    new_site_key,
    private_key,
    raw_key,
    read_certificate,
    read_public_key,
    vouch,
)

__all__ = ["SECURE", "add_local_site", "add_site", "enrol", "init", "unpack"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_LARGEST = 4_000_000  # bytes of a member
MEMBERS = ("site.toml", "ca.crt", "terms.json", "kit.id")  # a site's key is made at the site

TOP = """\
# What all sites agree on. Sites see this file's contents as the terms of every task.

name = "{name}"
address = "{address}"     # host:port where sites reach the coordinator
task = "{task}"
recipe = "{recipe}"           # lore: sites choose one by votes on short trials; none: as below
rounds = {rounds}
seed = 0
quorum = 0.5              # share of the asked sites without whose answer a round does not count
deadline = 120.0          # seconds that a round waits for slow or dead sites
largest = 1000.0          # an upload with a larger norm is rejected
excess = 8.0              # likewise one so many times as long as its peers' and those before
largest_answer = 64       # megabytes that a site may send for one task
scale = true              # standardise features by sums that the sites add up first
evaluate = 0              # score every so many rounds; the last one is always scored

[model]
kind = "mlp"              # or logistic, or a kind of another package with [model.settings]
hidden = [64, 64]
hears = {hears}

[algorithm]
{method}

[plan]
epochs = 5
batch = 32
lr = 0.05
schedule = "cosine"
{loss}
{privacy}
"""
RECIPE = "lore"  # what init writes, where nobody says otherwise
SECURE = True  # what init writes for secure_aggregation, where nobody says otherwise
#: By what the coordinator sees: of sums alone these settings told nothing of a site's knowledge
#: in the audit (docs/explain/leaks.md), and were more accurate than the paper's.
HABITS = {
    True: {
        "hears": "true              # the network gets what the expert says as input",
        "method": 'name = "fedper"           # see: fedlore algorithms\n'
        'settings = {private = ["first", "last"]}  # layers that never leave a site',
        "loss": "plain = 0.5               # share of ordinary cross-entropy in the loss\n",
    },
    False: {
        "hears": "false             # true: the network gets what the expert says as input",
        "method": 'name = "fedavg"           # see: fedlore algorithms',
        "loss": "",
    },
}

SITE = """\
# This site's own file. Nothing in it, and nothing it points to, leaves this machine.

name = "{name}"
address = "{address}"          # the coordinator
data = "{data}"                # CSV or Parquet with the columns of the schema and the label
{test}
{knowledge}
# trust = 0.3                  # λ in place of the one in the knowledge file
agreed = "{agreed}"  # the terms: fedlore accept

[policy]                       # it wins over whatever the coordinator asks
min_participants = 2
max_participants = 1000        # more are not believed: a share of noise counts on their number
max_rounds = 1000
secure_aggregation = {secure:<10}# true: take part only where single uploads are hidden
# steady_cohort = true         # who drops out of a training under masks makes it begin anew
# max_epsilon = 3.0            # take part only with differential privacy within this budget
max_delta = 0.001              # of such a budget
central_noise = false          # true: the coordinator is trusted to add the noise
models = {models}  # kinds of model that are allowed; empty: all of fedlore's own
algorithms = {algorithms}  # likewise; those of other packages must be named to be loaded
filters = []                   # filters of other packages that may be loaded; empty: none
sources = []                   # kinds of knowledge of other packages that may be loaded here
metrics = ["ta", "nll", "pov", "rmse", "mae", "r2"]  # scores that may be reported; [] for none
# columns = ["Ro"]             # features of which others may hear what they are worth here
moments = true                 # give away sums and squares of the features for a common scaling
max_parameters = 10000000      # of a model
max_steps = 100000             # of local training in one task
max_questions = 20000          # a day
max_seconds = 1800.0           # that a task may take
max_memory = 4000              # megabytes that tasks may take
"""


def init(
    folder: Path,
    *,
    name: str,
    address: str,
    schema: Schema,
    target: Target | None = None,
    rounds: int = ROUNDS,
    days: int = 365,
    secure: bool = SECURE,
    recipe: str = RECIPE,
) -> None:
    """A coordinator's folder: federation.toml, an authority, a server certificate, enrolment."""
    if (folder / "federation.toml").exists():
        raise FedloreError(f"'{folder}' holds a federation already")
    check_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    told = {"name": name, "address": address, "rounds": rounds, "recipe": recipe}
    text = write_settings(schema, target, secure=secure, **told)
    (folder / "federation.toml").write_text(text, encoding="utf-8")
    try:
        host = read_deployed(folder).host
    except FedloreError:
        (folder / "federation.toml").unlink()
        raise
    new_authority(folder, name, days=days)
    new_server(folder, hosts_of(host), days=days)
    write_private(folder / "runner.secret", secrets.token_bytes(32))
    (folder / "enrolled").mkdir(exist_ok=True)


def write_settings(
    schema: Schema, target: Target | None = None, *, secure: bool = SECURE, **told: Any
) -> str:
    """The text of a federation.toml with the usual settings."""
    task = "classification" if target is None else "regression"
    told = {"rounds": ROUNDS, "recipe": RECIPE, "task": task} | told
    text = TOP.format(**told, privacy=privacy_table(secure), **HABITS[secure])
    text += dump({"schema": _schema(schema.shared, number=target is not None)})
    if target is not None:
        text += "\n# The number: its bounds and bins, which every site's knowledge must have too.\n"
        kept = {k: v for k, v in asdict(target).items() if v not in ("", ())}
        text += dump({"target": kept if not target.edges else kept | {"bins": target.cut().k}})
    return text


def add_site(folder: Path, name: str, *, paths: Mapping[str, str] | None = None) -> Path:
    """Make a site's kit, an archive without secrets; `enrol` lets in the key that is made there."""
    check_name(name)
    federation = read_deployed(folder)
    if _enrol(folder, name).exists():
        raise FedloreError(f"site '{name}' is enrolled already (renew makes a kit for a new key)")
    return _issue(folder, name, federation.address, paths or {})


def add_local_site(folder: Path, name: str, *, paths: Mapping[str, str]) -> Path:
    """A site on the coordinator's own machine, enrolled; its folder below sites/."""
    kit = add_site(folder, name, paths=paths)
    home = folder / "sites" / name
    home.parent.mkdir(exist_ok=True)
    unpack(kit).rename(home)
    enrol(folder, name, home / "site.pub")
    kit.unlink()
    return home


def enrol(folder: Path, name: str, key: Path) -> bool:
    """Let a site in by the public half of its key; whether another one stops working by that."""
    check_name(name)
    read_deployed(folder)
    _need_known(folder, name)
    known = {who: raw_key(one) for who, one in enrolled_keys(folder).items()}
    found = raw_key(read_public_key(key))
    same = [who for who, one in known.items() if one == found and who != name]
    if same:
        raise FedloreError(f"this is the key of site '{same[0]}', which is enrolled already")
    write_whole(_enrol(folder, name), key.read_bytes())
    return known.get(name, found) != found


def renew_site(folder: Path, name: str) -> Path:
    """Shut a site's key out, and make a kit that lets the site make another one."""
    _need_known(folder, name)
    _enrol(folder, name).unlink(missing_ok=True)
    return _issue(folder, name, read_deployed(folder).address, {})


def remove_site(folder: Path, name: str) -> None:
    """Shut a site out; a running server notices within seconds."""
    _need_known(folder, name)
    _enrol(folder, name).unlink(missing_ok=True)
    (folder / "kits" / f"{name}.zip").unlink(missing_ok=True)


def enrolled_keys(folder: Path) -> dict[str, ec.EllipticCurvePublicKey]:
    """The sites of a federation and their public keys."""
    found = sorted((folder / "enrolled").glob("*.pub"))
    return {path.name.removesuffix(".pub"): read_public_key(path) for path in found}


def unpack(kit: Path, say: Callable[[str], None] = lambda line: None) -> Path:
    """The folder of a kit; an archive is unpacked beside itself, a site.toml there is kept.

    The site's key is made here, once for each kit, and its private half never leaves the folder.
    An archive may come from anybody: its members are those of a kit and small, and nothing is
    written through a link.
    """
    if kit.is_dir():
        _need_key(kit, say)
        return kit
    try:
        with zipfile.ZipFile(kit) as archive:
            names = archive.namelist()
            found = {name: _read_member(archive, name) for name in names[: 2 * len(MEMBERS)]}
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError, zlib.error) as error:
        raise FedloreError(f"'{kit}' is no kit: {error}") from None
    top = {name.partition("/")[0] for name in names}
    rest = sorted(name.partition("/")[2] for name in names)
    if len(top) != 1 or rest != sorted(MEMBERS):
        raise FedloreError(f"'{kit}' is no kit: it holds {', '.join(sorted(names))[:200]}")
    (name,) = top
    check_name(name)
    folder = kit.parent / name
    if folder.is_symlink():
        raise FedloreError(f"'{folder}' is a link: a kit is not unpacked through it")
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    known = folder / "kit.id"
    if known.exists() and known.read_bytes() != found[f"{name}/kit.id"]:
        (folder / "site.key").unlink(missing_ok=True)  # a renewed kit asks for a new one
    for member in MEMBERS:
        target = folder / member
        if member != "site.toml" or not target.exists():
            write_private(target, found[f"{name}/{member}"])  # replaces a link, never follows it
    _need_key(folder, say)
    return folder


def _need_key(folder: Path, say: Callable[[str], None]) -> None:
    """A site's key pair, made where it is used."""
    path = folder / "site.key"
    if path.exists() or not (folder / "kit.id").exists():
        return
    private, public = new_site_key()
    write_private(path, private)
    write_private(folder / "site.pub", public)
    say(
        f"Made this site's key. The coordinator needs {folder / 'site.pub'}: "
        f"fedlore federation enrol {folder.resolve().name} site.pub"
    )


def _read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member of an archive, no longer than a kit's can be, whatever the archive says of it."""
    with archive.open(name) as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise FedloreError(f"the archive is no kit: '{name[:60]}' is longer than {_LARGEST} bytes")
    return data


def _issue(folder: Path, name: str, address: str, paths: Mapping[str, str]) -> Path:
    terms = terms_of(read_deployed(folder), run="", participants=0)
    named = {what: [n for w, n in terms.parts() if w == what] for what in ("model", "algorithm")}
    secure = terms.privacy.secure_aggregation
    test, knowledge = paths.get("test"), paths.get("knowledge")
    text = SITE.format(
        name=name,
        address=address,
        data=paths.get("data", "data/train.csv"),
        agreed=terms.fingerprint(),
        secure=str(secure).lower(),
        models=json.dumps(named["model"]),
        algorithms=json.dumps(named["algorithm"]),
        test=f'test = "{test}"' if test else '# test = "data/test.csv"       # rows to score on',
        knowledge=f'knowledge = "{knowledge}"'
        if knowledge
        else '# knowledge = "knowledge.toml" # what this site\'s expert knows (fedlore lint)',
    )
    contents = {
        "site.toml": text.encode(),
        "ca.crt": (folder / "ca.crt").read_bytes(),
        "terms.json": terms.text().encode(),
        "kit.id": secrets.token_hex(16).encode(),
    }
    (folder / "kits").mkdir(mode=0o700, exist_ok=True)
    path = folder / "kits" / f"{name}.zip"
    write_private(path, b"")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in contents.items():
            info = zipfile.ZipInfo(f"{name}/{member}", (2000, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            archive.writestr(info, data)
    return path


def _schema(schema: Schema, *, number: bool) -> dict[str, Any]:
    """A schema as TOML values, without what is left open."""
    blank = Feature("blank")

    def values(feature: Feature) -> dict[str, Any]:
        values = asdict(feature)
        return {k: v for k, v in values.items() if k == "name" or v != getattr(blank, k)}

    features = [values(feature) for feature in schema.features]
    if number:  # its label and bins stand in [target]
        return {"features": features}
    return {
        "label": schema.label,
        "classes": list(schema.classes),
        "ordered": schema.ordered,
        "features": features,
    }


def hosts_of(host: str) -> Sequence[str]:
    """The names and addresses that a server's certificate is good for."""
    return list(dict.fromkeys([host, "localhost", "127.0.0.1"]))


def _enrol(folder: Path, name: str) -> Path:
    return folder / "enrolled" / f"{name}.pub"


def _need_known(folder: Path, name: str) -> None:
    """A site that is enrolled, or has a kit."""
    kits = {path.stem for path in (folder / "kits").glob("*.zip")}
    if name not in (known := sorted(kits | set(enrolled_keys(folder)))):
        raise FedloreError(
            unknown("site", name, known) + f" (fedlore federation add-site {name} makes its kit)"
        )


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise FedloreError(f"a name must be letters, digits, _, . and -, got '{name}'")


VOUCHED = "ca.vouched"  # by which an authority says which the next one is


def renew_server(folder: Path, *, days: int = 365) -> None:
    """A new server certificate from the authority; sites need nothing new."""
    hosts = hosts_of(read_deployed(folder).host)
    try:
        check_dates(folder / "ca.crt")
    except FedloreError:
        renew_authority(folder, days=days)  # nothing that it signs would be believed
    else:
        new_server(folder, hosts, days=days)


def renew_authority(folder: Path, *, days: int = 365) -> bool:
    """A new authority beside the old one; whether sites that only know the old one can still come.

    While the old one holds, the server keeps a certificate of it, and sites fetch the new one as
    they join. Once it has expired, they need the file ca.crt by hand.
    """
    federation = read_deployed(folder)
    old = (folder / "ca.crt").read_bytes()
    before, key = read_certificate(folder / "ca.crt"), private_key(folder / "ca.key")
    try:
        left = check_dates(folder / "ca.crt")
    except FedloreError:
        new_authority(folder, federation.name, days=days)
        new_server(folder, hosts_of(federation.host), days=days)
        return False
    new_server(folder, hosts_of(federation.host), days=max(1, left.days))
    new_authority(folder, federation.name, days=days)
    vouched = vouch(before, key, read_certificate(folder / "ca.crt"))
    shown = folder / VOUCHED
    write_whole(shown, vouched + (shown.read_bytes() if shown.exists() else b""))
    write_whole(folder / "ca.crt", (folder / "ca.crt").read_bytes() + old)
    return True


def shown_authorities(folder: Path) -> bytes:
    """What is told to whoever asks: the authorities, and which of them another vouches for."""
    vouched = folder / VOUCHED
    return (folder / "ca.crt").read_bytes() + (vouched.read_bytes() if vouched.exists() else b"")
