"""A keeper outlives who started it, dies with its box, obeys ESTOP, and is found again by its offset."""

import os
import secrets
import signal
from collections.abc import Callable

import msgspec
import pytest

from tests.sandbox.conftest import ORDINARY_UID, Interpreter, processes_with
from tests.sandbox.keeper_harness import Kept, kept

__all__ = ["kept"]

pytestmark = pytest.mark.slow


@pytest.fixture
def token() -> str:
    return f"{3600 + secrets.randbelow(10**6)}.{secrets.randbelow(10**9)}"


def test_a_session_goes_on_without_who_started_it_and_is_found_again_at_its_offset(kept: Kept) -> None:
    starting = kept.start("""
async def main():
    attached, screen = await begin()
    await attached.send(b"for i in $(seq 500); do echo tick $i; sleep 0.01; done\\n")
    await screen.shows(rb"tick 50\\r")
    told(at=len(screen.text), seen=screen.text.decode())
    await screen.shows(rb"tick 500\\r")
""")
    assert starting.stdout is not None
    seen = msgspec.json.decode(starting.stdout.readline())
    starting.kill()
    starting.communicate()
    told = kept.tell(f"""
async def main():
    running = keepers.running()
    attached = await keepers.attach("sess_1", {seen["at"]})
    screen = Screen(attached)
    await screen.shows(rb"tick 500\\r")
    told(running=running, first=attached.first, text=screen.text.decode(), jumps=screen.jumps)
    await keepers.end_all()
    told(running=running, first=attached.first, text=screen.text.decode(), jumps=screen.jumps, after=keepers.running())
""")
    text = str(seen["seen"]) + str(told["text"])
    ticks = [line for line in text.splitlines() if line.startswith("tick ")]
    assert ticks == [f"tick {number}" for number in range(1, 501)]
    assert (told["running"], told["first"], told["jumps"], told["after"]) == (["sess_1"], 0, [], [])


def test_a_killed_keeper_takes_its_box_along_and_its_socket_is_cleared(kept: Kept, token: str) -> None:
    told = kept.tell(f"""
async def main():
    attached, screen = await begin()
    await attached.send(b"(trap '' HUP; setsid sleep {token}) & sleep {token}\\n")
    await until(lambda: len(processes_with("{token}")) >= 2)
    inside = descendants(attached.pid)
    os.kill(attached.pid, signal.SIGKILL)
    lost = []
    for waiting in (attached.ended(), screen.task, attached.pause(), attached.send(b"x")):
        try:
            await waiting
        except ToolError as error:
            lost.append(error.code)
    await until(lambda: not any(os.path.exists(f"/proc/{{pid}}") for pid in inside))
    there = os.path.exists(folder / "sess_1.sock")
    none = await keepers.attach("sess_1")
    told(lost=lost, left=processes_with("{token}"), there=there, none=none is None, running=keepers.running(),
         still=os.path.exists(folder / "sess_1.sock"))
""")
    assert told == {
        "lost": ["LOST", "LOST", "LOST", "BOX_OVER"], "left": [], "there": True, "none": True, "running": [],
        "still": False,
    }  # fmt: skip


def test_keepers_that_lose_their_nursery_go_on_and_still_obey_estop(kept: Kept, token: str) -> None:
    told = kept.tell(f"""
async def main():
    first, screen = await begin("first")
    nursery = int(open(f"/proc/{{first.pid}}/stat").read().rpartition(")")[2].split()[1])
    os.kill(nursery, signal.SIGKILL)
    await until(lambda: state(nursery) in "XZ")
    said = await screen.runs("echo still here")
    second, other = await begin("second")  # a new nursery
    await first.send(b"sleep {token}\\n")
    await second.send(b"sleep {token}\\n")
    await until(lambda: len(processes_with("{token}")) == 2)
    estop.write_text("stop")
    ends = [await first.ended(), await second.ended()]
    refused = ""
    try:
        await keepers.start(order("third"))
    except ToolError as error:
        refused = [error.code, error.begun]
    told(said=said, ends=[[end.end, end.reason] for end in ends], left=processes_with("{token}"),
         running=keepers.running(), refused=refused)
""")
    assert told["said"] == ["still here"]
    assert told["ends"] == [["stopped", "ESTOP ended it."]] * 2
    assert (told["left"], told["running"]) == ([], ["first", "second"])  # what they wrote can still be read
    assert told["refused"] == ["ESTOP", False]


def test_a_keeper_that_does_not_obey_estop_is_killed_with_its_box(kept: Kept, token: str) -> None:
    told = kept.tell(f"""
async def main():
    attached, screen = await begin()
    await attached.send(b"sleep {token}\\n")
    await until(lambda: processes_with("{token}"))
    os.kill(attached.pid, signal.SIGSTOP)
    estop.mkdir()  # whatever it is
    await until(lambda: not processes_with("{token}"))
    told(lost=isinstance((await asyncio.gather(attached.ended(), return_exceptions=True))[0], KeeperLost))
""")
    assert told == {"lost": True}


def test_boxes_of_living_keepers_are_not_abandoned(kept: Kept, token: str) -> None:
    starting = kept.start(f"""
async def main():
    attached, screen = await begin()
    await attached.send(b"sleep {token}\\n")
    await until(lambda: processes_with("{token}"))
    told(up=True)
    await attached.ended()
""")
    assert starting.stdout is not None
    starting.stdout.readline()
    starting.kill()
    starting.communicate()
    told = kept.tell("""
async def main():
    ended = end_abandoned()
    attached = await keepers.attach("sess_1")
    await attached.stop()
    told(ended=ended, end=(await attached.ended()).end)
""")
    assert told == {"ended": 0, "end": "stopped"}


def test_a_session_whose_starter_is_gone_before_it_begins_never_runs(kept: Kept) -> None:
    told = kept.tell(
        """
from coilclaw.sandbox.keeper_wire import ORDER, packed

async def main():
    await asyncio.to_thread(keepers._hatch, order().estop)
    with keepers._dial("nursery.sock") as connection:
        connection.setblocking(True)
        connection.recv(100)  # it was accepted; hanging up with that unread would break the connection
        connection.sendall(packed(ORDER, order()))
    other = await keepers.start(order("other", command="sleep 3600"))  # forked after the first
    await until(lambda: keepers.running() == ("other",) and len(processes_with(str(folder))) == 2)
    told(ran=os.path.exists(Path(spec.workspace) / "ran"))
""",
        kept.spec("touch ran"),
    )
    assert told == {"ran": False}


def test_what_cannot_be_started_is_refused_before_anything_runs(kept: Kept) -> None:
    told = kept.tell("""
async def main():
    attached, screen = await begin()
    seen = {}
    cases = {
        "taken": order(), "name": order("../x"), "nursery": order("nursery"), "size": order("a", rows=0),
        "huge": order("b", columns=100000), "place": order("c", cwd="/etc"),
        "tier": msgspec.structs.replace(order("d"), tier="unsafe"),
        "estop": msgspec.structs.replace(order("e"), estop=()),
    }
    for name, wrong in cases.items():
        try:
            await keepers.start(wrong)
        except CoilclawError as error:
            seen[name] = [type(error).__name__, getattr(error, "code", ""), getattr(error, "begun", False)]
    os.chmod(folder, 0o755)
    try:
        await keepers.start(order("f"))
    except CoilclawError as error:
        seen["open to all"] = [type(error).__name__, error.code, error.begun]
    os.chmod(folder, 0o700)
    told(**seen, running=keepers.running())
""")
    assert told == {
        "taken": ["ToolError", "SESSION_EXISTS", False], "name": ["ToolError", "BAD_SESSION", False],
        "nursery": ["ToolError", "BAD_SESSION", False], "size": ["ToolError", "BAD_SIZE", False],
        "huge": ["ToolError", "BAD_SIZE", False], "place": ["ToolError", "BOX_BAD_PATH", False],
        "tier": ["BoxUnavailable", "", False], "estop": ["ToolError", "BAD_SESSION", False],
        "open to all": ["ToolError", "BAD_FOLDER", False], "running": ["sess_1"],
    }  # fmt: skip


def test_an_ended_session_is_kept_until_it_is_finished(kept: Kept) -> None:
    told = kept.tell("""
async def main():
    attached, screen = await begin()
    early = ""
    try:
        await attached.finish()
    except ToolError as error:
        early = error.code
    await screen.runs("echo the last words")
    await attached.send(b"exit 4\\n")
    await attached.ended()
    await attached.close()
    again = await keepers.attach("sess_1")
    late = Screen(again)
    end = await again.ended()
    await late.task
    codes = []
    for refused in (again.pause(), again.resume()):
        try:
            await refused
        except ToolError as error:
            codes.append(error.code)
    pid = again.pid
    await again.finish()
    await until(lambda: not os.path.exists(f"/proc/{pid}"))
    told(early=early, end=[end.end, end.exit_code], said="the last words" in late.text.decode(), codes=codes,
         names=sorted(os.listdir(folder)))
""")
    assert told == {
        "early": "STILL_RUNNING", "end": ["exited", 4], "said": True, "codes": ["BOX_OVER", "BOX_OVER"],
        "names": ["nursery.lock", "nursery.sock"],
    }  # fmt: skip


def test_a_session_is_stopped_by_hanging_up_and_then_by_force(kept: Kept, token: str) -> None:
    told = kept.tell(f"""
async def main():
    kind, screen = await begin("kind")
    await kind.send(b"sleep {token}\\n")
    stubborn, other = await begin("stubborn")
    await stubborn.send(b"trap 'echo not yet' HUP; exec 7</dev/null; (trap '' HUP; sleep {token}) ; cat\\n")
    await until(lambda: len(processes_with("{token}")) == 2)
    await kind.pause()
    await kind.stop(grace=50)
    kindly = await kind.ended()
    await stubborn.stop(grace=0.2)
    forced = await stubborn.ended()
    told(kindly=[kindly.end, kindly.reason], forced=[forced.end, forced.reason], left=processes_with("{token}"))
""")
    assert told == {"kindly": ["stopped", "It was stopped."], "forced": ["stopped", "It was stopped."], "left": []}


def test_a_paused_session_does_nothing_and_goes_on_as_it_was(kept: Kept, token: str) -> None:
    told = kept.tell(f"""
async def main():
    attached, screen = await begin()
    changes = []
    attached.on_change = lambda: changes.append(attached.paused)
    await attached.send(b"sleep {token}\\n")
    await until(lambda: processes_with("{token}"))
    (suspended,) = processes_with("{token}")
    await screen.types(b"\\x1a", rb"Stopped")
    await attached.send(b"(while :; do (:); done) & while :; do :; done\\n")
    (first,) = [each for child in children(attached.pid) for each in children(child)]
    await until(lambda: len(descendants(first)) > 2)
    await attached.pause()
    inside = descendants(first)
    await until(lambda: all(state(pid) in "TZX" for pid in inside))
    before = (await keepers.attach("sess_1")).paused
    same = set(inside) == set(descendants(first))
    await attached.resume()
    await until(lambda: any(state(pid) == "R" for pid in descendants(first)))
    still = state(suspended)
    await screen.types(b"\\x03", rb"\\^C")
    said = await screen.runs("kill %+; kill %-; echo back")
    told(busy=len(inside) > 2, before=before, same=same, still=still, said=said[-1], changes=changes)
""")
    assert told == {
        "busy": True, "before": True, "same": True, "still": "T", "said": "back", "changes": [True, False],
    }  # fmt: skip


def test_a_session_paused_at_once_does_not_begin(kept: Kept) -> None:
    """A box is ready a moment before its first process starts the command, and a pause may come in between."""
    told = kept.tell("""
async def main():
    for number in range(20):
        attached = await keepers.start(order(f"sess_{number}"))
        await attached.pause()
        inside = descendants(next(each for child in children(attached.pid) for each in children(child)))
        assert inside and all(state(pid) in "TDZX" for pid in inside), [state(pid) for pid in inside]
        await attached.resume()
        await Screen(attached).shows(rb"\\$ $")
    told(done=True)
    await keepers.end_all()
""")
    assert told == {"done": True}


def test_the_smallest_screen_wins_and_watchers_have_none(kept: Kept) -> None:
    told = kept.tell("""
async def main():
    attached, screen = await begin()
    sizes = [await screen.runs("stty size")]
    tall, wide, watcher = [await keepers.attach("sess_1") for _ in range(3)]
    await attached.resize(30, 100)
    await tall.resize(50, 60)
    await wide.resize(20, 200)
    sizes.append(await screen.runs("stty size"))
    await until(lambda: (watcher.rows, watcher.columns) == (20, 60))
    await wide.close()
    await until(lambda: watcher.rows == 30)
    await tall.close()
    await until(lambda: (watcher.rows, watcher.columns) == (30, 100))
    sizes.append(await screen.runs("stty size"))
    refused = []
    for size in ((0, 0), (24, 0), (-1, 80), (24, 70000)):
        for ask in (attached.resize(*size), attached._ask("resize", rows=size[0], columns=size[1])):
            try:
                await ask
            except ToolError as error:
                refused.append(error.code)
    try:
        await attached._ask("levitate")
    except ToolError as error:
        refused.append(error.code)
    sizes.append(await screen.runs("stty size"))
    told(sizes=sizes, refused=refused)
""")
    assert told["sizes"] == [["24 80"], ["20 60"], ["30 100"], ["30 100"]]
    assert told["refused"] == ["BAD_SIZE"] * 8 + ["UNSUPPORTED"]


SIZES = """
import fcntl, os, signal, struct, sys, termios
def size(*_):
    seen = struct.unpack("4H", fcntl.ioctl(1, termios.TIOCGWINSZ, bytes(8)))[:2]
    os.write(1, b"%d %d\\n" % seen)  # unbuffered: the next signal may come in the middle of this one
signal.signal(signal.SIGWINCH, size)
os.write(1, b"$ ")
while True:
    signal.pause()
"""


def test_a_redraw_changes_the_size_and_changes_it_back(kept: Kept) -> None:
    told = kept.tell(
        """
async def main():
    attached, screen = await begin()
    while b"23 80" not in screen.text:  # a program that got no processor in between sees the last size alone
        since = screen.text.count(b"24 80")
        await attached.redraw()
        await until(lambda: screen.text.count(b"24 80") > since)
    await screen.shows(rb"(?s)23 80.*24 80")
    told(size=[attached.rows, attached.columns])
""",
        kept.spec(("/usr/bin/python3", "-I", "-c", SIZES)),
    )
    assert told == {"size": [24, 80]}


def test_a_keeper_hangs_up_on_who_does_not_speak_its_language(kept: Kept) -> None:
    told = kept.tell("""
from coilclaw.sandbox.keeper_wire import HELLO, INPUT, REQUEST, TAKE, Hello, frame, packed

async def main():
    attached, screen = await begin()
    hello = packed(HELLO, Hello())
    hung_up = []
    for words in (b"GET / HTTP/1.1\\r\\n\\r\\n" * 10, b"\\xff" * 9, frame(INPUT, b"rm -rf ~\\n"),
                  hello + frame(REQUEST, b"?"), hello + frame(TAKE, b"?"), frame(HELLO, b"?"),
                  hello + frame(INPUT, bytes(1 << 17))):
        with keepers._dial("sess_1.sock") as connection:
            connection.setblocking(True)
            connection.settimeout(PATIENCE)
            connection.sendall(words)
            with contextlib.suppress(ConnectionError):
                while connection.recv(1 << 16):
                    pass
            hung_up.append(True)
    with keepers._dial("sess_1.sock") as connection:  # what is unknown is passed over
        connection.setblocking(True)
        connection.settimeout(PATIENCE)
        connection.sendall(hello + frame(42, b"from the future") + frame(TAKE, (1 << 20).to_bytes(8, "little")))
        heard = b""
        while b"$ " not in heard:
            heard += connection.recv(1 << 16)
    told(hung_up=hung_up, said=await screen.runs("echo unmoved"))
""")
    assert told == {"hung_up": [True] * 7, "said": ["unmoved"]}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user as well")
@pytest.mark.parametrize("door", ["sess_1.sock", "nursery.sock"])
def test_another_user_is_not_let_in_even_where_the_socket_is_open_to_all(
    kept: Kept, interpreters: Callable[[int], Interpreter], door: str
) -> None:
    starting = kept.start("""
async def main():
    attached, screen = await begin()
    os.chmod(folder.parent, 0o711)
    os.chmod(folder, 0o711)
    os.chmod(folder / "sess_1.sock", 0o666)
    os.chmod(folder / "nursery.sock", 0o666)
    told(up=True)
    await attached.ended()
""")
    assert starting.stdout is not None
    starting.stdout.readline()
    foreign = interpreters(ORDINARY_UID if kept.runner.as_root else 0)
    script = f"""
import socket, sys
from coilclaw.sandbox.keeper_wire import HELLO, Hello, packed
connection = socket.socket(socket.AF_UNIX)
connection.settimeout(280)
connection.connect({str(kept.folder / door)!r})
try:
    connection.sendall(packed(HELLO, Hello()))
    print(connection.recv(100))
except ConnectionError:
    print(b"")
"""
    said, _ = foreign.start(script).communicate(timeout=100)
    starting.kill()
    starting.communicate()
    assert said == b"b''\n"


CALLS = """
import socket, sys
print("$ ", end="", flush=True)
for line in sys.stdin:
    with socket.create_connection(("127.0.0.1", 4567), timeout=280) as connection:
        connection.sendall(line.encode())
        print("answer:", connection.recv(100).decode(), flush=True)
"""


def test_listeners_inside_are_lent_and_lent_again_after_the_borrower_was_killed(kept: Kept) -> None:
    spec = kept.spec(("/usr/bin/python3", "-I", "-u", "-c", CALLS), listeners=(4567,))
    borrower = """
async def main():
    attached = await keepers.attach("sess_1")
    (listener,) = await attached.listeners()
    told(port=listener.getsockname()[1])
    await asyncio.Event().wait()
"""
    starting = kept.start(
        "async def main():\n    attached, screen = await begin()\n    told(up=1)\n    await attached.ended()", spec
    )
    assert starting.stdout is not None
    starting.stdout.readline()
    borrowing = kept.start(borrower, spec)
    assert borrowing.stdout is not None
    assert msgspec.json.decode(borrowing.stdout.readline()) == {"port": 4567}
    for process in (starting, borrowing):
        process.send_signal(signal.SIGKILL)
        process.communicate()
    told = kept.tell(
        """
async def main():
    attached = await keepers.attach("sess_1")
    screen = Screen(attached)
    await attached.send(b"first\\n")  # it waits for whoever comes
    (listener,) = await attached.listeners()
    listener.setblocking(True)
    connection, _ = await asyncio.to_thread(listener.accept)
    heard = [connection.recv(100).decode()]
    connection.sendall(b"one")
    connection.close()
    await screen.shows(rb"answer: one")
    listener.close()
    (listener,) = await attached.listeners()
    listener.setblocking(True)
    await attached.send(b"second\\n")
    connection, _ = await asyncio.to_thread(listener.accept)
    heard.append(connection.recv(100).decode())
    connection.sendall(b"two")
    await screen.shows(rb"answer: two")
    await keepers.end_all()
    told(heard=heard)
""",
        spec,
    )
    assert told == {"heard": ["first\n", "second\n"]}


def test_a_session_whose_home_is_removed_ends(kept: Kept, token: str) -> None:
    told = kept.tell(f"""
import shutil

async def main():
    attached, screen = await begin()
    await attached.send(b"trap '' HUP; sleep {token}\\n")
    await until(lambda: processes_with("{token}"))
    shutil.rmtree(folder)
    await until(lambda: not processes_with("{token}") and not processes_with(str(folder)))
    told(gone=True)
""")
    assert told == {"gone": True}


def test_nothing_is_left_of_a_home_whose_sessions_were_ended(kept: Kept) -> None:
    told = kept.tell("""
async def main():
    await asyncio.gather(*(begin(f"sess_{number}") for number in range(5)))
    told(ended=await keepers.end_all(), running=keepers.running())
""")
    assert told == {"ended": 5, "running": []}
    kept.folder.joinpath("nursery.sock").unlink()  # then the nursery, which has no keeper, goes as well
    told = kept.tell("""
async def main():
    await until(lambda: not processes_with(str(folder)))
    told(gone=True)
""")
    assert told == {"gone": True}
    assert processes_with(str(kept.folder)) == []
