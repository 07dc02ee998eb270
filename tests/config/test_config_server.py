"""[server]: beyond this machine only with TLS, and every fault is said with what to write instead."""

import pytest

from coilclaw.config import Home, load
from coilclaw.config.listening import exposure_fault, is_loopback, public_url_fault, split_address
from coilclaw.config.schema import Server
from coilclaw.packets.errors import ConfigError

TLS = 'tls_cert = "c.pem"\ntls_key = "k.pem"\n'
PROXY = 'tls_proxy = "10.0.0.2"\npublic_url = "https://coil.example.net"\n'


def loaded(tmp_path, text):
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.config_file.write_text(f"[server]\n{text}")
    return load(home, {"HOME": str(tmp_path)}).config.server


@pytest.mark.parametrize("address", ["0.0.0.0:8377", "[::]:8377", "10.0.0.1:80", "box.example.net:8377", "0:8377"])
def test_beyond_this_machine_needs_tls(tmp_path, address):
    with pytest.raises(ConfigError, match="tls_cert and tls_key, or tls_proxy and an https public_url"):
        loaded(tmp_path, f'http_addr = "{address}"\n')


@pytest.mark.parametrize("more", [TLS, PROXY])
def test_with_tls_any_address_will_do(tmp_path, more):
    assert loaded(tmp_path, f'http_addr = "0.0.0.0:8377"\n{more}').http_addr == "0.0.0.0:8377"


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:8377", "localhost:80", "127.1.2.3:9"])
def test_this_machine_needs_none(tmp_path, address):
    assert loaded(tmp_path, f'http_addr = "{address}"\n').http_addr == address


def test_files_for_tls_begin_at_the_home(tmp_path):
    server, home = loaded(tmp_path, TLS + 'tls_client_ca = "ca.pem"\n'), tmp_path / "home"
    assert (server.tls_cert, server.tls_key) == (home / "c.pem", home / "k.pem")
    assert server.tls_client_ca == home / "ca.pem"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('tls_cert = "c.pem"\n', "set both the certificate and its key"),
        ('tls_key = "k.pem"\n', "set both the certificate and its key"),
        ('tls_client_ca = "ca.pem"\n', "tls_client_ca: needs tls_cert and tls_key"),
        (PROXY + 'tls_client_ca = "ca.pem"\n', "a proxy that terminates TLS must ask for client certificates itself"),
        ('tls_proxy = "10.0.0.2"\n', "needs an https public_url"),
        ('tls_proxy = "proxy.example.net"\npublic_url = "https://a.example"\n', "IP address"),
        (PROXY + TLS, "remove one of them"),
        ('public_url = "coil.example.net"\n', "needs an https:// address"),
        ('public_url = "http://coil.example.net"\n', "must begin with https://"),
        ('public_url = "https://user@coil.example.net"\n', "ends after its host and port"),
        ('public_url = "https://coil.example.net/panel"\n', "ends after its host and port"),
        ('public_url = "https://coil.example.net/?x"\n', "ends after its host and port"),
        ('public_url = "https://Coil.example.net"\n', "lower-case host"),
        ('public_url = "https://coil.example.net:0"\n', "needs an https:// address"),
        ('public_url = "https://coil.example.net:x"\n', "needs an https:// address"),
    ],
)
def test_what_does_not_fit_together_is_reported(tmp_path, text, said):
    with pytest.raises(ConfigError) as error:
        loaded(tmp_path, text)
    assert said in str(error.value)


def test_addresses_people_may_open():
    for url in ("", "https://coil.example.net", "https://coil.example.net:8443/", "http://localhost:9000"):
        assert public_url_fault(url) == ""


def test_half_of_tls_opens_nothing(tmp_path):
    assert exposure_fault(Server(tls_cert=tmp_path), "0.0.0.0:1")
    assert exposure_fault(Server(tls_proxy="10.0.0.2"), "0.0.0.0:1")
    assert exposure_fault(Server(public_url="https://a.example"), "0.0.0.0:1")
    assert exposure_fault(Server(tls_proxy="10.0.0.2", public_url="http://localhost"), "0.0.0.0:1")


def test_an_address_is_taken_apart():
    assert split_address("[::1]:8377") == ("::1", 8377)
    assert split_address("127.0.0.1:0") == ("127.0.0.1", 0)


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.com", False),
        ("localhost.example.com", False),
    ],
)
def test_what_is_loopback(host, answer):
    assert is_loopback(host) is answer
