"""A signature covers what the knowledge means: rules and examples, not λ and not the spelling."""

import json
import shutil

import pytest

from fedlore.errors import ConfigError, FedloreError, KnowledgeError
from fedlore.knowledge.signing import check_signed, make_key, meaning_of, sign_file, signature_path

pytest.importorskip("cryptography")

TOML = """classes = ["III", "II", "I"]
trust = 0.3
examples = "examples.csv"
[[features]]
name = "ash"
low = 5
high = 16
[[predict.sources]]
table = "predict.csv"
"""
FILES = {
    "knowledge.toml": TOML,
    "predict.csv": "ash,then\n> 14,III\n< 9,I\n",
    "examples.csv": "ash,expect\n15,III\n",
}
WORDS = "coke and coal"


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A site whose knowledge was signed."""
    folder = tmp_path_factory.mktemp("signed")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    make_key(folder / "key.pem", WORDS)
    sign_file(folder / "knowledge.toml", key=folder / "key.pem", passphrase=WORDS, signer="Ann")
    return folder


@pytest.fixture
def site(signed, tmp_path):
    return shutil.copytree(signed, tmp_path / "site")


def test_a_signed_file_names_its_signer(site):
    found = check_signed(site / "knowledge.toml")
    assert found.signer == "Ann" and found.meaning == meaning_of(site / "knowledge.toml")
    assert check_signed(site / "knowledge.toml", [found.key]) == found
    with pytest.raises(KnowledgeError, match="a key that is not named here"):
        check_signed(site / "knowledge.toml", ["00" * 32])


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("knowledge.toml", "trust = 0.3", "trust = 0.9  # tuned\nreliance = 0.1"),
        ("knowledge.toml", 'classes = ["III", "II", "I"]', 'classes = [ "III","II","I" ] # best'),
        ("predict.csv", "> 14,III", '">14","III"'),
        ("predict.csv", "ash,then\n", "ash,then\n\n"),
        ("examples.csv", "15,III", " 15 ,III"),
    ],
)
def test_trust_remarks_and_spelling_leave_it_signed(site, file, old, new):
    text = (site / file).read_text()
    assert old in text
    (site / file).write_text(text.replace(old, new))
    assert check_signed(site / "knowledge.toml").signer == "Ann"


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("predict.csv", "> 14", "> 13"),
        ("predict.csv", "> 14,III\n< 9,I", "< 9,I\n> 14,III"),
        ("examples.csv", "15,III", "15,II"),
        ("knowledge.toml", "high = 16", "high = 17"),
        ("knowledge.toml", 'table = "predict.csv"', 'table = "predict.csv"\nhit = "unique"'),
    ],
)
def test_another_meaning_is_a_draft(site, file, old, new):
    (site / file).write_text((site / file).read_text().replace(old, new))
    with pytest.raises(KnowledgeError, match="is a draft: it no longer says what Ann signed"):
        check_signed(site / "knowledge.toml")


@pytest.mark.parametrize("field", ["signer", "date", "meaning", "key", "signature"])
def test_a_signature_that_was_touched_does_not_hold(site, field):
    path = signature_path(site / "knowledge.toml")
    said = json.loads(path.read_text())
    said[field] = ("0" if said[field][0] != "0" else "1") + said[field][1:]
    path.write_text(json.dumps(said))
    with pytest.raises(KnowledgeError, match="does not hold"):
        check_signed(site / "knowledge.toml")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"signer": 1}'])
def test_what_is_no_signature_is_said(site, text):
    signature_path(site / "knowledge.toml").write_text(text)
    with pytest.raises(KnowledgeError, match="is not a signature"):
        check_signed(site / "knowledge.toml")


def test_nobody_signs_without_the_passphrase_or_twice_makes_a_key(site):
    signature_path(site / "knowledge.toml").unlink()
    with pytest.raises(KnowledgeError, match="nobody has signed it"):
        check_signed(site / "knowledge.toml")
    about = {"key": site / "key.pem", "signer": "Eve"}
    with pytest.raises(FedloreError, match="does not open the key"):
        sign_file(site / "knowledge.toml", passphrase="guessed it", **about)
    with pytest.raises(FedloreError, match="there already"):
        make_key(site / "key.pem", WORDS)
    with pytest.raises(ConfigError, match="at least 8"):
        make_key(site / "other.pem", "short")
    assert (site / "key.pem").stat().st_mode & 0o077 == 0
    assert b"ENCRYPTED" in (site / "key.pem").read_bytes()


RANGE = '[range]\n{keys}\n[[range.sources]]\ntable = "range.csv"\n'
CALIBRATED = """[[range.sources]]
[range.sources.conformal]
alpha = 0.1
thresholds = [0.2, 0.2, 0.2]
rows = 50
scorer = {formula = "-ash", edges = [-14.0, -9.0], spread = 2.0}
"""


def with_range(folder, keys, *, first=False):
    """The site with a range of rules and a calibrated one, which may stand first."""
    (folder / "range.csv").write_text("ash,then\n> 12,III..II\n")
    rules = RANGE.format(keys=keys)
    if first:
        head, _, tail = rules.partition("[[")
        rules = f"{head}{CALIBRATED}[[{tail}"
    else:
        rules += CALIBRATED
    (folder / "knowledge.toml").write_text(TOML + rules)


@pytest.fixture
def ranged(site):
    """The site, signed again with a range of rules alone."""
    (site / "range.csv").write_text("ash,then\n> 12,III..II\n")
    (site / "knowledge.toml").write_text(TOML + RANGE.format(keys=""))
    sign_file(site / "knowledge.toml", key=site / "key.pem", passphrase=WORDS, signer="Ann")
    return site


@pytest.mark.parametrize("keys", ["", 'empty = "error"', 'empty = "first"'])
def test_a_calibrated_range_that_only_narrows_leaves_it_signed(ranged, keys):
    with_range(ranged, keys)
    assert check_signed(ranged / "knowledge.toml").signer == "Ann"


@pytest.mark.parametrize(
    ("keys", "first"),
    [('combine = "any"', False), ('empty = "all"', False), ('empty = "first"', True)],
)
def test_a_calibrated_range_that_lets_in_what_the_expert_excludes_is_a_draft(ranged, keys, first):
    with_range(ranged, keys, first=first)
    with pytest.raises(KnowledgeError, match="no longer says what Ann signed"):
        check_signed(ranged / "knowledge.toml")


def test_a_file_without_a_range_may_be_calibrated(site):
    (site / "knowledge.toml").write_text(TOML + CALIBRATED)
    assert check_signed(site / "knowledge.toml").signer == "Ann"
