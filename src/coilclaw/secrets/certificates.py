"""Private certificates: an authority limited to a few names, and a server certificate signed by it."""

import ipaddress
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from coilclaw.packets.errors import UsageError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

AUTHORITY_DAYS = 3650
SERVER_DAYS = 397
"""Phones refuse server certificates that are valid for much longer."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_DNS = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate and its private key, both PEM. The key is never shown."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Pair(…)"


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a certificate."""

    names: tuple[str, ...]
    """The names and addresses it is valid for."""
    begins: datetime
    ends: datetime
    fingerprint: str
    """SHA-256 of the certificate, as phones show it."""


def plain_names(given: tuple[str, ...]) -> tuple[str, ...]:
    """Names and addresses for a certificate, including this machine's own; anything else is a usage error."""
    names: list[str] = []
    for each in (*given, *LOOPBACK):
        try:
            name = str(ipaddress.ip_address(each.strip("[]")))
        except ValueError:
            name = each.lower().removesuffix(".")
            if len(name) > 253 or not _DNS.match(name) or name.rpartition(".")[2].isdigit():
                raise UsageError(
                    f"{each!r} is neither a host name nor an IP address.",
                    remedy="Give a name such as coil.home.arpa, or an address, without scheme and port.",
                ) from None
        if name not in names:
            names.append(name)
    return tuple(names)


def make_authority(names: tuple[str, ...], now: datetime) -> Pair:
    """An authority limited to these names: installing it trusts it with nothing else."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _called(f"CoilClaw authority for {names[0]}")
    permitted = [_constraint(name) for name in names]
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        _begun(subject, subject, key, now, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.NameConstraints(permitted, None), critical=True)
    )
    return _signed(builder, key, key)


def make_server(authority: Pair, names: tuple[str, ...], now: datetime) -> Pair:
    """A server certificate for these names signed by that authority, with its chain."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    issuer = x509.load_pem_x509_certificate(authority.certificate)
    signing = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(signing, ec.EllipticCurvePrivateKey)  # noqa: S101 - we made it
    key = ec.generate_private_key(ec.SECP256R1())
    ends = min(now + timedelta(days=SERVER_DAYS), issuer.not_valid_after_utc)
    builder = (
        _begun(_called(names[0]), issuer.subject, key, now, (ends - now).days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
    )
    made = _signed(builder, key, signing)
    return Pair(certificate=made.certificate + authority.certificate, key=made.key)


def vouches_for(authority: bytes, names: tuple[str, ...], now: datetime) -> bool:
    """Whether an existing authority covers these names for the lifetime of a certificate."""
    from cryptography import x509

    found = x509.load_pem_x509_certificate(authority)
    if found.not_valid_after_utc < now + timedelta(days=SERVER_DAYS):
        return False
    constraints = found.extensions.get_extension_for_class(x509.NameConstraints).value.permitted_subtrees or []
    return all(_constraint(name) in constraints for name in names)


def standing_of(certificate: bytes) -> Standing:
    """The first certificate of a PEM file; ValueError if there is none."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    found = x509.load_pem_x509_certificate(certificate)
    try:
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names: tuple[str, ...] = ()
    else:
        addresses = alternatives.get_values_for_type(x509.IPAddress)
        names = (*alternatives.get_values_for_type(x509.DNSName), *(str(address) for address in addresses))
    digest = found.fingerprint(hashes.SHA256()).hex().upper()
    pairs = ":".join(digest[at : at + 2] for at in range(0, len(digest), 2))
    return Standing(names=names, begins=found.not_valid_before_utc, ends=found.not_valid_after_utc, fingerprint=pairs)


def _called(name: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _general(name: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _constraint(name: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_network(name))
    except ValueError:
        return x509.DNSName(name)


def _begun(
    subject: "x509.Name", issuer: "x509.Name", key: "ec.EllipticCurvePrivateKey", now: datetime, days: int
) -> "x509.CertificateBuilder":
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ a little
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(
    builder: "x509.CertificateBuilder", key: "ec.EllipticCurvePrivateKey", by: "ec.EllipticCurvePrivateKey"
) -> Pair:
    from cryptography.hazmat.primitives import hashes, serialization

    made = builder.sign(by, hashes.SHA256())
    return Pair(
        certificate=made.public_bytes(serialization.Encoding.PEM),
        key=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
