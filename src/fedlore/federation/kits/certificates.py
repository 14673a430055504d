"""Keys and certificates: one authority per federation, one key pair per site; no openssl needed."""

import datetime
import ipaddress
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ...core.store import write_private
from ...errors import FedloreError
from ...privacy.keys import openssh_pair, read_key

_AUTHORITIES = 12  # certificates of authorities that a coordinator may show at a time
_SLACK = datetime.timedelta(minutes=5)  # a certificate made now holds for clocks a little behind


def new_authority(folder: Path, name: str, *, days: int) -> None:
    """ca.key and ca.crt: what signs for this federation, and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    # two of one name, while one takes the other's place, would be taken for each other
    title = f"{name} authority {secrets.token_hex(4)}"
    certificate = _authority(title, title, key.public_key(), days).sign(key, hashes.SHA256())
    write_private(folder / "ca.key", _pem(key))
    (folder / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def vouch(old: x509.Certificate, key: ec.EllipticCurvePrivateKey, new: x509.Certificate) -> bytes:
    """A certificate by which the key of an old authority says which the new one is."""
    public = new.public_key()
    if not isinstance(public, ec.EllipticCurvePublicKey):
        raise FedloreError("an authority must have an elliptic-curve key")
    certificate = _authority(_title(new), _title(old), public, 3650).sign(key, hashes.SHA256())
    return certificate.public_bytes(serialization.Encoding.PEM)


def _authority(
    title: str, issuer: str, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    return (
        _certificate(title, issuer, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )


def _title(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def new_server(folder: Path, hosts: Sequence[str], *, days: int) -> None:
    """server.key and server.pem, good for these host names and addresses."""
    authority = read_certificate(folder / "ca.crt")
    signer = private_key(folder / "ca.key")
    key = ec.generate_private_key(ec.SECP256R1())
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    certificate = (
        _certificate(hosts[0], _title(authority), key.public_key(), days)
        .add_extension(x509.SubjectAlternativeName([_place(host) for host in hosts]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    write_private(folder / "server.key", _pem(key))
    (folder / "server.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def new_site_key() -> tuple[bytes, bytes]:
    """A site's key pair, (private, public) in OpenSSH's format."""
    return openssh_pair(ec.generate_private_key(ec.SECP256R1()))


def read_site_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A site's private key; one that others may read is refused."""
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    if mode & 0o077:
        raise FedloreError(f"'{path}' is readable by others (mode {mode:o}): chmod 600 '{path}'")
    key: ec.EllipticCurvePrivateKey = read_key(path, ec.EllipticCurvePrivateKey)
    return key


def read_public_key(path: Path) -> ec.EllipticCurvePublicKey:
    """A site's public key."""
    key: ec.EllipticCurvePublicKey = read_key(path, ec.EllipticCurvePublicKey)
    return key


def raw_key(key: ec.EllipticCurvePublicKey) -> bytes:
    """The bytes by which the coordinator's server knows a key."""
    return key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def read_certificate(path: Path) -> x509.Certificate:
    """A certificate; of several in a file, the one that holds longest."""
    try:
        found = x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        raise FedloreError(f"'{path}' is no certificate: {error}") from None
    return max(found, key=lambda one: one.not_valid_after_utc)


def issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether an authority has signed a certificate; dates are not looked at."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def add_authorities(known: bytes, told: bytes) -> bytes:
    """What a site may trust from now on: what it trusts, and what that vouches for.

    A server's word is not enough: who has stolen a server's key could else make himself believed
    for ever. The key of an authority that is known must have signed which the new one is.
    """
    try:
        before, after = (x509.load_pem_x509_certificates(pem) for pem in (known, told))
    except ValueError as error:
        raise FedloreError(f"the coordinator's authority cannot be read: {error}") from None
    if len(after) > _AUTHORITIES:
        raise FedloreError(f"{len(after)} authorities of one coordinator are too many")
    vouched = {_identity(one) for one in after if any(issued_by(one, known) for known in before)}
    own = [one for one in after if one.issuer == one.subject and one not in before]
    new = [one for one in own if _identity(one) in vouched]
    return known + b"".join(one.public_bytes(serialization.Encoding.PEM) for one in new)


def _identity(authority: x509.Certificate) -> tuple[str, bytes]:
    key = authority.public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return authority.subject.rfc4514_string(), key.public_bytes(serialization.Encoding.DER, form)


def check_dates(path: Path, *, now: datetime.datetime | None = None) -> datetime.timedelta:
    """How long a certificate still holds; one that does not is refused with what to do."""
    certificate = read_certificate(path)
    now = now or datetime.datetime.now(datetime.UTC)
    first, last = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now < first:
        raise FedloreError(
            f"'{path.name}' holds only from {first:%Y-%m-%d %H:%M} UTC, and it is "
            f"{now:%Y-%m-%d %H:%M}: set this machine's clock"
        )
    if now > last:
        raise FedloreError(
            f"'{path.name}' expired on {last:%Y-%m-%d}: the coordinator runs "
            "fedlore federation renew, and sites get new kits if it was the authority"
        )
    return last - now


def _certificate(
    subject: str, issuer: str, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    end = now + datetime.timedelta(days=days)
    return x509.CertificateBuilder(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]),
        key,
        x509.random_serial_number(),
        min(now, end) - _SLACK,
        end,
    )


def _place(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The key of a server or of an authority."""
    key: ec.EllipticCurvePrivateKey = read_key(path, ec.EllipticCurvePrivateKey, pem=True)
    return key
