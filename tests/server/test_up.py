"""`coilclaw up`, `pair` and `devices` as people run them: the real executable, a real port, real signals."""

import contextlib
import os
import pty
import re
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from tests.home import move_in
from tests.server.phone import Phone

COILCLAW = str(Path(sys.executable).with_name("coilclaw"))
PATIENCE = 120.0

pytestmark = pytest.mark.slow


class Place:
    """A home of its own; commands run on it, and servers that are ended with the test."""

    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "home"
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("COILCLAW_")},
            "COILCLAW_HOME": str(self.home),
            "HOME": str(folder),
        }
        self.servers = []
        move_in(folder)

    def run(self, *args):
        return subprocess.run(
            [COILCLAW, *args], env=self.environ, capture_output=True, text=True, timeout=PATIENCE, cwd=self.folder
        )

    def configure(self, **values):
        self.environ |= {f"COILCLAW_SERVER_{name.upper()}": str(value) for name, value in values.items()}

    def up(self, *args, addr="127.0.0.1:0", piped=False):
        server = Up(self, [COILCLAW, "up", *(["--addr", addr] if addr else []), *args], piped=piped)
        self.servers.append(server)
        return server

    def close(self):
        for server in self.servers:
            server.close()


class Up:
    """A running `coilclaw up`, at a terminal or with its output in a pipe."""

    def __init__(self, place, command, *, piped=False):
        self.errors = (place.folder / f"err{len(place.servers)}").open("w+")
        self._out, theirs = os.pipe() if piped else pty.openpty()
        self.process = subprocess.Popen(command, env=place.environ, stdout=theirs, stderr=self.errors, cwd=place.folder)
        os.close(theirs)
        self.said = ""
        self._http = []

    def until(self, word):
        """Read on until it has said a word."""
        deadline = time.monotonic() + PATIENCE
        while word not in self.said:
            assert time.monotonic() < deadline, self.said
            ready, _, _ = select.select([self._out], [], [], 1)
            if ready:
                piece = b""
                with contextlib.suppress(OSError):  # a terminal ends with whoever wrote to it
                    piece = os.read(self._out, 65536)
                assert piece, (self.said, self.complaint())
                self.said += piece.decode()
        return self

    @property
    def address(self):
        return re.search(r"is up: (\S+)/", self.said).group(1)

    @property
    def code(self):
        return re.search(r"Pairing code: (\S+)", self.said).group(1)

    def client(self, token=None, **options):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        made = httpx.Client(base_url=self.address, headers=headers, timeout=280, trust_env=False, **options)
        self._http.append(made)
        return made

    def pair(self, code=None, **options):
        answer = self.client(**options).post("/v1/pairing/bind", json=Phone().body(code or self.code))
        assert answer.status_code == 201, answer.text
        return self.client(answer.json()["token"], **options)

    def complaint(self):
        self.errors.flush()
        return Path(self.errors.name).read_text()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def close(self):
        for client in self._http:
            client.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        os.close(self._out)
        self.errors.close()


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.close()


def one_sentence(ran, *words):
    assert ran.returncode == 2, (ran.stdout, ran.stderr)
    assert "Traceback" not in ran.stderr
    said = [line for line in ran.stderr.splitlines() if not line.startswith("· ")]
    assert len(said) == 1, said
    for word in words:
        assert word in said[0], said


# Coming up


def test_up_prints_where_the_panel_is_and_a_code_that_pairs_a_device(place):
    server = place.up().until("five attempts")
    assert re.fullmatch(r"http://localhost:\d+", server.address)
    assert f"{server.address}/#pair={server.code}" in server.said
    phone = server.pair()
    session = phone.get("/v1/sign-in").json()
    assert session["device"]["name"] == "phone"
    assert session["origin"] == server.address
    listed = place.run("devices", "list")
    assert session["device"]["device_id"] in listed.stdout
    assert server.stop() == 0
    assert "Traceback" not in server.complaint()


def test_up_writes_no_code_where_it_would_be_kept(place):
    """In a journal, a file or a pipe: who reads it later would have had it."""
    server = place.up(piped=True).until("run `coilclaw pair` there.")
    said = place.run("pair").stdout
    server.pair(re.search(r"Pairing code: (\S+)", said).group(1))
    assert server.stop() == 0
    assert "Pairing code:" not in server.said + server.complaint()
    again = place.up("--pair", piped=True).until("run `coilclaw pair --add` there.")
    assert again.stop() == 0
    for text in (server.said, server.complaint(), again.said, again.complaint()):
        assert "#pair=" not in text
        assert "counts no more" not in text


def test_up_says_how_to_add_a_device_when_one_is_paired(place):
    server = place.up().until("five attempts")
    server.pair()
    assert server.stop() == 0
    again = place.up().until("coilclaw pair --add")
    assert "1 device paired" in again.said
    assert "Pairing code" not in again.said
    assert again.stop() == 0
    asked = place.up("--pair").until("five attempts")
    assert asked.pair().get("/v1/devices").json()["items"][0]["active"]


def test_two_servers_on_one_home_are_one_too_many(place):
    place.up().until("is up")
    one_sentence(place.run("up", "--addr", "127.0.0.1:0"), "already running on this home", "coilclaw pair")


def test_a_port_that_is_taken_is_reported(place):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        one_sentence(place.run("up", "--addr", address), "another program is already listening", "--addr")


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:8377", "example.com:80"])
def test_beyond_this_machine_only_with_tls(place, address):
    one_sentence(place.run("up", "--addr", address), "tls_cert and tls_key, or tls_proxy and an https public_url")


def test_an_invalid_address_is_reported(place):
    one_sentence(place.run("up", "--addr", "8377"), "an address and a port")
    one_sentence(place.run("up", "--addr", "127.0.0.99.1:1"), "TLS")


def test_with_a_certificate_tls_is_spoken(place):
    cert, key = certificate(place.home)
    place.configure(tls_cert=cert, tls_key=key)
    server = place.up(addr="0.0.0.0:0").until("five attempts")
    assert server.address.startswith("https://localhost:")
    context = ssl.create_default_context(cafile=str(cert))
    phone = server.pair(verify=context)
    answer = phone.get("/v1/sign-in")
    assert answer.status_code == 200
    assert answer.headers["strict-transport-security"].startswith("max-age=")
    with pytest.raises(httpx.TransportError):
        httpx.get(server.address.replace("https", "http") + "/health", trust_env=False)
    assert server.stop() == 0


def test_an_invalid_certificate_is_reported(place):
    place.configure(tls_cert="nothing.pem", tls_key="nothing.pem")
    one_sentence(place.run("up", "--addr", "127.0.0.1:0"), "tls_cert", "PEM")


def certificate(folder):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private)
    return folder / "cert.pem", folder / "key.pem"


# Going down


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_with_streams_open(place, number):
    server = place.up().until("five attempts")
    phone = server.pair()
    with phone.stream("GET", "/v1/events") as stream:
        assert stream.status_code == 200
        lines = stream.iter_lines()
        assert next(lines) is not None
        server.process.send_signal(number)
        with contextlib.suppress(httpx.TransportError):
            for _ in lines:
                pass  # it ends
    assert server.process.wait(PATIENCE) == 0
    with pytest.raises(httpx.TransportError):
        phone.get("/health")
    assert place.up(addr=server.address.removeprefix("http://")).until("is up").stop() == 0


def catches(pid, number):
    """Whether a process has a handler for a signal."""
    mask = re.search(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)[1]
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_the_second_signal_ends_it_at_once(place):
    server = place.up().until("five attempts")
    body = b"POST /v1/pairing/bind HTTP/1.1\r\nHost: localhost:%s\r\nContent-Length: 9\r\n\r\n{"
    port = server.address.rpartition(":")[2]
    with socket.create_connection(("127.0.0.1", int(port))) as slow:
        slow.sendall(
            body.replace(b"%s", port.encode()).replace(b"\r\n\r\n", b"\r\nContent-Type: application/json\r\n\r\n")
        )
        server.client().get("/health")  # what came before is taken in by now
        server.process.send_signal(signal.SIGTERM)
        while catches(server.process.pid, signal.SIGTERM):  # until it has heard the first
            time.sleep(0.005)
        assert server.process.poll() is None  # a request is being taken in
        assert server.stop() == -signal.SIGTERM


def test_estop_does_not_stop_the_server(place):
    server = place.up().until("five attempts")
    phone = server.pair()
    assert place.run("estop").returncode == 0
    assert phone.get("/v1/sign-in").json()["estop"] is True
    assert server.stop() == 0
    assert "ESTOP is engaged" in place.up().until("ESTOP").said


def test_kill_nine_leaves_nothing_in_the_way(place):
    server = place.up().until("five attempts")
    phone = server.pair()
    token = phone.headers["Authorization"]
    server.process.kill()
    server.process.wait(PATIENCE)
    again = place.up().until("is up")
    assert again.client().get("/v1/sign-in", headers={"Authorization": token}).status_code == 200


# Working beside


def test_jobs_are_worked_on_unless_that_is_left_to_others(place):
    server = place.up("--no-worker").until("five attempts")
    phone = server.pair()
    made = phone.post("/v1/jobs", json={"goal": "say hello"}).json()["job_id"]
    time.sleep(1)
    left = phone.get(f"/v1/jobs/{made}").json()
    assert left["working"] is False
    assert left["status"] in ("PENDING", "RUNNING")
    assert server.stop() == 0
    again = place.up().until("is up")
    client = again.client(phone.headers["Authorization"].partition(" ")[2])
    deadline = time.monotonic() + PATIENCE
    while client.get(f"/v1/jobs/{made}").json()["status"] not in ("COMPLETED", "FAILED"):
        assert time.monotonic() < deadline
        time.sleep(0.1)


# Pairing and devices from the terminal


def test_pair_shows_a_code_while_the_server_runs(place):
    server = place.up().until("five attempts")
    ran = place.run("pair")
    assert ran.returncode == 0
    assert "The previous code is no longer valid" in ran.stdout
    code = re.search(r"Pairing code: (\S+)", ran.stdout).group(1)
    assert f"{server.address}/#pair={code}" in ran.stdout
    assert server.client().post("/v1/pairing/bind", json=Phone().body(server.code)).status_code == 403  # void now
    server.pair(code)
    one_sentence(place.run("pair"), "already paired", "--add", "--replace")
    added = place.run("pair", "--add", "--json")
    import json

    server.pair(json.loads(added.stdout)["code"])
    assert len(place.run("devices", "list").stdout.splitlines()) == 2
    replaced = place.run("pair", "--replace")
    assert "counts no more" not in replaced.stdout  # the code before it was used
    assert "signs out" in replaced.stdout
    server.pair(re.search(r"Pairing code: (\S+)", replaced.stdout).group(1))
    assert len(place.run("devices", "list").stdout.splitlines()) == 1
    assert len(place.run("devices", "list", "--all").stdout.splitlines()) == 3


@pytest.mark.parametrize("options", [(), ("--add",), ("--json",)])
def test_pair_without_a_server_gives_no_code_out_and_says_why(place, options):
    ran = place.run("pair", *options)
    assert (ran.returncode, ran.stdout) == (2, "")
    one_sentence(ran, "not running", "coilclaw up")


def test_a_device_revoked_at_the_terminal_is_out_at_once(place):
    server = place.up().until("five attempts")
    phone = server.pair()
    device_id = phone.get("/v1/sign-in").json()["device"]["device_id"]
    assert place.run("devices", "rename", device_id, "Küche").returncode == 0
    assert phone.get("/v1/sign-in").json()["device"]["name"] == "Küche"
    assert "Küche" in place.run("devices", "list").stdout
    assert place.run("devices", "revoke", device_id).returncode == 0
    assert phone.get("/v1/sign-in").status_code == 401
    assert "already" in place.run("devices", "revoke", device_id).stdout
    one_sentence(place.run("devices", "revoke", "dev_nobody"), "no device")
    one_sentence(place.run("devices", "rename", device_id, "a\tb"), "not a valid name")


def test_no_qr_code_is_shown_of_an_address_that_leads_nowhere_from_a_phone(place):
    place.up().until("five attempts")
    assert "█" not in place.run("pair").stdout
    master, slave = pty.openpty()
    process = subprocess.Popen([COILCLAW, "pair"], env=place.environ, stdout=slave, stderr=slave, cwd=place.folder)
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal ends with the process
        while chunk := os.read(master, 4096):
            shown += chunk
    assert process.wait(PATIENCE) == 0
    os.close(master)
    assert "▄" not in shown.decode()
    assert "Pairing code:" in shown.decode()


# What it costs


def test_only_up_imports_the_server(place):
    check = (
        "import sys; sys.argv = ['coilclaw', *sys.argv[1:]]\n"
        "from coilclaw.cli import main\n"
        "code = main()\n"
        "heavy = {'litestar', 'uvicorn', 'cryptography', 'h11'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "sys.exit(code)"
    )
    place.up().until("five attempts")
    for args in (("pair",), ("devices", "list"), ("up", "--help"), ("pair", "--help")):
        ran = subprocess.run(
            [sys.executable, "-c", check, *args], env=place.environ, capture_output=True, text=True, timeout=PATIENCE
        )
        assert ran.returncode == 0, (args, ran.stderr)


def test_nobody_else_can_be_localhost_on_our_port(place):
    """Browsers may mean 127.0.0.1 or ::1 by localhost; whoever answers there is the panel to them."""
    import socket

    server = place.up().until("Pairing code")
    port = int(server.address.rstrip("/").rpartition(":")[2])
    with socket.socket(socket.AF_INET6) as other, pytest.raises(OSError, match="in use"):
        other.bind(("::1", port))
    with socket.create_connection(("::1", port), timeout=280) as connection:
        connection.sendall(f"GET /health HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n".encode())
        assert connection.recv(200).startswith(b"HTTP/1.1 200")


def test_a_port_that_somebody_holds_on_the_other_loopback_is_not_shared(place):
    import socket

    with socket.socket(socket.AF_INET6) as squatter:
        squatter.bind(("::1", 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        one_sentence(place.run("up", "--addr", f"127.0.0.1:{port}"), "another program is already listening", "[::1]")
