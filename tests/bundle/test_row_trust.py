"""λ row by row through everything a bundle goes through, for one network and for a mixture."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from fedlore.bundle import bundle_of, write_bundle
from fedlore.bundle.certify import certify
from fedlore.bundle.explain import reasons
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.onnx.builder import save_graph
from fedlore.bundle.predict import answer_rows
from fedlore.bundle.store import open_members
from fedlore.bundle.update import update_bundle
from fedlore.checker import check
from fedlore.checker.certificate import seal
from fedlore.checker.graphs import Graph
from fedlore.errors import KnowledgeError
from fedlore.knowledge import Knowledge
from fedlore.knowledge.scope import scaler_of_scope
from fedlore.models.classifier import Personal
from fedlore.models.ensemble import Ensemble
from fedlore.models.own.members import ClassMember, NumberMember
from fedlore.models.regressor import PersonalRegressor
from fedlore.studio.site_model import predict_under

from .making import run
from .mixed import linear

ort = pytest.importorskip("onnxruntime")
FEATURES = """
[[features]]
name = "ash"
low = 6
high = 12
missing = "mean"
[[features]]
name = "origin"
levels = ["own", "import", "spot"]
missing = "level"
"""
TRUST = """
[trust]
value = 0.2
features = ["ash"]
formula = "1 / (1 + exp(min(0.5 * (ash - 9), 30)))"
[[trust.regions]]
where = "origin != 'import'"
trust = 0.8
"""
CLASSES = """
classes = ["a", "b", "c"]
[[predict.sources]]
formula = "where(ash < 9, 0.5, 1.5)"
edges = [1, 2]
[[range.sources]]
lower = "0"
upper = "where(ash < 11, 1.9, 2.9)"
edges = [1, 2]
"""
NUMBER = """
[target]
lower = 0
upper = 10
bins = 5
[[predict.sources]]
formula = "ash / 2"
[[range.sources]]
lower = "ash / 4"
upper = "ash / 4 + 4"
"""
X = torch.tensor(
    [[7.0, 0], [8, 1], [11.5, 1], [math.nan, 1], [7, math.nan], [10, 2]], dtype=torch.float32
)


def personal(folder, *, number=False, mixed=False, trust=TRUST):
    text = (NUMBER + trust if number else CLASSES + trust) + FEATURES
    (folder / "knowledge.toml").write_text(text)
    return with_trust(number, mixed, text)


def with_trust(number, mixed, text=None):
    """A model whose λ is its row's own."""
    text = text or (NUMBER + TRUST if number else CLASSES + TRUST) + FEATURES
    torch.manual_seed(3)
    file = Knowledge.read({"knowledge.toml": text.encode()})
    kind, outputs = (NumberMember, 1) if number else (ClassMember, 3)
    member = kind("line", linear(6, outputs, seed=4), False, False, 1.0)
    tuned = {"width": 0.8} if number else {"inverse_temperature": 1.5}
    ensemble = Ensemble((member,), (0.3,), 0.6, 0.1, **tuned) if mixed else None
    more = {"scaler": scaler_of_scope(file.schema), "ensemble": ensemble}
    if number:
        return PersonalRegressor(nn.Linear(6, 5), file.bins, file, **more)
    return Personal(nn.Linear(6, 3), file, **more)


def expected(constant):
    """λ of X by hand."""
    learned = [1 / (1 + math.exp(0.5 * (ash - 9))) for ash in (8.0, 11.5)]
    return [0.8, *learned, constant, constant, 0.8]


KINDS = [(number, mixed) for number in (False, True) for mixed in (False, True)]


@pytest.mark.parametrize(("number", "mixed"), KINDS)
def test_a_bundle_answers_as_the_model_and_says_why(tmp_path, number, mixed):
    own = personal(tmp_path, number=number, mixed=mixed)
    made = bundle_of(own, "plant", schema=own.knowledge.schema)
    found = answer_rows(made, X)
    silent = found.expert.isnan() if number else found.expert < 0
    wanted = torch.tensor(expected(0.1 if mixed else 0.2)).where(~silent, 0.0)
    assert torch.allclose(found.trust, wanted, atol=1e-6)
    assert silent.tolist() == [False, False, False, True, False, False]
    why = reasons(made, X, found)
    assert "trust 0.8 here, where origin != 'import'" in why[0]
    assert "trust 0.622 here, learned by this site" in why[1]
    assert f"trust {0.1 if mixed else 0.2} here, as everywhere, since origin is missing" in why[4]
    assert not any("here" in line for line in why[3])  # he is silent there
    if mixed:  # the others share the rest
        assert "weights: shared network 13.3 %, line 6.67 %, expert 80 %" in why[0]
    assert "trust row by row: 0.8 where origin != 'import'; elsewhere 1 / (1" in made.card


def test_a_row_is_answered_as_by_its_own_one_number(tmp_path):
    own = personal(tmp_path)
    p = own.predict_proba(X)
    for row, trust in enumerate(expected(0.2)):
        plain = own.with_knowledge(replace(own.knowledge, row_trust=None, reliance=trust))
        assert torch.allclose(p[row], plain.predict_proba(X[row : row + 1])[0], atol=1e-6)


def test_a_graph_that_trusts_otherwise_is_found_out(tmp_path):
    """Each graph is certified as it is: what it computes must still be the knowledge's λ."""
    own = personal(tmp_path)
    made = bundle_of(own, "plant", schema=own.knowledge.schema)
    other = replace(own.knowledge, row_trust=own.knowledge.row_trust.with_formula("0.9"))
    for known in (other, replace(own.knowledge, row_trust=None)):
        turned = bundle_to_onnx(bundle_of(own.with_knowledge(known), "plant"))
        true = bundle_to_onnx(made)
        for entry in turned.metadata_props:  # it says that it was made from the true knowledge
            same = next(e.value for e in true.metadata_props if e.key == entry.key)
            entry.value = same
        save_graph(turned, tmp_path / "m.onnx")
        said = certify(made)
        said["graph"] = Graph(turned.SerializeToString()).digests()
        (tmp_path / "c.json").write_text(json.dumps(said | {"sha256": seal(said)}))
        wrong = [line for line in check(tmp_path / "c.json", tmp_path / "m.onnx") if not line.holds]
        assert [line.what for line in wrong] == ["graph is the compiler's own"]


def test_another_one_number_keeps_the_word_of_the_owner_alone(tmp_path):
    for mixed in (False, True):
        own = personal(tmp_path, mixed=mixed)
        made = bundle_of(own, "plant", schema=own.knowledge.schema)
        new = update_bundle(made, trust=0.5)
        assert answer_rows(new, X).trust.tolist() == pytest.approx([0.8, 0.5, 0.5, 0, 0.5, 0.8])
        plain = tmp_path / "plain.toml"
        plain.write_text("trust = 0.4\n" + CLASSES + FEATURES)
        new = update_bundle(made, plain)
        assert new.personal.knowledge.row_trust is None
        assert (
            update_bundle(new, tmp_path / "knowledge.toml").personal.knowledge.row_trust is not None
        )


def test_update_says_what_became_of_it(tmp_path):
    own = personal(tmp_path)
    write_bundle(bundle_of(own, "plant", schema=own.knowledge.schema), tmp_path / "b.lore")
    told = run("update", tmp_path / "b.lore", "--trust", 0.5, "--out", tmp_path / "n.lore")
    assert "λ row by row: 0.8 where origin != 'import'" in told


def test_a_bundle_whose_regions_cannot_be_read_is_refused(tmp_path):
    own = personal(tmp_path)
    made = bundle_of(own, "plant", schema=own.knowledge.schema)
    for old, new, said in (
        ("origin != 'import'", "origin != 'export'", "unknown level 'export'"),
        ("trust = 0.8", "trust = 1.8", "trust must lie in [0, 1], got 1.8"),
    ):
        members = dict(made.members)
        text = members["knowledge.toml"].decode()
        assert old in text
        members["knowledge.toml"] = text.replace(old, new).encode()
        with pytest.raises(KnowledgeError) as error:
            open_members(members)
        assert said in str(error.value)


def test_the_studio_hears_the_owner_whatever_the_one_number(tmp_path):
    own = personal(tmp_path)
    made = bundle_of(own, "plant", schema=own.knowledge.schema)
    one, two = (predict_under(made, own.knowledge, X, trust=trust) for trust in (0.0, 1.0))
    assert torch.equal(one[[0, 5]], two[[0, 5]])
