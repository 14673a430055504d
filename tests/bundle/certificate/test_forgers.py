"""Ways to lie, each on a bundle and on a graph: the checker that stands alone refuses them all.

A careless forger changes what was certified. A careful one issues the certificate anew for what he
changed, claims what he likes, and seals it: then nothing speaks against him but the thing itself.
"""

import hashlib
import json
import zipfile
from dataclasses import dataclass

import numpy as np
import onnx
import pytest

from fedlore.bundle import bundle_of, write_bundle
from fedlore.bundle.archive import MANIFEST, manifest_of
from fedlore.bundle.certify import certify, write_certificate
from fedlore.bundle.onnx import bundle_to_onnx
from fedlore.checker import check, outcome_of
from fedlore.checker.bundles import read_members, read_weights
from fedlore.checker.graphs import Graph
from fedlore.checker.verdict import seal
from fedlore.knowledge import AllOf, Formula, FormulaRange

from ..onnx.worlds import EDGES, SCHEMA
from .test_certificate import RANGE, personal
from .test_false_proofs import backdoor
from .test_mixtures import _meta, before, constant, mixed, node_of

helper, to_array, to_tensor = onnx.helper, onnx.numpy_helper.to_array, onnx.numpy_helper.from_array
SPIKE = FormulaRange(
    Formula.parse("1e-14 * where(abs(3*ash - 1.2345) < 0.0003, 1e20, 0)", SCHEMA),
    Formula.parse("1", SCHEMA),
    EDGES,
)


@dataclass
class Site:
    """Files of a site in a forger's hands: he changes parts and puts them back."""

    folder: object
    certificate: dict
    members: dict
    model: onnx.ModelProto

    def outcome(self, subject):
        (self.folder / "c.json").write_text(json.dumps(self.certificate))
        if subject == "graph":
            (self.folder / "m.onnx").write_bytes(self.model.SerializeToString())
            place = self.folder / "m.onnx"
        else:
            place = self.folder / "forged.lore"
            write_zip(place, self.members)
        lines = check(self.folder / "c.json", place)
        return outcome_of(lines), [str(line) for line in lines if not line.holds]

    def reseal(self):
        """The certificate as its forger would issue it for what is there now: all is proved."""
        said, files = self.certificate, self.members
        digests = {name: sha(data) for name, data in sorted(files.items())}
        said |= {"files": digests, "bundle": sha(manifest_of(files))}
        try:
            weights = read_weights(files["weights.safetensors"])
            said["graph"] = Graph(self.model.SerializeToString()).digests()
        except Exception:  # what cannot be read cannot be hashed either
            weights = {}
        said["weights"] = {
            name: {"shape": list(v.shape), "sha256": sha(v.tobytes())}
            for name, v in weights.items()
        }
        said["knowledge"] = {n: d for n, d in digests.items() if n.endswith((".toml", ".csv"))}
        for claim in said["claims"]:
            claim["status"] = "proved"
        said["verdict"] = "proved"
        self.seal()

    def seal(self):
        self.certificate["sha256"] = seal(self.certificate)


def sha(data):
    return hashlib.sha256(data).hexdigest()


def write_zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, MANIFEST: manifest_of(members)}.items():
            archive.writestr(name, data)


@pytest.fixture
def site(tmp_path):
    def made(model=None):
        bundle = bundle_of(model or personal(), "north")
        return Site(tmp_path, certify(bundle), dict(bundle.members), bundle_to_onnx(bundle))

    return made


def replace_text(name, old, new):
    def change(site):
        text = site.members[name].decode()
        assert old in text
        site.members[name] = text.replace(old, new).encode()

    return change


def header(change):
    """A change of bundle.json."""

    def forge(site):
        said = json.loads(site.members["bundle.json"])
        change(said)
        site.members["bundle.json"] = json.dumps(said).encode()

    return forge


def metadata(key, change):
    return lambda site: _meta(f"fedlore.{key}", change)(site.model)


def knowledge_text(name, old, new):
    """The knowledge that a graph tells of, changed in its text alone."""

    def change(site):
        entry = next(e for e in site.model.metadata_props if e.key == "fedlore.knowledge.files")
        files = json.loads(entry.value)
        assert old in files[name]
        files[name] = files[name].replace(old, new)
        entry.value = json.dumps(files)
        replace_text(name, old, new)(site)  # so that its hash is that of the forged certificate

    return change


def tensor(pick, change):
    """Constants of a graph, changed where they fit."""

    def forge(site):
        hit = 0
        for one in site.model.graph.initializer:
            values = to_array(one)
            if pick(one.name, values):
                one.CopyFrom(to_tensor(change(values.copy()), one.name))
                hit += 1
        assert hit

    return forge


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


def node(name, change):
    return lambda site: change(site.model, node_of(site.model, name))


def attribute(kind, **about):
    """Other attributes on the first node of a kind behind the range."""

    def change(site):
        found = next(n for n in site.model.graph.node if n.op_type == kind)
        kept = [a for a in found.attribute if a.name not in about]
        del found.attribute[:]
        found.attribute.extend([*kept, *(helper.make_attribute(k, v) for k, v in about.items())])

    return change


def false_forever(model, made):
    constant(model, "never", np.zeros(1, bool))
    before(
        model,
        "refused",
        helper.make_node("And", [made.input[0], "never"], ["calm"]),
    )
    node_of(model, "refused").input[0] = "calm"


def first_class(model, made):
    constant(model, "naught", np.array(0, np.int64))
    before(model, "class", helper.make_node("Mul", [made.input[0], "naught"], ["always"]))
    node_of(model, "class").input[0] = "always"


def other_trust(site):
    told = [n for n in site.model.graph.node if n.op_type == "Mul" and n.output[0] in sums(site)]
    constant(site.model, "louder", np.float32(0.9))
    told[0].input[1] = "louder"


def sums(site):
    return {n.input[0] for n in site.model.graph.node if n.op_type == "ReduceSum"}


def swapped_expert(site):
    """The expert's classes in another order."""
    rows = next(i for i in site.model.graph.initializer if to_array(i).shape == (1, 4))
    rows.CopyFrom(to_tensor(to_array(rows)[:, ::-1].copy(), rows.name))


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


def certificate(**change):
    def forge(site):
        site.certificate |= change

    return forge


def both(change):
    return change, change


def scope(site):
    site.certificate["scope"][0]["high"] = 1e6


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
    "other weights": (
        last_weight(5.0),
        tensor(is_weight, poke(5.0)),
    ),
    "a moved threshold": (replace_text("table-2.csv", "> 7.7", "> 7.75"), tensor(has_cut, cut)),
    "another scaler": (
        header(lambda h: h["scaling"]["shift"].__setitem__(0, 99.0)),
        tensor(lambda name, v: name.startswith("scaler."), poke(99.0)),
    ),
    "another policy": (
        header(lambda h: h.__setitem__("conflict", "restrict")),
        knowledge_text("knowledge.toml", "abstain", "restrict"),
    ),
    "other attributes": (
        layer(start_dim=0),
        attribute("ArgMax", select_last_index=1),
    ),
}
CAREFUL = {
    "weights that are no numbers": (
        last_weight(np.nan),
        tensor(is_weight, poke(np.inf)),
    ),
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
        certificate(conflict="restrict"),
    ),
    "a wider scope": both(scope),
    "more trust than the knowledge has": (
        header(lambda h: h.__setitem__("rely", 0.9)),
        other_trust,
    ),
    "a claim of his own": both(
        lambda site: site.certificate["claims"].append(
            {"claim": "accurate", "status": "proved", "how": "", "needed": True}
        )
    ),
    "a threshold that the table does not have": (
        replace_text("table-2.csv", "then", "ash"),
        tensor(has_cut, cut),
    ),
    "a table that leaves no class": (
        replace_text("table-2.csv", '"I, II"', "I"),
        knowledge_text("table-2.csv", '"I, II"', "I"),
    ),
    "a range that is wider in a sliver": (
        extra_member,
        lambda site: backdoor(site.model),
    ),
    "rows that hear of each other": (
        layer(layer="batch_norm1d"),
        attribute("ReduceMax", axes=[0]),
    ),
    "operators of another set": (header(lambda h: h.__setitem__("format", 5)), opset),
    "functions of his own": (
        layer(layer="code"),
        functions,
    ),
    "numbers in other files": (extra_member, external),
    "two of one name": (twice_in_header, twice_in_metadata),
    "another class given out": (
        header(lambda h: h["schema"]["classes"].__setitem__(0, "II")),
        node("class", first_class),
    ),
    "refusals that are kept silent": (
        header(lambda h: h.__setitem__("task", "regression")),
        node("refused", false_forever),
    ),
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
    made.reseal()
    outcome, failed = made.outcome(subject)
    assert outcome.code == 1
    assert any("the range is never empty" in line for line in failed)


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
