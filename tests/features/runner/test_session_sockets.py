"""Sockets inside a session: its own programs talk to each other, and nothing of others is in reach."""

import shutil
import socket
import tempfile

import pytest

from coilclaw.features.runner.box import session_home
from tests.features.runner.conftest import TIERS
from tests.features.runner.session_world import until
from tests.missing import lacks

pytestmark = pytest.mark.slow
DIAL = (
    "import socket, sys\n"
    "for name in sys.argv[1:]:\n"
    "    name = chr(0) + name[1:] if name[0] == '@' else name\n"
    "    try:\n"
    "        socket.socket(socket.AF_UNIX).connect(name)\n"
    "        print('reached', name)\n"
    "    except OSError as error:\n"
    "        print('refused', type(error).__name__)\n"
)


@pytest.mark.parametrize("tier", TIERS)
async def test_tmux_runs_in_a_session_and_no_socket_of_others_is_in_reach(sessions_of_a_home, tier):
    if shutil.which("tmux") is None:
        lacks("tmux", "Install the package tmux.")
    world = sessions_of_a_home(tier)
    async with world.serving() as site:
        mine, other = await world.start(site), await world.start(site)

        async def said(line, text, session_id=mine):
            await world.sessions.type_in(session_id, line, line=True)
            await until(lambda: text in world.sessions.recorded_text(session_id))
            return world.sessions.recorded_text(session_id)

        await said("tmux -f /dev/null new -d -s work 'sleep 600'; tmux ls; echo li''sted", "\nlisted")
        assert "\nwork: 1 windows" in world.sessions.recorded_text(mine)
        await said("tmux -f /dev/null new -d -s other 'sleep 600'; echo be''side", "\nbeside", other)

        keeper = world.app.home.root / "run" / f"{mine}.sock"
        assert keeper.is_socket()
        theirs = session_home(world.row(other).checkout)
        with (
            tempfile.TemporaryDirectory(dir="/tmp") as folder,
            socket.socket(socket.AF_UNIX) as outside,
            socket.socket(socket.AF_UNIX) as nameless,
        ):
            outside.bind(f"{folder}/s")
            outside.listen()
            nameless.bind(f"\0{mine}")
            nameless.listen()
            (session_home(world.row(mine).checkout) / "dial.py").write_text(DIAL)
            dial = f"/usr/bin/python3 -I ~/dial.py {folder}/s @{mine}; ls {keeper} {theirs} | wc -l; tmux ls"
            seen = await said(f"{dial}; echo di''alled", "\ndialled")
        assert "reached" not in seen
        assert seen.count("\nrefused") == 2
        assert "\n0\n" in seen
        assert "other:" not in seen  # /tmp is its own
        seen = await said("find / -xdev -type s 2>/dev/null; find /tmp ~ . -type s; echo se''arched", "\nsearched")
        found = {line for line in seen.splitlines() if line.startswith(("/", "./")) and "find" not in line}
        assert found == {next(iter(found))}
        assert next(iter(found)).startswith("/tmp/tmux-")
