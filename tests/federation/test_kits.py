"""Kits: keys that only their owner reads, archives that hold nothing else."""

import datetime
import ssl
import stat
import zipfile
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.x509 import BasicConstraints, KeyUsage, SubjectAlternativeName
from typer.testing import CliRunner

from fedlore import FedloreError
from fedlore.cli.app import app
from fedlore.federation.coordinator.server import ending_soon
from fedlore.federation.coordinator.training import _fingerprint
from fedlore.federation.kits.certificates import (
    add_authorities,
    check_dates,
    new_authority,
    new_server,
    private_key,
    raw_key,
    read_certificate,
    read_site_key,
    vouch,
)
from fedlore.federation.kits.kit import (
    MEMBERS,
    add_site,
    enrol,
    enrolled_keys,
    init,
    remove_site,
    renew_authority,
    renew_server,
    renew_site,
    shown_authorities,
    unpack,
)
from fedlore.federation.kits.receipts import SiteBooks
from fedlore.federation.settings import read_deployed
from fedlore.federation.site.folder import Kit, SiteFile, read_kit
from fedlore.federation.site.session import learn_authority
from fedlore.federation.terms import terms_of
from fedlore_coke.experts import COKE

from .inside import edited
from .test_gateway import staged


@pytest.fixture
def folder(tmp_path):
    address = "coke.example:9300"
    init(tmp_path / "fed", name="coke", address=address, schema=COKE, secure=False)
    return tmp_path / "fed"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_init_writes_can_be_read(folder):
    federation = read_deployed(folder)
    assert federation.schema == COKE
    assert (federation.host, federation.port, federation.rounds) == ("coke.example", 9300, 20)
    assert [mode(folder / n) for n in ("ca.key", "server.key", "runner.secret")] == [0o600] * 3
    with pytest.raises(FedloreError, match="holds a federation already"):
        init(folder, name="coke", address="h:1", schema=COKE)


KEY_USES = (
    "digital_signature content_commitment key_encipherment data_encipherment key_agreement "
    "key_cert_sign crl_sign".split()
)


@pytest.mark.parametrize("secure", [True, False])
def test_secure_aggregation_is_a_word_in_the_template(tmp_path, secure):
    init(tmp_path / "fed", name="coke", address="h:1", schema=COKE, secure=secure)
    assert read_deployed(tmp_path / "fed").privacy.secure_aggregation is secure


def test_the_authority_signs_for_the_server_and_its_names(folder):
    authority, server = (read_certificate(folder / n) for n in ("ca.crt", "server.pem"))
    server.verify_directly_issued_by(authority)
    names = server.extensions.get_extension_for_class(SubjectAlternativeName).value
    found = [str(name.value) for name in names]
    assert found == ["coke.example", "localhost", "127.0.0.1"]


def joined(folder, name):
    """A site with its key, enrolled."""
    home = unpack(add_site(folder, name))
    enrol(folder, name, home / "site.pub")
    return home


def test_a_key_is_made_at_the_site_and_only_its_public_half_is_enrolled(folder):
    kit = add_site(folder, "plant-1")
    with zipfile.ZipFile(kit) as archive:
        names = archive.namelist()
        assert not any("key" in name or "pub" in name for name in names) and len(names) == 4
        assert b"PRIVATE" not in b"".join(archive.read(name) for name in names)
    assert enrolled_keys(folder) == {}
    lines = []
    home = unpack(kit, lines.append)
    assert lines == [
        f"Made this site's key. The coordinator needs {home / 'site.pub'}: fedlore federation "
        "enrol plant-1 site.pub"
    ]
    assert mode(home / "site.key") == 0o600
    assert not enrol(folder, "plant-1", home / "site.pub")
    key = read_site_key(home / "site.key")
    signature = key.sign(b"here", ec.ECDSA(SHA384()))
    enrolled_keys(folder)["plant-1"].verify(signature, b"here", ec.ECDSA(SHA384()))
    assert read_kit(home).file.address == "coke.example:9300"
    kept = [p for p in folder.rglob("*") if p.is_file() and home not in p.parents]
    private = (home / "site.key").read_bytes()
    assert not any(private in p.read_bytes() for p in kept) and not (home / "ca.key").exists()
    assert unpack(kit, lines.append) == unpack(home, lines.append) == home and len(lines) == 1
    assert (home / "site.key").read_bytes() == private  # one kit, one key


def test_only_the_key_of_a_site_that_has_a_kit_is_enrolled(folder, tmp_path):
    home = joined(folder, "plant-1")
    with pytest.raises(FedloreError, match="did you mean 'plant-1'.*add-site plant-2 makes"):
        enrol(folder, "plant-2", home / "site.pub")
    add_site(folder, "plant-2")
    with pytest.raises(FedloreError, match="key of site 'plant-1', which is enrolled already"):
        enrol(folder, "plant-2", home / "site.pub")
    for text in (b"", b"ssh-ed25519 AAAA", (home / "site.key").read_bytes()):
        (tmp_path / "x.pub").write_bytes(text)
        with pytest.raises(FedloreError, match="is not a public key"):
            enrol(folder, "plant-2", tmp_path / "x.pub")
    with pytest.raises(FedloreError, match="a name must be"):
        enrol(folder, "../up", home / "site.pub")
    assert list(enrolled_keys(folder)) == ["plant-1"]
    assert not enrol(folder, "plant-1", home / "site.pub")  # once more does no harm
    other = unpack(add_site(folder, "plant-2"))
    assert enrol(folder, "plant-1", other / "site.pub")  # the old one is shut out


def test_a_key_that_others_may_read_is_refused(folder):
    home = unpack(add_site(folder, "plant-1"))
    (home / "site.key").chmod(0o644)
    with pytest.raises(FedloreError, match="chmod 600"):
        read_site_key(home / "site.key")


def test_a_key_under_a_password_and_one_of_another_kind_are_named(folder, tmp_path):
    path, pem = tmp_path / "some.key", serialization.Encoding.PEM
    form = serialization.PrivateFormat.PKCS8
    locked = serialization.BestAvailableEncryption(b"secret")
    path.write_bytes(private_key(folder / "ca.key").private_bytes(pem, form, locked))
    with pytest.raises(FedloreError, match="some.key' is not a private key: .*encrypted"):
        private_key(path)
    other = Ed25519PrivateKey.generate()
    path.write_bytes(other.private_bytes(pem, form, serialization.NoEncryption()))
    with pytest.raises(FedloreError, match="must be an elliptic-curve key"):
        private_key(path)
    public = other.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert not SiteBooks().signed_by(public)


def test_a_renewed_kit_keeps_the_sites_own_file(folder):
    home = joined(folder, "plant-1")
    old = raw_key(enrolled_keys(folder)["plant-1"])
    edited(home / "site.toml", ("max_rounds = 1000", "max_rounds = 7"))
    kit = renew_site(folder, "plant-1")
    assert enrolled_keys(folder) == {}  # the old key is out at once
    unpack(kit)
    assert not enrol(folder, "plant-1", home / "site.pub")
    assert read_kit(home).file.policy.max_rounds == 7
    new = raw_key(read_site_key(home / "site.key").public_key())
    assert new == raw_key(enrolled_keys(folder)["plant-1"]) != old


def test_sites_are_added_once_and_removed_by_name(folder):
    joined(folder, "plant-1")
    with pytest.raises(FedloreError, match="enrolled already"):
        add_site(folder, "plant-1")
    with pytest.raises(FedloreError, match="did you mean 'plant-1'"):
        remove_site(folder, "plant-2")
    remove_site(folder, "plant-1")
    assert enrolled_keys(folder) == {}


@pytest.mark.parametrize("name", ["", "../up", "a/b", "-x", "x" * 65, "ä b"])
def test_a_name_that_could_leave_the_folder_is_refused(folder, name):
    with pytest.raises(FedloreError, match="a name must be"):
        add_site(folder, name)


def test_an_expired_certificate_says_what_to_do(folder):
    new_server(folder, ["localhost"], days=-1)
    with pytest.raises(FedloreError, match="expired on .* fedlore federation renew"):
        check_dates(folder / "server.pem")
    renew_server(folder)
    assert check_dates(folder / "server.pem").days == 364


def test_a_clock_that_is_behind_is_blamed(folder):
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=2)
    with pytest.raises(FedloreError, match="set this machine's clock"):
        check_dates(folder / "server.pem", now=past)


def test_what_one_process_compares_is_no_matter_of_the_deployed_federation(folder):
    path = folder / "federation.toml"
    before = read_deployed(folder)
    path.write_text(path.read_text() + '\n[run]\nsites = "sites"\napproaches = ["lore"]\n')
    after = read_deployed(folder)
    assert after.run.approaches == ("lore",)
    assert replace(after, run=before.run) == before
    assert terms_of(after, run="x", participants=3) == terms_of(before, run="x", participants=3)
    assert _fingerprint(after) == _fingerprint(before)  # a training may be resumed


def test_an_authority_is_renewed_beside_the_old_one(folder):
    """Who only knows the old one still trusts the server, and learns of the new one from it."""
    old = (folder / "ca.crt").read_bytes()
    assert renew_authority(folder, days=700)
    both = (folder / "ca.crt").read_bytes()
    assert old in both and trusts(old, folder) and trusts(both, folder)
    assert check_dates(folder / "ca.crt").days > 600
    shown = shown_authorities(folder)
    learned = add_authorities(old, shown)
    assert add_authorities(learned, shown) == learned != old
    assert ending_soon(folder) == []
    renew_server(folder, days=600)  # when all have learned of it
    assert trusts(learned, folder) and not trusts(old, folder)


def test_a_coordinator_that_moves_needs_a_certificate_and_no_new_consent(folder):
    def agreed():
        return terms_of(read_deployed(folder), run="", participants=0).fingerprint()

    before = agreed()
    edited(folder / "federation.toml", ("coke.example:9300", "elsewhere.example:9400"))
    renew_server(folder)
    names = read_certificate(folder / "server.pem").extensions.get_extension_for_class(
        SubjectAlternativeName
    )
    assert "elsewhere.example" in str(names.value) and agreed() == before
    assert trusts((folder / "ca.crt").read_bytes(), folder)


def test_a_server_s_word_makes_no_authority(folder, tmp_path):
    """Who has stolen server.key may show what he likes: the old authority's key has to sign it."""
    old = (folder / "ca.crt").read_bytes()
    init(tmp_path / "thief", name="coke", address="h:1", schema=read_deployed(folder).schema)
    theirs = (tmp_path / "thief" / "ca.crt").read_bytes()
    assert add_authorities(old, old + theirs) == old
    assert add_authorities(old, old + theirs + (folder / "server.pem").read_bytes()) == old
    renew_authority(tmp_path / "thief")  # vouched for by one that nobody here knows
    assert add_authorities(old, old + shown_authorities(tmp_path / "thief")) == old
    renew_authority(folder)
    both = shown_authorities(folder)
    assert theirs not in add_authorities(old, both + theirs)
    again = add_authorities(old, both)
    assert again.count(b"BEGIN") == 2 and again.startswith(old)


def test_a_certificate_that_ends_soon_is_named(folder):
    assert ending_soon(folder) == []
    new_server(folder, ["localhost"], days=12)
    (line,) = ending_soon(folder)
    assert "'server.pem' holds for another 11 days: fedlore federation renew --dir" in line
    new_authority(folder, "coke", days=12)
    first, _ = ending_soon(folder)
    assert "'ca.crt'" in first and "renew --authority" in first
    new_server(folder, ["localhost"], days=-1)
    assert "expired on" in ending_soon(folder)[1]


def test_an_authority_that_has_expired_is_renewed(folder):
    new_authority(folder, "coke", days=-1)
    new_server(folder, ["localhost"], days=-1)
    old = (folder / "ca.crt").read_bytes()
    said = CliRunner().invoke(app, ["federation", "renew", "--dir", str(folder)])
    assert said.exit_code == 0 and "Hand" in said.output and "expired" in said.output
    assert (
        check_dates(folder / "ca.crt").days > 300 and check_dates(folder / "server.pem").days > 300
    )
    assert trusts((folder / "ca.crt").read_bytes(), folder) and not trusts(old, folder)


def trusts(ca, folder):
    """Whether a client with these authorities shakes hands with the server."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem", folder / "server.key")
    client = ssl.create_default_context(cadata=ca.decode())
    ends = [ssl.MemoryBIO() for _ in range(4)]
    here = client.wrap_bio(ends[0], ends[1], server_hostname="localhost")
    there = server.wrap_bio(ends[2], ends[3], server_side=True)
    for _ in range(4):
        for side, out, to in ((here, ends[1], ends[2]), (there, ends[3], ends[0])):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError:
                return False
            to.write(out.read())
    return True


def kit_with(path, **changes):
    """An archive like a kit, with some members changed, added or left out."""
    members = {f"north/{member}": b"x" for member in MEMBERS} | changes
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            if data is not None:
                archive.writestr(name, data)
    return path


def test_an_archive_that_unpacks_to_a_gigabyte_is_refused(tmp_path):
    bomb = kit_with(tmp_path / "north.zip", **{"north/terms.json": bytes(100_000_000)})
    assert bomb.stat().st_size < 200_000
    with pytest.raises(FedloreError, match="'north/terms.json' is longer than 4000000 bytes"):
        unpack(bomb)
    assert not (tmp_path / "north").exists()


def test_nothing_is_written_through_a_link(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "north").symlink_to(elsewhere)
    with pytest.raises(FedloreError, match="is a link"):
        unpack(kit_with(tmp_path / "north.zip"))
    assert list(elsewhere.iterdir()) == []
    (tmp_path / "north").unlink()
    (tmp_path / "north").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for member in MEMBERS:
        (tmp_path / "north" / member).symlink_to(victim)
    unpack(tmp_path / "north.zip")
    assert victim.read_text() == "mine"


def test_what_is_unpacked_is_its_owners_alone(tmp_path):
    folder = unpack(kit_with(tmp_path / "north.zip"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "changes",
    [
        {"north/evil.py": b""},
        {"north/kit.id": None},
        {"north/site.key": b""},
        {"north/../up.txt": b""},
        {"../site.toml": b""},
        {"south/site.toml": b""},
    ],
    ids=str,
)
def test_an_archive_with_other_members_is_no_kit(tmp_path, changes):
    with pytest.raises(FedloreError, match="is no kit: it holds"):
        unpack(kit_with(tmp_path / "north.zip", **changes))
    assert [path.name for path in tmp_path.iterdir()] == ["north.zip"]


def test_what_is_no_archive_is_no_kit(tmp_path):
    (tmp_path / "kit.zip").write_bytes(b"nothing")
    with pytest.raises(FedloreError, match="is no kit"):
        unpack(tmp_path / "kit.zip")


def test_a_site_learns_a_renewed_authority_from_a_server_that_the_old_one_vouches_for(tmp_path):
    for name in ("coordinator", "renewed", "stranger", "site"):
        (tmp_path / name).mkdir()
    new_authority(tmp_path / "renewed", "test", days=2)
    new_authority(tmp_path / "stranger", "test", days=2)
    lines = []
    with staged(tmp_path / "coordinator") as stage:
        old, new = (tmp_path / n / "ca.crt" for n in ("coordinator", "renewed"))
        shown = [old.read_bytes() + new.read_bytes()]
        stage.gate.authority = lambda: shown[0]
        address = f"localhost:{stage.door}"
        kit = Kit(tmp_path / "site", SiteFile("north", address))
        kept = kit.folder / "ca.crt"
        kept.write_bytes((tmp_path / "stranger" / "ca.crt").read_bytes())
        learn_authority(kit, lines.append)  # a server that nobody we trust vouches for
        assert kept.read_bytes() == (tmp_path / "stranger" / "ca.crt").read_bytes() and not lines
        kept.write_bytes(old.read_bytes())
        learn_authority(kit, lines.append)  # its server shows one that it does not vouch for
        assert kept.read_bytes() == old.read_bytes() and not lines
        before, key = read_certificate(old), private_key(old.with_name("ca.key"))
        shown[0] += vouch(before, key, read_certificate(new))
        learn_authority(kit, lines.append)
        assert kept.read_bytes() == old.read_bytes() + new.read_bytes()
        assert lines == ["the coordinator has a new authority, which the one before vouches for"]
        assert kept.stat().st_mode & 0o077 == 0
        learn_authority(kit, lines.append)  # nothing new
        assert len(lines) == 1
    learn_authority(kit, lines.append)  # the server is away: joining itself will say so
    assert len(lines) == 1


def test_an_authority_may_sign_certificates_and_nothing_else(folder):
    authority = read_certificate(folder / "ca.crt")
    usage = authority.extensions.get_extension_for_class(KeyUsage)
    basic = authority.extensions.get_extension_for_class(BasicConstraints)
    said = usage.value
    allowed = {name for name in KEY_USES if getattr(said, name)}
    assert usage.critical and allowed == {"key_cert_sign", "crl_sign"}
    assert basic.critical and basic.value == BasicConstraints(ca=True, path_length=0)
