"""Bundle and certificate name who signed the rules, and the stand-alone checker proves it."""

import hashlib
import json
from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings

from fedlore import Knowledge, bundle
from fedlore.bundle.archive import fingerprint_of, read_members, write_members
from fedlore.bundle.certify import certify, write_certificate
from fedlore.bundle.knowledge import SIGNATURE, check_signature
from fedlore.bundle.onnx import write_bundle_onnx
from fedlore.bundle.serve.server import serve_bundle
from fedlore.bundle.store import refuse_draft
from fedlore.bundle.update import update_bundle
from fedlore.checker import check, outcome_of
from fedlore.checker.certificate import seal
from fedlore.core.nets import mlp
from fedlore.core.scaler import Scaler
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.kernel.signature import meaning_in
from fedlore.knowledge.files import describe, pack_knowledge
from fedlore.knowledge.signing import features_in, find_signature, make_key, sign_file
from fedlore.models.regressor import PersonalRegressor

from ..cli.tasks import write_knowledge
from .making import SCHEMA, known, personal, rows
from .onnx.worlds import worlds

pytest.importorskip("cryptography")
WORDS = "coke and coal"
EXAMPLES = "ash,s,expect\n35,1,C\n"


def write_site(folder, knowledge=None):
    """A site whose owner has signed; its knowledge file."""
    (knowledge or known()).write(folder / "knowledge.toml")
    path = folder / "knowledge.toml"
    path.write_text('examples = "examples.csv"\n' + path.read_text())
    (folder / "examples.csv").write_text(EXAMPLES)
    make_key(folder / "key.pem", WORDS)
    sign_file(path, key=folder / "key.pem", passphrase=WORDS, signer="Ann")
    return path


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return write_site(tmp_path_factory.mktemp("signed"))


@pytest.fixture(scope="module")
def made(site):
    return bundled(site)


def bundled(path, **more):
    model = personal(Knowledge.read(path))
    return bundle.bundle_of(model, "plant", schema=SCHEMA, signature=find_signature(path), **more)


@cache
def _stated(made):
    return certify(made)


def stated(made):
    """The certificate of a bundle, made once."""
    return deepcopy(_stated(made))


def digest(data):
    return hashlib.sha256(data).hexdigest()


def checked(made, folder, *, key=None, said=None, subject=None):
    """The lines of the checker about a bundle, or an ONNX graph, and its certificate."""
    write_certificate(stated(made) if said is None else said, folder / "c.json")
    if subject is None:
        subject = folder / "b.lore"
        bundle.write_bundle(made, subject)
    lines = check(folder / "c.json", subject, key)
    return outcome_of(lines).code in (0, 3), {line.what: line for line in lines}


def test_bundle_card_and_certificate_name_the_signer_and_the_checker_agrees(made, tmp_path):
    signed = check_signature(made.members)
    assert signed["signer"] == "Ann" and f"signed by: Ann, {signed['date']}" in made.card
    assert stated(made)["signature"] == signed
    fine, lines = checked(made, tmp_path, key=signed["key"])
    assert fine and signed["key"] in lines["knowledge signed"].found
    fine, lines = checked(made, tmp_path, key="00" * 32)
    assert not fine and "not with the one expected" in lines["knowledge signed"].found
    refuse_draft(made, [signed["key"]])
    with pytest.raises(KnowledgeError, match="a key that is not named here"):
        refuse_draft(made, ["00" * 32])


def test_the_checker_finds_the_signature_under_a_graph(made, tmp_path):
    write_bundle_onnx(made, tmp_path / "m.onnx")
    fine, lines = checked(made, tmp_path, subject=tmp_path / "m.onnx")
    assert fine and "by Ann" in lines["knowledge signed"].found


def test_another_trust_keeps_the_signature_other_rules_lose_it(site, tmp_path):
    made = bundled(site, policies=bundle.Policies(signed=True))
    tuned = update_bundle(made, trust=0.9)
    assert check_signature(tuned.members) == check_signature(made.members)
    assert checked(tuned, tmp_path)[0]
    refuse_draft(tuned)
    known(0.1).write(tmp_path / "draft" / "knowledge.toml")
    draft = update_bundle(made, tmp_path / "draft" / "knowledge.toml")
    assert SIGNATURE not in draft.members
    for refused in (lambda: refuse_draft(draft), lambda: serve_bundle(draft, port=0)):
        with pytest.raises(KnowledgeError, match="'plant' is a draft"):
            refused()
    again = update_bundle(draft, site)
    assert check_signature(again.members)["signer"] == "Ann" and again.policies.signed


def test_a_bundle_of_other_rules_does_not_take_the_signature(site):
    other = replace(known(), conflict="restrict")
    made = bundle.bundle_of(personal(other), "plant", schema=SCHEMA, signature=find_signature(site))
    assert SIGNATURE not in made.members


def forge(made, folder, **changed):
    """The bundle with other members and a new manifest, and the path it lies at."""
    members = {**made.members, **changed.pop("files", {})}
    if changed:
        said = json.loads(members[SIGNATURE]) | changed
        members[SIGNATURE] = json.dumps(said).encode()
    write_members(members, folder / "forged.lore")
    return folder / "forged.lore", members


def certified_anew(made, members):
    """A careful forger's certificate: everything in it is about the forged bundle."""
    said = stated(made)
    said["files"] = {name: digest(data) for name, data in sorted(members.items())}
    said["bundle"] = fingerprint_of(members)
    said["knowledge"] = {name: digest(members[name]) for name in said["knowledge"]}
    said["signature"] = json.loads(members[SIGNATURE])
    return said | {"sha256": seal(said)}


def forge_and_check(made, folder, **changed):
    """Where a forged bundle lies, and what the checker finds with a certificate for it."""
    path, members = forge(made, folder, **changed)
    return path, checked(made, folder, said=certified_anew(made, members), subject=path)


def test_a_table_changed_after_signing(made, tmp_path):
    name = next(name for name in made.members if name.endswith(".csv"))
    table = made.members[name].replace(b"> 12", b"> 13")
    assert table != made.members[name]
    path, (fine, lines) = forge_and_check(made, tmp_path, files={name: table})
    with pytest.raises(FedloreError, match="not what Ann signed"):
        bundle.read_bundle(path)
    assert not fine and "not those that Ann signed" in lines["knowledge signed"].found
    # nobody but Ann can say that she meant it
    members = {**made.members, name: table}
    new = meaning_in(members, json.loads(members[SIGNATURE])["examples"], {})
    path, (fine, lines) = forge_and_check(made, tmp_path, files={name: table}, meaning=new)
    assert not fine and lines["knowledge signed"].found == "it does not hold"
    with pytest.raises(FedloreError, match="the signature does not hold"):
        certify(bundle.read_bundle(path))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"),
        ("key", "01" + "00" * 31),
        ("signer", "Eve"),
        ("date", "2030-01-01T00:00:00+00:00"),
        ("signature", "00" * 64),
    ],
)
def test_a_swapped_key_name_or_date(made, tmp_path, field, value):
    path, (fine, lines) = forge_and_check(made, tmp_path, **{field: value})
    assert not fine and lines["knowledge signed"].found == "it does not hold"
    with pytest.raises(FedloreError, match="the signature does not hold"):
        refuse_draft(bundle.read_bundle(path), needed=True)


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'{"signer": 1}', b"\xff", b"[" * 10_000])
def test_what_is_no_signature_is_refused(made, tmp_path, text):
    path, _ = forge(made, tmp_path, files={SIGNATURE: text})
    with pytest.raises(FedloreError, match="is not a signature"):
        bundle.read_bundle(path)


def test_the_signature_of_another_site(made, tmp_path):
    other = write_site(tmp_path / "other", replace(known(), conflict="restrict"))
    foreign = bundled(other).members[SIGNATURE]
    path, (fine, _) = forge_and_check(made, tmp_path, files={SIGNATURE: foreign})
    assert not fine
    with pytest.raises(FedloreError, match="not what Ann signed"):
        bundle.read_bundle(path)
    # another owner of the very same rules: it holds, but not for who expects the first key
    twin = bundled(write_site(tmp_path / "twin"))
    own = check_signature(made.members)["key"]
    assert checked(twin, tmp_path)[0] and not checked(twin, tmp_path, key=own)[0]


def test_certificate_and_bundle_tell_of_one_signature(made, tmp_path):
    bare = bundle.bundle_of(personal(), "plant", schema=SCHEMA)
    without = stated(made)
    del without["signature"]
    without["sha256"] = seal(without)
    fine, lines = checked(made, tmp_path, said=without)
    assert not fine and "'signature'" in lines["certificate's fields"].found
    assert checked(bare, tmp_path)[0] and not checked(bare, tmp_path, key="00" * 32)[0]
    stolen = stated(bare) | {"signature": stated(made)["signature"]}
    stolen["sha256"] = seal(stolen)
    assert not checked(bare, tmp_path, said=stolen)[0]


def test_nothing_that_changes_an_answer_stands_beside_what_was_signed(made, tmp_path):
    """A confusion turns the expert round; a source of two kinds is read, and signed by nobody."""
    header = json.loads(made.members["bundle.json"])
    header["confusion"] = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    files = {"bundle.json": json.dumps(header).encode()}
    _, (fine, lines) = forge_and_check(made, tmp_path, files=files)
    assert not fine and "does not cover" in lines["expert's confusion"].found
    text = made.members["knowledge.toml"].decode()
    more = '[[range.sources]]\ntable = "evil.csv"\nconformal = "x"\n\n[[range.sources]]'
    evil = {"knowledge.toml": text.replace("[[range.sources]]", more, 1).encode()}
    evil |= {"evil.csv": b"ash,then\n> 30,C\n"}
    assert not forge_and_check(made, tmp_path, files=evil)[1][0]


def test_what_a_federation_says_of_missing_values_is_not_the_experts_word(site, tmp_path):
    own = Knowledge.read(site)
    first, *rest = own.schema.features
    schema = replace(own.schema, features=(replace(first, missing="mean"), *rest))
    agreed = replace(own, schema=schema)
    files = pack_knowledge(describe(agreed))
    signature = find_signature(site)
    assert meaning_in(files, signature.examples, signature.features) == signature.by.meaning
    assert meaning_in(files, signature.examples, features_in(files)) != signature.by.meaning


def test_a_number_is_signed_too(tmp_path):
    path = write_knowledge(tmp_path / "site", "number")
    make_key(path.parent / "key.pem", WORDS)
    sign_file(path, key=path.parent / "key.pem", passphrase=WORDS, signer="Bo")
    held = Knowledge.read(path)
    scaler = Scaler.of(rows())
    model = PersonalRegressor(mlp(2, 10, seed=0), held.bins, held, scaler=scaler)
    made = bundle.bundle_of(model, "plant", schema=held.schema, signature=find_signature(path))
    assert check_signature(made.members)["signer"] == "Bo"
    bundle.write_bundle(made, tmp_path / "b.lore")
    assert SIGNATURE in read_members(tmp_path / "b.lore")


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(worlds())
def test_a_meaning_holds_examples_and_no_trust(world):
    said = world.personal.knowledge
    files = pack_knowledge(describe(said))
    features = features_in(files)
    own = meaning_in(files, [["1", "I"]], features)
    assert meaning_in(files, [["1", "II"]], features) != own
    tuned = pack_knowledge(describe(replace(said, trust=0.77)))
    assert meaning_in(tuned, [["1", "I"]], features) == own
