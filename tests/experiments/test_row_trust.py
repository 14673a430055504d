"""A run and a tuning over folders whose knowledge files trust by region, shapes beside them."""

import pytest
import torch
from typer.testing import CliRunner

from fedlore import fit, mlp
from fedlore.bundle.predict import answer_rows
from fedlore.cli.app import app
from fedlore.cli.tune import write_trust
from fedlore.core.metrics import accuracy
from fedlore.engine.tuning import with_trust
from fedlore.engine.tuning.trust import Trust
from fedlore.experiments.approaches import trust_client
from fedlore.experiments.runs import run_federation
from fedlore.experiments.sites import gather
from fedlore.experiments.weights import find_bundle
from fedlore.knowledge import Knowledge

from .folders import KNOWN, SHAPE, write_federation

TRUST = """[trust]
value = 0.1   # elsewhere
features = ["mine"]
"""
REGION = """[[trust.regions]]
where = "b > 2"
trust = 0.9
"""
MINE = '[[features]]\nname = "mine"\nlevels = ["own", "import"]\n'


def row(draw):
    a, b, mine = draw.uniform(0, 4), draw.uniform(0, 4), draw.choice(["own", "import"])
    grade = 1 + (a > 1) + (a > 3) if mine == "own" else draw.choice([1, 2, 3])
    return f"{a:.3f},{b:.3f},{mine},g{grade}"


def folder_of(root, *, shape=""):
    known = KNOWN.format(trust=TRUST + REGION, more=MINE) + shape
    model = f"lipschitz = {'true' if shape else 'false'}"
    approaches = ["FL+mask", "FLwKM", "lore"]
    return write_federation(
        root, [known] * 2, "a,b,mine,label", row, rows=60, approaches=approaches, model=model
    )


@pytest.mark.slow
@pytest.mark.usefixtures("short_recipe")
@pytest.mark.parametrize("shape", ["", SHAPE])
def test_a_run_trusts_as_the_owner_says(tmp_path, shape):
    gathering = gather(folder_of(tmp_path, shape=shape))
    done = run_federation(gathering, tmp_path / "out")
    assert done.left_out == {}
    x = torch.rand(200, 3, generator=torch.Generator().manual_seed(1)) * 4
    x[:, 2] = (x[:, 2] > 2).float()
    for approach in ("FLwKM", "lore"):
        found = find_bundle(tmp_path / "out", "s1", approach)
        answers = answer_rows(found, x)
        inside = (x[:, 1] > 2) & (answers.expert >= 0)
        assert (answers.trust[inside] == torch.tensor(0.9)).all()
        if shape:  # λ does not look at a, so its order stands
            high = x.clone()
            high[:, 0] += (4 - x[:, 0]) * 0.5
            below, above = (found.personal.predict_proba(r).double().cumsum(1) for r in (x, high))
            assert (above <= below + 1e-5).all()
    scores = {(r["approach"], r["client"]): r["ta"] for r in done.rows if "ta" in r}
    test = next(c for c in gathering.clients if c.id == "s1").test
    for approach in ("FL+mask", "FLwKM"):
        said = find_bundle(tmp_path / "out", "s1", approach).personal.predict(test.x)
        assert scores[approach, "s1"] == pytest.approx(accuracy(said, test.y))


def test_an_approach_that_names_one_number_has_it_in_all_rows(tmp_path):
    client = gather(folder_of(tmp_path)).clients[0]
    assert not client.test.trust.isnan().all()
    one = trust_client(client, 0.3)
    assert one.knowledge.trust == 0.3 and one.knowledge.row_trust is None
    assert one.data.trust is one.test.trust is None
    assert trust_client(client, None) is client


@pytest.mark.parametrize("engine", ["local", "stacked"])
def test_a_score_is_that_of_the_model_once_a_site_has_learned(tmp_path, engine):
    gathering = gather(folder_of(tmp_path))
    client = gathering.clients[0]
    chosen = {client.id: Trust(0.0, 0.2, formula="where(mine == 'own', 1, 0)")}
    known = with_trust(gathering.clients, chosen)
    fitted = fit(known, mlp(4, 3, hidden=(4,)), rounds=1, evaluate=1, engine=engine)
    personal = fitted.model(client.id)
    said = personal.predict(client.test.x)
    assert fitted.scores(client.id)["ta"] == pytest.approx(accuracy(said, client.test.y))
    own = (client.test.x[:, 2] == 0) | (client.test.x[:, 1] > 2)
    assert (said[own] == personal.annotate(client.test.x).prior.argmax(1)[own]).all()


def test_tune_writes_what_it_learned_and_keeps_the_rest(tmp_path):
    path = folder_of(tmp_path)
    done = CliRunner().invoke(app, ["tune", str(path), "--folds", "2", "--write"])
    assert done.exit_code == 0, done.output
    written = tmp_path / "sites" / "s0" / "knowledge.toml"
    known = Knowledge.read(written)
    assert known.row_trust.stated_regions[0][0] == 0.9 and known.reliance is not None
    assert "# elsewhere" not in written.read_text()
    # with rows that say enough there is a formula; here the sentence must stand either way
    write_trust(written, Trust(0.25, 0.5, 0.9, 40, formula="where(mine == 'own', 0.8, 0.1)"))
    known = Knowledge.read(written)
    assert (known.trust, known.reliance) == (0.25, 0.5)
    told = known.row_trust(torch.tensor([[1.0, 1, 0], [1, 1, 1], [1, 3, 1]]))
    assert told.tolist() == pytest.approx([0.8, 0.1, 0.9])
    write_trust(written, Trust(0.0, 0.1))  # and is gone again
    assert Knowledge.read(written).row_trust.formula == ""
    bare = tmp_path / "bare.toml"
    bare.write_text(KNOWN.format(trust=REGION, more=MINE))
    write_trust(bare, Trust(0.25, 0.5, formula="a / 4"))
    assert Knowledge.read(bare).trust == 0.25 and Knowledge.read(bare).row_trust.formula == "a / 4"
