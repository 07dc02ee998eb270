"""Floods: nothing a session writes makes its keeper grow, and only the follower holds a terminal back."""

import secrets

import msgspec
import pytest

from tests.sandbox.keeper_harness import HOURS, Kept, kept

__all__ = ["kept"]

pytestmark = pytest.mark.slow

MEGABYTES = 8
WRITER = f"""
import os, sys
print("$ ", end="", flush=True)
sys.stdin.readline()
line = b"x" * 8192
for number in range({MEGABYTES} << 7):
    os.write(1, b"%08d" % number + line[8:])
open("done", "w").close()
os.write(1, b"that was all")
sys.stdin.readline()
"""
"""Eight times the ring, without a newline."""


@pytest.fixture
def token() -> str:
    return f"{3600 + secrets.randbelow(10**6)}.{secrets.randbelow(10**9)}"


def test_a_flood_without_a_reader_runs_through_and_costs_no_memory(kept: Kept) -> None:
    told = kept.tell(
        """
def peak(pid):
    return int(re.search(r"VmHWM:\\s+(\\d+)", open(f"/proc/{pid}/status").read())[1]) << 10

async def main():
    attached = await keepers.start(order())
    before = peak(attached.pid)
    await attached.send(b"go\\n")
    await until((Path(spec.workspace) / "done").exists)
    late = await keepers.attach("sess_1", 0)
    screen = Screen(late)
    await screen.shows(rb"that was all$")
    told(grown=peak(attached.pid) - before, first=late.first, next=late.next, jumps=len(screen.jumps))
""",
        kept.spec(("/usr/bin/python3", "-I", "-c", WRITER)),
    )
    assert int(str(told["next"])) >= MEGABYTES << 20
    assert int(str(told["next"])) - int(str(told["first"])) == 1 << 20
    assert (int(str(told["grown"])) < 4 << 20, told["jumps"]) == (True, 0)


def test_a_follower_that_is_behind_holds_the_terminal_back_and_misses_nothing(kept: Kept) -> None:
    told = kept.tell(
        """
async def main():
    starter = await keepers.start(order())
    follower = await keepers.attach("sess_1", 0, follow=True)
    await starter.send(b"go\\n")

    async def kept_so_far():
        watcher = await keepers.attach("sess_1")
        await watcher.close()
        return watcher.next

    while await kept_so_far() < 256 << 10:
        await asyncio.sleep(0.05)
    held = await kept_so_far()
    done = (Path(spec.workspace) / "done").exists()
    numbers = []
    total = b""
    expected = 0
    async for offset, data in follower.output():
        assert offset == expected, (offset, expected)
        expected += len(data)
        total = (total + data)[-8200 * 8:]
        if b"that was all" in total:
            break
    told(held=held, done=done, all=expected)
""",
        kept.spec(("/usr/bin/python3", "-I", "-c", WRITER)),
    )
    assert told["done"] is False
    assert int(str(told["held"])) <= 512 << 10
    assert int(str(told["all"])) >= MEGABYTES << 20


def test_a_follower_that_is_killed_lets_the_terminal_go(kept: Kept) -> None:
    told = kept.tell(
        """
async def main():
    starter = await keepers.start(order())
    follower = await keepers.attach("sess_1", 0, follow=True)
    await starter.send(b"go\\n")
    await follower.close()
    await until((Path(spec.workspace) / "done").exists)
    told(done=True)
""",
        kept.spec(("/usr/bin/python3", "-I", "-c", WRITER)),
    )
    assert told == {"done": True}


def test_a_watcher_that_is_behind_is_skipped_forward_and_slows_nobody(kept: Kept) -> None:
    told = kept.tell(
        """
async def main():
    starter = await keepers.start(order())
    follower = Screen(await keepers.attach("sess_1", 0, follow=True))
    slow = await keepers.attach("sess_1", 0)
    output = slow.output()
    offset, data = await anext(output)  # then it takes nothing for a while
    await starter.send(b"go\\n")
    await follower.shows(rb"that was all$")
    at, jumped, text = offset + len(data), 0, b""
    async for offset, data in output:
        jumped += offset - at
        at = offset + len(data)
        text = (text + data)[-100:]
        if text.endswith(b"that was all"):
            break
    told(jumps=len(follower.jumps), jumped=jumped)
""",
        kept.spec(("/usr/bin/python3", "-I", "-c", WRITER)),
    )
    assert told["jumps"] == 0
    assert int(str(told["jumped"])) > 4 << 20


def test_yes_can_be_interrupted_and_typing_is_not_lost_in_its_flood(kept: Kept) -> None:
    told = kept.tell("""
async def main():
    attached, screen = await begin()
    await attached.send(b"yes | cat\\n")
    await screen.shows(rb"(y\\r\\n){1000}")
    await screen.types(b"\\x03", rb"\\^C")
    await screen.shows(rb"\\$ $")
    told(said=await screen.runs("echo quiet"))
""")
    assert told == {"said": ["quiet"]}


def test_input_that_nobody_reads_waits_outside_and_does_not_block_a_stop(kept: Kept, token: str) -> None:
    told = kept.tell(
        """
async def main():
    attached, screen = await begin()
    sending = asyncio.ensure_future(attached.send(b"x" * (1 << 20)))
    await until(lambda: attached._untyped > 32 << 10)
    waiting = not sending.done()
    other = await keepers.attach("sess_1")
    await attached.stop(grace=0)
    end = await other.ended()
    try:
        await sending
    except ToolError as error:
        told(waiting=waiting, end=end.end, code=error.code)
""",
        kept.spec(f"stty -icanon -echo; printf '$ '; sleep {token}"),
    )
    assert told == {"waiting": True, "end": "stopped", "code": "BOX_OVER"}


BOMB = """
import os, time
print("$ ", end="", flush=True)
while True:
    try:
        os.fork()
    except OSError:
        pass
    time.sleep(0.01)
"""


def test_a_fork_bomb_can_be_paused_and_ended(kept: Kept) -> None:
    limits = msgspec.structs.replace(HOURS, processes=48)
    told = kept.tell(
        """
async def main():
    attached = await keepers.start(order())
    (first,) = [each for child in children(attached.pid) for each in children(child)]
    await until(lambda: len(descendants(first)) > 20)
    await attached.pause()
    await until(lambda: all(state(pid) in "TZX" for pid in descendants(first)))
    quiet = descendants(first)
    same = set(quiet) == set(descendants(first))
    await attached.stop(grace=0.1)
    end = await attached.ended()
    told(same=same, end=end.end, left=[pid for pid in quiet if state(pid) not in "XZ"])
""",
        kept.spec(("/usr/bin/python3", "-I", "-c", BOMB), limits=limits),
    )
    assert told == {"same": True, "end": "stopped", "left": []}
