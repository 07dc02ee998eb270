"""`tls_client_ca`: whoever shows no certificate of that authority gets no answer at all, not even from /health."""

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from coilclaw.packets.errors import UsageError
from coilclaw.server.listener import Tls, listen

NOW = datetime.now(UTC)


class Authority:
    """Signs certificates and writes them with their keys into a folder."""

    def __init__(self, folder, name):
        self.folder = folder
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / f"{name}.pem"
        made = self._signed(self.name, self.key, ca=True, usage=None, ends=NOW + timedelta(days=2))
        self.file.write_bytes(made)

    def _signed(self, subject, key, *, ca, usage, ends):
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - timedelta(days=3))
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        )
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, name, usage=ExtendedKeyUsageOID.CLIENT_AUTH, ends=NOW + timedelta(days=1)):
        """The files of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        cert, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        cert.write_bytes(self._signed(subject, key, ca=False, usage=usage, ends=ends))
        form = serialization.PrivateFormat.PKCS8
        private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return cert, private


@pytest.fixture
def ours(tmp_path):
    return Authority(tmp_path, "ours")


async def hello(scope, receive, send):
    """An application that greets everybody who gets this far."""
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@contextlib.asynccontextmanager
async def listening(ours, client_ca):
    cert, key = ours.issue("server", ExtendedKeyUsageOID.SERVER_AUTH)
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        listen(hello, "127.0.0.1", 0, stop, port.set_result, tls=Tls(cert=cert, key=key, client_ca=client_ca))
    )
    try:
        await asyncio.wait({serving, port}, return_when=asyncio.FIRST_COMPLETED)
        if not port.done():
            await serving
        yield port.result()
    finally:
        stop.set()
        await asyncio.gather(serving, return_exceptions=True)


async def asked(port, ours, pair=None, host="127.0.0.1", version=None):
    context = ssl.create_default_context(cafile=str(ours.file))
    context.check_hostname = False  # it is asked by its address
    if version is not None:
        context.maximum_version = version
    if pair is not None:
        context.load_cert_chain(*pair)
    async with httpx.AsyncClient(verify=context, trust_env=False) as client:
        return (await client.get(f"https://{host}:{port}/health")).text


VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


@pytest.mark.parametrize("version", VERSIONS, ids=str)
async def test_a_client_with_a_certificate_is_served_and_others_are_not(ours, tmp_path, version):
    known = ours.issue("program")
    expired = ours.issue("expired", ends=NOW - timedelta(days=1))
    server = ours.issue("another-server", ExtendedKeyUsageOID.SERVER_AUTH)
    foreign = Authority(tmp_path, "theirs").issue("stranger")
    imitated = Authority(tmp_path, "ours-again")
    imitated.name = ours.name  # the same name, another key
    async with listening(ours, ours.file) as port:
        assert await asked(port, ours, known, version=version) == "hello"
        for pair in (None, expired, server, foreign, imitated.issue("imitation")):
            with pytest.raises(httpx.TransportError):
                await asked(port, ours, pair, version=version)
        assert await asked(port, ours, known, version=version) == "hello"


async def test_the_other_loopback_address_asks_too(ours):
    known = ours.issue("program")
    async with listening(ours, ours.file) as port:
        assert await asked(port, ours, known, host="[::1]") == "hello"
        with pytest.raises(httpx.TransportError):
            await asked(port, ours, host="[::1]")


async def test_without_the_setting_no_certificate_is_asked_for(ours):
    async with listening(ours, None) as port:
        assert await asked(port, ours) == "hello"


@pytest.mark.parametrize("text", [None, "", "no certificate\n", "folder", "leaf"])
async def test_authorities_that_cannot_be_read_refuse_the_start(ours, tmp_path, text):
    file = tmp_path / "clients.pem"
    if text == "folder":
        file.mkdir()
    elif text == "leaf":  # a certificate that can sign nobody
        file.write_bytes(ours.issue("program")[0].read_bytes())
    elif text is not None:
        file.write_text(text)
    with pytest.raises(UsageError) as told:
        async with listening(ours, file):
            pass
    assert "tls_client_ca" in str(told.value.remedy)
