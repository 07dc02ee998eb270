"""The walls around the agent, tried from inside in every tier: what it can write, reach and see."""

import asyncio
import socket
import subprocess
import tempfile
import threading
import zipfile
from pathlib import Path

import pytest

from coilclaw.airlock import Airlock, Listing
from coilclaw.features.evolve.launch import STOPPED
from coilclaw.features.evolve.wheels import checked_wheels, take_wheels
from coilclaw.packets.errors import BoxUnavailable, CoilclawError
from tests.features.evolve.evolve_world import git, until
from tests.missing import lacks

pytestmark = pytest.mark.slow
TIERS = ("A", "B", "C")

WRITES = """
import json, os, pathlib
home = {home!r}
tried = {{}}
def put(path):
    try:
        with open(path, "a") as file:
            file.write("x")
        tried[path] = "written"
    except OSError as error:
        tried[path] = error.strerror
for path in ("/new", "/usr/new", "/etc/new", "/mnt/new", "/mnt/bot.git/new", "/mnt/bot.git/objects/new",
        "/proc/sys/kernel/core_pattern", "/mnt/remote/config", "/mnt/remote/HEAD", "/mnt/remote/commondir",
        "/mnt/remote/packed-refs", "/mnt/remote/hooks", "/mnt/remote/refs/heads/main", "/mnt/remote/refs/heads/new",
        "/mnt/remote/objects/info/alternates", "/mnt/remote/refs/heads/agent/free", "/mnt/remote/objects/free",
        "/bot/free", "/bot/.signal/free", "/bot/logs/free", "/bot/agent/probe/free", "infra/runner.py",
        "/bot/agent/probe/coilclaw/new"):
    put(path)
for old, new in (("/bot/agent", "/bot/other"), ("/bot/agent/probe", "/bot/agent/other"),
        ("/bot/agent/probe/coilclaw", "/bot/agent/probe/old"), ("/mnt/remote/objects", "/mnt/remote/old"),
        ("/mnt/remote/refs/heads/agent", "/mnt/remote/refs/heads/old"),
        ("/mnt/remote/objects/info", "/mnt/remote/objects/old")):
    try:
        os.rename(old, new)
        tried["move " + old] = "moved"
    except OSError as error:
        tried["move " + old] = error.strerror
seen = [path for path in (home + "/config.toml", home + "/memory.sqlite", home + "/evolve/state", home + "/evolve/desk",
    home + "/evolve/bot.git", "/mnt/bot.git/config", "/mnt/bot.git/refs", "/root/.ssh") if os.path.exists(path)]
status = pathlib.Path("/proc/self/status").read_text()
named = ("CapEff", "NoNewPrivs", "Seccomp:")
facts = {{line.split(":")[0]: line.split(":")[1].strip() for line in status.splitlines() if line.startswith(named)}}
told = {{"tried": tried, "seen": seen, "facts": facts, "env": dict(os.environ),
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()])}}
open("/bot/told.json", "w").write(json.dumps(told))
"""
FREE = {
    "/mnt/remote/refs/heads/agent/free", "/mnt/remote/objects/free", "/bot/free", "/bot/.signal/free", "/bot/logs/free",
    "/bot/agent/probe/free",
}  # fmt: skip


@pytest.mark.parametrize("tier", TIERS)
async def test_the_agent_writes_its_volume_its_objects_and_its_branches_and_nothing_else(evolve_world, tier):
    world = evolve_world(tier, environ={"SECRET_KEY": "sk-live-0123456789abcdef"})
    config = (world.places.remote / "config").read_bytes()
    assert await world.run(WRITES.format(home=str(world.app.home.root))) == 0
    told = world.told()
    assert {path for path, came in told["tried"].items() if came in ("written", "moved")} == FREE
    assert told["seen"] == []
    assert told["facts"] == {"CapEff": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"}
    assert told["processes"] < 10
    assert not any("sk-live" in value or "COILCLAW" in name for name, value in told["env"].items())
    assert (world.places.remote / "config").read_bytes() == config


REACHES = """
import json, socket, urllib.request
told = {{}}
for name, address in {{"host": ("127.0.0.1", {port}), "private": ("10.0.0.1", 80), "metadata": ("169.254.169.254", 80),
        "public": ("203.0.113.1", 80), "broker": ("127.0.0.1", 3128)}}.items():
    try:
        socket.create_connection(address, 3).close()
        told[name] = "connected"
    except OSError as error:
        told[name] = error.strerror or str(error)
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("203.0.113.1", 53))
    told["udp"] = "sent"
except OSError as error:
    told["udp"] = error.strerror
for name, kind in {{"unix": (socket.AF_UNIX, socket.SOCK_STREAM), "netlink": (16, socket.SOCK_RAW)}}.items():
    try:
        socket.socket(*kind)
        told[name] = "made"
    except OSError as error:
        told[name] = error.strerror
try:
    socket.getaddrinfo("example.com", 80)
    told["name"] = "resolved"
except OSError as error:
    told["name"] = str(error)
open("/bot/told.json", "w").write(json.dumps(told))
"""


@pytest.mark.parametrize("tier", TIERS)
async def test_the_agent_reaches_no_network_no_name_and_no_port_of_this_machine(evolve_world, tier):
    world = evolve_world(tier)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        reached = threading.Event()

        def accept():
            try:
                listening.accept()
                reached.set()
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        assert await world.run(REACHES.format(port=listening.getsockname()[1])) == 0
        listening.shutdown(socket.SHUT_RDWR)
    told = world.told()
    assert not reached.is_set()
    assert not {"connected", "sent", "made", "resolved"} & set(told.values()), told


LEAVES = """
import json, os, socket, urllib.error, urllib.request
told = {{}}
def sent(name, url, data=None):
    try:
        told[name] = urllib.request.urlopen(url, data, timeout=60).read().decode()
    except urllib.error.HTTPError as error:
        told[name] = error.code
    except OSError as error:
        told[name] = "unreachable"
sent("listed", "http://packages.test:{port}/simple")
sent("posted", "http://packages.test:{port}/upload", b"the repository")
sent("other", "http://elsewhere.test:{port}/the-repository")
sent("below", "http://the-repository.packages.test:{port}/")
sent("port", "http://packages.test:9/")
sent("private", "http://inside.test:{port}/")
sent("literal", "http://127.0.0.2:{port}/")
sent("metadata", "http://169.254.169.254/latest/meta-data")
with socket.create_connection(("127.0.0.1", 3128)) as relay:
    relay.sendall(b"CONNECT elsewhere.test:443 HTTP/1.1\\r\\nHost: elsewhere.test:443\\r\\n\\r\\n")
    told["tunnel"] = int(relay.recv(4096).split()[1])
try:
    told["name"] = socket.getaddrinfo("the-repository.packages.test", 80) and "resolved"
except OSError:
    told["name"] = "not resolved"
open("/bot/told.json", "w").write(json.dumps(told))
"""


@pytest.mark.parametrize("tier", TIERS)
async def test_listed_hosts_are_the_only_way_out_and_names_are_looked_up_outside(evolve_world, tier):
    """What can leave is what such a host is sent: said in docs/evolve.md, under What is not stopped."""
    heard, names = [], []

    async def answer(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        heard.append((head.split()[1].decode(), await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\npackages")
        writer.close()

    async def resolve(host):
        names.append(host)
        return ["10.0.0.1"] if host == "inside.test" else ["127.0.0.2"]

    server = await asyncio.start_server(answer, "127.0.0.2", 0)
    port = server.sockets[0].getsockname()[1]
    hosts = [f"http://{host}:{port}" for host in ("packages.test", "inside.test")]
    world = evolve_world(tier, security__allowed_domains=hosts, evolve__domains=hosts)
    world.app.__dict__["transport"] = Airlock(
        Listing.build(allowed_domains=hosts), log=lambda line: None, clock=world.app.clock, resolve=resolve
    )
    async with server:
        assert await world.run(LEAVES.format(port=port)) == 0
    told = world.told()
    assert (told.pop("listed"), told.pop("posted")) == ("packages", "packages")
    assert told.pop("name") == "not resolved"
    assert set(told.values()) <= {403, 502}, told
    assert heard == [("/simple", b""), ("/upload", b"the repository")]
    assert set(names) <= {"packages.test", "inside.test"}


PUSHES = """
import json, subprocess
def git(*words, at="/bot/agent/work/coilclaw"):
    done = subprocess.run(["git", *words], cwd=at, capture_output=True, text=True)
    return done.returncode, done.stderr[-300:]
told = [git("clone", "-q", "/mnt/remote", "/bot/agent/work/coilclaw", at="/bot")]
told += [git("checkout", "-q", "-b", "agent/work")]
open("/bot/agent/work/coilclaw/new.txt", "w").write("new")
told += [git("add", "-A"), git("commit", "-qm", "New")]
told += [git("push", "-q", "origin", "HEAD:" + to) for to in ("agent/work", "main", "refs/heads/other", "refs/tags/v1")]
open("/bot/told.json", "w").write(json.dumps(told))
"""


@pytest.mark.parametrize("tier", TIERS)
async def test_the_agent_pushes_its_own_branches_and_no_other(evolve_world, tier):
    world = evolve_world(tier)
    main = world.record.main()
    assert await world.run(PUSHES) == 0
    told = world.told()
    assert [code for code, _ in told[:5]] == [0] * 5, told
    assert all(code for code, _ in told[5:]), told
    assert [(each.branch, each.refused) for each in world.record.take_in()] == [("agent/work", "")]
    assert world.record.main() == main
    git(world.places.record, "fsck", "--strict")


RUNS_LENT = """
import json, subprocess
done = subprocess.run(["sh", "-c", "frob; touch $(command -v frob)/../new $(dirname $(command -v frob))/new"],
    capture_output=True, text=True)
open("/bot/told.json", "w").write(json.dumps(done.stdout))
"""


@pytest.mark.parametrize("tier", TIERS)
async def test_the_agent_runs_programs_that_the_owner_lends_and_changes_none(evolve_world, tier):
    with tempfile.TemporaryDirectory(prefix=".coilclaw-toolchain-", dir=Path.home()) as name:
        programs = Path(name) / "bin"
        programs.mkdir()
        (programs / "frob").write_text("#!/bin/sh\necho frobbed\n")
        for place in (Path(name), programs, programs / "frob"):
            place.chmod(0o755)
        world = evolve_world(tier, security__toolchains=(Path(name),))
        assert await world.run(RUNS_LENT) == 0
        assert world.told() == "frobbed\n"
        assert list(programs.iterdir()) == [programs / "frob"]


INSTALLS = """
import json, os, subprocess
def run(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    return done.returncode, done.stdout.strip() + done.stderr[-500:]
def opened(path, mode):
    try:
        with open(path, mode):
            return "opened"
    except OSError as error:
        return error.strerror
there = sorted(os.listdir("/mnt/wheels"))
told = {"there": there}
told["venv"] = run("/usr/bin/python3", "-m", "venv", "/bot/env")
told["installed"] = run("/bot/env/bin/pip", "install", "-q", "frobnicate")
told["runs"] = run("/bot/env/bin/python", "-c", "import frobnicate; print(frobnicate.VALUE)")
told["other"] = run("/bot/env/bin/pip", "install", "-q", "not-given")
told["new"] = opened("/mnt/wheels/new.whl", "x")
told["changed"] = opened("/mnt/wheels/" + there[0], "a")
try:
    os.unlink("/mnt/wheels/" + there[0])
    told["removed"] = "removed"
except OSError as error:
    told["removed"] = error.strerror
open("/bot/told.json", "w").write(json.dumps(told))
"""


def wheel(folder: Path) -> Path:
    """The smallest wheel that pip installs."""
    name = "frobnicate-1.0"
    files = {
        "frobnicate.py": "VALUE = 'frobbed'\n",
        f"{name}.dist-info/METADATA": "Metadata-Version: 2.1\nName: frobnicate\nVersion: 1.0\n",
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    folder.mkdir()
    made = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for each, text in files.items():
            archive.writestr(each, text)
        archive.writestr(f"{name}.dist-info/RECORD", "".join(f"{each},,\n" for each in files))
    return made


@pytest.mark.parametrize("tier", TIERS)
async def test_the_agent_installs_the_wheels_that_the_owner_gave_it_and_changes_none(evolve_world, tier):
    if subprocess.run(
        ["/usr/bin/python3", "-c", "import venv, ensurepip"], check=False, capture_output=True
    ).returncode:
        lacks("venv of the system's Python", "Install the package python3-venv.")
    world = evolve_world(tier)
    given = wheel(world.sample.folder / "given")
    await take_wheels(world.app, given.parent)
    assert await world.run(INSTALLS) == 0
    told = world.told()
    assert told["there"] == [given.name]
    assert (told["venv"][0], told["installed"], told["runs"]) == (0, [0, ""], [0, "frobbed"]), told
    assert told["other"][0] != 0, "what was not given is not there"
    assert not {"opened", "removed"} & {told["new"], told["changed"], told["removed"]}
    assert checked_wheels(world.places) is not None


FILLS = """
import json, os, resource
told = {}
try:
    with open("/bot/large", "wb") as file:
        for _ in range(200):
            file.write(b"x" * (1 << 20))
            file.flush()
    told["file"] = "whole"
except OSError as error:
    told["file"] = error.strerror
started = []
try:
    for _ in range(400):
        started.append(os.fork())
        if started[-1] == 0:
            import time
            time.sleep(60)
            os._exit(0)
    told["forks"] = "all"
except OSError as error:
    told["forks"] = error.strerror
for pid in started:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
open("/bot/told.json", "w").write(json.dumps(told))
"""


@pytest.mark.parametrize("tier", TIERS)
async def test_a_file_and_processes_beyond_the_limits_are_refused(evolve_world, tier, sample):
    world = evolve_world(tier, evolve__disk_mb=64, evolve__processes=64)
    ignored = "import signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    await world.run(ignored + FILLS)
    told = world.told()
    assert told["file"] == "File too large"
    assert told["forks"] == "Resource temporarily unavailable"


async def test_estop_ends_the_agent_and_keeps_it_from_starting(evolve_world):
    world = evolve_world()
    program = "import time\nopen('/bot/up', 'w').close()\ntime.sleep(600)\n"
    running = asyncio.ensure_future(world.run(program))
    await until((world.places.bot / "up").exists)
    world.app.estop.engage("test", "now")
    assert await asyncio.wait_for(running, 280) == STOPPED
    (world.places.bot / "up").unlink()
    from coilclaw.features.evolve.launch import launched

    assert await launched(world.app, "agent/probe", world.box()) == STOPPED
    assert not (world.places.bot / "up").exists()


async def test_a_branch_that_is_a_link_or_missing_is_not_started(evolve_world):
    world = evolve_world()
    (world.places.bot / "agent").mkdir()
    (world.places.bot / "agent" / "x").symlink_to(world.app.home.root)
    from coilclaw.features.evolve.launch import launched

    for branch in ("agent/x", "agent/none", "../../..", "agent/../..", ""):
        with pytest.raises(CoilclawError):
            await launched(world.app, branch, world.box())


async def test_without_a_box_that_holds_nothing_is_started(evolve_world, monkeypatch):
    world = evolve_world()
    import coilclaw.sandbox.box as boxes

    async def leaks(*_, **__):
        return ["writable /"]

    monkeypatch.setattr(boxes, "quick_faults", leaks)
    with pytest.raises(BoxUnavailable):
        await world.run("print('ran')")
