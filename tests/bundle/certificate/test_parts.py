"""Parts of the checker, each by itself: where several would find a lie, each one must."""

import copy
import json
import random
from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings

from fedlore.bundle import bundle_of, write_bundle
from fedlore.bundle.onnx import to_onnx
from fedlore.checker.bundles import (
    MANIFEST,
    header_faults,
    read_members,
    read_weights,
    weight_faults,
)
from fedlore.checker.certificate import Facts, claims_of, sum_up
from fedlore.checker.graphs import Graph, graph_faults
from fedlore.checker.layers import crossing, infer_shapes
from fedlore.checker.shapes import _trees_keep, monotone
from fedlore.errors import KnowledgeError
from fedlore.kernel.knowledge import read_knowledge
from fedlore.kernel.search import Verdict

from ..onnx.worlds import SCHEMA, worlds
from .forging import Site, make
from .fuzzer import bases
from .judges import texts_of
from .test_certificate import personal
from .test_shapes import LINE
from .test_shapes import bundled as shaped

helper = onnx.helper


def test_weights_are_finite_and_of_single_precision():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert weight_faults({"w": values}) == []
    for odd in (values.astype(np.float64), values + np.float32(np.inf)):
        assert weight_faults({"w": odd}) == ["'w' is not finite, or not in single precision"]


def test_tensors_lie_one_behind_another():
    """As fedlore reads them: no byte is two numbers, and none is left out."""

    def packed(*places, size=16, shape=(2,)):
        head = {f"t{i}": {"dtype": "F32", "shape": shape, "data_offsets": p}
                for i, p in enumerate(places)}  # fmt: skip
        said = json.dumps(head).encode()
        return len(said).to_bytes(8, "little") + said + bytes(size)

    assert list(read_weights(packed([8, 16], [0, 8]))) == ["t1", "t0"]
    shared, apart, short = ([0, 8], [0, 8]), ([0, 8], [12, 20]), ([0, 8], [8, 14])
    for places, size in ((shared, 16), (shared, 8), (apart, 20), (short, 14), ([[0, 8]], 16)):
        with pytest.raises(KnowledgeError, match="cannot be read"):
            read_weights(packed(*places, size=size))
    with pytest.raises(KnowledgeError, match="cannot be read"):
        read_weights(packed([0, 16], shape=(-1, 2)))


def test_a_file_states_nothing_of_its_values_that_a_runtime_might_believe(tmp_path):
    made = Site.of(tmp_path, personal())
    shape = onnx.shape_inference.infer_shapes(made.model).graph.value_info[0]
    shape.type.tensor_type.shape.dim[0].dim_value = 1
    for change in (
        lambda model: model.graph.value_info.append(shape),
        lambda model: model.graph.quantization_annotation.add(tensor_name="rows"),
        lambda model: setattr(model.graph.node[0], "name", "twice"),
        lambda model: model.graph.output[0].type.tensor_type.shape.dim[0].Clear(),
    ):
        model = onnx.ModelProto()
        model.CopyFrom(made.model)
        change(model)
        graph = Graph(model.SerializeToString())
        assert len(graph_faults(graph, read_knowledge(graph.knowledge()), 0.4)) == 1


def test_a_member_is_held_to_the_manifest(tmp_path):
    write_bundle(bundle_of(personal(), "north"), tmp_path / "site")
    assert MANIFEST not in read_members(tmp_path / "site")
    with open(tmp_path / "site" / "card.md", "a") as card:
        card.write("and more")
    with pytest.raises(KnowledgeError, match="does not match its manifest"):
        read_members(tmp_path / "site")


def graph_of(*nodes, **constants):
    rows = helper.make_tensor_value_info("rows", onnx.TensorProto.FLOAT, ["n", 2])
    out = helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, ["n", 2])
    made = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(list(nodes), "g", [rows], [out], initializer=made)
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    return Graph(model.SerializeToString())


def odd(*nodes, **constants):
    """What keeps nodes in front of a last sum out of the grammar."""
    last = helper.make_node("Add", ["rows", nodes[-1].output[0]], ["out"])
    graph = graph_of(*nodes, last, **constants)
    return crossing(graph.layers, graph.constants, infer_shapes(graph.model)) or ""


ZERO, ONE = (np.array([i], np.int64) for i in (0, 1))


def test_a_sum_within_a_row_is_fine_and_one_over_rows_is_not():
    for axes, wrong in ((ONE, ""), (ZERO, "runs along the rows"), (-2 * ONE, "along the rows")):
        found = odd(make("ReduceSum", ["rows", "axes"], "sums", keepdims=1), axes=axes)
        assert bool(found) == bool(wrong) and wrong in found


def test_the_number_of_rows_is_no_number():
    shape = make("Shape", ["rows"], "size", start=0, end=1)
    assert "depends on the number of rows" in odd(shape, make("Cast", ["size"], "many", to=1))


WIDE = np.ones((1, 2), np.float32)
OUTSIDE = {
    "an attribute": make("LeakyRelu", ["rows"], "x"),
    "an attribute more": make("Gemm", ["rows", "square"], "x", transB=1, alpha=2.0),
    "another operator": make("Softmax", ["rows"], "x", axis=1),
    "two results": helper.make_node(
        "LayerNormalization", ["rows", "ones"], ["x", "mean"], axis=-1, epsilon=1e-5
    ),
    "a place": make("Mul", ["rows", "square"], "x"),
    "a place of a bias": make("Gemm", ["rows", "square", "square"], "x", transB=1),
    "rows across rows": make("Add", ["rows", "flat"], "x"),
    "rows spread over rows": make("Expand", ["flat", "size"], "x"),
    "one row for all": make("Gather", ["rows", "zero"], "x", axis=0),
    "rows by rows": make("Gather", ["rows", "places"], "x", axis=0),
    "no number": make("Mul", ["rows", "none"], "x"),
    "too large a number": make("Cast", ["far"], "x", to=1),
}


@pytest.mark.parametrize("node", OUTSIDE.values(), ids=OUTSIDE)
def test_what_is_not_in_the_grammar_is_refused(node):
    constants = {
        "ones": np.ones(2, np.float32),
        "square": np.ones((2, 2), np.float32),
        "none": np.full((1, 2), np.nan, np.float32),
        "far": np.full((1, 2), 1e300),
    }
    flat = {"flat", "places"} & set(node.input)
    first = [make("Gather", ["rows", "zero"], "flat", axis=1)] if flat else []
    first += [make("Shape", ["rows"], "size")] if "size" in node.input else []
    first += [make("Cast", ["flat"], "places", to=7)] if "places" in node.input else []
    needed = {*node.input, *(["zero"] if first else [])}
    constants["zero"] = np.array(0, np.int64)
    assert odd(*first, node, **{name: v for name, v in constants.items() if name in needed})
    assert odd(make("Mul", ["rows", "wide"], "x"), wide=WIDE) == ""


def test_a_row_picks_among_its_own_values_and_not_among_other_rows():
    places = make("Cast", ["rows"], "places", to=7)
    for axis, wrong in ((1, ""), (0, "runs along the rows")):
        found = odd(places, make("GatherElements", ["rows", "places"], "x", axis=axis))
        assert bool(found) == bool(wrong) and wrong in found
    picked = make("Gather", ["rows", "places"], "picked", axis=0)  # (n, 2, 2), as rows are
    assert "rows by rows" in odd(
        places, picked, make("ReduceMax", ["picked"], "x", axes=[1], keepdims=0)
    )


@settings(deadline=None, max_examples=20, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_every_kind_of_knowledge_is_compiled_to_its_graph(world):
    graph = Graph(to_onnx(world.personal, SCHEMA).SerializeToString())
    known = read_knowledge(graph.knowledge())
    assert graph_faults(graph, known, world.personal.reliance) == []


def test_the_digest_of_a_graph_holds_the_attributes_of_its_nodes():
    def digests(alpha, kind="LeakyRelu"):
        node = helper.make_node(kind, ["rows"], ["out"], alpha=alpha)
        return graph_of(node).digests()

    assert digests(0.1) == digests(0.1)
    assert digests(0.1) not in (digests(0.2), digests(0.1, "Elu"))


INPUTS = {
    "no flag of a hole": lambda inputs: inputs[0].update(missing=False),
    "no place for other levels": lambda inputs: inputs[3].update(other=False),
    "a level less": lambda inputs: inputs[3].update(levels=2),
    "a number for levels": lambda inputs: inputs[3].update(levels=0),
    "levels for a number": lambda inputs: inputs[2].update(levels=3),
    "no number in a hole": lambda inputs: inputs[1].update(fill=float("nan")),
    "a feature less": lambda inputs: inputs.pop(),
    "no inputs": lambda inputs: inputs.clear(),
}


def width_of(inputs):
    return sum((one["levels"] + one["other"] or 1) + one["missing"] for one in inputs)


def test_features_reach_the_network_as_the_knowledge_says(tmp_path):
    """Missing values with a flag, levels each with a place, one for those that nobody named."""
    base = next(bases(tmp_path, ["holes-first-intersect"]))
    header = json.loads(base.site.members["bundle.json"])
    texts = texts_of(base.site.members)
    known = read_knowledge(texts)
    weights = read_weights(base.site.members["weights.safetensors"])
    assert header_faults(header, known, texts, weights) == []
    for what, change in INPUTS.items():
        forged = copy.deepcopy(header)
        change(forged["inputs"])
        more = width_of(forged["inputs"]) - width_of(header["inputs"])
        for key, values in forged["scaling"].items():  # so that nothing else gives it away
            forged["scaling"][key] = [*values, *[1.0] * more][: len(values) + more]
        forged["inputs"] = forged["inputs"] or None
        assert header_faults(forged, known, texts, weights), what
    forged = copy.deepcopy(header)
    forged["inputs"][2]["missing"] = True  # more than is asked for
    assert "one for each input" in header_faults(forged, known, texts, weights)[0]
    for values in forged["scaling"].values():
        values.append(1.0)
    width = ["its network takes rows of another width"]  # it was made for the inputs as they were
    assert header_faults(forged, known, texts, weights) == width


@pytest.mark.parametrize(("where", "status"), [("ash > 8", "unknown"), ("Ro > 1", "proved")])
def test_trust_that_varies_along_a_shape_is_not_seen_to_keep_it(where, status):
    """The library refuses to write such a file, a forger does not."""
    members = shaped(said=LINE, trust=0.3).members
    header, texts = json.loads(members["bundle.json"]), texts_of(members)
    lines = [line for line in texts["knowledge.toml"].splitlines() if line != "trust = 0.3"]
    rows = f'[trust]\nvalue = 0.3\n[[trust.regions]]\nwhere = "{where}"\ntrust = 0.8\n'
    known = read_knowledge({"knowledge.toml": "\n".join(lines) + "\n" + rows})
    assert known.row_trust is not None and monotone(known, header, None).status == status


TOML = """
label = "g"
classes = ["I", "II", "III"]
ordered = true
trust = 0.3
[[features]]
name = "a"
low = 0
high = 10
"""
SAYS = '[[{}.sources]]\ntable = "{}.csv"\nhit = "{}"\n'
TABLES = {
    "range.csv": "a,then\n< 5,I..II\n> 5,II..III\n",
    "predict.csv": "a,then\n< 5,I\n>= 4,II\n",
}


def claims(*parts, **changed):
    known = read_knowledge({"knowledge.toml": TOML + "".join(parts), **TABLES})
    about = {"client": "", "files": {}, "texts": {}, "weights": {"w": np.zeros((2, 3))}}
    facts = Facts(known, target=None, expert=None, **about)
    return {one["claim"]: one for one in claims_of(replace(facts, **changed))}


RANGE, FIRST = (
    SAYS.format("range", "range", "intersect"),
    SAYS.format("predict", "predict", "first"),
)
UNIQUE = FIRST.replace("first", "unique")
ALWAYS = ["inside-range", "finite-weights", "never-empty"]


@pytest.mark.parametrize(
    ("parts", "more"),
    [
        ((), []),
        ((RANGE,), []),
        ((FIRST,), []),  # a prediction has nothing to be inside of
        ((UNIQUE,), ["prediction-agrees"]),
        ((RANGE, FIRST), ["prediction-inside"]),
        ((RANGE, UNIQUE), ["prediction-agrees", "prediction-inside"]),
    ],
)
def test_what_is_claimed_depends_on_what_there_is(parts, more):
    found = claims(*parts)
    assert list(found) == ALWAYS + more
    assert found["finite-weights"]["how"].count("6") == 1  # two by three
    assert all(found[name]["needed"] for name in ALWAYS)


def test_a_prediction_outside_is_needed_only_where_it_is_an_error():
    known = read_knowledge({"knowledge.toml": TOML + RANGE + FIRST, **TABLES})
    for conflict, needed in (("error", True), ("drop", False)):
        found = claims(known=replace(known, conflict=conflict))["prediction-inside"]
        assert found["needed"] is needed


def test_a_mixture_that_trusts_the_expert_less_or_more_says_so_once():
    for expert, said in ((None, False), (0.3, False), (0.2, False), (0.31, True)):
        found = claims(RANGE, FIRST, expert=expert)
        assert ("trust-kept" in found) is said
    assert found["trust-kept"]["status"] == "refuted" and not found["trust-kept"]["needed"]


def test_shapes_are_claimed_where_they_were_looked_at():
    found = claims(RANGE, moves=Verdict("unknown"))["monotone"]
    assert (found["status"], found["needed"]) == ("unknown", False)
    assert "monotone" not in claims(RANGE)


@pytest.mark.parametrize(
    ("words", "verdict"),
    [
        (["proved"], "proved"),
        ([], "proved"),
        (["proved", "unknown"], "unknown"),
        (["unknown", "refuted"], "refuted"),
        (["refuted", "proved"], "refuted"),
    ],
)
def test_a_verdict_is_that_of_the_worst_needed_claim(words, verdict):
    needed = [{"status": word, "needed": True} for word in words]
    assert sum_up(needed) == sum_up([*needed, {"status": "refuted", "needed": False}]) == verdict


def grown(draw, depth):
    """A drawn tree as a member stores it, and nested: input, threshold, left, right."""
    feature, child, threshold, leaves = [-2], [-2], [0.0], []

    def grow(node, depth):
        if depth == 0 or draw.random() < 0.3:
            feature[node], child[node] = -1, len(leaves)
            leaves.append(float(draw.randint(0, 3)))
            return leaves[-1]
        at, pair = draw.randint(0, 1), len(feature)
        feature[node], child[node], threshold[node] = at, pair, float(draw.randint(0, 4))
        for some, empty in ((feature, -2), (child, -2), (threshold, 0.0)):
            some += [empty, empty]
        return at, threshold[node], grow(pair, depth - 1), grow(pair + 1, depth - 1)

    whole = grow(0, depth)
    values = np.array(leaves)[:, None]
    made = {"feature": feature, "child": child, "threshold": threshold, "values": values}
    return {name: np.asarray(some) for name, some in made.items()}, whole


def leaves_of(tree):
    return (
        [leaf for part in tree[2:] for leaf in leaves_of(part)] if type(tree) is tuple else [tree]
    )


def keeps(tree, ways):
    """At each split no leaf below the threshold lies beyond any above it."""
    if type(tree) is not tuple:
        return True
    way, left, right = ways(*tree[:2]), leaves_of(tree[2]), leaves_of(tree[3])
    fine = (
        way == 0 or (way > 0 and max(left) <= min(right)) or (way < 0 and min(left) >= max(right))
    )
    return fine and keeps(tree[2], ways) and keeps(tree[3], ways)


TURN = (1.0, 3.0)  # between these ends nothing is asked


@pytest.mark.parametrize("sign", [1.0, -1.0, 0.0, np.nan])
@pytest.mark.parametrize("turns", [False, True])
def test_a_tree_keeps_a_shape_where_each_of_its_splits_does(sign, turns):
    draw, found = random.Random(f"{sign} {turns}"), set()
    ends = TURN if turns else (np.nan, np.nan)
    signs = np.array([[sign, 0.0], [ends[0], np.nan], [ends[1], np.nan], [0.0, 0.0]])

    def ways(at, threshold):
        if at == 1:
            return 0.0
        if not turns:
            return sign
        return sign if threshold < ends[0] else -sign if threshold >= ends[1] else 0.0

    for _ in range(300):
        own, whole = grown(draw, 3)
        found.add(keeps(whole, ways))
        assert _trees_keep(own, signs) == keeps(whole, ways)
    assert found == ({True} if sign == 0.0 else {True, False})


def test_a_tree_that_leads_back_to_itself_is_not_followed():
    own = {"feature": np.array([0, -1, -1]), "threshold": np.zeros(3),
           "values": np.array([[0.0], [1.0]])}  # fmt: skip
    signs = np.array([[1.0], [np.nan], [np.nan], [0.0]])
    assert _trees_keep(own | {"child": np.array([1, 0, 1])}, signs)
    assert not _trees_keep(own | {"child": np.array([0, 0, 1])}, signs)
