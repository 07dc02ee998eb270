"""Certificates of one's own: what they hold, and that TLS itself takes them for their names and for no other."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from coilclaw.packets.errors import UsageError
from coilclaw.secrets.certificates import (
    SERVER_DAYS,
    Pair,
    make_authority,
    make_server,
    plain_names,
    standing_of,
    vouches_for,
)

NAMES = plain_names(("coil.home.arpa", "192.168.1.5"))


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def authority() -> Pair:
    return make_authority(NAMES, now())


def shake(tmp_path, authority: Pair, served: Pair, host: str) -> None:
    """A handshake in memory: the client trusts that authority and wants that host."""
    for name, data in (("ca", authority.certificate), ("crt", served.certificate), ("key", served.key)):
        (tmp_path / name).write_bytes(data)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    client = ssl.create_default_context(cafile=str(tmp_path / "ca"))
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up, server_hostname=host), server.wrap_bio(up, down, server_side=True)]
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue


@pytest.mark.parametrize("host", ["coil.home.arpa", "192.168.1.5", "localhost", "127.0.0.1"])
def test_a_made_certificate_is_good_for_its_names(tmp_path, authority, host):
    shake(tmp_path, authority, make_server(authority, NAMES, now()), host)


def test_it_is_good_for_no_other_name(tmp_path, authority):
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake(tmp_path, authority, make_server(authority, NAMES, now()), "bank.example")


@pytest.mark.parametrize("host", ["bank.example", "192.168.1.6"])
def test_a_stolen_authority_cannot_vouch_for_another_name(tmp_path, authority, host):
    forged = make_server(authority, (host,), now())
    with pytest.raises(ssl.SSLCertVerificationError, match="permitted subtree"):
        shake(tmp_path, authority, forged, host)


def test_an_authority_cannot_make_another_one(authority):
    found = x509.load_pem_x509_certificate(authority.certificate)
    limits = found.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (limits.critical, limits.value.ca, limits.value.path_length) == (True, True, 0)
    assert found.extensions.get_extension_for_class(x509.NameConstraints).critical


def test_a_phone_takes_how_long_it_lasts(authority):
    found = standing_of(make_server(authority, NAMES, now()).certificate)
    assert found.ends - found.begins <= timedelta(days=SERVER_DAYS, hours=1)
    assert set(found.names) == set(NAMES)


def test_an_authority_serves_again_for_the_same_names_only(authority):
    assert vouches_for(authority.certificate, NAMES, now())
    assert not vouches_for(authority.certificate, (*NAMES, "other.home.arpa"), now())
    assert not vouches_for(authority.certificate, NAMES, now() + timedelta(days=3600))


def test_a_pair_does_not_show_its_key(authority):
    assert "PRIVATE" not in repr(authority)


@pytest.mark.parametrize(
    "name", ["https://coil", "coil:8377", "*.home.arpa", "a b", "", "-x", "ü.example", "1.2.3", "x" * 64]
)
def test_what_is_not_a_name_is_refused(name):
    with pytest.raises(UsageError, match="neither a host name nor an IP address"):
        plain_names((name,))


def test_names_are_written_one_way():
    assert plain_names(("Coil.Home.Arpa.", "[::1]", "coil.home.arpa")) == (
        "coil.home.arpa",
        "::1",
        "localhost",
        "127.0.0.1",
    )
