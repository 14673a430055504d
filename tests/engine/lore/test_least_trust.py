"""`least_trust` in a knowledge file: where the expert speaks, his answer has at least that."""

import json
import re

import pytest

from fedlore import Knowledge, KnowledgeError, read_bundle
from fedlore.data import read_table

from ...cli.spoken import refused, spoken, typed
from ...cli.tasks import write_federation
from ...conftest import shorten_recipe


@pytest.fixture(scope="module", params=["classes", "number"])
def world(request, tmp_path_factory):
    home = tmp_path_factory.mktemp(request.param)
    config = write_federation(home, request.param, "lore")
    path = home / "sites" / "east" / "knowledge.toml"
    path.write_text(f"least_trust = 0.6\n{path.read_text()}")
    with pytest.MonkeyPatch.context() as patch:
        shorten_recipe(patch)
        said = typed("run", config, "--out", home / "out")
    typed("export", home / "out", "--client", "east", "--out", home / "east.lore")
    typed("export", home / "out", "--client", "west", "--out", home / "west.lore")
    return home, said


def test_his_answer_has_at_least_that_weight_and_all_name_one_number(world):
    home, said = world
    bundle = read_bundle(home / "east.lore")
    weight = bundle.personal.reliance
    assert weight >= 0.6 > read_bundle(home / "west.lore").personal.reliance
    assert f"weight of the expert in lore: east {weight:.2f}, west" in said
    assert f"λ = {weight:g}" in bundle.members["card.md"].decode()
    rows = home / "sites" / "east" / "train.csv"
    answers = json.loads(spoken("predict", home / "east.lore", rows, "--json").out)["answers"]
    (shown,) = {float(row["trust"]) for row in answers}
    assert shown == pytest.approx(weight, abs=1e-6)
    if bundle.task == "classification":
        known = Knowledge.read(home / "sites" / "east" / "knowledge.toml")
        data = read_table(rows, known.schema, label="grade")
        prior = known.annotate(data, training=False).prior
        mass = (bundle.personal.predict_proba(data.x) * prior).sum(1)
        assert bool((mass >= 0.6 * prior.square().sum(1) - 1e-6).all())


def test_update_raises_his_weight_to_what_a_new_file_says(world, tmp_path):
    home, _ = world
    known = home / "sites" / "east" / "knowledge.toml"
    said = typed("update", home / "west.lore", known, "--out", tmp_path / "n.lore")
    assert re.search("the ensemble's weights: .*60 %", said) and "expert" in said
    assert read_bundle(tmp_path / "n.lore").personal.reliance == 0.6
    low = refused("update", home / "east.lore", "--trust", "0.1", "--out", tmp_path / "l.lore")
    assert "trust 0.1 is below the file's least_trust, 0.6" in low


def test_the_key_is_read_written_and_checked(world):
    home, _ = world
    path = home / "sites" / "east" / "knowledge.toml"
    known = Knowledge.read(path)
    assert (known.trust, known.least_trust, known.trust_at_prediction) == (0.3, 0.6, 0.6)
    text = path.read_text()
    path.with_name("odd.toml").write_text(text.replace("least_trust = 0.6", "least_trust = 1.6"))
    with pytest.raises(KnowledgeError, match="least_trust must lie in"):
        Knowledge.read(path.with_name("odd.toml"))
    table = text.replace("trust = 0.3\n", "") + '[trust]\nfeatures = ["age"]\n'
    path.with_name("odd.toml").write_text(table)
    with pytest.raises(KnowledgeError, match="least_trust is for one λ"):
        Knowledge.read(path.with_name("odd.toml"))
