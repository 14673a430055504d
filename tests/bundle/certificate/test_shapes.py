"""The claim `monotone`: proved by the checker from structure, or refuted by a row."""

import json
from dataclasses import replace

import pytest
import torch

from fedlore.answers import Bins
from fedlore.bundle import bundle_of, write_bundle
from fedlore.bundle.certify import certify, write_certificate
from fedlore.bundle.ensemble import describe_ensemble
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.bundle.onnx.builder import save_graph
from fedlore.checker import check
from fedlore.checker.bundles import header_faults, knowledge_texts, read_weights
from fedlore.checker.certificate import seal
from fedlore.checker.shapes import monotone
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.errors import FedloreError
from fedlore.kernel.knowledge import read_knowledge
from fedlore.kernel.schema import Feature, Schema
from fedlore.kernel.signature import meaning_in
from fedlore.knowledge import Knowledge
from fedlore.knowledge.formulas import Formula, FormulaRange, GradedFormula
from fedlore.knowledge.intervals import Between
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore.knowledge.tables.sheets import table_of
from fedlore.models.classifier import Personal
from fedlore.models.ensemble import Ensemble
from fedlore.models.own.bent import Bent
from fedlore.models.own.linear import Linear
from fedlore.models.own.members import NumberMember
from fedlore.models.own.trees import Trees
from fedlore.models.regressor import PersonalRegressor

SCHEMA = Schema(
    (Feature("ash", low=5, high=15), Feature("Ro", low=0.5, high=2)), ("g1", "g2", "g3", "g4")
)
IN_ORDER = table_of(
    [{"ash": "< 8", "then": "g2..g4"}, {"ash": "> 11", "then": "g1..g3"}], SCHEMA, kind="range"
)
FALLS = table_of([{"ash": "< 8", "then": "g1..g2"}], SCHEMA, kind="range")
EDGES = (8.0, 10.0, 12.0)


def formula(text):
    return Formula.parse(text, SCHEMA)


HILL = table_of(
    [
        {"ash": "< 8", "then": "g1..g2"},
        {"ash": "[8..11)", "then": "g2..g3"},
        {"ash": ">= 11", "then": "g1..g2"},
    ],
    SCHEMA,
    kind="range",
)
BOW = GradedFormula(formula("12 - (ash - 9) * (ash - 9) / 4"), EDGES)
LINE = GradedFormula(formula("20 - ash + Ro"), EDGES)


def bundled(
    limits=None, said=None, *, effect="lowers", where="", hears=False, trust=0.0, turns=None
):
    shapes = SiteShapes((FeatureShape("ash", effect, where, turns),), SCHEMA)
    known = Knowledge(said, limits, trust, schema=SCHEMA, shapes=shapes, conflict="error")
    options = Shaping(2, hears=hears, start="middle" if hears else "none")
    model = lipschitz_mlp(4, options, hidden=(5, 4), seed=2)
    with torch.no_grad():
        model.line.weight.copy_(torch.tensor([[0.7, -0.4, 0.3, 0.2]]))
    return bundle_of(Personal(model, known), "plant", schema=SCHEMA)


def claimed(bundle):
    return next(c["status"] for c in certify(bundle)["claims"] if c["claim"] == "monotone")


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ({}, "proved"),
        ({"limits": IN_ORDER}, "proved"),
        ({"limits": IN_ORDER, "hears": True}, "proved"),
        ({"limits": FALLS}, "refuted"),
        ({"limits": FALLS, "effect": "raises"}, "proved"),
        ({"limits": FALLS, "where": "ash >= 8"}, "proved"),
        ({"limits": FALLS, "where": "ash + Ro > 9"}, "unknown"),
        ({"said": LINE, "trust": 0.3}, "proved"),
        ({"said": LINE, "trust": 0.3, "effect": "raises"}, "proved"),
        ({"limits": FormulaRange(formula("18 - ash"), formula("25 - ash"), EDGES)}, "proved"),
        ({"limits": FormulaRange(None, formula("14 - log(ash)"), EDGES)}, "unknown"),
        ({"effect": "arch", "turns": 9.0}, "proved"),
        ({"effect": "valley", "turns": (8.0, 10.0), "where": "Ro > 1"}, "proved"),
        ({"effect": "arch", "turns": 9.0, "limits": HILL, "hears": True}, "proved"),
        ({"effect": "arch", "turns": (8.0, 11.0), "limits": HILL}, "proved"),
        ({"effect": "valley", "turns": 9.0, "limits": HILL}, "refuted"),
        ({"effect": "arch", "turns": 7.0, "limits": HILL}, "refuted"),
        ({"effect": "arch", "turns": 9.0, "said": LINE, "trust": 0.3}, "proved"),  # withheld
        ({"effect": "arch", "turns": 9.0, "said": BOW, "trust": 0.3}, "unknown"),  # twice in it
    ],
)
def test_what_is_claimed(parts, status):
    assert claimed(bundled(**parts)) == status


def kept(folder, bundle, values=None):
    write_bundle(bundle, folder / "b.lore")
    write_certificate(values or certify(bundle), folder / "c.json")
    return {line.what: line for line in check(folder / "c.json", folder / "b.lore")}


def test_the_checker_proves_it_anew(tmp_path):
    lines = kept(tmp_path, bundled(IN_ORDER, hears=True))
    assert all(line.holds for line in lines.values())
    assert lines["monotone"].found.startswith("proved")
    assert lines["inside-range"].rows > 0


def test_a_claim_that_is_not_so_does_not_hold(tmp_path):
    bundle = bundled(FALLS)
    said = json.loads(json.dumps(certify(bundle)))
    for claim in said["claims"]:
        if claim["claim"] == "monotone":
            claim["status"] = "proved"
    lines = kept(tmp_path, bundle, said | {"sha256": seal(said)})
    assert not lines["monotone"].holds and lines["monotone"].found.startswith("refuted")


BINS = Bins(0.0, 40.0, 8)
NUMBER = Schema(SCHEMA.features, tuple(map(str, range(8))), "csr")


def number_bundle(limits=None, said=None, *, effect="lowers", conflict="project", **parts):
    bounds = (BINS.lower, BINS.upper)
    shape = FeatureShape("ash", effect, turns_at=parts.pop("turns", None))
    shapes = SiteShapes((shape,), NUMBER, bounds)
    known = Knowledge(
        said, limits, parts.pop("trust", 0.0), conflict=conflict, schema=NUMBER, shapes=shapes
    )
    model = lipschitz_mlp(8, Shaping(2, hears=parts.pop("hears", False)), hidden=(5,), seed=2)
    with torch.no_grad():
        model.line.weight.copy_(torch.tensor([[0.7, -0.4, 0.3, 0.2]]))
    return bundle_of(PersonalRegressor(model, BINS, known, **parts), "plant", schema=NUMBER)


def numeric(text):
    return Formula.parse(text, NUMBER)


FALLING = Between(numeric("20 - ash"), numeric("40 - ash"))


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ({}, "proved"),
        ({"limits": FALLING}, "proved"),
        ({"limits": FALLING, "effect": "raises"}, "unknown"),
        ({"limits": FALLING, "said": numeric("30 - ash"), "trust": 0.4}, "proved"),
        ({"limits": FALLING, "said": numeric("30 - ash"), "trust": 0.4, "hears": True}, "proved"),
        ({"said": numeric("30 - log(ash)"), "trust": 0.4}, "unknown"),
        ({"said": numeric("ash + 1"), "trust": 0.4}, "proved"),  # he is withheld
    ],
)
def test_what_is_claimed_of_a_number(parts, status, tmp_path):
    bundle = number_bundle(**parts)
    assert claimed(bundle) == status
    lines = kept(tmp_path, bundle)
    assert [line.what for line in lines.values() if not line.holds] == []
    assert lines["monotone"].found.startswith(status)
    assert lines["inside-range"].rows > 0


def line_of(columns, *weights, **more):
    body = Linear(
        torch.zeros(columns).double(),
        torch.ones(columns).double(),
        torch.tensor(weights, dtype=torch.float64)[:, None],
        torch.tensor([20.0]).double(),
    )
    return NumberMember("line", body, columns > 2, more.get("over", False), 1.0)


def stump(column, low, high, at=9.0):
    """x <= 9 of a column says `low`, above it `high`."""
    return Trees(
        torch.tensor([column, -1, -1], dtype=torch.int16),
        torch.tensor([at, 0.0, 0.0]),
        torch.tensor([1, 0, 1], dtype=torch.int32),
        torch.tensor([0], dtype=torch.int32),
        torch.tensor([[low], [high]]),
        torch.tensor([0], dtype=torch.int16),
        torch.tensor([20.0]).double(),
        torch.ones(1).double(),
        1,
    )


def grown(*about):
    return NumberMember("stump", stump(*about), False, False, 1.0)


@pytest.mark.parametrize(
    ("member", "status"),
    [
        (line_of(2, -0.5, 3.0), "proved"),
        (line_of(5, -0.5, 3.0, 0.4, 0.2, 0.0), "proved"),
        (line_of(2, -0.5, 3.0, over=True), "proved"),
        (grown(0, 2.0, 1.0), "proved"),
        (grown(1, 1.0, 2.0), "proved"),
        (line_of(2, 0.5, 3.0), "refused"),
        (line_of(5, -0.5, 3.0, -0.4, 0.2, 0.0), "refused"),
        (line_of(5, -0.5, 3.0, 0.4, 0.2, 0.1), "refused"),
        (grown(0, 1.0, 2.0), "refused"),
    ],
)
def test_members_are_read_by_both(member, status, tmp_path):
    """What the site refuses the checker does not prove, by its own reading of the same tensors."""
    check_member(member, status, tmp_path, limits=FALLING, said=numeric("30 - ash"), trust=0.4)


def knee(turn, before, behind):
    """A line with a slope in front of a turn of ash and another one behind it."""
    far = torch.finfo(torch.float32).max
    low, high = torch.tensor([-far, turn]), torch.tensor([turn, far])
    column, one = torch.zeros(2, dtype=torch.int16), torch.ones(2).double()
    weight = torch.tensor([[before], [behind]]).double()
    body = Bent(column, low, high, 0 * one, one, weight, torch.tensor([20.0]).double())
    return NumberMember("knee", body, False, False, 1.0)


@pytest.mark.parametrize(
    ("member", "status"),
    [
        (knee(9.0, 1.0, -2.0), "proved"),
        (knee(9.0, 0.0, -2.0), "proved"),
        (knee(9.5, 1.0, -2.0), "refused"),  # of 9.2 and 9.4 the second is the higher
        (knee(9.5, 0.0, -2.0), "proved"),
        (knee(8.5, 1.0, -2.0), "refused"),
        (knee(9.0, 1.0, 2.0), "refused"),
        (line_of(2, -0.5, 3.0), "refused"),
        (line_of(2, 0.0, 3.0), "proved"),
        (grown(0, 1.0, 2.0, 8.0), "proved"),
        (grown(0, 2.0, 1.0, 8.0), "refused"),
        (grown(0, 2.0, 1.0, 9.0), "proved"),
        (grown(0, 1.0, 2.0, 9.0), "refused"),
    ],
)
def test_members_are_held_to_both_sides_of_a_turn(member, status, tmp_path):
    check_member(member, status, tmp_path, effect="arch", turns=9.0)


def check_member(member, status, tmp_path, **parts):
    expert = 0.3 if "said" in parts else 0.0
    ensemble = Ensemble((member,), (0.3,), 0.7 - expert, expert, width=2.0)
    if status == "proved":
        bundle = number_bundle(**parts, ensemble=ensemble)
        assert claimed(bundle) == "proved"
        lines = kept(tmp_path, bundle)
        assert all(line.holds for line in lines.values()) and lines["monotone"].found.startswith(
            "proved"
        )
        return
    with pytest.raises(FedloreError, match="does not keep the shapes"):
        number_bundle(**parts, ensemble=ensemble)
    bundle = number_bundle(
        **parts, ensemble=replace(ensemble, members=(), weights=(), network=1.0 - expert)
    )
    header = json.loads(bundle.members["bundle.json"])
    told, tensors = describe_ensemble(ensemble, bundle.personal.knowledge)
    known = read_knowledge(
        {n: d.decode() for n, d in bundle.members.items() if n.endswith((".toml", ".csv"))}
    )
    arrays = {name: t.numpy() for name, t in tensors.items()}
    assert monotone(known, header, None).status == "proved"
    assert monotone(known, header | {"ensemble": told}, arrays).status == "unknown"


@pytest.mark.parametrize(
    "make",
    [
        lambda: bundled(IN_ORDER, hears=True),
        lambda: bundled(IN_ORDER, hears=True, where="ash < 9"),
        lambda: number_bundle(FALLING, numeric("30 - ash"), trust=0.4),
        lambda: bundled(HILL, effect="arch", turns=9.0, hears=True),
        lambda: bundled(HILL, effect="arch", turns=(8.0, 11.0), where="Ro > 1"),
        lambda: number_bundle(effect="valley", turns=9.7),
    ],
    ids=["everywhere", "in a region", "a number", "an arch", "an interval", "a valley"],
)
def test_a_graph_of_it_is_certified_too(tmp_path, make):
    bundle = make()
    kept(tmp_path, bundle)
    save_graph(bundle_to_onnx(bundle), tmp_path / "b.onnx")
    lines = check(tmp_path / "c.json", tmp_path / "b.onnx")
    assert [x for x in lines if not x.holds] == []
    (moves,) = [x for x in lines if x.what == "monotone"]
    assert moves.rows > 50  # a network in a graph may be any: it is tested on pairs of rows


@pytest.mark.parametrize("effect", ["arch", "concave"])
def test_knowledge_that_says_no_direction_is_no_proof_of_one(effect):
    """An open turn, which no bundle has, promises nothing: the checker refuses to read it."""
    texts = knowledge_texts(bundled(effect="arch", turns=9.0).members)
    toml = texts["knowledge.toml"].replace("turns_at = 9.0\n", "")
    assert "turns_at" not in toml
    toml = toml.replace('effect = "arch"', f'effect = "{effect}"')
    with pytest.raises(FedloreError, match=f"no model can be held to 'ash {effect}'"):
        read_knowledge(texts | {"knowledge.toml": toml})


def test_a_signature_says_nothing_of_a_turn_that_rows_showed():
    stated, rows, other = (
        knowledge_texts(bundled(effect="arch", turns=turns).members)["knowledge.toml"]
        for turns in (9.0, 9.5, 10.0)
    )
    open_ = stated.replace("turns_at = 9.0\n", "")
    told = rows.replace("turns_at = 9.5\n", "turns_at = 9.5\nestimated = true\n")
    said = [meaning_in({"knowledge.toml": t.encode()}, [], {}) for t in (open_, told, other)]
    assert said[0] == said[1] != said[2]


def faults(bundle, **changes):
    """What the checker says of a header after some changes."""
    texts = knowledge_texts(bundle.members)
    header = json.loads(bundle.members["bundle.json"]) | changes
    weights = read_weights(bundle.members["weights.safetensors"])
    return header_faults(header, read_knowledge(texts), texts, weights)


def test_an_expert_is_withheld_only_where_he_is_not_shown_to_keep_the_shape():
    heard, withheld = (bundled(said=LINE, trust=0.3, effect=e) for e in ("lowers", "raises"))
    assert [json.loads(b.members["bundle.json"])["rely"] for b in (heard, withheld)] == [0.3, 0.0]
    assert faults(heard) == faults(withheld) == []
    assert faults(heard, rely=0.0) == ["its trust is 0, not that of the knowledge file"]


def test_the_weights_of_a_network_that_keeps_shapes_have_the_shapes_of_its_layers():
    made = bundled()
    model = json.loads(made.members["bundle.json"])["model"]
    assert model["hidden"] == [5, 4] and faults(made) == []
    for hidden in ([4, 5], [5, 5], [5]):
        odd = faults(made, model=model | {"hidden": hidden})
        assert odd == ["the weights do not fit its network"]
    wider = model | {"options": model["options"] | {"features": 3}}
    assert faults(made, model=wider) == ["its network takes rows of another width"]
