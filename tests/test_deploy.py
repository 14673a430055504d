"""What deploy/ holds: parsed, and checked as far as that goes without running it."""

import configparser
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fedlore.cli.app import load_command
from fedlore.version import __version__

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
CLUSTERS = sorted(path.parent for path in DEPLOY.glob("kubernetes/*/kustomization.yaml"))


def resources(folder):
    """The objects that a kustomization names."""
    named = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    return [one for name in named for one in yaml.safe_load_all((folder / name).read_text())]


def check_command(words):
    """A command of fedlore with options that it has."""
    command = load_command(words[0])
    options = {name for one in command.params for name in one.opts}
    unknown = [word for word in words if word.startswith("--") and word not in options]
    assert not unknown, f"fedlore {words[0]} has no {unknown}"


def named(path):
    return path.name


@pytest.mark.parametrize("unit", UNITS, ids=named)
def test_a_unit_runs_a_command_that_exists_and_gives_up_what_it_does_not_need(unit):
    read = configparser.ConfigParser(interpolation=None, strict=False)
    read.optionxform = str
    read.read_string(unit.read_text())
    service = read["Service"]
    program, *words = service["ExecStart"].split()
    assert program.endswith("/fedlore") and service["User"] != "root"
    check_command(words)
    assert service["UMask"] == "0077" and service["NoNewPrivileges"] == "yes"
    assert service["ProtectSystem"] == "strict" and words[1] == service["ReadWritePaths"]


@pytest.mark.program("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=named)
def test_systemd_finds_nothing_wrong_with_a_unit(unit, tmp_path):
    copy = tmp_path / unit.name.replace("@", "@north")  # the program is not installed here
    copy.write_text(unit.read_text().replace("/opt/fedlore/bin/fedlore", sys.executable))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True)
    about = [line for line in done.stderr.splitlines() if "fedlore-" in line]
    assert about == []


@pytest.mark.parametrize("folder", CLUSTERS, ids=named)
def test_pods_have_probes_on_ports_they_have_limits_and_no_rights(folder):
    sets = [one for one in resources(folder) if one["kind"] == "StatefulSet"]
    assert len(sets) == 1
    spec = sets[0]["spec"]
    assert spec["replicas"] == 1  # two would spoil each other's books
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    pod = spec["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    (container,) = pod["containers"]
    check_command(container["args"])
    ports = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] in ports and asked["path"] in ("/health", "/ready")
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
    assert (
        rights["capabilities"] == {"drop": ["ALL"]} and "memory" in container["resources"]["limits"]
    )
    volumes = {v["name"] for v in pod["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


@pytest.mark.parametrize("folder", CLUSTERS, ids=named)
def test_services_and_policies_point_at_pods_and_ports_that_exist(folder):
    found = resources(folder)
    labels = [o["metadata"]["labels"] for o in found if o["kind"] == "StatefulSet"]
    ports = {
        port["name"]
        for one in found
        if one["kind"] == "StatefulSet"
        for port in one["spec"]["template"]["spec"]["containers"][0]["ports"]
    }
    for one in found:
        assert {"apiVersion", "kind", "metadata", "spec"} <= one.keys()
        if one["kind"] == "Service":
            assert one["spec"]["selector"] in labels
            assert {port["targetPort"] for port in one["spec"]["ports"]} <= ports
            outside = one["spec"]["type"] != "ClusterIP"
            assert not outside or {p["name"] for p in one["spec"]["ports"]} == {"fleet"}
        if one["kind"] == "NetworkPolicy":
            assert one["spec"]["podSelector"]["matchLabels"] in labels
            for rule in one["spec"]["ingress"]:  # the page is never open to all
                assert "from" in rule or rule["ports"] == [{"port": "fleet"}]


@pytest.mark.program("kubectl")
@pytest.mark.parametrize("folder", CLUSTERS, ids=named)
def test_kustomize_builds_what_the_files_say(folder):
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    built = list(yaml.safe_load_all(done.stdout))
    assert sorted(o["kind"] for o in built) == sorted(o["kind"] for o in resources(folder))
    assert {o["metadata"]["namespace"] for o in built} == {"fedlore"}
    assert f"registry.example/fedlore:{__version__}" in done.stdout


def test_compose_shows_pages_to_its_own_machine_alone():
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for name, service in found["services"].items():
        check_command(service["command"])
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert service["image"] == f"fedlore:{__version__}"
        assert set(service["secrets"]) <= set(found["secrets"])
        for port in service["ports"]:
            inner = port.rpartition(":")[2]
            assert inner == "9300" or port.startswith("127.0.0.1:"), port
    built = found["services"]["coordinator"]["build"]
    assert (DEPLOY / built["context"] / built["dockerfile"]).samefile(DEPLOY / "Containerfile")


def test_the_image_has_what_the_commands_need_and_no_root():
    text = (DEPLOY / "Containerfile").read_text()
    for source in re.findall(r"^COPY (.+) \S+$", text, re.M):
        for name in source.split():
            assert (ROOT / name).exists(), name
    steps = re.findall(r"^(FROM|USER|ENTRYPOINT) (.+)$", text, re.M)
    assert dict(steps)["USER"].split(":")[0] not in ("root", "0")
    assert dict(steps)["FROM"] == "${BASE}"  # so that a digest can be given, as the page says
    assert dict(steps)["ENTRYPOINT"] == '["fedlore"]'
    extras = re.search(r"\.\[([a-z,]+)\]", text)[1].split(",")
    declared = (ROOT / "pyproject.toml").read_text()
    assert "flower" in extras and all(f"\n{extra} = [" in declared for extra in extras)


def test_hashes_are_those_of_the_wheels(tmp_path):
    (tmp_path / "typing_extensions-4.1-py3-none-any.whl").write_bytes(b"a wheel")
    (tmp_path / "notes.txt").write_text("not a wheel")
    command = [sys.executable, str(DEPLOY / "hashes.py"), str(tmp_path)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256(b"a wheel").hexdigest()
    assert printed == f"typing_extensions==4.1 --hash=sha256:{digest}\n"
