"""onnxruntime says what Personal says, and never leaves the range."""

import itertools

import numpy as np
import pytest
import torch

from fedlore.bundle import bundle_of, read_bundle, write_bundle
from fedlore.bundle.onnx import OPSET, bundle_to_onnx, to_onnx, write_onnx
from fedlore.core.nets import lenet5, mlp, small_cnn
from fedlore.core.rng import stream
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.knowledge import (
    ConformalRange,
    Formula,
    GradedFormula,
    Knowledge,
    Lookup,
    Mask,
    MaxPool,
    OnnxModel,
    SoftFormula,
    entry_point,
    from_torch,
    table_of,
)
from fedlore.models.classifier import Personal

from ...laws.versions import ran
from .worlds import EDGES, SCHEMA, rows


@pytest.mark.parametrize("text", ["log(ash + 1)", "exp(heat / 4)", "log10(ash)", "ash ** 0.7"])
def test_functions_agree_except_on_an_edge(text):
    formula = Formula.parse(text, SCHEMA)
    x = rows(np.random.default_rng(1), 500)
    values = formula(x)
    clear = torch.stack([(values - edge).abs() > 1e-5 for edge in EDGES]).all(0)
    personal = Personal(
        mlp(4, 4), Knowledge(GradedFormula(formula, EDGES), schema=SCHEMA, trust=1.0)
    )
    p = ran(to_onnx(personal), x)[0]
    np.testing.assert_allclose(p[clear], personal.predict_proba(x)[clear], atol=1e-6)


RANGE = table_of(
    [{"ash": "> 7.7", "then": "I, II"}, {"sulfur": "<= 0.3", "then": "II..IV"}],
    SCHEMA,
    kind="range",
)


def same(personal, x, **given):
    model = to_onnx(personal, **given)
    p, chosen, allowed, refused = ran(model, x.double())
    known = personal.annotate(x)
    np.testing.assert_allclose(p, personal.predict_proba(x), atol=1e-6, rtol=0)
    if known.allowed is not None:
        assert (allowed == known.allowed.numpy()).all()
        assert (p[~allowed] == 0).all()
    assert not refused.any()
    return model


@pytest.mark.parametrize("hears", [False, True])
def test_images_go_through_convolutions(hears):
    x = torch.rand(5, 28, 28, generator=stream("images"))
    expert = MaxPool(2, from_torch(small_cnn(10, side=14, seed=3)))
    same(Personal(lenet5(hears=hears, seed=1), Knowledge(expert, trust=0.4)), x, shape=(28, 28))


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_learned_and_conformal_knowledge_is_inlined(score):
    x = rows(np.random.default_rng(5), 300)
    soft = Mask((0, 1), from_torch(mlp(2, 4, hidden=(5,), seed=2), soft=True))
    limits = ConformalRange(soft, (0.7, 0.8, 0.75, float("inf")), 0.1, score)
    expert = SoftFormula(Formula.parse("ash / 3", SCHEMA), EDGES, 2.0)
    knowledge = Knowledge(expert, limits, 0.5, conflict="restrict", schema=SCHEMA)
    same(Personal(mlp(4, 4, hidden=(6,), seed=4), knowledge), x)


@pytest.mark.parametrize(("soft", "gives"), [(False, "probabilities"), (True, "logits")])
def test_an_onnx_expert_becomes_part_of_the_graph(tmp_path, soft, gives):
    inner = Personal(mlp(4, 4, hidden=(5,), seed=8), Knowledge(range=RANGE, schema=SCHEMA))
    model = to_onnx(inner)
    keep = [output for output in model.graph.output if output.name == "probabilities"]
    del model.graph.output[:]
    model.graph.output.extend(keep)
    path = tmp_path / "expert.onnx"
    path.write_bytes(model.SerializeToString())
    knowledge = Knowledge(OnnxModel(path, soft, gives), RANGE, 0.6, schema=SCHEMA)
    made = same(Personal(mlp(4, 4, seed=9), knowledge), rows(np.random.default_rng(3), 200))
    assert {node.domain for node in made.graph.node} == {""}


def test_a_bundle_brings_its_experts_along(tmp_path):
    path = tmp_path / "expert.onnx"
    test_an_onnx_expert_becomes_part_of_the_graph(tmp_path, False, "probabilities")
    knowledge = Knowledge(OnnxModel(path, classes=4), RANGE, 0.6, schema=SCHEMA)
    personal = Personal(mlp(4, 4, seed=9), knowledge)
    write_bundle(bundle_of(personal, "north"), tmp_path / "north.lore")
    path.write_bytes(b"another")
    with pytest.raises(KnowledgeError, match="changed after it was loaded"):
        to_onnx(personal)
    x = rows(np.random.default_rng(3), 50)
    found = ran(bundle_to_onnx(read_bundle(tmp_path / "north.lore")), x)
    np.testing.assert_allclose(found[0], personal.predict_proba(x), atol=1e-6)


@pytest.mark.parametrize("size", [1e30, -1e30])
def test_no_weights_leave_the_range(size):
    x = rows(np.random.default_rng(2), 200)
    net = mlp(4, 4, hidden=(8,), seed=0)
    draw = stream("signs")
    with torch.no_grad():
        for values in net.parameters():
            values.copy_(size * torch.sign(torch.rand(values.shape, generator=draw) - 0.4))
    p, chosen, allowed, _ = ran(to_onnx(Personal(net, Knowledge(range=RANGE, schema=SCHEMA))), x)
    assert (p[~allowed] == 0).all() and (~allowed).any()
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-6)
    assert allowed[np.arange(len(x)), chosen].all()


def test_rows_in_double_precision_meet_thresholds_as_written():
    table = table_of([{"ash": "<= 0.1", "then": "I"}], SCHEMA, kind="range")
    model = to_onnx(Personal(mlp(4, 4), Knowledge(range=table, schema=SCHEMA)))
    x = np.zeros((3, 4))
    x[:, 0] = [0.1, np.nextafter(np.float32(0.1), np.float32(1)), np.nan]
    assert ran(model, x)[2].sum(1).tolist() == [1, 4, 0]
    assert ran(model, x)[3].tolist() == [False, False, True]


@pytest.mark.parametrize(
    "cell", ["<= 1e39", "< 1e300", "> -1e39", "(0.3..1e39]", "in -1e39..0.3, > 9", "> 1e39"]
)
def test_ends_beyond_single_precision_hold_as_they_are_written(cell):
    """A rule up to 1e39 was once a rule for no row in graphs and proofs."""
    table = table_of([{"ash": cell, "then": "I, II"}], SCHEMA, kind="range")
    expert = table_of([{"ash": cell, "then": "IV"}], SCHEMA, kind="predict")
    knowledge = Knowledge(expert, table, 0.3, conflict="restrict", schema=SCHEMA)
    same(Personal(mlp(4, 4, seed=2), knowledge), rows(np.random.default_rng(1), 40))


def test_no_rows_are_no_trouble():
    model = to_onnx(Personal(mlp(4, 4, hears=True), Knowledge(None, RANGE, schema=SCHEMA)))
    assert [len(part) for part in ran(model, np.zeros((0, 4)))] == [0, 0, 0, 0]


def test_a_tie_goes_to_the_expert():
    net = mlp(4, 4, hidden=())
    with torch.no_grad():
        for values in net.parameters():
            values.zero_()
    expert = table_of([{"ash": "> 5", "then": "III"}], SCHEMA, kind="predict")
    model = to_onnx(Personal(net, Knowledge(expert, trust=0.0, schema=SCHEMA)))
    assert ran(model, [[6.0, 0, 0, 0], [1.0, 0, 0, 0]])[1].tolist() == [2, 0]


def shout(x):
    return torch.zeros(len(x), 4)


def test_what_cannot_be_compiled_is_refused_by_name():
    code = entry_point("tests.bundle.onnx.test_model:shout", allow=True)
    with pytest.raises(KnowledgeError, match="entry point 'tests.bundle.onnx.test_model:shout'"):
        to_onnx(Personal(mlp(4, 4), Knowledge(code, schema=SCHEMA)))
    with pytest.raises(KnowledgeError, match="a function is Python code"):
        to_onnx(Personal(mlp(4, 4), Knowledge(GradedFormula(shout, EDGES), schema=SCHEMA)))
    with pytest.raises(KnowledgeError, match="a Lookup cannot be put"):
        look = Lookup.of(torch.zeros(1, 4), torch.ones(1, 4, dtype=torch.bool))
        to_onnx(Personal(mlp(4, 4), Knowledge(range=look, schema=SCHEMA)))
    odd = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Softplus())
    with pytest.raises(FedloreError, match="layer 'model.body.1' is a Softplus"):
        to_onnx(Personal(odd, Knowledge(schema=SCHEMA)))
    with pytest.raises(FedloreError, match="double precision"):
        to_onnx(Personal(mlp(4, 4).double(), Knowledge(schema=SCHEMA)))
    with pytest.raises(FedloreError, match="a Linear cannot be put into a graph"):
        to_onnx(torch.nn.Linear(4, 4), SCHEMA)


def test_the_file_says_what_it_is(tmp_path):
    import onnx

    knowledge = Knowledge(range=RANGE, schema=SCHEMA)
    path = tmp_path / "site.onnx"
    write_onnx(Personal(mlp(4, 4), knowledge), path, metadata={"fedlore.site": "north"})
    model = onnx.load(path)
    said = {entry.key: entry.value for entry in model.metadata_props}
    assert said["fedlore.knowledge"] == knowledge.fingerprint
    assert said["fedlore.classes"] == '["I", "II", "III", "IV"]'
    assert said["fedlore.site"] == "north"
    assert [entry.version for entry in model.opset_import] == [OPSET]
    assert [path.name for path in tmp_path.iterdir()] == ["site.onnx"]


LAYERS = [
    [torch.nn.Linear(4, 6), torch.nn.LeakyReLU(0.2), torch.nn.Linear(6, 4)],
    [torch.nn.Linear(4, 6), torch.nn.GELU(), torch.nn.Linear(6, 4), torch.nn.Tanh()],
    [torch.nn.Linear(4, 6), torch.nn.GELU("tanh"), torch.nn.Linear(6, 4, bias=False)],
    [torch.nn.Linear(4, 6), torch.nn.SiLU(), torch.nn.LayerNorm(6), torch.nn.Linear(6, 4)],
    [torch.nn.Linear(4, 6), torch.nn.GroupNorm(2, 6), torch.nn.Sigmoid(), torch.nn.Linear(6, 4)],
]


@pytest.mark.parametrize("layers", LAYERS, ids=lambda some: type(some[1]).__name__)
def test_every_layer_of_a_bundle_is_known(layers):
    net = torch.nn.Sequential(*layers)
    with torch.no_grad():
        for place, values in enumerate(net.parameters()):
            values.copy_(torch.rand(values.shape, generator=stream("layers", place)) - 0.5)
    same(Personal(net, Knowledge(range=RANGE, schema=SCHEMA)), rows(np.random.default_rng(0)))


def test_pooling_and_norms_of_images():
    net = torch.nn.Sequential(
        torch.nn.Identity(),
        torch.nn.Conv2d(1, 4, 3, padding=1),
        torch.nn.GroupNorm(2, 4),
        torch.nn.AvgPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(36, 3),
    )
    x = torch.rand(4, 1, 6, 6, generator=stream("small images"))
    same(Personal(net), x, shape=(1, 6, 6))


@pytest.mark.parametrize("hears", [False, True])
def test_what_is_no_value_is_refused_as_the_model_refuses_it(hears):
    odd = [np.nan, np.inf, -np.inf, 1e300, -1e300, -0.0, 7.7]
    x = np.array(list(itertools.product(odd, odd, odd, [0.0, np.nan, 5.0])))
    expert = GradedFormula(Formula.parse("ash / sulfur + heat", SCHEMA), EDGES)
    net = mlp(4, 4, hidden=(8,), hears=hears, seed=3)
    personal = Personal(net, Knowledge(expert, RANGE, 0.4, schema=SCHEMA))
    p, chosen, allowed, refused = ran(to_onnx(personal), x)
    assert (p[~allowed] == 0).all()
    for i, row in enumerate(torch.from_numpy(x).float()):
        good = bool(row.isfinite().all()) and row[3] != 5.0
        assert refused[i] == (not good)
        if good:
            assert chosen[i] == personal.predict(row.unsqueeze(0))
        else:
            with pytest.raises(KnowledgeError, match="data row 0: column"):
                personal.predict_proba(row.unsqueeze(0))
