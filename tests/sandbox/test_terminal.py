"""A box on a terminal is used like any terminal: job control, full-screen programs, sizes; and its walls stand."""

import secrets
import shutil

import msgspec
import pytest

from coilclaw.packets.box import BoxMount
from tests.missing import lacks
from tests.sandbox.keeper_harness import HOURS, Kept, kept

__all__ = ["kept"]

pytestmark = pytest.mark.slow


@pytest.fixture
def token() -> str:
    return f"{3600 + secrets.randbelow(10**6)}.{secrets.randbelow(10**9)}"


def installed(program: str) -> None:
    if not shutil.which(program):
        lacks(program, f"Install the package {program}.")


def test_a_shell_has_job_control_and_knows_its_terminal(kept: Kept, token: str) -> None:
    told = kept.tell(f"""
async def main():
    attached, screen = await begin(rows=31, columns=97)
    seen = {{"tty": await screen.runs("tty"), "size": await screen.runs("stty size")}}
    seen["by name"] = await screen.runs("echo to-tty > /dev/tty; echo to-stderr > /dev/stderr; echo to-out > $(tty)")
    await attached.send(b"sleep {token}\\n")
    await until(lambda: processes_with("{token}"))
    await screen.types(b"\\x1a", rb"Stopped")
    seen["stopped"] = await screen.runs("jobs")
    await screen.types(b"fg\\n", rb"sleep {token}\\r\\n")
    await screen.types(b"\\x03", rb"\\^C")
    await until(lambda: not processes_with("{token}"))
    seen["interrupted"] = await screen.runs("echo $?")
    seen["in the background"] = await screen.runs("sleep {token} & jobs %+; kill %+; wait; jobs")
    seen["quoted"] = await screen.runs("cat <<< $'\\\\u00e4\\\\u20ac'")
    await attached.resize(40, 120)
    seen["resized"] = await screen.runs("stty size")
    await attached.send(b"exit 3\\n")
    end = await attached.ended()
    await screen.task
    told(**seen, end=[end.end, end.exit_code, end.reason])
""")
    assert told["tty"] == ["/dev/console"]
    assert (told["size"], told["resized"]) == (["31 97"], ["40 120"])
    assert told["by name"] == ["to-tty", "to-stderr", "to-out"]
    assert "Stopped" in str(told["stopped"])
    assert told["interrupted"] == ["130"]
    assert "Running" in str(told["in the background"])
    assert told["quoted"] == ["ä€"]
    assert told["end"] == ["exited", 3, ""]


def test_vim_edits_a_file(kept: Kept) -> None:
    installed("vim")
    told = kept.tell("""
async def main():
    attached, screen = await begin()
    await screen.types(b"vim -u NONE -N note.txt\\n", rb"\\[New")
    await screen.types(b"ihello from vim", rb"hello from vim")
    await attached.resize(30, 100)
    while (await screen.types(b"\\x1b:set lines?\\r", rb"lines=(\\d+)"))[1] != b"30":
        pass  # vim has not looked at its new size yet
    await screen.types(b":wq\\r", rb"(?s)1049l.*\\$ $")
    told(text=await screen.runs("cat note.txt"), ended=await keepers.end_all())
""")
    assert told == {"text": ["hello from vim"], "ended": 1}


def test_less_shows_and_searches(kept: Kept) -> None:
    installed("less")
    told = kept.tell("""
async def main():
    attached, screen = await begin()
    await screen.types(b"seq 1000 | less\\n", rb"(?s)\\n?23\\r\\n.*:")
    await screen.types(b"/^777\\n", rb"777")
    await screen.types(b"q", rb"(?s)1049l.*\\$ $")
    told(after=await screen.runs("echo back"))
""")
    assert told == {"after": ["back"]}


def test_tmux_runs_in_a_box_whose_processes_may_talk_to_each_other(kept: Kept) -> None:
    installed("tmux")
    told = kept.tell(
        """
async def main():
    attached, screen = await begin()
    await screen.types(b"tmux -f /dev/null new -s work\\n", rb"(?s)1049h.*\\[work\\]")
    await screen.types(b"echo in''side\\n", rb"inside")
    await screen.types(b"\\x02d", rb"(?s)detached.*\\$ $")
    seen = await screen.runs("tmux list-sessions -F '#S #{session_windows}'")
    script = "import socket; socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)"
    seen += await screen.runs(f'/usr/bin/python3 -I -c "{script}" 2>&1 | tail -1')
    await screen.types(b"tmux attach\\n", rb"(?s)1049h.*inside")
    await screen.types(b"exit\\n", rb"(?s)exited.*\\$ $")
    told(seen=seen)
""",
        kept.spec(local_sockets=True),
    )
    assert told == {"seen": ["work 1", "PermissionError: [Errno 1] Operation not permitted"]}


def test_a_shell_that_exits_takes_along_what_it_left_and_has_not_failed(kept: Kept, token: str) -> None:
    told = kept.tell(f"""
async def main():
    attached, screen = await begin()
    await screen.runs("(trap '' HUP TERM; exec setsid sleep {token}) < /dev/null > /dev/null 2>&1 & "
                      "(trap '' HUP; while :; do read -r line; done) & echo")
    await until(lambda: processes_with("{token}"))
    await attached.send(b"exit 0\\nexit 0\\n")
    end = await attached.ended()
    await screen.task
    left = processes_with("{token}")
    late = ""
    try:
        await attached.send(b"too late")
    except ToolError as error:
        late = error.code
    told(end=[end.end, end.exit_code], left=left, late=late)
""")
    assert told == {"end": ["exited", 0], "left": [], "late": "BOX_OVER"}


def test_a_command_that_is_not_there_ends_as_in_a_shell(kept: Kept) -> None:
    told = kept.tell(
        """
async def main():
    attached = await keepers.start(order())
    end = await attached.ended()
    screen = Screen(attached)
    await screen.task
    told(end=[end.end, end.exit_code], said="such-program" in screen.text.decode())
""",
        kept.spec(("no-such-program",)),
    )
    assert told == {"end": ["exited", 127], "said": True}


def test_input_cannot_be_put_into_the_terminal_from_inside(kept: Kept) -> None:
    told = kept.tell("""
async def main():
    attached, screen = await begin()
    script = "import fcntl,termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')"
    told(said=await screen.runs(f'/usr/bin/python3 -I -c "{script}" 2>&1 | tail -1'))
""")
    assert told == {"said": ["PermissionError: [Errno 1] Operation not permitted"]}


def test_home_and_temporary_files_are_private_writable_and_kept(kept: Kept) -> None:
    home = kept.runner.ground / "private"
    (home / "tmp").mkdir(parents=True)
    kept.runner.own(home)
    environment = (("TERM", "dumb"), ("PS1", "$ "), ("HOME", "/session/home"), ("TMPDIR", "/session/home/tmp"))
    mounts = (BoxMount(source=str(home), at="/session/home", writable=True),)
    told = kept.tell(
        """
async def main():
    attached, screen = await begin()
    seen = await screen.runs("cd && pwd && echo kept > ~/state && mktemp > /dev/null && ls $TMPDIR | wc -l")
    seen += await screen.runs("echo 'echo ran' > x && chmod +x x && ./x")
    told(seen=seen)
""",
        kept.spec(environment=environment, mounts=mounts),
    )
    assert told["seen"] == ["/session/home", "1", "ran"]
    assert (home / "state").read_text() == "kept\n"
    assert (home / "state").stat().st_uid == kept.runner.uid


def test_memory_in_use_is_limited_and_reserved_addresses_are_not(kept: Kept) -> None:
    told = kept.tell("""
async def main():
    attached, screen = await begin()
    script = "import mmap; mmap.mmap(-1, 64 << 30, prot=mmap.PROT_READ, flags=0x4002); print('reserved')"
    seen = await screen.runs(f'/usr/bin/python3 -I -c "{script}" 2>&1 | tail -1')
    seen += await screen.runs("ulimit -v; ulimit -t")
    script = "import time; x = bytearray(b'x') * (400 << 20); y = bytearray(b'x') * (400 << 20); time.sleep(3600)"
    await attached.send(f'/usr/bin/python3 -I -c "{script}" || echo refu""sed\\n'.encode())
    ended = asyncio.ensure_future(attached.ended())
    await until(lambda: ended.done() or b"refused" in screen.text)
    told(seen=seen, end=ended.result().end if ended.done() else "refused")
""", kept.spec(limits=msgspec.structs.replace(HOURS, memory_bytes=512 << 20)))  # fmt: skip
    assert told["seen"] == ["reserved", "unlimited", "unlimited"]
    assert told["end"] in {"refused", "memory_limit"}
