"""Ways to lie, each on a bundle and on a graph: the checker that stands alone refuses them all.

A careless forger changes what was certified. A careful one issues the certificate anew for what he
changed, claims what he likes, and seals it: then nothing speaks against him but the thing itself.
"""

import zipfile

import numpy as np
import onnx
import pytest

from fedlore.bundle import bundle_of, write_bundle
from fedlore.bundle.archive import MANIFEST, manifest_of
from fedlore.bundle.certify import write_certificate
from fedlore.checker import check
from fedlore.checker.bundles import read_members
from fedlore.knowledge import AllOf, Formula, FormulaRange

from ..onnx.worlds import EDGES, SCHEMA
from .forging import Site, helper, make, sliver, to_array, to_tensor
from .test_certificate import RANGE, personal
from .test_mixtures import mixed

SPIKE = FormulaRange(
    Formula.parse("1e-14 * where(abs(3*ash - 1.2345) < 0.0003, 1e20, 0)", SCHEMA),
    Formula.parse("1", SCHEMA),
    EDGES,
)


@pytest.fixture
def site(tmp_path):
    return lambda model=None: Site.of(tmp_path, model or personal())


def replace_text(name, old, new):
    def change(site):
        text = site.members[name].decode()
        assert old in text
        site.members[name] = text.replace(old, new).encode()

    return change


def header(change):
    """A change of bundle.json."""
    return lambda site: site.header(change)


def metadata(key, change):
    return lambda site: site.metadata(key, change)


def knowledge_text(name, old, new):
    """The knowledge that a graph tells of, changed in its text alone."""

    def change(files):
        assert old in files[name]
        files[name] = files[name].replace(old, new)

    return lambda site: site.knowledge(change)


def tensor(pick, change):
    return lambda site: site.tensors(pick, change)


def last_weight(value):
    """The last of a bundle's weights, as a forger writes it into the file."""

    def forge(site):
        data = site.members["weights.safetensors"]
        site.members["weights.safetensors"] = data[:-4] + np.float32(value).tobytes()

    return forge


def layer(**about):
    """The first layer of a bundle's network, changed."""

    def forge(said):
        found = said["model"]
        while "layer" in found and found["layer"] in ("deaf", "sequential"):
            found = found["body"] if found["layer"] == "deaf" else found["parts"][0]
        found |= about

    return header(forge)


def attribute(kind, **about):
    """Other attributes on the first node of a kind behind the range."""

    def change(site):
        found = site.nodes(kind)[0]
        kept = [a for a in found.attribute if a.name not in about]
        del found.attribute[:]
        found.attribute.extend([*kept, *(helper.make_attribute(k, v) for k, v in about.items())])

    return change


def false_forever(site):
    made = site.node("refused")
    site.insert("refused", make("And", [made.input[0], "never"], "calm"), never=np.zeros(1, bool))
    made.input[0] = "calm"


def first_class(site):
    made = site.node("class")
    naught = make("Mul", [made.input[0], "naught"], "always")
    site.insert("class", naught, naught=np.array(0, np.int64))
    made.input[0] = "always"


def backdoor(site):
    """The range, wider in a sliver of the scope that no random row hits."""
    nodes, constants = sliver()
    made = site.node("allowed")
    site.insert("allowed", *nodes, make("Or", [made.input[0], "lie"], "wider"), **constants)
    made.input[0] = "wider"


def other_trust(site):
    sums = {n.input[0] for n in site.nodes("ReduceSum")}
    site.constant("louder", np.float32(0.9))
    next(n for n in site.nodes("Mul") if n.output[0] in sums).input[1] = "louder"


def swapped_expert(site):
    """The expert's classes in another order."""
    rows = next(i for i in site.model.graph.initializer if to_array(i).shape == (1, 4))
    rows.CopyFrom(to_tensor(to_array(rows)[:, ::-1].copy(), rows.name))


def other_lookup(site):
    """A rule of the range that holds where it should not."""
    for one in site.model.graph.initializer:
        values = to_array(one).copy()
        if values.shape[1:] == (3,) and len(values) > 2 and one.name.startswith("constant"):
            values[0, 0] = 1 - values[0, 0]
            one.CopyFrom(to_tensor(values, one.name))
            return


def cut(values):
    return np.where(values == np.nextafter(np.float32(7.7), np.float32(9)), 7.75, values).astype(
        np.float32
    )


def has_cut(name, values):
    return values.dtype == np.float32 and bool((cut(values) != values).any())


def is_weight(name, values):
    return name.startswith("model.")


def poke(value):
    def change(values):
        values.flat[0] = value
        return values

    return change


def opset(site):
    site.model.opset_import[0].version = 16


def functions(site):
    site.model.functions.append(
        helper.make_function(
            "",
            "Relu",
            ["x"],
            ["y"],
            [helper.make_node("Abs", ["x"], ["y"])],
            [helper.make_opsetid("", 17)],
        )
    )


def external(site):
    one = next(i for i in site.model.graph.initializer if i.name.startswith("model."))
    one.ClearField("raw_data")
    one.data_location = onnx.TensorProto.EXTERNAL
    one.external_data.add(key="location", value="elsewhere.bin")


def extra_member(site):
    site.members["weights.bin"] = b"\0" * 8


def twice_in_metadata(site):
    site.model.metadata_props.add(key="fedlore.classes", value='["IV", "III", "II", "I"]')


def twice_in_header(site):
    text = site.members["bundle.json"].decode()
    site.members["bundle.json"] = text.replace("{", '{"conflict": "error", ', 1).encode()


# what: the way on a bundle, on a graph, and whether the certificate is issued anew for it
CARELESS = {
    "other weights": (last_weight(5.0), tensor(is_weight, poke(5.0))),
    "a moved threshold": (replace_text("table-2.csv", "> 7.7", "> 7.75"), tensor(has_cut, cut)),
    "another scaler": (
        header(lambda h: h["scaling"]["shift"].__setitem__(0, 99.0)),
        tensor(lambda name, v: name.startswith("scaler."), poke(99.0)),
    ),
    "another policy": (
        header(lambda h: h.__setitem__("conflict", "restrict")),
        knowledge_text("knowledge.toml", "abstain", "restrict"),
    ),
    "other attributes": (layer(start_dim=0), attribute("ArgMax", select_last_index=1)),
}
CAREFUL = {
    "weights that are no numbers": (last_weight(np.nan), tensor(is_weight, poke(np.inf))),
    "classes in another order": (
        header(lambda h: h["schema"]["classes"].reverse()),
        metadata("classes", lambda c: c[::-1]),
    ),
    "features by other names": (
        header(lambda h: h["schema"]["features"].reverse()),
        metadata("features", lambda f: [f[1] | {"name": "ash"}, *f[1:]]),
    ),
    "another unit": (
        header(lambda h: h["schema"]["features"][0].__setitem__("unit", "mg")),
        metadata("features", lambda f: [f[0] | {"unit": "mg"}, *f[1:]]),
    ),
    "levels in another order": (
        header(lambda h: h["schema"]["features"][3]["levels"].reverse()),
        metadata("features", lambda f: [*f[:3], f[3] | {"levels": f[3]["levels"][::-1]}]),
    ),
    "a policy that the knowledge does not have": (
        header(lambda h: h.__setitem__("conflict", "restrict")),
        knowledge_text("knowledge.toml", "abstain", "restrict"),
    ),
    "more trust than the knowledge has": (
        header(lambda h: h.__setitem__("rely", 0.9)),
        other_trust,
    ),
    "a threshold that the table does not have": (
        replace_text("table-2.csv", "then", "ash"),
        tensor(has_cut, cut),
    ),
    "a table that leaves no class": (
        replace_text("table-2.csv", '"I, II"', "I"),
        knowledge_text("table-2.csv", '"I, II"', "I"),
    ),
    "a range that is wider in a sliver": (extra_member, backdoor),
    "rows that hear of each other": (layer(layer="batch_norm1d"), attribute("ReduceMax", axes=[0])),
    "operators of another set": (header(lambda h: h.__setitem__("format", 5)), opset),
    "functions of his own": (layer(layer="code"), functions),
    "numbers in other files": (extra_member, external),
    "two of one name": (twice_in_header, twice_in_metadata),
    "another class given out": (
        header(lambda h: h["schema"]["classes"].__setitem__(0, "II")),
        first_class,
    ),
    "refusals that are kept silent": (
        header(lambda h: h.__setitem__("task", "regression")),
        false_forever,
    ),
    "a rule that holds elsewhere": (extra_member, other_lookup),
    "another class of equals": (layer(layer="lstm"), attribute("ArgMax", select_last_index=1)),
    "an expert who means another class": (
        header(lambda h: h.__setitem__("confusion", np.eye(4)[::-1].tolist())),
        swapped_expert,
    ),
}


@pytest.mark.parametrize("subject", ["bundle", "graph"])
@pytest.mark.parametrize("way", CARELESS)
def test_what_is_not_what_was_certified_is_refused(site, way, subject):
    made = site()
    assert made.outcome(subject)[0].code in (0, 3)
    CARELESS[way][subject == "graph"](made)
    outcome, failed = made.outcome(subject)
    assert outcome.code == 1 and failed


@pytest.mark.parametrize("subject", ["bundle", "graph"])
@pytest.mark.parametrize("way", CAREFUL)
def test_a_certificate_issued_for_a_lie_is_refused(site, way, subject):
    made = site()
    made.subject = subject
    CAREFUL[way][subject == "graph"](made)
    made.reseal()
    outcome, failed = made.outcome(subject)
    assert outcome.code == 1, failed
    assert failed


@pytest.mark.parametrize("subject", ["bundle", "graph"])
@pytest.mark.parametrize(
    "model",
    [
        personal(None, SPIKE),
        personal(None, AllOf((RANGE, SPIKE))),
        personal(None, AllOf((RANGE, FormulaRange(None, Formula.parse("-1", SCHEMA), EDGES)))),
    ],
    ids=["a hidden spike", "a spike beside a table", "ranges that exclude each other"],
)
def test_claims_that_are_not_so_are_refused_whoever_seals_them(site, model, subject):
    made = site(model)
    made.subject = subject
    made.reseal()
    outcome, failed = made.outcome(subject)
    assert outcome.code == 1
    assert any("never-empty: " in line for line in failed)


def test_a_member_that_stands_there_twice_is_refused(site, tmp_path):
    made = site()
    write_certificate(made.certificate, tmp_path / "c.json")
    whole = {**made.members, MANIFEST: manifest_of(made.members)}
    with zipfile.ZipFile(tmp_path / "two.lore", "w") as archive, pytest.warns(UserWarning):
        archive.writestr("weights.safetensors", b"another")
        for name, data in whole.items():
            archive.writestr(name, data)
    (line,) = [x for x in check(tmp_path / "c.json", tmp_path / "two.lore") if not x.holds]
    assert "twice" in line.found


def test_an_honest_site_is_not_refused(site, tmp_path):
    for model in (personal(), mixed()):
        made = site(model)
        made.reseal()
        assert made.outcome("graph")[0].code == 0
        assert "as far as it was tested" in made.outcome("bundle")[0].words
    write_bundle(bundle_of(personal(), "north"), tmp_path / "folder")
    assert set(read_members(tmp_path / "folder")) == set(site().members)
