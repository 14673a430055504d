"""Holes that were found once: each certificate was accepted for something that is not so."""

import numpy as np
import onnx
import pytest

from fedlore import Bins, Knowledge, mlp
from fedlore.bundle import bundle_of
from fedlore.bundle.certify import certify
from fedlore.core.lipschitz import Shaping, lipschitz_mlp
from fedlore.errors import FedloreError
from fedlore.kernel.findings import Place
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge import Formula, FormulaRange, GradedFormula, table_of
from fedlore.knowledge.findings.shapes import lint_shapes
from fedlore.knowledge.intervals import Between
from fedlore.knowledge.shapes import FeatureShape, SiteShapes
from fedlore.knowledge.shapes.shape import promised_shapes
from fedlore.models.classifier import Personal
from fedlore.models.regressor import PersonalRegressor

from ...laws.versions import ran
from ..mixed import mixture
from ..onnx.test_mixtures import CALM, known
from ..onnx.worlds import EDGES, SCHEMA, rows
from .forging import Site, helper, make, sha, sliver, to_array, to_tensor
from .fuzzer import bases
from .test_certificate import personal
from .test_mixtures import mixed


@pytest.fixture
def site(tmp_path):
    return lambda model=None, **parts: Site.of(tmp_path, model or personal(), **parts)


def refused(made, subject, *, anew=True, boast=True):
    """That the checker refuses, the certificate issued anew for the lie or only sealed."""
    made.subject = subject
    made.reseal(boast=boast) if anew else made.seal()
    outcome, failed = made.outcome(subject)
    return outcome.code == 1 and bool(failed)


def guarded(made):
    """The score in front of the network's guard, and the node that makes it finite."""
    clip = made.nodes("Clip")[0]
    return made.node(clip.input[0]).input[2], clip


def finite_in_double_only(made):
    score, clip = guarded(made)
    made.insert(
        clip.output[0],
        make("Cast", [score], "wide", to=11),
        make("IsNaN", ["wide"], "none"),
        make("Where", ["none", "zero64", "wide"], "some"),
        make("Clip", ["some", "low64", "high64"], "far"),
        make("Cast", ["far"], "short_again", to=1),
        zero64=np.float64(0), low64=np.float64(-1e300), high64=np.float64(1e300),
    )  # fmt: skip
    for node in made.model.graph.node:
        for place, name in enumerate(node.input):
            if name == clip.output[0]:
                node.input[place] = "short_again"


def source_of_two_kinds(files):
    files["evil.csv"] = "ash,then\n> 7.7,IV\n"
    text = files["knowledge.toml"]
    at = text.index("[[range.sources]]")
    more = '[[range.sources]]\ntable = "evil.csv"\nconformal = "x"\n\n'
    files["knowledge.toml"] = text[:at] + more + text[at:]


TWO = (Feature("a", low=0, high=10), Feature("b", low=0, high=10))
ORDER = Schema(TWO, tuple("wxyz"), ordered=True)
OPEN = Schema((Feature("a"), Feature("b", low=0, high=10)), tuple("wxyz"), ordered=True)
FALLS = table_of(
    [{"a": "< 9.9", "then": "y..z"}, {"a": ">= 9.9", "then": "w..x"}], ORDER, kind="range"
)
DOUBLED = FormulaRange(Formula.parse("2 * a", OPEN), None, (1.0, 2.0, 3.0))
EXPERT_ONLY = GradedFormula(Formula.parse("2 * a", OPEN), (1.0, 2.0, 3.0))


def shaped(schema, limits, said=None, *, where="", trust=0.0, hears=False):
    shapes = SiteShapes((FeatureShape("a", "raises", where),), schema)
    known = Knowledge(said, limits, trust, schema=schema, shapes=shapes, conflict="error")
    options = Shaping(2, hears=hears, start="middle" if hears else "none")
    return Personal(lipschitz_mlp(4, options, hidden=(5,), seed=2), known)


def monotone(made):
    return next(c["status"] for c in made.certificate["claims"] if c["claim"] == "monotone")


@pytest.mark.parametrize(
    ("schema", "limits", "said", "where"),
    [
        (ORDER, FALLS, None, "b > a"),
        (ORDER, FALLS, None, "a < b or b < 0"),
        (OPEN, DOUBLED, None, ""),
        (OPEN, None, EXPERT_ONLY, ""),
    ],
    ids=["two columns", "either", "a limit that overflows", "an expert who overflows"],
)
def test_3_and_5_shapes_are_not_decided_where_they_cannot_be(site, schema, limits, said, where):
    model = shaped(schema, limits, said, where=where, trust=0.0 if said is None else 0.4)
    made = site(model)
    assert monotone(made) == "unknown" or said is not None  # an expert is withheld where unknown
    kinds = {finding.kind for finding in lint_shapes(model.knowledge, Place("knowledge.toml"))}
    assert "shape-unknown" in kinds and "shape-kept" not in kinds
    if said is None:
        assert "same range" in promised_shapes(model.knowledge)[0]
    for subject in ("bundle", "graph"):
        made.claims(monotone="proved")
        assert (refused(made, subject, anew=False)) == (said is None)


@pytest.mark.parametrize("subject", ["bundle", "graph"])
def test_4_a_refuted_shape_is_not_proved_by_saying_so(site, subject):
    made = site(shaped(ORDER, FALLS))
    assert monotone(made) == "refuted"
    made.claims(monotone="proved")
    assert refused(made, subject, anew=False)
    plain = site()
    plain.claims(monotone="proved")  # there is no shape at all
    assert refused(plain, subject, anew=False)


def test_4_a_graph_whose_network_turns_a_shape_round(site):
    """The grammar knows any network: what a graph does along a shape is tested on rows."""
    made = site(shaped(ORDER, None))
    assert monotone(made) == "proved" and "tested" in made.outcome("graph")[0].words
    (line,) = [line for line in made.check("graph") if line.what == "monotone"]
    assert line.rows and "not decided for all rows" in line.found  # never "proved" on a sample
    network = next(n for n in made.nodes("Concat") if len(n.input) == 3)  # rows, what is heard
    made.insert(
        network.output[0],
        make("Mul", ["rows", "signs"], "turned"),
        make("Cast", ["turned"], "turned_short", to=1),
        signs=np.array([[-1.0, 1.0]]),
    )
    network.input[0] = "turned_short"
    made.subject = "graph"
    made.reseal()
    assert "monotone" in [line.what for line in made.check("graph") if not line.holds]


CONFUSIONS = {
    "negative": [[1.3, -0.3, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],
    "no distribution": (np.eye(4) * 0.5).tolist(),
    "another size": np.eye(3).tolist(),
    "no numbers": [["1", 0, 0, 0]] * 4,
}


@pytest.mark.parametrize("rows", CONFUSIONS.values(), ids=CONFUSIONS)
@pytest.mark.parametrize("subject", ["bundle", "graph"])
def test_6_a_confusion_of_no_probabilities(site, rows, subject):
    made = site()
    made.certificate["confusion"] = rows
    made.header(lambda h: h.__setitem__("confusion", rows))
    assert refused(made, subject)


def louder(made, trust=0.3):
    """λ of a graph, 0.95 for what it was."""
    for kind in (np.float32, np.float64):
        there = [
            one
            for one in made.model.graph.initializer
            if to_array(one).dtype == kind
            and to_array(one).shape == ()
            and to_array(one) == kind(trust)
        ]
        for one in there:
            one.CopyFrom(to_tensor(kind(0.95), one.name))


def test_7_more_trust_by_the_name_of_a_mixture(site):
    """λ of a mixture is learned: it is stated, and held against nodes and header."""
    made = site(mixed(expert=0.3))
    assert made.certificate["expert"] == 0.3
    louder(made)
    assert refused(made, "graph")
    lines = {line.what: line.found for line in site(mixed(expert=0.3)).check("graph")}
    assert lines["expert's weight"] == "0.3 in the answer, the knowledge says 0.4"
    other = site(mixed(expert=0.3))
    other.certificate["expert"] = 0.95
    assert refused(other, "bundle", anew=False) and refused(other, "graph", anew=False)


@pytest.mark.parametrize("subject", ["bundle", "graph"])
def test_7_a_mixture_that_trusts_more_than_the_file_says_so(site, subject):
    """The same network called a mixture: the certificate does not say that λ is the file's."""
    made = site(mixed(expert=0.95, members=()))
    claims = {claim["claim"]: claim for claim in made.certificate["claims"]}
    assert claims["trust-kept"]["status"] == "refuted" and "0.95" in claims["trust-kept"]["how"]
    lines = {line.what: line.found for line in made.check(subject)}
    assert lines["trust-kept"].startswith("refuted, the expert weighs 0.95 in the answer")
    assert made.outcome(subject)[0].code == 0
    made.certificate["claims"] = [c for c in made.certificate["claims"] if c["needed"]]
    assert refused(made, subject, anew=False)
    made.certificate["claims"] = list(claims.values())
    made.claims(trust_kept="proved")
    assert refused(made, subject, anew=False)


@pytest.mark.parametrize("subject", ["bundle", "graph"])
def test_7_a_mixture_that_trusts_less_than_the_file_demands(site, subject):
    demanding = known(least_trust=0.2)
    with pytest.raises(FedloreError, match=r"weighs 0\.1 .* demands 0\.2 at least"):
        certify(bundle_of(mixture(demanding, CALM, 4, members=(), expert=0.1), "north"))
    made = site(mixture(known(), CALM, 4, members=(), expert=0.1))

    def demand(files):
        files["knowledge.toml"] = "least_trust = 0.2\n" + files["knowledge.toml"]

    made.knowledge(demand)
    assert refused(made, subject)


@pytest.mark.parametrize("subject", ["bundle", "graph"])
def test_7_a_network_alone_trusts_as_its_knowledge_says(site, subject):
    made = site()
    louder(made, 0.4)
    made.header(lambda h: h.__setitem__("rely", 0.95))
    made.certificate["expert"] = 0.95
    assert refused(made, subject, boast=False)  # though it admits that he weighs more
    failed = [line for line in made.check(subject) if not line.holds]
    assert any("trust" in line.found and "0.95" in line.found for line in failed)


def test_7_a_mixture_with_a_weight_above_1(site):
    """Probabilities of 1.7 were proved: the certificate says λ, and the graph has the same."""
    made = site(mixed(expert=0.3))
    made.tensors(lambda _, v: v.shape == () and v == 0.3, lambda v: v * 0 + 1.7)
    made.header(lambda h: h["ensemble"].__setitem__("expert", 1.7))
    made.certificate["expert"] = 1.7
    assert refused(made, "graph")
    assert "expert's weight" in [line.what for line in made.check("graph") if not line.holds]


def pooled(made):
    """The network's inputs pooled with their places, which count rows, beside them."""
    first = made.nodes("Gemm")[0]
    axis = {"axis_1": np.array([1], np.int64)}
    made.insert(
        first.output[0],
        make("Unsqueeze", [first.input[0], "axis_1"], "deep"),
        helper.make_node("MaxPool", ["deep"], ["tops", "places"], kernel_shape=[1]),
        make("Squeeze", ["places", "axis_1"], "flat"),
        make("Cast", ["flat"], "numbers", to=1),
        make("Add", [first.input[0], "numbers"], "odd"),
        **axis,
    )
    first.input[0] = "odd"


def norm(made):
    """The second result of an operator that is in the grammar with one."""
    first = made.nodes("Gemm")[0]
    made.insert(
        first.output[0],
        helper.make_node("LayerNormalization", [first.input[0], "ones"], ["plain", "mean"],
                         axis=-1, epsilon=1e-5),
        make("Add", [first.input[0], "mean"], "odd"),
        ones=np.ones(4, np.float32),
    )  # fmt: skip
    first.input[0] = "odd"


@pytest.mark.parametrize("change", [pooled, norm])
def test_8_a_second_output(site, change):
    made = site()
    x = rows(np.random.default_rng(0), 3).numpy()
    honest = ran(made.model, x)[0]
    change(made)
    whole, alone = ran(made.model, x)[0], ran(made.model, x[2:])[0]
    assert not np.array_equal(whole, honest)
    assert change is norm or not np.array_equal(whole[2:], alone)  # it hangs on the batch
    assert refused(made, "graph")


def other_scores(made, *nodes, **constants):
    """Nodes between the network's scores, which they call `score`, and the guard."""
    score, clip = guarded(made)
    where = made.node(clip.input[0])
    none = made.node(where.input[0])
    for node in nodes:
        node.input[:] = [score if name == "score" else name for name in node.input]
    made.insert(none.output[0], *nodes, **constants)
    none.input[0] = where.input[2] = nodes[-1].output[0]


def added(made, name, *nodes, **constants):
    """The network's scores with something added to them."""
    other_scores(made, *nodes, make("Add", ["score", name], "odd"), **constants)


def level(made):
    """A number of each row, levelled over all rows: the last axis is that of the rows."""
    other_scores(
        made,
        make("ReduceMax", ["score"], "flat", axes=[1], keepdims=0),
        make("LayerNormalization", ["flat", "unit"], "level", axis=-1, epsilon=1e-5),
        make("Unsqueeze", ["level", "last"], "column"),
        make("Mul", ["score", "column"], "odd"),
        unit=np.ones(1, np.float32),
        last=np.array([1]),
    )


def in_line(made):
    """One score a row in a line: beside the range it is a row of scores, one for each class."""
    other_scores(made, make("ReduceMax", ["score"], "flat", axes=[1], keepdims=0))


def by_place(made):
    """Scores that belong to four rows in their order, whatever these hold."""
    other_scores(made, make("Identity", ["places"], "odd"), places=np.eye(4, dtype=np.float32))
    made.prune()


@pytest.mark.parametrize("change", [level, in_line, by_place])
def test_8_scores_that_hang_on_the_batch(site, change):
    made, x = site(), rows(np.random.default_rng(0), 4).numpy()
    change(made)
    alone = [ran(made.model, row[None])[0][0] for row in x]
    assert not np.allclose(ran(made.model, x)[0], alone)
    assert refused(made, "graph")


def cast_weight(kind, value):
    def change(made):
        made.model.graph.initializer.append(helper.make_tensor("mine", kind, [1], [value]))
        added(made, "cast", make("Cast", ["mine"], "cast", to=1))

    return change


def long_shift(made):
    made.tensors(lambda n, v: n == "scaler.shift", lambda v: v + 1e300)


def rows_type(kind):
    return lambda made: setattr(made.model.graph.input[0].type.tensor_type, "elem_type", kind)


def other_order(made):
    outputs, first = made.model.graph.output, onnx.ValueInfoProto()
    first.CopyFrom(outputs[0])
    outputs[0].CopyFrom(outputs[1])
    outputs[1].CopyFrom(first)


GRAPHS = {
    "1: scores that are finite in double only": finite_in_double_only,
    **{
        f"9: {value} as {name}": lambda made, name=name, value=value: added(
            made, name, **{name: np.float32(value)}
        )
        for name in ("constant_of_mine", "scaler.mine", "ensemble.0.mine")
        for value in (np.nan, np.inf, -np.inf)
    },
    "9: no number once a text is cast": cast_weight(onnx.TensorProto.STRING, b"inf"),
    "9: no number once it is cast": cast_weight(onnx.TensorProto.BFLOAT16, float("inf")),
    "9: rows that a graph brings itself": lambda made: made.constant("rows", np.zeros((1, 4))),
    "9: a shift that is finite in double only": long_shift,
    "12: rows of float16": rows_type(onnx.TensorProto.FLOAT16),
    "12: rows of int64": rows_type(onnx.TensorProto.INT64),
    "12: rows of float": rows_type(onnx.TensorProto.FLOAT),
    "low: outputs in another order": other_order,
}


@pytest.mark.parametrize("change", GRAPHS.values(), ids=GRAPHS)
def test_a_graph_that_computes_something_else(site, change):
    made = site()
    change(made)
    assert refused(made, "graph")


NUMBER = Schema((Feature("x", low=0, high=8), Feature("z", low=0, high=5)), tuple("abcde"), "y")


def number_site(site):
    band = Between(Formula.parse("x - 1", NUMBER), Formula.parse("x + 1 + z", NUMBER))
    known = Knowledge(Formula.parse("x", NUMBER), band, 0.3)
    bins = Bins(0.0, 10.0, 5)
    return site(PersonalRegressor(mlp(2, 5, hidden=(4,)), bins, known), schema=NUMBER)


def in_front(made, place, nodes, constants, inputs):
    """Another value in front of a number's guard in a sliver."""
    clip = [
        n for n in made.nodes("Clip") if to_array(constant(made, n.input[1])).dtype == np.float64
    ]
    where = made.node(clip[place].input[0])
    none = made.node(where.input[0])
    value = where.input[2]
    made.insert(none.output[0], *nodes, make("Where", ["lie", inputs, value], "lied"), **constants)
    none.input[0] = where.input[2] = "lied"


def constant(made, name):
    return next(i for i in made.model.graph.initializer if i.name == name)


@pytest.mark.parametrize(("place", "value"), [(0, np.nan), (1, 9.0), (2, 0.0)])
def test_10_a_number_or_an_end_that_is_another_in_a_sliver(site, place, value):
    """Whatever stands before the guard, the ends lie on their sides of the number, in the set."""
    made = number_site(site)
    assert made.outcome("graph")[0].code == 0
    nodes, constants = sliver()
    in_front(made, place, nodes, constants | {"odd": np.float64(value)}, "odd")
    made.reseal()
    if made.outcome("graph")[0].code == 1:
        return
    x = np.array([[4.0, 3.14159], [4.0, 1.0]])
    from onnx.reference import ReferenceEvaluator

    names = [value.name for value in made.model.graph.output]
    got = dict(zip(names, ReferenceEvaluator(made.model).run(None, {"rows": x}), strict=True))
    assert not got["refused"].any() and np.isfinite(got["number"]).all()
    low, high = got["interval"].T
    assert (low <= got["number"]).all() and (got["number"] <= high).all()


def turn_output(made, name):
    """One output alone, with the other sign: all else is computed as before."""
    was, kind = f"{name}_was", next(o for o in made.model.graph.output if o.name == name)
    nodes = made.model.graph.node
    for node in nodes:
        for names in (node.input, node.output):
            for place in (i for i, one in enumerate(names) if one == name):
                names[place] = was
    truth = kind.type.tensor_type.elem_type == onnx.TensorProto.BOOL
    nodes.append(make("Not" if truth else "Neg", [was], name))


@pytest.mark.parametrize("name", ["probabilities", "class", "allowed", "refused"])
def test_1_each_output_of_classes_is_the_compilers(site, name):
    made = site()
    turn_output(made, name)
    assert refused(made, "graph")


@pytest.mark.parametrize("name", ["number", "interval", "lower", "upper", "refused"])
def test_10_each_output_of_a_number_is_the_compilers(site, name):
    made = number_site(site)
    turn_output(made, name)
    assert refused(made, "graph")


def test_10_an_interval_in_another_order(site):
    made = number_site(site)
    last = made.node("interval")
    last.input[0], last.input[1] = last.input[1], last.input[0]
    assert refused(made, "graph")


@pytest.mark.parametrize("subject", ["bundle", "graph"])
def test_11_a_claim_that_is_not_decided(site, subject):
    """What the policy takes care of need not be proved, and is not proved by saying so."""
    many = " + ".join(f"(ash * heat - heat * ash) * {i}" for i in range(1, 9))
    said = GradedFormula(
        Formula.parse(f"{many} - sulfur * sulfur + sulfur * sulfur", SCHEMA), EDGES
    )
    made = site(personal(said, FormulaRange(None, Formula.parse("0.29", SCHEMA), EDGES)))
    status = {c["claim"]: c["status"] for c in made.certificate["claims"]}["prediction-inside"]
    assert status != "proved" and made.outcome(subject)[0].code != 1
    made.claims(prediction_inside="proved")
    assert refused(made, subject, anew=False)


def text(old, new):
    """A change of knowledge.toml."""

    def change(files):
        assert old in files["knowledge.toml"]
        files["knowledge.toml"] = files["knowledge.toml"].replace(old, new, 1)

    return change


KNOWLEDGE = {
    "2: a source of two kinds": source_of_two_kinds,
    "an inverted scope": text("low = 0.0\nhigh = 40.0", "low = 40.0\nhigh = 0.0"),
    "a file that nobody names": lambda files: files.update({"table-9.csv": "ash,then\n> 7.7,IV\n"}),
    "a key that nobody knows": text("", 'wisdom = "great"\n'),
    "a key of a source that nobody knows": text(
        'table = "table-2.csv"', 'table = "table-2.csv"\nsure = true'
    ),
    "a target from high to low": text("lower = 0.0\nupper = 10.0", "lower = 10.0\nupper = 0.0"),
}


@pytest.mark.parametrize("name", KNOWLEDGE)
@pytest.mark.parametrize("subject", ["bundle", "graph"])
def test_knowledge_that_is_not_as_it_must_be(site, name, subject):
    made = number_site(site) if "target" in name else site()
    made.knowledge(KNOWLEDGE[name])
    assert refused(made, subject)


@pytest.mark.parametrize("subject", ["bundle", "graph"])
@pytest.mark.parametrize(
    "change",
    [
        {"note": "all is well"},
        {"client": "south"},
        {"issuer": "somebody else"},
        {"limits": ["It speaks of everything."]},
        {"bundle": "0" * 64},
        {"classes": ["IV", "III", "II", "I"]},
        {"conflict": "error"},
        {"scope": []},
        {"version": 1},
        {"verdict": "refuted"},
        {"target": {"lower": 0.0, "upper": 1.0}},
        {"claims": []},
        {"graph": False},
    ],
    ids=lambda change: next(iter(change)),
)
def test_low_free_fields_of_a_certificate(site, change, subject):
    made = site()
    made.certificate |= change
    assert refused(made, subject, anew=False)


@pytest.mark.parametrize("subject", ["bundle", "graph"])
@pytest.mark.parametrize(
    ("key", "value"), [("how", "trust me"), ("needed", 1), ("note", "trust me")]
)
def test_low_free_fields_of_a_claim(site, key, value, subject):
    made = site()
    made.certificate["claims"][2][key] = value
    assert refused(made, subject, anew=False)


@pytest.mark.parametrize(
    ("subject", "key", "name"), [("bundle", "graph", "class"), ("graph", "files", "card.md")]
)
@pytest.mark.parametrize("text", ["all is well", "A" * 64])
def test_low_words_in_place_of_a_hash(site, subject, key, name, text):
    """Of files that are not shown a certificate holds hashes, and nothing else."""
    made = site()
    made.certificate[key][name] = text
    lines = "".join(f"{h}  {n}\n" for n, h in sorted(made.certificate["files"].items()))
    made.certificate["bundle"] = sha(lines.encode())
    entry = next(e for e in made.model.metadata_props if e.key == "fedlore.bundle")
    entry.value = made.certificate["bundle"]
    assert refused(made, subject, anew=False)
    made.certificate[key] |= {"note": "0" * 64}
    assert refused(made, subject, anew=False)


def test_low_another_unit_of_the_target(site):
    made = number_site(site)
    made.metadata("target", lambda target: target | {"unit": "mg"})
    assert refused(made, "graph")


def test_low_a_foreign_fingerprint(site):
    made = site()
    made.reseal()
    entry = next(e for e in made.model.metadata_props if e.key == "fedlore.bundle")
    entry.value = "f" * 64
    assert made.outcome("graph")[0].code == 1


def change_option(key, value):
    return lambda header: header["model"]["options"].__setitem__(key, value)


def negative_width(header):
    member = next(m for m in header["ensemble"]["members"] if m["kind"] == "order")
    member["width"] = -member["width"]


HEADERS = {
    "9: a shift that is finite in double only": (
        None, lambda h: h["scaling"]["shift"].__setitem__(0, 1e300)),
    "a key that nobody knows": (None, lambda h: h.__setitem__("note", "all is well")),
    "a negative width of a member": (mixed, negative_width),
    "members trained on other sources": (
        mixed,
        lambda h: h["ensemble"].__setitem__("heard", []),
    ),
    **{
        f"{value} as {key}": (lambda: shaped(ORDER, None), change_option(key, value))
        for key in ("slope", "width") for value in (-0.1, 0.0, 1e39, "0.1")
    },
}  # fmt: skip


@pytest.mark.parametrize(("model", "change"), HEADERS.values(), ids=HEADERS)
def test_a_header_that_fedlore_would_not_write(site, model, change):
    made = site(model and model())
    made.header(change)
    assert refused(made, "bundle")


@pytest.mark.parametrize(("key", "lie"), [("expert", 0.7), ("confusion", np.eye(15).tolist())])
def test_a_graph_of_a_number_states_nothing_of_an_expert_on_classes(tmp_path, key, lie):
    (base,) = bases(tmp_path, ["number-tables"])
    made = base.take(base.site.folder)
    assert made.certificate[key] is None and made.outcome("graph")[0].code == 0
    made.certificate[key] = lie
    assert refused(made, "graph", anew=False)
