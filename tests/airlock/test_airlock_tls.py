"""Who is believed over TLS: the right name under a trusted authority, and nobody the environment names."""

import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.airlock.airlock_harness import Lock, answer, failed, redirect, refused, serving


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """A certificate authority made for one test run."""

    def __init__(self, folder: Path, title: str) -> None:
        self.folder, self.title = folder, title
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.file = self._write(f"{title}-ca", self._sign(title, self.key.public_key(), True, []))

    def server(self, host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        ip = host.replace(".", "").isdigit()
        alt = x509.IPAddress(ipaddress.ip_address(host)) if ip else x509.DNSName(host)
        certificate = self._write(f"{self.title}-{host}", self._sign(host, key.public_key(), False, [alt]))
        private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        (self.folder / "key.pem").write_bytes(key.private_bytes(*private))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, self.folder / "key.pem")
        return context

    def _sign(self, subject: str, key: ec.EllipticCurvePublicKey, ca: bool, alt: list[x509.GeneralName]) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name(self.title))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if alt:
            builder = builder.add_extension(x509.SubjectAlternativeName(alt), critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _write(self, stem: str, pem: bytes) -> str:
        path = self.folder / f"{stem}.pem"
        path.write_bytes(pem)
        return str(path)


async def test_a_certificate_of_the_owners_authority_for_the_right_name_is_accepted(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    for host in ("a.localhost", "127.0.0.1"):
        async with serving(answer(b"safe"), tls=ours.server(host)) as server:
            url = server.url("/", host, "https")
            assert (await Lock(url, ca_file=ours.file).get(url)).body == b"safe"


async def test_a_certificate_for_another_name_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    async with serving(answer(), tls=ours.server("other.localhost")) as server:
        url = server.url("/", scheme="https")
        lock = Lock(url, ca_file=ours.file)
        error = await failed(lock, url)
    assert (error.sent, error.timeout) == (False, False)
    assert "certificate" in error.message
    assert server.requests == []
    assert lock.codes == ["NO_CONNECTION"]


async def test_an_unknown_authority_is_refused_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = Authority(tmp_path, "theirs")
    monkeypatch.setenv("SSL_CERT_FILE", theirs.file)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys.log"))
    async with serving(answer(), tls=theirs.server("a.localhost")) as server:
        url = server.url("/", scheme="https")
        for ca_file in (None, Authority(tmp_path, "ours").file):
            assert not (await failed(Lock(url, ca_file=ca_file), url)).sent
    assert server.requests == []
    assert not (tmp_path / "keys.log").exists()


async def test_a_missing_ca_file_fails_closed(tmp_path: Path) -> None:
    async with serving(answer(), tls=Authority(tmp_path, "x").server("a.localhost")) as server:
        url = server.url("/", scheme="https")
        error = await failed(Lock(url, ca_file=str(tmp_path / "absent.pem")), url)
    assert "ca_file" in error.remedy


async def test_a_redirect_never_leaves_https(tmp_path: Path) -> None:
    ours = Authority(tmp_path, "ours")
    async with serving(answer()) as plain, serving(redirect(plain.url()), tls=ours.server("a.localhost")) as secure:
        start = secure.url("/", scheme="https")
        lock = Lock(start, plain.url(), ca_file=ours.file)
        assert await refused(lock, start) == "DOWNGRADE"
    assert plain.requests == []


async def test_plain_text_where_tls_was_expected_is_an_error_with_nothing_sent(tmp_path: Path) -> None:
    async with serving(answer()) as server:
        url = server.url("/", scheme="https")
        error = await failed(Lock(url, ca_file=Authority(tmp_path, "ours").file), url, timeout_seconds=0.5)
    assert not error.sent
