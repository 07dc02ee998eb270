"""Which box is given: the best that holds when tried, or a refusal with the remedy; never a weaker one in silence."""

import asyncio
import os
import secrets
import shutil
import stat
import tempfile
import time
from pathlib import Path

import pytest

from coilclaw.packets.box import BoxLimits, BoxSpec
from coilclaw.packets.errors import BoxTooSlow, BoxUnavailable, ToolError, UsageError
from coilclaw.sandbox import supervise
from coilclaw.sandbox.box import open_box, probe_tiers
from coilclaw.sandbox.landlock import version
from tests.missing import lacks
from tests.sandbox.conftest import BUBBLEWRAP, ORDINARY_UID, processes_with


@pytest.fixture
def bubblewrap():
    if not shutil.which("bwrap"):
        lacks(*BUBBLEWRAP)


@pytest.fixture
def workspace():
    place = Path(tempfile.mkdtemp(prefix="coilclaw-box-", dir="/var/tmp"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def spec(workspace, command, **fields):
    return BoxSpec(command=command, workspace=str(workspace), cwd=str(workspace), **fields)


def fake_bwrap(workspace, body):
    path = workspace / "bwrap"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.usefixtures("bubblewrap")
async def test_the_best_tier_is_given(workspace):
    box = open_box(hide=())
    assert (await box.run(spec(workspace, "echo hi"))).tier == "A"
    assert box.tier == "A"


def test_the_tier_can_be_asked_before_anything_ran_with_or_without_a_loop(workspace):
    box = open_box(hide=(), prefer="B")
    assert box.tier == "B"

    async def inside() -> str:
        return open_box(hide=(), prefer="B").tier

    assert asyncio.run(inside()) == "B"
    assert not list(Path("/var/tmp").glob(f"coilclaw-probe-{os.getpid()}-*"))


def test_what_a_killed_probe_left_is_taken_away_by_a_later_one_and_nothing_else_is(workspace):
    left, full, young = (Path(tempfile.mkdtemp(prefix="coilclaw-probe-0-", dir="/var/tmp")) for _ in range(3))
    (full / "kept").touch()
    hours_ago = time.time() - 7200
    for old in (left, full):
        os.utime(old, (hours_ago, hours_ago))
    try:
        assert open_box(hide=(), prefer="B").tier == "B"
        assert not left.exists()
        assert (full / "kept").exists()
        assert young.exists()
    finally:
        shutil.rmtree(full)
        young.rmdir()


async def test_a_bubblewrap_that_fails_is_passed_over_and_the_result_says_so(workspace):
    broken = fake_bwrap(workspace, "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    box = open_box(hide=(), bwrap=broken)
    assert (await box.run(spec(workspace, "echo hi"))).tier == "B"
    assert box.tier == "B"


async def test_a_bubblewrap_that_fails_is_refused_with_the_remedy_when_it_was_asked_for(workspace):
    broken = fake_bwrap(workspace, "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1")
    with pytest.raises(BoxUnavailable) as refused:
        await open_box(hide=(), prefer="A", bwrap=broken).run(spec(workspace, "touch ran"))
    assert "uid map" in refused.value.message
    assert "user namespaces" in refused.value.remedy
    assert not (workspace / "ran").exists()


@pytest.mark.parametrize(
    "said",
    [
        "",
        "nonsense",
        '{"child-pid": 1}',
        '{"exit-code": 0}',
        '{"child-pid": "x"}',
        '{"child-pid": OWN}',
        '{"child-pid": CHILD}',
    ],
)
async def test_a_bubblewrap_that_says_something_else_is_never_believed(workspace, said):
    fake = workspace / "bwrap"
    fake.write_text(f"""#!/usr/bin/python3
import os, subprocess, time
child = subprocess.Popen(["sleep", "60"])
said = {said!r}.replace("OWN", str(os.getppid())).replace("CHILD", str(child.pid))
for fd in range(3, 64):
    try:
        os.write(fd, said.encode() + b"\\n")
    except OSError:
        pass
if said:
    time.sleep(60)
child.kill()
""")
    fake.chmod(0o755)
    box = open_box(hide=(), prefer="A", bwrap=str(fake))
    with pytest.raises(BoxUnavailable):
        await asyncio.wait_for(box.run(spec(workspace, "true")), 30)


async def test_a_box_that_is_too_slow_to_start_is_called_slow_and_tried_again_at_the_next_use(workspace, monkeypatch):
    monkeypatch.setattr(supervise, "_SETUP_SECONDS", 1)
    box = open_box(hide=(), prefer="A", bwrap=fake_bwrap(workspace, "sleep 60"))
    for _ in range(2):
        with pytest.raises(BoxTooSlow) as refused:
            await box.run(spec(workspace, "touch ran"))
        assert "did not start within 1 seconds" in refused.value.message
        assert "may be busy" in refused.value.message
        assert "Try again" in refused.value.remedy
    assert not (workspace / "ran").exists()


async def test_a_bubblewrap_that_hangs_can_be_cancelled(workspace):
    token = f"{3600 + secrets.randbelow(10**6)}.{secrets.randbelow(10**9)}"
    box = open_box(hide=(), prefer="A", bwrap=fake_bwrap(workspace, f"sleep {token}"))
    running = asyncio.ensure_future(box.run(spec(workspace, "true")))
    for _ in range(3000):
        if processes_with(token) or running.done():
            break
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not processes_with(token)


async def test_a_launcher_that_cannot_start_is_refused(workspace):
    with pytest.raises(BoxUnavailable):
        await open_box(hide=(), prefer="B", python="/no/such/python").run(spec(workspace, "true"))
    if os.geteuid() != 0:
        with pytest.raises(BoxUnavailable):
            await open_box(hide=(), prefer="A", bwrap="/no/such/bwrap").run(spec(workspace, "true"))


def test_tiers_that_do_not_exist_are_refused():
    with pytest.raises(UsageError):
        open_box(hide=(), prefer="unsafe")
    with pytest.raises(UsageError):
        open_box(hide=(), prefer="A", unsafe=True)


async def test_without_walls_only_on_request_and_never_under_another_name(workspace):
    box = open_box(hide=(), unsafe=True)
    assert box.tier == "unsafe"
    result = await box.run(spec(workspace, "pwd; env | sort; echo x > made; exit 3", environment=(("GRANTED", "1"),)))
    assert (result.tier, result.end, result.exit_code) == ("unsafe", "exited", 3)
    assert result.stdout.decode().splitlines()[0] == str(workspace)
    assert b"GRANTED=1" in result.stdout
    assert (workspace / "made").stat().st_uid == os.getuid()
    assert [probe.state for probe in box.probes()] == ["warn"]


async def test_without_walls_the_limits_still_hold_and_nothing_is_left(workspace):
    token = f"{3600 + secrets.randbelow(10**6)}.{secrets.randbelow(10**9)}"
    box = open_box(hide=(), unsafe=True)
    command = f"(setsid sh -c '(setsid sleep {token} &)' &); sleep 0.1; sleep {token}"
    limits = BoxLimits(wall_seconds=0.5)
    assert (await box.run(spec(workspace, command, limits=limits))).end == "timeout"
    assert not processes_with(token)
    limits = BoxLimits(output_bytes=1000, wall_seconds=30)
    assert (await box.run(spec(workspace, "yes", limits=limits))).end == "output_limit"
    stopped = spec(workspace, f"kill -STOP $PPID; sleep {token}", limits=BoxLimits(wall_seconds=0.5))
    assert (await box.run(stopped)).end == "timeout"
    assert not processes_with(token)
    result = await box.run(spec(workspace, f"(setsid sleep {token} &); echo done"))
    assert (result.end, result.exit_code, result.stdout) == ("left_behind", 137, b"done\n")
    assert not processes_with(token)
    stopped = spec(workspace, f"kill -STOP $PPID; setsid sleep {token} &", limits=BoxLimits(wall_seconds=30))
    assert (await box.run(stopped)).end == "left_behind"
    assert not processes_with(token)
    for command in ("yes | head -1", "true & wait", "(sleep 0.02 &)"):
        assert (await box.run(spec(workspace, command))).end == "exited"


@pytest.mark.usefixtures("bubblewrap")
def test_the_doctor_tries_every_wall():
    probes = {probe.name: probe for probe in probe_tiers(hide=("/root", "~/.ssh", "/etc"))}
    assert {"runtime user", "landlock", "limits", "tier A", "tier A calls", "tier B", "tier B calls"} <= set(probes)
    assert [probe for probe in probes.values() if probe.state == "fail"] == []
    assert "unix sockets" in probes["tier A calls"].detail


def test_the_doctor_says_what_to_do_about_a_broken_bubblewrap(workspace):
    broken = fake_bwrap(workspace, "echo 'bwrap: No permissions to create new namespace' >&2; exit 1")
    probe = next(probe for probe in probe_tiers(bwrap=broken) if probe.name == "tier A")
    assert probe.state == "fail"
    assert "namespace" in probe.detail
    assert "namespaces" in probe.remedy


WITHOUT_NAMESPACES = """
import asyncio, os, sys
from coilclaw.packets.box import BoxLimits, BoxSpec
from coilclaw.packets.errors import CoilclawError
from coilclaw.sandbox.box import open_box, probe_tiers

workspace, secret, token = sys.argv[1:]
box = open_box(hide=(os.path.dirname(secret),))

def run(command, **fields):
    try:
        result = asyncio.run(box.run(BoxSpec(command=command, workspace=workspace, cwd=workspace, **fields)))
        text = (result.stdout + result.stderr).decode().strip().replace("\\n", " / ")
        print(result.tier, result.end, result.exit_code, text)
    except CoilclawError as error:
        print(type(error).__name__, getattr(error, "code", ""), error.message)

run("echo hi > made && cat made && ls /usr/bin/env")
run("cat " + secret)
run("echo x > " + secret + "; echo x > /var/tmp/written-by-a-box; ls -A /tmp /var/tmp")
run(("/usr/bin/python3", "-I", "-c", "import socket; socket.socket()"))
run("kill -9 " + str(os.getpid()))
run("(setsid sleep " + token + " &); sleep " + token, limits=BoxLimits(wall_seconds=0.5))
run("(setsid sleep " + token + " &)")
run("true", read_only=(".git",))
run("true", hidden=(".env",))
run("true", forbidden_binaries=("env",))
run("true", workspace_noexec=True)
run("echo x > made; cat made", workspace_writable=False)

async def opened():
    limits = BoxLimits(wall_seconds=None, cpu_seconds=None)
    command = "(setsid sleep " + token + " &); read line; echo $line; sleep " + token
    spec = BoxSpec(command=command, workspace=workspace, cwd=workspace, limits=limits)
    box = open_box(hide=())
    talking = await box.open(spec, stopped=asyncio.Event().wait)
    await talking.send(b"hello")
    said = await anext(talking.lines())
    print(box.tier, said.decode(), (await talking.close()).end)

asyncio.run(opened())
for probe in probe_tiers():
    print("probe", probe.state, probe.name, "|", probe.remedy)
"""


@pytest.mark.usefixtures("bubblewrap")
def test_without_user_namespaces_landlock_alone_holds_what_it_can_and_refuses_the_rest(interpreters, workspace):
    if version() < 6:
        lacks("Landlock 6", "It comes with Linux 6.12.")
    uid = os.geteuid() or ORDINARY_UID
    secret = workspace / "home" / "secret"
    secret.parent.mkdir()
    secret.write_text("PRIVATE")
    (workspace / "ws").mkdir()
    (workspace / "ws" / ".env").write_text("PRIVATE")
    for path in (workspace, *workspace.rglob("*")):
        os.chown(path, uid, -1)
    token = f"{3600 + secrets.randbelow(10**6)}.{secrets.randbelow(10**9)}"
    walls = (
        "bwrap",
        "--dev-bind",
        "/",
        "/",
        "--unshare-user",
        "--uid",
        str(uid),
        "--gid",
        str(uid),
        "--disable-userns",
    )
    if os.geteuid() != 0:
        walls = (*walls[:6], str(uid), "--gid", str(os.getgid()), "--disable-userns")
    before = {name: path.lstat().st_mode for name, path in _tree(workspace / "ws")}
    process = interpreters(uid).start(
        WITHOUT_NAMESPACES, str(workspace / "ws"), str(secret), token, before=(shutil.which("bwrap"), *walls[1:])
    )
    lines = process.communicate(timeout=280)[0].decode().splitlines()
    assert lines[0] == "B exited 0 hi / /usr/bin/env"
    assert "PRIVATE" not in "".join(lines)
    assert lines[1].startswith("B exited 1")
    assert lines[2].count("Permission denied") >= 3
    assert "PermissionError" in lines[3]
    assert "Operation not permitted" in lines[4] or "No such process" in lines[4]
    assert lines[5].startswith("B timeout 137")
    assert lines[6].startswith("B left_behind 137")
    assert not processes_with(f"sleep\0{token}")
    assert [line.split()[:2] for line in lines[7:11]] == [["ToolError", "BOX_CANNOT_HOLD"]] * 4
    assert lines[11].startswith("B exited 0 hi")
    assert lines[12] == "B hello stopped"
    assert not Path("/var/tmp/written-by-a-box").exists()
    after = {name: path.lstat().st_mode for name, path in _tree(workspace / "ws")}
    assert {name: mode for name, mode in after.items() if name != "made"} == before
    failed = [line for line in lines if line.startswith("probe fail tier")]
    assert len(failed) == 2
    assert all("namespaces" in line.partition("|")[2] for line in failed)


def _tree(top):
    return [(str(path.relative_to(top)), path) for path in top.rglob("*")]


async def test_root_refuses_a_workspace_it_cannot_lend():
    if os.geteuid() != 0 or not os.path.ismount("/sys/fs/cgroup"):
        pytest.skip("only root lends, and a file system without identity maps is needed")
    place = Path("/sys/fs/cgroup")
    with pytest.raises((BoxUnavailable, ToolError)):
        await open_box(hide=()).run(spec(place, "true"))


async def test_two_boxes_at_once_do_not_disturb_each_other(workspace):
    box = open_box(hide=())
    (workspace / "kept").mkdir()
    runs = [
        box.run(spec(workspace, f"sleep 0.0{n}; echo {n}; touch later/x", read_only=("later", "kept")))
        for n in range(6)
    ]
    results = await asyncio.gather(*runs)
    assert [result.stdout for result in results] == [f"{n}\n".encode() for n in range(6)]
    assert all(result.exit_code != 0 for result in results)
    await box.run(spec(workspace, "true", read_only=("later",)))
    assert sorted(path.name for path in workspace.iterdir()) == ["kept"]
    assert stat.S_ISDIR((workspace / "kept").stat().st_mode)
