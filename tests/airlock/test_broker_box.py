"""What a box that was granted domains can reach, tried from inside, in every tier and for every user."""

import secrets
import shutil
import socket

import pytest

from tests.airlock.broker_harness import World, world, worlds
from tests.missing import lacks
from tests.sandbox.conftest import processes_with

__all__ = ["world", "worlds"]


def test_a_granted_host_is_reached_through_the_proxy_by_an_ordinary_client(world: World) -> None:
    if not shutil.which("curl"):
        lacks("curl", "Install the package curl.")
    reply = world.curl(f"{world.secure}/hello")
    assert reply.text == "reached /hello "
    assert reply.names == ["files.test"]
    (line,) = reply.lines
    assert (line["principal"], line["host"], line["port"]) == ("box", "files.test", world.port)
    assert (line["verdict"], line["status"]) == ("pass", 200)
    assert line["code"] in ("OK", "CANCELLED")  # the box may be over before the farewell of the connection is
    assert int(line["bytes"]) > 100
    assert len(str(line["sha256"])) == 64


def test_python_inside_finds_the_proxy_by_its_environment(world: World) -> None:
    script = f"""
import ssl, urllib.request
trusted = ssl.create_default_context(cafile="ca.pem")
print(urllib.request.urlopen("{world.secure}/page", context=trusted, timeout=50).read().decode())
print(urllib.request.urlopen("{world.plain}/plain?x=1", timeout=50).read().decode())
print(urllib.request.urlopen("{world.plain}/sent", data=b"body", timeout=50).read().decode())
"""
    reply = world.python(script)
    assert reply.text.split("\n")[:3] == ["reached /page ", "reached /plain?x=1 ", "reached /sent body"]
    assert reply.codes == ["OK", "OK", "OK"]


HOSTILE = (
    "evil.test:443", "evil.test\0.files.test:443", "127.0.0.1:{port}", "127.0.0.2:{port}", "files.test:22",
    "files.test.:443x", "2130706433:{port}", "0x7f000002:{port}", "[::ffff:127.0.0.2]:{port}",
    "FILES.test@evil.test:443", "files.test:{plain}", "files.test", "files.test:0{port}", "xfiles.test:{port}",
    "files.test.evil.test:{port}", "files.test/:{port}", "localhost:{port}", "listed.example.org:443",
)  # fmt: skip


def test_hostile_targets_are_refused_before_any_name_is_looked_up(world: World) -> None:
    targets = [target.format(port=world.port, plain=world.plain_port) for target in HOSTILE]
    script = f"""
for target in {targets!r}:
    print(asked(b"CONNECT " + target.encode() + b" HTTP/1.1\\r\\n\\r\\n").split("\\r\\n")[0])
"""
    reply = world.python(script)
    statuses = [line.split()[1] for line in reply.text.splitlines()]
    assert len(statuses) == len(targets)
    assert set(statuses) <= {"400", "403"}
    assert statuses.count("403") > len(targets) / 2
    assert reply.names == []
    assert reply.seen == []
    assert {line["verdict"] for line in reply.lines} == {"block"}
    assert len(reply.lines) == len(targets)


def test_a_listed_host_that_was_not_granted_to_this_box_is_refused(world: World) -> None:
    place = world.other.removeprefix("https://")
    reply = world.python(f'print(asked(b"CONNECT {place} HTTP/1.1\\r\\n\\r\\n"))')
    assert "HTTP/1.1 403" in reply.text
    assert "NARROWED" in reply.text
    assert reply.names == []


def test_a_granted_domain_that_the_owner_does_not_list_stays_shut(world: World) -> None:
    reply = world.python(
        'print(asked(b"CONNECT evil.example.com:443 HTTP/1.1\\r\\n\\r\\n"))', domains=("evil.example.com",)
    )
    assert "HTTP/1.1 403" in reply.text
    assert reply.codes == ["NOT_LISTED"]
    assert reply.names == []


def test_every_answer_of_the_name_service_is_judged(world: World) -> None:
    script = f"""
for target in ("listed.example.org:443", "{world.mixed.removeprefix("https://")}"):
    print(asked(b"CONNECT " + target.encode() + b" HTTP/1.1\\r\\n\\r\\n").split("\\r\\n")[0])
"""
    reply = world.python(script, domains=("listed.example.org", world.mixed))
    assert "200" not in reply.text
    assert reply.names == ["listed.example.org", "mixed.test"]
    assert reply.codes == ["SPECIAL_ADDRESS", "SPECIAL_ADDRESS"]


def test_tls_must_name_the_host_of_its_connect(world: World) -> None:
    script = f"""
def hello(name, trusted=None):
    made = speak(b"CONNECT files.test:{world.port} HTTP/1.1\\r\\n\\r\\n")
    assert made.recv(100).startswith(b"HTTP/1.1 200")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        context.wrap_socket(made, server_hostname=name)
        print("SPOKE", name)
    except (OSError, ssl.SSLError) as error:
        print("refused", name, type(error).__name__)
for name in ("other.test", "xfiles.test", "files.test.evil.test", None, "127.0.0.2"):
    hello(name)
for first in (b"GET / HTTP/1.1\\r\\nHost: files.test\\r\\n\\r\\n", b"SSH-2.0-x\\r\\n", b"\\x16\\x03\\x01\\x00\\x00"):
    made = speak(b"CONNECT files.test:{world.port} HTTP/1.1\\r\\n\\r\\n")
    made.recv(100)
    made.sendall(first)
    print("closed", rest(made)[:1])
hello("FILES.test")
"""
    reply = world.python(script)
    assert reply.text.count("refused") == 5
    assert reply.text.count("closed b'\\x15'") == 3
    assert reply.text.count("SPOKE") == 1
    assert reply.seen == []
    *refused, admitted = reply.codes
    assert refused == [*["SNI_MISMATCH"] * 3, *["NO_SNI"] * 2, *["NOT_TLS"] * 3]
    assert admitted in ("OK", "CANCELLED")  # the box may end before its connection does


def test_plain_http_goes_only_where_the_owner_listed_it(world: World) -> None:
    host = world.plain.removeprefix("http://")
    requests = {
        "good": f"GET {world.plain}/a HTTP/1.1\r\nHost: {host}\r\nConnection: x-secret\r\nX-Secret: 1\r\n"
        "Proxy-Authorization: no\r\nX-Kept: 1\r\n\r\n",
        "head": f"HEAD {world.plain}/b HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "moved": f"GET {world.plain}/moved HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "host": f"GET {world.plain}/c HTTP/1.1\r\nHost: other.test\r\n\r\n",
        "port": "GET http://files.test/d HTTP/1.1\r\nHost: files.test\r\n\r\n",
        "nohost": f"GET {world.plain}/e HTTP/1.1\r\n\r\n",
        "twohosts": f"GET {world.plain}/f HTTP/1.1\r\nHost: {host}\r\nHost: {host}\r\n\r\n",
        "origin": f"GET /g HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "https": f"GET {world.secure}/h HTTP/1.1\r\nHost: files.test:{world.port}\r\n\r\n",
        "method": f"DELETE {world.plain}/i HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "user": f"GET http://{host}@evil.test/j HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "address": f"GET http://127.0.0.2:{world.plain_port}/k HTTP/1.1\r\nHost: 127.0.0.2:{world.plain_port}\r\n\r\n",
    }
    reply = world.python(f"for name, text in {requests!r}.items(): print(name, repr(asked(text.encode())))")
    got = dict(line.split(" ", 1) for line in reply.text.splitlines())
    assert "HTTP/1.1 200" in got["good"]
    assert "x-kept: 1" in got["good"]
    assert "x-hop" not in got["good"]
    assert "connection: close" in got["good"]
    assert got["good"].endswith("reached /a '")
    assert "HTTP/1.1 200" in got["head"]
    assert "HTTP/1.1 302" in got["moved"]
    for name in ("host", "nohost", "twohosts", "origin", "https", "method"):
        assert "HTTP/1.1 400" in got[name], name
    for name in ("port", "user", "address"):
        assert "HTTP/1.1 403" in got[name], name
    assert [text.split()[1] for text in reply.seen] == ["/a", "/b", "/moved"]
    assert "secret" not in reply.seen[0].lower()
    assert "proxy" not in reply.seen[0].lower()
    assert "x-kept: 1" in reply.seen[0]
    assert "elsewhere.test" not in reply.names


def test_no_second_request_hides_behind_the_first(world: World) -> None:
    host = world.plain.removeprefix("http://")
    start = f"POST {world.plain}/s HTTP/1.1\r\nHost: {host}\r\n"
    second = f"GET {world.plain}/smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n"
    requests = [
        f"{start}Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody",
        f"{start}Content-Length: 4\r\nContent-Length: 9\r\n\r\nbody",
        f"{start}Content-Length: 4, 4\r\n\r\nbody",
        f"{start}Content-Length: +4\r\n\r\nbody",
        f"{start}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"{start}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"{start}Transfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        f"{start}Content-Length: 4\r\n\r\nbody{second}",
        f"GET {world.plain}/1 HTTP/1.1\r\nHost: {host}\r\n\r\nGET http://evil.test HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        f"GET {world.plain}/first HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(second)}\r\n\r\n{second}",
        f"GET {world.plain}/a HTTP/1.1\r\nHost: {host}\r\nX: a\r\n  folded: b\r\n\r\n",
        f"GET {world.plain}/a HTTP/1.1\nHost: {host}\r\n\r\n",
        f"GET {world.plain}/a HTTP/1.1\r\nHost: {host}\nX: 1\r\n\r\n",
        f"GET {world.plain}/a HTTP/1.1\r\nHost: {host}\r\nX: a\rb\r\n\r\n",
        f"GET  {world.plain}/a HTTP/1.1\r\nHost: {host}\r\n\r\n",
        f"CONNECT files.test:{world.port} HTTP/1.1\r\n\r\n{second}",
    ]
    reply = world.python(f"for text in {requests!r}: print(asked(text.encode())[:12])")
    assert reply.text.splitlines() == ["HTTP/1.1 400"] * len(requests)
    assert reply.seen == []
    assert reply.names == []


def test_a_request_that_follows_later_is_never_read(world: World) -> None:
    host = world.plain.removeprefix("http://")
    script = f"""
made = speak(b"GET {world.plain}/first HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n")
got = made.recv(12)
try:
    made.sendall(b"GET {world.plain}/second HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n")
except OSError:
    pass
print(got, rest(made).count(b"HTTP/1.1"))
"""
    reply = world.python(script)
    assert reply.text.startswith("b'HTTP/1.1 200' 0")
    assert [text.split()[1] for text in reply.seen] == ["/first"]


def test_nothing_but_the_broker_is_there(world: World) -> None:
    outside = socket.socket()
    outside.bind(("127.0.0.1", 0))
    outside.listen()
    port = outside.getsockname()[1]
    script = f"""
import os
for host, port in (("127.0.0.1", {port}), ("127.0.0.2", {world.port}), ("127.0.0.1", 80), ("192.0.2.1", 80),
                   ("169.254.169.254", 80), ("10.0.0.1", 443)):
    try:
        socket.create_connection((host, port), 3)
        print("REACHED", host, port)
    except OSError as error:
        print("refused", error.errno)
from socket import AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_UNIX, AF_VSOCK
stream, datagram, raw = socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW
sctp, multipath = 132, 262
kinds = [(AF_INET, datagram), (AF_INET, raw, 1), (AF_INET, stream, sctp), (AF_INET, stream, multipath),
         (AF_INET6, stream), (AF_INET6, datagram), (AF_UNIX, stream), (AF_NETLINK, raw), (AF_PACKET, raw),
         (AF_VSOCK, stream)]
for kind in kinds:
    try:
        socket.socket(*kind)
        print("MADE", kind)
    except OSError as error:
        print("refused", error.errno)
print("routes", open("/proc/net/route").read().count("\\n"))
print(sorted(int(name) for name in os.listdir("/proc/self/fd")))
taken = socket.socket()
taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
try:
    taken.bind(("127.0.0.1", 3128))
    taken.listen()
    print("TAKEN")
except OSError:
    print("refused")
"""
    reply = world.python(script)
    outside.close()
    lines = reply.text.splitlines()
    assert lines[:6] == [line for line in lines[:6] if line.startswith("refused")]
    assert lines[6:16] == ["refused 1"] * 10
    assert lines[16] == "routes 1"  # the title line
    assert lines[17] == "[0, 1, 2, 3]"
    assert lines[18] == "refused"
    assert reply.lines == []


def test_without_granted_domains_there_is_no_proxy(world: World) -> None:
    script = """
import os
print([name for name in os.environ if "proxy" in name.lower()])
try:
    speak(b"", 2)
    print("REACHED")
except OSError:
    print("refused")
"""
    reply = world.python(script, domains=())
    assert reply.text.splitlines() == ["[]", "refused"]


def test_nothing_is_left_of_the_broker_when_the_box_has_ended(world: World) -> None:
    token = f"{3600 + secrets.randbelow(10**6)}.{secrets.randbelow(10**9)}"  # others run the same test at the same time
    first = world.ask("true")
    assert first.result is not None
    for reply in (
        world.ask("true"),
        world.ask("exit 3"),
        world.python(f'speak(b"CONNECT files.test:{world.port} HTTP/1.1\\r\\n\\r\\n"); import os; os._exit(0)'),
        world.ask(f"(setsid sleep {token} &) ; exit 0"),
    ):
        assert (reply.more_descriptors, reply.children, reply.tasks) == (0, 0, first.tasks), reply
    assert processes_with(token) == []


def test_cancelling_ends_the_conversations_too(world: World) -> None:
    script = f"""
made = speak(b"CONNECT files.test:{world.port} HTTP/1.1\\r\\n\\r\\n")
made.recv(100)
import time
time.sleep(50)
"""
    world.ask("true")
    reply = world.python(script, cancel_after=0.2)
    assert reply.cancelled
    assert (reply.more_descriptors, reply.children) == (0, 0)
    assert reply.codes in (["CANCELLED"], ["BROKEN"])
    assert reply.seen == []


def test_what_a_box_can_take_in_and_send_is_capped(world: World) -> None:
    host = world.plain.removeprefix("http://")
    script = f"""
print(len(asked(b"GET {world.plain}/endless HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n")) < 400000)
print(asked(b"POST {world.plain}/p HTTP/1.1\\r\\nHost: {host}\\r\\nContent-Length: 99999\\r\\n\\r\\n")[:12])
context = ssl.create_default_context(cafile="ca.pem")
made = speak(b"CONNECT files.test:{world.port} HTTP/1.1\\r\\n\\r\\n")
made.recv(100)
made = context.wrap_socket(made, server_hostname="files.test")
try:
    made.sendall(b"GET / HTTP/1.1\\r\\nX: " + b"x" * 60000)
    print(made.recv(10))
except (OSError, ssl.SSLError):
    print("cut")
"""
    reply = world.python(script, broker={"bytes_in": 300_000, "bytes_out": 30_000})
    assert reply.text.splitlines()[:2] == ["True", "HTTP/1.1 413"]
    assert reply.codes[0] == "CAPPED"
    assert reply.codes[1] == "TOO_LARGE"
    assert reply.codes[2] == "CAPPED"
    assert int(reply.lines[0]["bytes"]) <= 300_000


def test_the_number_of_requests_is_bounded(world: World) -> None:
    host = world.plain.removeprefix("http://")
    one = f'print(asked(b"GET {world.plain}/n HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n")[:12])'
    reply = world.python("\n".join([one] * 4), broker={"requests": 2})
    assert reply.text.splitlines() == ["HTTP/1.1 200", "HTTP/1.1 200", "HTTP/1.1 429", "HTTP/1.1 429"]
    assert len(reply.seen) == 2


@pytest.mark.slow
def test_slow_clients_are_cut_off_and_keep_nobody_waiting_for_ever(world: World) -> None:
    host = world.plain.removeprefix("http://")
    script = f"""
slow = [speak(b"GET {world.plain}/slow") for _ in range(6)]
silent = speak(b"CONNECT files.test:{world.port} HTTP/1.1\\r\\n\\r\\n")
print(asked(b"GET {world.plain}/after HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n")[:12])
print({{rest(each)[:12] for each in slow}}, rest(silent)[:12])
"""
    reply = world.python(script, broker={"head_seconds": 0.5, "connections": 3})
    assert reply.text.splitlines() == ["HTTP/1.1 200", "{b'HTTP/1.1 400'} b'HTTP/1.1 200'"]
    assert reply.codes.count("TIMEOUT") == 7


@pytest.mark.parametrize("domains", [("not a host",), ("example.org/path",), ("*",)])
def test_domains_that_are_none_are_refused_before_anything_starts(world: World, domains: tuple[str, ...]) -> None:
    reply = world.ask("touch ran", domains=domains)
    assert reply.error
    assert not (world.runner.workspace / "ran").exists()


def test_a_noexec_workspace_can_be_networked_as_well(world: World) -> None:
    host = world.plain.removeprefix("http://")
    script = f'print(asked(b"GET {world.plain}/x HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n")[:12])'
    assert world.python(script, workspace_noexec=True).text.strip() == "HTTP/1.1 200"
