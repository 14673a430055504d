"""Kinds of source: the built-in ones, and one of another package in every place it is used."""

import sys
from dataclasses import fields
from pathlib import Path
from typing import get_args

import pytest
import torch
from typer.testing import CliRunner

from fedlore import Client, Examples, Knowledge, KnowledgeError, Personal, Plan, fit
from fedlore.bundle import Policies, bundle_of, load, read_bundle, write_bundle
from fedlore.bundle.certify import certify
from fedlore.bundle.explain import reasons
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.store import with_policies
from fedlore.bundle.update import update_bundle
from fedlore.cli.app import app
from fedlore.core.nets import mlp
from fedlore.kernel.schema import name_columns
from fedlore.knowledge.content import files_at
from fedlore.knowledge.findings.checkup import check_file
from fedlore.knowledge.sources.catalog import (
    SOURCE_KINDS,
    kind_of_model,
    plugins_in,
    plugins_of,
    source_of,
)
from fedlore.knowledge.sources.kind import Asked, EntryPoint
from fedlore.knowledge.views import Mask, MaxPool

from ..installed import install

PAGE = Path(__file__).parents[2] / "docs" / "extend" / "source.md"
PACKAGE = PAGE.read_text().split("```python\n")[1].split("```")[0]  # the page is the example
FILE = """
classes = ["A", "B", "C"]
trust = 0.5
features = [{name = "ash", low = 0, high = 40}]
[[predict.sources]]
bands = "cuts.json"
of = "ash"
[[range.sources]]
table = "range.csv"
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A knowledge file whose prediction is of a kind that another package brings."""
    home = tmp_path / "packages"
    about = home / "bandbook-1.0.dist-info"
    about.mkdir(parents=True)
    (home / "bandbook.py").write_text(PACKAGE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bandbook\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fedlore.sources]\nbands = bandbook:KIND\n")
    monkeypatch.syspath_prepend(home)
    monkeypatch.delitem(sys.modules, "bandbook", raising=False)
    (tmp_path / "cuts.json").write_text("[8, 12]")
    (tmp_path / "range.csv").write_text("ash,then\n> 10,B..C\n")
    (tmp_path / "knowledge.toml").write_text(FILE)
    yield tmp_path / "knowledge.toml"
    sys.modules.pop("bandbook", None)


X = torch.tensor([[5.0], [9.0], [20.0]])


@pytest.mark.parametrize("key", SOURCE_KINDS)
def test_a_built_in_kind_has_the_key_that_names_it_and_answers_something(key):
    kind = SOURCE_KINDS[key]
    assert key in kind.keys and kind.name in SOURCE_KINDS
    assert kind.asked and set(kind.asked) <= set(get_args(Asked))
    assert all(kind_of_model(model.__new__(model)) is kind for model in kind.models)


def test_no_two_kinds_read_as_one_class():
    kinds = {id(kind): kind for kind in SOURCE_KINDS.values()}.values()
    models = [model for kind in kinds for model in kind.models]
    assert len(models) == len(set(models))


def test_a_kind_of_another_package_is_read_and_written(site, tmp_path):
    known = Knowledge.read(site)
    assert known.annotate(Examples(X)).prior.argmax(1).tolist() == [0, 1, 2]
    known.write(tmp_path / "copy" / "knowledge.toml")
    assert (tmp_path / "copy" / "source-1.json").read_text() == "[8, 12]"
    again = Knowledge.read(tmp_path / "copy" / "knowledge.toml")
    assert again == known and again.fingerprint == known.fingerprint
    (site.parent / "cuts.json").write_text("[8, 13]")
    assert Knowledge.read(site).fingerprint != known.fingerprint


def test_it_is_read_from_bytes_as_from_a_folder(site):
    members = {p.name: p.read_bytes() for p in site.parent.iterdir() if p.is_file()}
    assert Knowledge.read(members) == Knowledge.read(site)
    del members["cuts.json"]
    with pytest.raises(KnowledgeError, match=r"source 1: .*'cuts.json', which is missing"):
        Knowledge.read(members)


def test_a_package_is_loaded_only_where_its_kind_is_named(site):
    text = site.read_text().replace(
        'bands = "cuts.json"\nof = "ash"', 'formula = "ash"\nedges=[8,12]'
    )
    site.write_text(text)
    assert plugins_of(Knowledge.read(site).prediction) == ()
    assert "bandbook" not in sys.modules


def test_what_a_policy_must_allow_is_told_before_anything_is_loaded(site):
    assert plugins_in(site) == ("bands",)
    inside = (
        '[[range.sources]]\n[range.sources.conformal]\n[range.sources.conformal.scorer]\nbands="c"'
    )
    assert plugins_in({"knowledge.toml": inside.encode()}) == ("bands",)
    assert plugins_in({"knowledge.toml": b"bands = 3"}) == ()
    assert "bandbook" not in sys.modules
    known = Knowledge.read(site)
    assert plugins_of(known.prediction, known.range) == ("bands",)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('of = "ash"', 'off = "ash"', "unknown key 'off'; did you mean 'of'"),
        ('bands = "cuts.json"', 'band = "cuts.json"', "unknown key 'band'; did you mean 'bands'"),
        ('of = "ash"', "of = 3", "of must be text, got 3"),
        (
            'table = "range.csv"',
            'bands = "cuts.json"\nof = "ash"',
            "'bands' is not a source of a range",
        ),
        ('of = "ash"', 'of = "ash"\nformula = "ash"', "has formula and bands"),
    ],
)
def test_faults_are_named_as_those_of_built_in_kinds(site, old, new, says):
    site.write_text(FILE.replace(old, new))
    with pytest.raises(KnowledgeError, match=says):
        Knowledge.read(site)


def test_a_package_that_fails_is_named(site):
    (site.parent / "packages" / "bandbook.py").write_text("KIND = 3\n")
    with pytest.raises(
        KnowledgeError, match="'bandbook:KIND' must be a fedlore SourceKind called 'bands'"
    ):
        Knowledge.read(site)


def test_lint_says_that_it_was_not_checked(site):
    found = check_file(site)
    assert found.knowledge is not None
    said = {finding.kind: finding for finding in found.findings}
    assert "not checked over the scope" in said["unchecked"].message
    assert said["unchecked"].severity == "info"


def test_it_trains_and_goes_into_a_bundle_but_into_no_certificate(site, tmp_path):
    known = Knowledge.read(site)
    client = Client("plant", Examples(X, torch.tensor([0, 1, 2])), known)
    fitted = fit([client], mlp(1, 3), rounds=1, plan=Plan(epochs=1))
    model = fitted.model("plant")
    write_bundle(bundle_of(model, "plant"), tmp_path / "plant.lore")
    found = read_bundle(tmp_path / "plant.lore", plugins=["bands"])
    assert "source-1.json" in found.members
    assert torch.equal(found.personal(X), model(X))
    assert "ash between the cuts (8, 12)" in reasons(found, X)[0]
    with pytest.raises(KnowledgeError, match=r"tables and formulas only: a source of kind 'bands'"):
        certify(found)


def test_a_bundle_from_elsewhere_loads_no_package_that_was_not_allowed(site, tmp_path):
    path = tmp_path / "plant.lore"
    made = bundle_of(Personal(mlp(1, 3), Knowledge.read(site)), "plant")
    write_bundle(made, path)
    sys.modules.pop("bandbook")
    for allowed in ([], ["other"]):
        with pytest.raises(KnowledgeError, match="source 'bands' of another package, whose code"):
            read_bundle(path, plugins=allowed)
    (tmp_path / "rows.csv").write_text("ash\n5\n9\n")
    asked = ["predict", str(path), str(tmp_path / "rows.csv"), "--out", str(tmp_path / "a.csv")]
    refused = CliRunner().invoke(app, asked)
    assert refused.exit_code != 0 and "--allow-plugin bands" in str(refused.exception)
    assert "bandbook" not in sys.modules
    assert CliRunner().invoke(app, [*asked, "--allow-plugin", "bands"]).exit_code == 0
    assert "bandbook" in sys.modules
    assert torch.equal(load(path, plugins=["bands"])(X), made.personal(X))
    blind = with_policies(read_bundle(path, plugins=["bands"]), Policies(extra="error"))
    assert update_bundle(blind, trust=0.25).personal.knowledge.trust == 0.25


def test_a_name_of_fedlores_own_or_of_two_packages_is_refused(site, monkeypatch):
    about = site.parent / "packages" / "bandbook-1.0.dist-info" / "entry_points.txt"
    about.write_text("[fedlore.sources]\ntable = bandbook:KIND\n")
    with pytest.raises(KnowledgeError, match="'table' of package 'bandbook' .* fedlore's own"):
        Knowledge.read(site)
    about.write_text("[fedlore.sources]\nbands = bandbook:KIND\n")
    install(monkeypatch, site.parent / "more", package="more", sources="bands = more:KIND")
    with pytest.raises(KnowledgeError, match="offered by two packages, 'bandbook' and 'more'"):
        Knowledge.read(site)


def test_it_goes_into_a_graph_with_a_face_for_it(site):
    runtime = pytest.importorskip("onnxruntime")
    model = Personal(mlp(1, 3), Knowledge.read(site))
    graph = bundle_to_onnx(bundle_of(model, "plant")).SerializeToString()
    found = runtime.InferenceSession(graph).run(["probabilities"], {"rows": X.double().numpy()})[0]
    assert torch.allclose(torch.from_numpy(found), model(X).exp(), atol=1e-6)


def test_without_faces_it_is_named_and_no_graph_takes_it(site):
    module = site.parent / "packages" / "bandbook.py"
    module.write_text(PACKAGE.replace("    words=words,\n    graph=graph,\n", ""))
    bundle = bundle_of(Personal(mlp(1, 3), Knowledge.read(site)), "plant")
    assert "a prediction by a Bands" in reasons(bundle, X)[0]
    with pytest.raises(KnowledgeError, match="a Bands cannot be put into a graph"):
        bundle_to_onnx(bundle)


def test_members_are_never_looked_for_on_disk(site):
    files, name = files_at({"knowledge.toml": site.read_bytes()})
    assert files.path(name) is None
    with pytest.raises(KnowledgeError, match="which is missing"):
        files.read(str(site))


def test_views_are_written_where_keys_can_say_them_and_refused_elsewhere():
    """What would read back as another view, or as one of two, is not written at all."""
    schema, code = name_columns(("a", "b"), ("no", "yes")), EntryPoint("os:f", X.clone)
    assert source_of(MaxPool(2, Mask((1,), code)), schema)["pool"] == 2
    assert source_of(MaxPool(2, Mask((1,), code)), schema)["columns"] == ["b"]
    for twice in (MaxPool(2, MaxPool(2, code)), Mask((0,), MaxPool(2, code))):
        with pytest.raises(KnowledgeError, match="a MaxPool cannot be written"):
            source_of(twice, schema)


def test_entries_have_documented_keys():
    assert {f.name for kind in SOURCE_KINDS.values() for f in fields(kind.entry)} == {
        *("table", "sheet", "hit", "outcome", "formula", "edges", "spread", "lower", "upper"),
        *("crossed", "onnx", "soft", "gives", "columns", "pool", "entry", "conformal"),
        *("confidence", "interpolate"),
    }
