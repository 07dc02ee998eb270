"""What a hostile program can try from inside its box: everything it does not get is denied."""

import pytest

from coilclaw.features.runner.hooks import HookDesk
from coilclaw.packets.errors import StorageError
from tests.features.runner.session_world import until
from tests.features.runner.test_hooks import actions, begin, ended, said, with_fake

pytestmark = pytest.mark.slow
ALLOW = {"shell_allowlist": ["python3", "sh", "ls", "cat", "env", "touch", "echo", "unlink", "mv"]}
BIND = (
    "import socket\n"
    "for host in ('127.0.0.1', '0.0.0.0'):\n"
    "    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):\n"
    "        s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, option, 1)\n"
    "        try: s.bind((host, 3129)); s.listen(); print('BOUND')\n"
    "        except OSError as error: print('refused', error.errno)\n"
)
FLOOD = (
    "import socket, time\n"
    "kept = []\n"
    "for n in range(200):\n"
    "    s = socket.socket(); s.settimeout(0.05)\n"
    "    try: s.connect(('127.0.0.1', 3129)); s.send(b'POST /fake HTTP/1.0' * n); kept.append(s)\n"
    "    except OSError: pass\n"
    "print('flooded', len(kept) > 10)\n"
)
GARBAGE = r"""
import socket
start = b"POST /fake HTTP/1.0\r\nContent-Length: "
for text in (
    b"", b"GET / HTTP/1.0\r\n\r\n", b"POST /claude HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}", start + b"-1\r\n\r\n",
    start + b"99999999999\r\n\r\n", start + b"2\r\n\r\n[]", start + b"2\r\n\r\n{}", b"\xff" * 9000 + b"\r\n\r\n",
):
    s = socket.create_connection(("127.0.0.1", 3129))
    s.sendall(text)
    s.shutdown(socket.SHUT_WR)
    try:
        said = s.recv(9999)
    except OSError:
        said = b""
    print("YES" if b"true" in said else "no")
"""
KILLER = """
import os, signal, sys, time
if os.fork():
    sys.exit()
since = {}
while True:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            waits = b"hook.py" in open(f"/proc/{pid}/cmdline", "rb").read()
        except OSError:
            continue
        if waits and time.monotonic() - since.setdefault(pid, time.monotonic()) > 3:
            os.kill(int(pid), signal.SIGKILL)
    time.sleep(0.1)
"""
"""Kills hooks that wait for the owner: a program goes on when its hook dies of anything but exit 2."""


@pytest.fixture
def home(sessions_of_a_home):
    return lambda tier="B", **runner: with_fake(sessions_of_a_home(tier), **runner)


def script(world, name, text):
    """A program of the checkout."""
    from tests.features.runner.repo_world import git

    (world.folder / name).write_text(text)
    git(world.folder, "add", ".")
    git(world.folder, "commit", "-qm", name)


@pytest.mark.parametrize("tier", ["A", "B"])
async def test_no_other_process_in_the_box_can_answer_hooks(home, tier):
    world = home(tier)
    script(world, "bind.py", BIND)
    async with world.serving() as site:
        session_id = await begin(world, site, "run python3 bind.py", policy=ALLOW)
        text = await said(world, site, session_id, "fake is done")
        assert "refused 98" in text
        assert "BOUND" not in text


async def test_program_whose_hook_was_killed_while_it_waited_is_ended_by_what_it_tells(home):
    world = home()
    script(world, "killer.py", KILLER)
    async with world.serving() as site:
        lines = ("run python3 killer.py >/dev/null 2>&1", "run frobnicate || touch unasked", "sleep 600")
        session_id = await begin(world, site, *lines, policy=ALLOW)
        row = await ended(world, session_id)
        assert (row.state, row.code) == ("FAILED", "UNGUARDED")
        assert "had not asked for" in row.reason or "was not allowed" in row.reason
        assert actions(world, session_id, "PENDING") == [], "nobody is asked about what was done"


async def test_flooded_desk_goes_on_answering(home):
    world = home()
    script(world, "flood.py", FLOOD)
    async with world.serving() as site:
        session_id = await begin(world, site, "run python3 flood.py", "run echo he''re", policy=ALLOW)
        text = await said(world, site, session_id, "fake is done")
        assert "flooded True" in text
        assert "exit 0 here" in text


async def test_garbage_is_denied(home):
    world = home()
    script(world, "garbage.py", GARBAGE)
    async with world.serving() as site:
        session_id = await begin(world, site, "run python3 garbage.py", policy=ALLOW)
        text = await said(world, site, session_id, "fake is done")
        assert "YES" not in text
        assert text.count("no\n") >= 8


async def test_too_many_questions_are_denied(home, monkeypatch):
    monkeypatch.setattr("coilclaw.features.runner.hooks.MOST_A_MINUTE", 2)
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "run echo 1", "run echo 2", "run echo 3", policy=ALLOW)
        text = await said(world, site, session_id, "fake is done")
        assert "asks too much" in text
        assert len(actions(world, session_id)) == 2


async def test_box_has_no_key_and_sees_no_process_outside(home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-outside-0123456789abcdef")
    world = home()
    async with world.serving() as site:
        lines = ("run cat /proc/1/environ /proc/self/environ", "run ls /proc", "run env")
        session_id = await begin(world, site, *lines, policy=ALLOW)
        text = await said(world, site, session_id, "fake is done")
        assert "sk-outside" not in text
        assert "FAKE_KEY=coilclaw-session" in text
        assert "nursery" not in text


@pytest.mark.parametrize("tier", ["A", "B"])
async def test_program_cannot_change_or_replace_its_hook(home, tier):
    world = home(tier)
    async with world.serving() as site:
        lines = (
            "run sh -c 'echo bad > /opt/coilclaw/hook/hook.py; echo ended $?'",
            "run unlink /opt/coilclaw/hook/hook.py",
            "run mv /opt/coilclaw/hook /session/home/old",
        )
        session_id = await begin(world, site, *lines, policy=ALLOW)
        text = await said(world, site, session_id, "fake is done")
        assert text.count("Read-only file system") + text.count("Device or resource busy") >= 3


async def test_fault_of_ours_is_no_leave(home, monkeypatch):
    async def broken(*_):
        raise StorageError("the disk is full.")

    monkeypatch.setattr(HookDesk, "_through_gate", broken)
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "run touch made", "run ls", policy=ALLOW)
        text = await said(world, site, session_id, "fake is done")
        assert text.count("denied") == 2


async def test_estop_denies_and_ends(home):
    world = home()
    async with world.serving() as site:
        session_id = await begin(world, site, "run frobnicate || touch made", "sleep 600")
        await until(lambda: actions(world, session_id, "PENDING"))
        world.app.estop.engage("test", "now")
        row = await ended(world, session_id)
        assert row.code == "ESTOP"


async def test_repository_nobody_vouches_for_holds_back_what_leaves(home):
    import msgspec

    world = home()
    repos = {"site": msgspec.structs.replace(world.app.config.repos["site"], vouched=False, deploy=("make deploy",))}
    world.app.config = msgspec.structs.replace(world.app.config, repos=repos)
    async with world.serving() as site:
        session_id = await begin(world, site, "run make deploy", policy=ALLOW)
        text = await said(world, site, session_id, "fake is done")
        assert "untrusted content" in text
        [action] = actions(world, session_id)
        assert (action.call.tool, action.status) == ("session_deploy", "REJECTED")
        assert action.decision.code == "POLICY_BLOCKED_UNTRUSTED_TURN"
        assert world.events(session_id, "APPROVAL_REQUESTED") == []  # never a pushed question


async def test_deployment_asks_with_its_category(home):
    import msgspec

    world = home()
    repos = {"site": msgspec.structs.replace(world.app.config.repos["site"], deploy=("make deploy",))}
    world.app.config = msgspec.structs.replace(world.app.config, repos=repos)
    async with world.serving() as site:
        lines = ("run make deploy", "run npm install left-pad", "read .env")
        session_id = await begin(world, site, *lines[:1], policy=ALLOW)
        [asked] = await until(lambda: world.events(session_id, "APPROVAL_REQUESTED"))
        assert asked.data["category"] == "deploy"
        for line, category in zip(lines[1:], ("deps_add", "secrets"), strict=True):
            other = await begin(world, site, line, policy=ALLOW)
            [asked] = await until(lambda other=other: world.events(other, "APPROVAL_REQUESTED"))
            assert asked.data["category"] == category
