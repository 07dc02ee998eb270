"""`tls make` and `doctor --phone` on a real home and a real port: what a phone would meet is told, with its remedy."""

import os
import shlex
import socket

import pytest

from tests.acceptance.conftest import HomeAt, one_sentence

pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def configured(home: HomeAt, more: str, port: int) -> None:
    home.configure(f'[server]\nhttp_addr = "127.0.0.1:{port}"\n{more}')


def own_tls(home: HomeAt) -> str:
    keys = home.root / "keys"
    return f'tls_cert = "{keys}/tls-server.crt"\ntls_key = "{keys}/tls-server.key"\n'


def probed(home: HomeAt) -> dict[str, tuple[str, str]]:
    return {
        probe["name"]: (probe["state"], probe["detail"]) for probe in home.run("doctor", "--phone", "--json").json()
    }


def test_certificates_are_made_once_privately_and_no_key_is_shown(home: HomeAt) -> None:
    said = home.ok("tls", "make", "--name", "coil.localhost")
    keys = home.root / "keys"
    made = sorted(path for path in keys.iterdir() if path.name.startswith("tls-"))
    assert [path.name for path in made] == ["tls-ca.crt", "tls-ca.key", "tls-server.crt", "tls-server.key"]
    assert {path.stat().st_mode & 0o777 for path in made} == {0o600}
    secret = [line for path in made if path.suffix == ".key" for line in path.read_text().splitlines()[1:-1]]
    assert not [line for line in secret if line in said.out + said.err]
    assert "PRIVATE" not in said.out + said.err
    assert f"server.tls_cert {keys}/tls-server.crt" in said.out
    before = {path.name: path.read_bytes() for path in made}
    one_sentence(home.run("tls", "make"), 2, "exists already", "--again")
    one_sentence(home.run("tls", "make", "--name", "https://x", "--again"), 2, "neither a host name")
    assert {path.name: path.read_bytes() for path in made} == before
    again = home.ok("tls", "make", "--name", "coil.localhost", "--again")
    assert "phones that trust it need nothing new" in again.out
    assert (keys / "tls-ca.crt").read_bytes() == before["tls-ca.crt"]
    assert (keys / "tls-server.crt").read_bytes() != before["tls-server.crt"]
    home.ok("tls", "make", "--name", "other.localhost", "--again")
    assert (keys / "tls-ca.crt").read_bytes() != before["tls-ca.crt"]  # the old one may not vouch for that name
    assert not [path for path in keys.iterdir() if path.name.endswith(".new")]


def test_at_a_wide_terminal_the_authority_is_a_code_to_scan(home: HomeAt) -> None:
    assert "▄" in home.sit("tls", "make", "--name", "coil.localhost", size=(160, 80)).end().out
    narrow = home.sit("tls", "make", "--name", "coil.localhost", "--again", size=(60, 40)).end().out
    assert "▄" not in narrow
    assert "larger terminal" in narrow.replace("\r\n", " ")
    flat = home.sit("tls", "make", "--name", "coil.localhost", "--again", size=(200, 30)).end().out
    assert "▄" not in flat  # its top would be gone, so no camera could read it


def test_the_command_that_is_printed_has_the_server_use_the_certificate(home: HomeAt) -> None:
    said = home.ok("tls", "make", "--name", "192.0.2.7", "--name", "coil.localhost").out
    command = said[said.index("coilclaw config set") :].partition("\n\n")[0]
    words = shlex.split(command.replace("\\\n", " "))[1:]
    assert home.run(*words).rc == 4  # proposed
    assert "server.public_url" in words
    assert words[words.index("server.public_url") + 1].startswith(
        "https://coil.localhost:"
    )  # the name, not the address


def test_an_address_is_no_place_for_passkeys(home: HomeAt) -> None:
    said = home.ok("tls", "make", "--name", "127.0.0.2").out
    assert "Passkeys need a name" in said
    port = free_port()
    configured(home, f'{own_tls(home)}public_url = "https://127.0.0.2:{port}"\n', port)
    state, detail = probed(home)["address"]
    assert (state, "passkeys need a name" in detail) == ("warn", True)


def test_a_server_of_this_machine_alone_is_told_as_such(home: HomeAt) -> None:
    port = free_port()
    configured(home, "", port)
    assert probed(home)["server"][0] == "fail"
    up = home.sit("up").wait_for("Press Ctrl-C")
    assert {name: state for name, (state, _) in probed(home).items()} == {
        "address": "warn",
        "name": "ok",
        "server": "ok",
    }
    up.type("\x03").end()


def test_what_a_phone_meets_is_asked_by_its_name_certificate_and_origin(home: HomeAt) -> None:
    home.ok("tls", "make", "--name", "coil.localhost")
    port = free_port()
    url = f"https://coil.localhost:{port}"
    configured(home, f'{own_tls(home)}public_url = "{url}"\n', port)
    up = home.sit("up").wait_for("Press Ctrl-C")
    found = probed(home)
    assert {state for state, _ in found.values()} == {"ok"}, found
    assert found["as a phone"][1].startswith(url)
    # A name the certificate does not have, and an origin the server does not know.
    configured(home, f'{own_tls(home)}public_url = "https://other.localhost:{port}"\n', port)
    found = probed(home)
    assert found["certificate"][0] == "fail"
    assert "not for other.localhost" in found["certificate"][1]
    assert found["as a phone"][0] == "fail"
    assert home.run("doctor", "--phone", "--quiet").rc == 1
    configured(home, f'{own_tls(home)}public_url = "https://localhost:{port}"\n', port)
    assert probed(home)["as a phone"][0] == "ok"  # a name of its own, though a phone could not use it
    up.type("\x03").end()


def test_a_server_that_knows_another_name_refuses_and_this_is_reported(home: HomeAt) -> None:
    home.ok("tls", "make", "--name", "coil.localhost", "--name", "old.localhost")
    port = free_port()
    configured(home, f'{own_tls(home)}public_url = "https://old.localhost:{port}"\n', port)
    up = home.sit("up").wait_for("Press Ctrl-C")
    configured(home, f'{own_tls(home)}public_url = "https://coil.localhost:{port}"\n', port)
    state, detail = probed(home)["as a phone"]
    assert state == "fail"
    assert "answers 4" in detail
    up.type("\x03").end()


def test_behind_a_proxy_the_port_answers_to_it_alone(home: HomeAt) -> None:
    port = free_port()
    proxy = f'tls_proxy = "10.9.8.7"\npublic_url = "https://coil.localhost:{free_port()}"\n'
    configured(home, proxy, port)
    up = home.sit("up").wait_for("Press Ctrl-C")
    found = probed(home)
    assert found["server"] == ("ok", f"port {port} answers, and only to 10.9.8.7")
    assert found["as a phone"][0] == "warn"  # nothing listens there
    up.type("\x03").end()


def test_an_expired_certificate_is_a_failure(home: HomeAt) -> None:
    from datetime import UTC, datetime, timedelta

    from coilclaw.secrets.certificates import make_authority, make_server, plain_names

    names, then = plain_names(("coil.localhost",)), datetime.now(UTC) - timedelta(days=500)
    authority = make_authority(names, then)
    made = make_server(authority, names, then)
    for name, data in (("tls-server.crt", made.certificate), ("tls-server.key", made.key)):
        (home.root / "keys" / name).write_bytes(data)
        os.chmod(home.root / "keys" / name, 0o600)
    configured(home, f'{own_tls(home)}public_url = "https://coil.localhost:8377"\n', free_port())
    state, detail = probed(home)["certificate"]
    assert state == "fail"
    assert "not valid now" in detail


def test_a_server_that_asks_for_client_certificates_is_told_as_such(home: HomeAt) -> None:
    home.ok("tls", "make", "--name", "coil.localhost")
    port = free_port()
    authority = home.root / "keys" / "tls-ca.crt"
    settings = f'{own_tls(home)}tls_client_ca = "{authority}"\npublic_url = "https://coil.localhost:{port}"\n'
    configured(home, settings, port)
    assert probed(home)["server"][0] == "fail"  # it does not run
    up = home.sit("up").wait_for("Press Ctrl-C")
    found = probed(home)
    assert {state for state, _ in found.values()} == {"ok"}, found
    assert str(authority) in found["clients"][1]
    up.type("\x03").end()
    authority.unlink()
    state, detail = probed(home)["clients"]
    assert state == "fail"
    assert "cannot be read" in detail
    one_sentence(home.run("up"), 2, "authorities of client certificates", "tls_client_ca")
