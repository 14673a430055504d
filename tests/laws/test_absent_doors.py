"""Every door says what a site does without; lint, card and planner have tests of their own."""

import json
from types import SimpleNamespace

import pytest
import torch

from fedlore import Knowledge, Personal
from fedlore.bundle import bundle_of, write_bundle
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.core.nets import mlp
from fedlore.engine.lore.report import left_out
from fedlore.knowledge.scope import scaler_of_scope
from fedlore.studio.checks import judge, read_schema, show_findings, show_schema
from fedlore.studio.grids import read_grids
from fedlore.studio.verdict import judge_row

from ..cli.spoken import typed
from ..studio.sites import FILES

HOLES = FILES["knowledge.toml"].replace(b"high = 16", b'high = 16\nmissing = "mean"')
WHOLE = {**FILES, "knowledge.toml": HOLES}
LACKING = {**FILES, "knowledge.toml": HOLES.replace(b'"mean"', b'"mean"\nhave = false')}


@pytest.fixture
def bundle(tmp_path):
    """A bundle of a site that does not measure ash."""
    for name, data in LACKING.items():
        (tmp_path / name).write_bytes(data)
    known = Knowledge.read(tmp_path / "knowledge.toml")
    scaler = scaler_of_scope(known.schema)
    model = Personal(mlp(len(scaler.shift), 3, hidden=(4,), seed=1), known, scaler=scaler)
    return bundle_of(model, "site")


def test_the_graph(bundle):
    found = {one.key: one.value for one in bundle_to_onnx(bundle).metadata_props}
    assert json.loads(found["fedlore.absent"]) == ["ash"]


def test_the_certificate(bundle, tmp_path):
    write_bundle(bundle, tmp_path / "site.lore")
    said = typed("certify", tmp_path / "site.lore")
    assert "this site does not measure ash: rows that leave them out are covered too" in said


def test_the_table_of_benefit(bundle):
    member = SimpleNamespace(knowledge=bundle.personal.knowledge)
    assert left_out(SimpleNamespace(member=member, shapes=None)) == (
        "This site does not measure ash."
    )


def test_the_studio_says_it_and_answers_as_if_it_were_empty():
    schema = read_schema(LACKING)
    assert [one["have"] for one in show_schema(schema, LACKING)["features"]] == [False, True]
    findings = show_findings(judge(LACKING).findings, read_grids(LACKING), schema)
    assert any("does not measure 'ash'" in one["message"] for one in findings)
    for seam in range(3):
        x = torch.tensor([[torch.nan, float(seam)]])
        said = [judge_row(judge(files), x, read_grids(FILES)) for files in (LACKING, WHOLE)]
        assert said[0] == said[1]
