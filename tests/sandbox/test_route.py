"""A box with a route: public addresses are reached, all others are rejected by a guard that nobody inside can change.

The network is made here: a namespace of its own, and behind a pair of interfaces another one that has every address.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import coilclaw
from coilclaw.packets.box import BoxSpec
from coilclaw.packets.errors import BoxUnavailable
from coilclaw.sandbox import podman, route
from coilclaw.sandbox.box import open_box
from tests.missing import lacks

pytestmark = pytest.mark.slow
PUBLIC = ("198.51.100.7", "203.0.113.10")
PRIVATE = ("10.1.2.3", "172.16.5.5", "172.31.255.1", "192.168.7.7", "169.254.169.254", "100.64.0.9", "198.18.0.9")
OWN = "198.51.100.1"
PUBLIC6 = ("2001:db8:1::7", "2001:db8:2::7")
PRIVATE6 = (
    "fc00::7", "fd12:3456::7", "fd00:ec2::254", "fec0::7", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::7", "2001:0:1::7",
)  # fmt: skip
OWN6 = "2001:db8:1::1"
MULTICAST = ("224.0.0.251", "239.1.2.3", "ff02::fb", "ff05::2")

LISTENS = """
import socket, sys
with socket.create_server(("::", 80), family=socket.AF_INET6, dualstack_ipv6=True) as door:
    print("up", flush=True)
    while True:
        door.accept()[0].close()
"""
DIALS = """
import json, socket, subprocess
told = {{}}
def tried(address, dial):
    try:
        dial()
        told[address] = "connected"
    except OSError as error:
        told[address] = error.strerror or str(error)
for address in {addresses!r}:
    tried(address, lambda: socket.create_connection((address, 80), 5).close())
for address in {multicast!r}:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    where = (address, 5353, 0, socket.if_nametoindex("tap0")) if ":" in address else (address, 5353)
    tried(address, lambda: socket.socket(family, socket.SOCK_DGRAM).sendto(b"x", where))
for words in (["nft", "flush", "ruleset"], ["ip", "route", "add", "10.0.0.0/8", "dev", "tap0"]):
    done = subprocess.run(["/usr/sbin/" + words[0], *words[1:]], capture_output=True)
    told[words[0]] = done.returncode
print(json.dumps(told))
"""
TRIAL = """
import asyncio, json, subprocess, sys
from coilclaw.packets.box import BoxLimits, BoxSpec
from coilclaw.packets.errors import CoilclawError
from coilclaw.sandbox import route
from coilclaw.sandbox.box import open_box

folder, dials, listens, every, own, gateways = sys.argv[1:7]
ip = "/usr/sbin/ip" if __import__("os").path.exists("/usr/sbin/ip") else "ip"
def run(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
run(ip, "link", "set", "lo", "up")
other = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo up; exec sleep 600"], stdout=subprocess.PIPE)
other.stdout.readline()
there = ("nsenter", "-t", str(other.pid), "-n")
run(ip, "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", str(other.pid))
def add(words, address, device):
    run(*words, ip, "address", "add", address + ("/64" if ":" in address else "/24"), "dev", device,
        *(["nodad"] if ":" in address else []))
for address in json.loads(own):
    add((), address, "v0")
run(ip, "link", "set", "v0", "up")
for address in json.loads(every):
    add(there, address, "v1")
run(*there, ip, "link", "set", "v1", "up")
for gateway in json.loads(gateways):
    run(ip, "-6" if ":" in gateway else "-4", "route", "add", "default", "via", gateway)
doors = [subprocess.Popen([*words, sys.executable, "-c", listens], stdout=subprocess.PIPE) for words in ((), there)]
for door in doors:
    door.stdout.readline()
spec = BoxSpec(command=("/usr/bin/python3", "-I", "-c", dials), workspace=folder, cwd=folder, routed=True,
    limits=BoxLimits(wall_seconds=90, address_space=False))
try:
    result = asyncio.run(open_box(hide=(), prefer="C").run(spec))
    print(json.dumps({"out": result.stdout.decode(), "err": result.stderr.decode()}))
except CoilclawError as error:
    print(json.dumps({"refused": error.message}))
finally:
    for process in (*doors, other):
        process.kill()
"""


@pytest.fixture
def networked():
    """Runs a trial in a network namespace of its own."""
    if not podman.program() or route.missing():
        lacks("Podman, slirp4netns and nftables", "Install the packages podman, crun, slirp4netns and nftables.")
    if os.geteuid() != 0:
        lacks("a user who may make networks", "Run this test as root.")

    def run(folder, trial=TRIAL):
        four = (*PUBLIC, *PRIVATE, OWN, "10.0.2.2", "127.0.0.1")
        six = (*PUBLIC6, *PRIVATE6, OWN6, "fd00::2", "fe80::2%tap0", "::ffff:10.1.2.3", "::1")
        dials = DIALS.format(addresses=four + six, multicast=MULTICAST)
        there, here = (*PUBLIC, *PRIVATE, *PUBLIC6, *PRIVATE6), (OWN, OWN6)
        words = (str(folder), dials, LISTENS, *map(json.dumps, (there, here, (PUBLIC[0], PUBLIC6[0]))))
        done = subprocess.run(
            ["unshare", "--net", sys.executable, "-c", trial, *words], capture_output=True, timeout=250, check=True
        )
        return json.loads(done.stdout)

    return run


def test_public_addresses_are_reached_and_no_others(networked, tmp_path):
    answer = networked(tmp_path)
    told = json.loads(answer["out"])
    assert {address for address, came in told.items() if came == "connected"} == {*PUBLIC, *PUBLIC6}, answer
    assert {told[address] for address in MULTICAST} == {"Operation not permitted"}, answer
    assert told["nft"] != 0
    assert told["ip"] != 0


@pytest.mark.parametrize(
    ("change", "through"),
    [
        ("route.NFT = '/usr/bin/sort'", "10.0.2.2"),  # reads the rules, and loads nothing
        ("route.guard = lambda own, whole=route.guard: whole(own).replace('!= 2000::/3', '::1')", "fd00::2"),
        ("route.guard = lambda own, whole=route.guard: whole([each for each in own if ':' not in each])", OWN6),
        ("route.IPV4 = tuple(each for each in route.IPV4 if each != '224.0.0.0/4')", "224.0.0.251"),
    ],
)
def test_a_guard_that_is_not_in_force_is_a_refusal(networked, tmp_path, change, through):
    launcher = tmp_path / "launcher.py"
    launcher.write_text(
        f"import sys\nsys.path.append({str(Path(coilclaw.__file__).parents[1])!r})\n"
        f"from coilclaw.sandbox import launcher, route\n{change}\n"
        "launcher.main(sys.argv[1], int(sys.argv[2]))\n"
    )
    change = f"import coilclaw.sandbox.namespaced_box as boxes\nboxes.LAUNCHER = {str(launcher)!r}\n"
    answer = networked(tmp_path, change + TRIAL)
    assert f"the guard of the network does not reject {through}" in answer["refused"], answer


async def test_a_route_without_a_container_is_refused(tmp_path):
    spec = BoxSpec(command="true", workspace=str(tmp_path), cwd=str(tmp_path), routed=True)
    with pytest.raises(BoxUnavailable, match="needs Podman"):
        await open_box(hide=(), prefer="B").run(spec)
