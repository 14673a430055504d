"""Whose work ours stands on: a bill of materials, licences, known holes."""

import json
from collections.abc import Mapping
from pathlib import Path

from .installing import install, make_environment
from .steps import Found, call, last_line

_ASK = """
import importlib.metadata as found, json
print(json.dumps([
    {"name": d.metadata["Name"], "version": d.version,
     "licence": d.metadata["License-Expression"] or d.metadata["License"] or "",
     "classes": [c for c in d.metadata.get_all("Classifier") or [] if c.startswith("License")]}
    for d in found.distributions()]))
"""
#: Licences that would bind whoever ships us with them.
STRICT = ("AGPL", "GPL", "SSPL")
LOOSE = ("LGPL",)  # bind changes of the package itself alone


def list_packages(python: Path) -> list[dict[str, str]]:
    """Name, version and licence of all that is installed beside a Python."""
    done = call([python, "-c", _ASK])
    found = {}
    for one in json.loads(done.stdout or "[]"):
        licence = " ".join(one["licence"].split())
        if not licence or len(licence) > 60:  # a whole text in place of a name
            licence = ", ".join(c.rpartition(":: ")[2] for c in one["classes"]) or licence[:60]
        name = one["name"].lower().replace("_", "-")
        found[name] = {"name": name, "version": one["version"], "licence": licence or "unknown"}
    return [found[name] for name in sorted(found) if name not in ("pip", "setuptools")]


def check_licences(packages: list[dict[str, str]], out: Path) -> Found:
    """All licences in a table; those that bind others, or are unknown, are named."""
    lines = ["| package | version | licence |", "|---|---|---|"]
    lines += [f"| {p['name']} | {p['version']} | {p['licence']} |" for p in packages]
    (out / "licences.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    binding = [p for p in packages if binds(p["licence"])]
    unknown = [p["name"] for p in packages if p["licence"] == "unknown"]
    said = [f"{len(packages)} packages, in licences.md"]
    said += [f"binds: {p['name']} {p['licence']}" for p in binding]
    said += [f"unknown: {', '.join(unknown)}"] if unknown else []
    return Found("licences", not binding, tuple(said))


def binds(licence: str) -> bool:
    """Whether a licence asks others to open their own work; with a choice it does not.

    >>> [binds(one) for one in ("MIT", "GPL-3.0-only", "LGPL-2.1", "MIT OR GPL-2.0")]
    [False, True, False, False]
    """
    if " or " in licence.lower():
        return False
    plain = licence
    for word in LOOSE:
        plain = plain.replace(word, "")
    return any(word in plain for word in STRICT) and "exception" not in licence.lower()


def write_bill(packages: list[dict[str, str]], out: Path, about: Mapping[str, str]) -> Found:
    """A CycloneDX 1.6 bill of materials; no serial number and no date, so that it is the same."""
    parts = [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{p['name']}@{p['version']}",
            "name": p["name"],
            "version": p["version"],
            "purl": f"pkg:pypi/{p['name']}@{p['version']}",
            "licenses": [{"license": {"name": p["licence"]}}],
        }
        for p in packages
        if p["name"] != "fedlore"
    ]
    ours = f"pkg:pypi/fedlore@{about['version']}"
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": ours,
                "name": "fedlore",
                "version": about["version"],
                "purl": ours,
                "hashes": [{"alg": "SHA-256", "content": about["sha256"]}],
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": parts,
        "dependencies": [{"ref": ours, "dependsOn": [str(part["bom-ref"]) for part in parts]}],
    }
    (out / "sbom.cdx.json").write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    return Found("bill of materials", bool(parts), (f"{len(parts)} components, sbom.cdx.json",))


def audit_holes(home: Path, packages: list[dict[str, str]]) -> Found:
    """pip-audit over exactly these versions, where its data can be reached."""
    python = make_environment(home / "auditor")
    failed = install(python, "pip-audit")
    if failed is not None:
        return Found("known holes", None, (f"pip-audit cannot be installed: {failed}",))
    wanted = home / "pinned.txt"
    pins = [f"{p['name']}=={p['version'].partition('+')[0]}" for p in packages]
    wanted.write_text("\n".join(pin for pin in pins if not pin.startswith("fedlore")) + "\n")
    asked = ["-r", wanted, "--no-deps", "--disable-pip", "--format", "json"]
    done = call([python, "-m", "pip_audit", *asked], seconds=120)
    if done.returncode not in (0, 1) or not done.stdout.strip():
        return Found("known holes", None, (f"unreachable: {last_line(done)}",))
    return count_holes(json.loads(done.stdout)["dependencies"])


def count_holes(audited: list[dict]) -> Found:
    """What pip-audit says of each package; what it could not look up is no good news.

    >>> print(count_holes([{"name": "a", "version": "1", "vulns": []}, {"name": "b"}]))
    not looked known holes
               0 in 1 package; 1 could not be looked up: b
    """
    looked = [one for one in audited if "vulns" in one]
    blind = [one["name"] for one in audited if "vulns" not in one]
    holes = [f"{p['name']} {p['version']}: {v['id']}" for p in looked for v in p["vulns"]]
    said = f"{len(holes)} in {len(looked)} package{'' if len(looked) == 1 else 's'}"
    if blind:
        more = f" and {len(blind) - 5} more" if blind[5:] else ""
        said += f"; {len(blind)} could not be looked up: {', '.join(blind[:5])}{more}"
    fine = False if holes else None if blind else True
    return Found("known holes", fine, (said, *holes[:20]))
