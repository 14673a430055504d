"""Is this site fit to join? Every check says what to do where it fails."""

import datetime
import email.utils
import platform
import socket
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ...errors import ConfigError, FedloreError, unknown
from ...kernel.findings import errors
from ...knowledge.findings.checkup import check_file
from ...models.own.baseline import missing_learners
from ...privacy.settings import remarks_on
from ..kits.certificates import check_dates, read_site_key
from ..remote import AHEAD, BEHIND, Refusal, fetch_page
from ..terms import describe_difference, fedlore_version
from .consent import OFFERED
from .folder import Kit, read_kit

_TOLD = 1.0  # seconds: the coordinator tells its time without fractions


@dataclass(frozen=True)
class Check:
    """One thing looked at."""

    name: str
    fine: bool
    detail: str


def examine(folder: Path) -> list[Check]:
    """All checks of a kit, in the order in which to mend them."""
    kit = read_kit(folder)
    return [
        _check("private key", lambda: _key(kit)),
        _check("certificate", lambda: _certificate(kit)),
        _check("coordinator", lambda: _reach(kit)),
        _check("clock", lambda: _clock(kit)),
        _check("versions", lambda: _versions(kit)),
        _check("data", lambda: _data(kit)),
        _check("knowledge", lambda: _knowledge(kit)),
        _check("terms", lambda: _terms(kit)),
        _check("policy", lambda: _policy(kit)),
        _check("own models", _own_models),
    ]


def _check(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name, True, look())
    except FedloreError as error:
        return Check(name, False, str(error))


def _own_models() -> str:
    """Which own learners a site can put into its mixture; none that is missing stops it."""
    lacking = missing_learners()
    if not lacking:
        return "linear models, extra trees and boosted trees can stand in this site's mixture"
    (how,) = set(lacking.values())
    return f"{' and '.join(lacking)} are missing, linear models are made all the same: {how}"


def _key(kit: Kit) -> str:
    read_site_key(kit.folder / "site.key")
    return "readable by its owner only"


def _certificate(kit: Kit) -> str:
    if kit.file.insecure:
        return "not used: this site joins without TLS"
    return f"the authority's holds for another {check_dates(kit.folder / 'ca.crt').days} days"


def _reach(kit: Kit) -> str:
    host, _, port = kit.file.address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5.0):
            pass
    except OSError as error:
        raise FedloreError(
            f"{kit.file.address} cannot be reached ({error}): is fedlore server running there, and "
            "does the firewall let this port out?"
        ) from None
    _ask(kit)
    return f"{kit.file.address} answers" + ("" if kit.file.insecure else " with a good certificate")


def _ask(kit: Kit) -> datetime.datetime | None:
    """The coordinator's time of day."""
    try:
        date = fetch_page(kit.file.address, "/health", kit.authority())[1].get("Date")
    except OSError as error:
        reason = getattr(error, "reason", error)
        raise FedloreError(
            f"no trusted answer from {kit.file.address} ({reason}): an expired server certificate "
            "is renewed by fedlore federation renew, another authority needs a new kit"
        ) from None
    return email.utils.parsedate_to_datetime(date) if date else None


def _clock(kit: Kit) -> str:
    there = _ask(kit)
    if there is None:
        return "the coordinator does not tell its time"
    ahead = (datetime.datetime.now(datetime.UTC) - there).total_seconds()
    if not -BEHIND < ahead < AHEAD + _TOLD:
        raise FedloreError(
            f"this machine's clock is {ahead:+.0f} s off the coordinator's: requests are signed "
            f"with the time, at most {AHEAD:g} s ahead or {BEHIND:g} s behind are let in: set it"
        )
    return f"within {abs(ahead):.0f} s of the coordinator's"


def _versions(kit: Kit) -> str:
    theirs = kit.terms().version
    if theirs != fedlore_version():
        raise FedloreError(
            f"{describe_difference(site=fedlore_version(), coordinator=theirs)}; if the "
            "coordinator has a newer one since, let it make a new kit (fedlore federation renew "
            f"{kit.file.name})"
        )
    try:
        flower = version("flwr")
    except PackageNotFoundError:
        raise FedloreError("flwr is missing: pip install 'fedlore[flower]'") from None
    return f"fedlore {theirs} on both sides, flwr {flower}, Python {platform.python_version()}"


def _data(kit: Kit) -> str:
    client = kit.client(kit.terms().schema, kit.terms().bins)
    test = 0 if client.test is None else len(client.test)
    absent = client.knowledge.require_schema().absent
    without = f"; without {', '.join(absent)}, which stays here" if absent else ""
    return (
        f"{len(client.data)} rows to learn from, {test} to score on, columns and labels fit"
        f"{without}"
    )


def _knowledge(kit: Kit) -> str:
    if kit.file.knowledge is None:
        return "none: this site learns as in plain federated learning"
    kit.check_sources()
    found = check_file(kit.path(kit.file.knowledge))
    bad = errors(found.findings)
    if bad:
        raise FedloreError(f"{bad[0].message} ({len(bad)} errors: fedlore lint)")
    trust = kit.knowledge(kit.terms().schema, kit.terms().bins).trust
    return f"no errors, {len(found.findings)} remarks; trust {trust:g}"


def _terms(kit: Kit) -> str:
    """What this site has agreed to, and whether something else was asked of it."""
    how = f"fedlore accept '{kit.folder}' shows them"
    if kit.file.agreed is None:
        raise FedloreError(f"this site has not accepted any terms yet: {how}")
    if kit.path(OFFERED).exists():
        raise FedloreError(f"other terms than those agreed to were asked for and refused: {how}")
    terms = kit.terms()
    if terms.fingerprint() != kit.file.agreed:
        raise FedloreError(
            f"terms.json is {terms.fingerprint()[:12]}, agreed to was {kit.file.agreed[:12]}: {how}"
        )
    seen = "sums alone" if terms.privacy.sums_alone else "single uploads"
    names = ", ".join(name for _, name in terms.parts())
    return (
        f"agreed to {kit.file.agreed[:12]}: {names}, {terms.rounds} rounds, the coordinator sees "
        f"{seen}"
    )


def _policy(kit: Kit) -> str:
    policy, terms = kit.file.policy, kit.terms()
    for name in policy.columns:
        if name not in terms.schema.names:
            raise ConfigError(f"[policy] columns: {unknown('feature', name, terms.schema.names)}")
    try:
        policy.refuse_terms(terms)
    except Refusal as refusal:
        raise Refusal(
            f"{refusal}: unless the terms in the kit have changed since, this site will refuse "
            "every task"
        ) from None
    remarks = remarks_on(terms.privacy, kit.place())
    if remarks:
        return "; ".join([f"at least {policy.min_participants} participants", *remarks])
    return f"at least {policy.min_participants} participants, metrics {', '.join(policy.metrics)}"
