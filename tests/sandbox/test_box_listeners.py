"""Ports inside a box that are served from outside: the box reaches whoever opened it there, and nothing else."""

import msgspec
import pytest

from coilclaw.packets.box import BROKER_FOR_HOURS, BoxLimits, BoxSpec, BrokerLimits
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.admission import admit
from coilclaw.sandbox.box import open_box
from tests.airlock.broker_harness import World, world, worlds
from tests.sandbox.open_harness import Opener, opener

__all__ = ["opener", "world", "worlds"]

ASKS = """
import socket, sys
def asked(port, text):
    with socket.create_connection(("127.0.0.1", port), 20) as made:
        made.sendall(text + b"\\n")
        return made.makefile().read()
print(asked(8001, b"one"), asked(8002, b"two"), asked(8001, b"three"))
"""
SERVES = """
async def serve(port, reader, writer):
    writer.write(b"%d heard %s" % (port, (await reader.readline()).strip()))
    await writer.drain()
"""


def test_a_box_without_a_network_is_answered_at_its_listeners(opener: Opener) -> None:
    told = opener.tell(opener.python(ASKS, listeners=(8001, 8002)), f"""{SERVES}
async def main():
    await warm()
    before = len(os.listdir("/proc/self/fd"))
    opened = await box.open(spec, stopped=never, serve=serve)
    lines = [line.decode() async for line in opened.lines()]
    end = (await opened.wait()).end
    told(lines=lines, end=end, descriptors=len(os.listdir("/proc/self/fd")) - before, tasks=len(asyncio.all_tasks()),
         children=descendants(os.getpid()))
""")  # fmt: skip
    assert told["lines"] == ["8001 heard one 8002 heard two 8001 heard three"]
    assert (told["end"], told["descriptors"], told["tasks"], told["children"]) == ("exited", 0, 1, [])


REACHES = """
import socket, sys
def tried(name, act):
    try:
        print(name, act())
    except OSError as error:
        print(name, "refused")
def dial(host, port):
    socket.create_connection((host, port), 5).close()
    return "REACHED"
here = int(sys.stdin.readline())
tried("host", lambda: dial("127.0.0.1", here))
tried("broker", lambda: dial("127.0.0.1", 3128))
tried("outside", lambda: dial("192.0.2.1", 443))
tried("other loopback", lambda: dial("127.0.0.2", here))
tried("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", here)))
tried("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
tried("unix", lambda: socket.socket(socket.AF_UNIX))
tried("six", lambda: socket.socket(socket.AF_INET6))
tried("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
tried("taken", lambda: socket.create_server(("127.0.0.1", 8001)))
print("listener", dial("127.0.0.1", 8001))
"""


def test_nothing_but_the_listeners_is_there(opener: Opener) -> None:
    told = opener.tell(opener.python(REACHES, listeners=(8001,)), f"""{SERVES}
async def main():
    with socket.create_server(("127.0.0.1", 0)) as mine:
        mine.setblocking(False)
        opened = await box.open(spec, stopped=never, serve=serve)
        await opened.send(str(mine.getsockname()[1]).encode())
        lines = [line.decode() async for line in opened.lines()]
        await opened.wait()
        try:
            mine.accept()
            came = True
        except BlockingIOError:
            came = False
        told(lines=lines, came=came)
""")  # fmt: skip
    *refused, listener = told["lines"]
    assert [line.rpartition(" ")[2] for line in refused] == ["refused"] * 10, refused
    assert (listener, told["came"]) == ("listener REACHED", False)


def test_connections_are_bounded_and_end_with_the_box(opener: Opener) -> None:
    script = """
import socket, sys
made = [socket.create_connection(("127.0.0.1", 8001), 20) for _ in range(40)]
print("dialled")
sys.stdin.readline()
made[0].close()
made[1].recv(1)
"""
    told = opener.tell(opener.python(script, listeners=(8001,)), """
async def main():
    here, most, ended = 0, 0, 0
    async def serve(port, reader, writer):
        nonlocal here, most, ended
        here += 1
        most = max(most, here)
        try:
            await reader.read()
        finally:
            here, ended = here - 1, ended + 1
    opened = await box.open(spec, stopped=never, serve=serve)
    await anext(opened.lines())
    await until(lambda: here == 32)
    await opened.send(b"")
    await until(lambda: ended)  # one made room for the next
    end = (await opened.close()).end
    told(most=most, here=here, end=end, tasks=len(asyncio.all_tasks()))
""")  # fmt: skip
    assert told == {"most": 32, "here": 0, "end": "stopped", "tasks": 1}


def test_a_visitor_that_breaks_off_or_says_too_much_costs_its_connection_alone(opener: Opener) -> None:
    script = """
import socket
def dial(): return socket.create_connection(("127.0.0.1", 8001), 20)
dial().close()
with dial() as long:
    try:
        long.sendall(b"x" * 1_000_000)
        long.recv(1)
    except OSError:
        pass
with dial() as good:
    good.sendall(b"fine\\n")
    print(good.makefile().read())
"""
    told = opener.tell(opener.python(script, listeners=(8001,)), """
async def main():
    async def serve(port, reader, writer):
        writer.write(b"heard " + await reader.readuntil(b"\\n"))
        await writer.drain()
    opened = await box.open(spec, stopped=never, serve=serve)
    told(lines=[line.decode() async for line in opened.lines() if line], end=(await opened.wait()).end)
""")  # fmt: skip
    assert told == {"lines": ["heard fine"], "end": "exited"}


def test_an_open_box_has_its_domains_and_its_listeners_beside_each_other(world: World) -> None:
    script = f"""
import urllib.request
print(urllib.request.urlopen("{world.plain}/hello", timeout=50).read().decode())
print(rest_of(8001))
"""
    ask = "import socket\ndef rest_of(port):\n return socket.create_connection(('127.0.0.1', port)).makefile().read()\n"
    reply = world.python(ask + script, lasting=True, listeners=(8001,))
    assert reply.text.splitlines() == ["reached /hello ", "served at 8001"]
    assert reply.codes == ["OK"]
    assert (reply.more_descriptors, reply.children, reply.tasks) == (0, 0, 0)


def test_an_open_box_may_be_given_more_by_its_broker_and_is_still_held_to_it(world: World) -> None:
    script = f"""
import urllib.error, urllib.request
def status(n):
    try:
        return urllib.request.urlopen("{world.plain}/x", timeout=50).status
    except urllib.error.HTTPError as error:
        return error.code
print([status(n) for n in range(4)])
"""
    assert world.python(script, lasting=True, broker={"requests": 3}).text == "[200, 200, 200, 429]\n"
    assert world.python(script, broker={"requests": 2}).text == "[200, 200, 429, 429]\n"


def test_a_broker_for_hours_waits_for_an_answer_that_one_for_a_command_gives_up(world: World) -> None:
    script = f"""
import urllib.request
try:
    print(urllib.request.urlopen("{world.plain}/slow", timeout=50).read().decode())
except OSError:
    print("given up")
"""
    hours = msgspec.to_builtins(BROKER_FOR_HOURS)
    assert world.python(script, lasting=True, broker=hours).text == "reached /slow \n"
    assert world.python(script, lasting=True, broker={**hours, "idle_seconds": 0.5}).text == "given up\n"
    one, many = BrokerLimits(), BROKER_FOR_HOURS
    assert all(getattr(many, name) >= getattr(one, name) for name in one.__struct_fields__)


@pytest.mark.parametrize("ports", [(80,), (3128,), (0,), (70000,), (8001, 8001), tuple(range(8001, 8010)), (-1,)])
def test_ports_that_no_listener_can_have_are_refused(tmp_path, ports):
    spec = BoxSpec(command="true", workspace=str(tmp_path), cwd=str(tmp_path), listeners=ports)
    with pytest.raises(ToolError) as caught:
        admit(spec, lasting=True, served=True)
    assert (caught.value.code, caught.value.begun) == ("BAD_COMMAND", False)


async def _never() -> None:
    raise AssertionError


async def test_listeners_that_nobody_serves_and_boxes_without_a_network_of_their_own_are_refused(tmp_path):
    spec = BoxSpec(
        command="true", workspace=str(tmp_path), cwd=str(tmp_path), listeners=(8001,), limits=BoxLimits(wall_seconds=9)
    )  # fmt: skip

    async def serve(*_: object) -> None:
        raise AssertionError

    for box, keywords in (
        (open_box(hide=()), {"stopped": _never}),
        (open_box(hide=(), unsafe=True), {"stopped": _never, "serve": serve}),
    ):
        with pytest.raises(ToolError) as caught:
            await box.open(spec, **keywords)
        assert (caught.value.code, caught.value.begun) == ("BOX_CANNOT_HOLD", False)
