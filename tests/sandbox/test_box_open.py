"""A box that stays open is talked to line by line, costs no more memory than its bounds, and always ends whole."""

import asyncio
import os
import secrets
import signal
import subprocess
from pathlib import Path

import pytest

from coilclaw.packets.box import BoxLimits, BoxSpec
from coilclaw.packets.errors import ToolError
from coilclaw.packets.ports import OpenBox
from coilclaw.sandbox.box import open_box
from coilclaw.sandbox.fake_box import FakeBox
from coilclaw.sandbox.process_tree import descendants
from coilclaw.sandbox.usage import Usage
from tests.sandbox.open_harness import LASTING, Opener, opener
from tests.sandbox.test_box_abandoned import COLLECTS, until_gone
from tests.sandbox.test_box_limits import daemon, processes_with

__all__ = ["opener"]

ECHO = """
import json, sys
for line in sys.stdin:
    print(json.dumps({"you said": json.loads(line)}))
print("the rest", end="")
print("bye", file=sys.stderr)
"""


@pytest.fixture
def token() -> str:
    return f"{3600 + secrets.randbelow(10**6)}.{secrets.randbelow(10**9)}"


def test_lines_go_in_and_out_until_the_program_ends_by_itself(opener: Opener) -> None:
    told = opener.tell(opener.python(ECHO), """
async def main():
    opened = await box.open(spec, stopped=never)
    lines = opened.lines()
    heard = []
    for number in range(3):
        await opened.send(json.dumps([number, "\\n"]).encode())
        heard.append(json.loads(await anext(lines)))
    await opened.end_input()
    result = await opened.wait()
    late = ""
    try:
        await opened.send(b"{}")
    except ToolError as error:
        late = error.code
    told(heard=heard, more=[str(line) async for line in lines], stdout=result.stdout.decode(), late=late,
         stderr=result.stderr.decode(), end=[result.end, result.exit_code], closed=(await opened.close()).end)
""")  # fmt: skip
    assert told["heard"] == [{"you said": [number, "\n"]} for number in range(3)]
    assert told["more"] == []
    assert (told["end"], told["stdout"], told["stderr"]) == (["exited", 0], "the rest", "bye\n")
    assert (told["closed"], told["late"]) == ("exited", "BOX_OVER")


def test_close_ends_everything_inside_before_it_returns(opener: Opener, token: str) -> None:
    spec = opener.spec(f"trap '' TERM HUP INT; {daemon(token)}; echo up; sleep {token}")
    told = opener.tell(spec, f"""
async def main():
    await warm()
    before = len(os.listdir("/proc/self/fd"))
    opened = await box.open(spec, stopped=never)
    first = await anext(opened.lines())
    await until(lambda: len(with_token("sleep\\x00{token}")) >= 3)
    result = await opened.close()
    alive = with_token("{token}")
    told(first=first.decode(), end=result.end, reason=result.reason, alive=alive, children=descendants(os.getpid()),
         descriptors=len(os.listdir("/proc/self/fd")) - before, tasks=len(asyncio.all_tasks()))
""")  # fmt: skip
    assert (told["first"], told["end"], told["reason"]) == ("up", "stopped", "It was closed.")
    assert (told["alive"], told["children"], told["descriptors"], told["tasks"]) == ([], [], 0, 1)


FLOOD = """
import os, select
os.set_blocking(1, False)
line = b"x" * 999 + b"\\n"
left, waiting, said = 100_000_000, b"", False
while left or waiting:
    if not waiting:
        waiting, left = line * 100, left - 100_000
    if not select.select([], [1], [], None if said else 2)[1]:
        open("stuck", "w").write(str(100_000_000 - left - len(waiting)))
        said = True
        continue
    waiting = waiting[os.write(1, waiting):]
"""


def test_a_program_that_writes_faster_than_it_is_read_waits_and_costs_no_memory(opener: Opener) -> None:
    told = opener.tell(opener.python(FLOOD), """
async def main():
    await warm()
    opened = await box.open(spec, stopped=never)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stuck = Path(spec.workspace, "stuck")
    await until(lambda: stuck.exists() and stuck.read_text())
    count = size = 0
    async for line in opened.lines():
        count, size = count + 1, size + len(line)
    told(stuck=int(stuck.read_text()), count=count, size=size, end=(await opened.wait()).end,
         more=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
""")  # fmt: skip
    assert told["stuck"] <= 1 << 20
    assert (told["count"], told["size"], told["end"]) == (100_000, 99_900_000, "exited")
    assert told["more"] < 8 << 10  # KiB


@pytest.mark.parametrize("script", [
    "import sys\nprint('ok', 'x' * (LONGEST + 1), 'never', sep='\\n', flush=True)\nsys.stdin.read()",
    "import os\nos.write(1, b'ok\\n')\nwhile True: os.write(1, b'x' * 65536)",
], ids=["too long", "endless"])  # fmt: skip
def test_a_line_that_is_too_long_ends_the_box(opener: Opener, script: str) -> None:
    told = opener.tell(opener.python(script.replace("LONGEST", str(LASTING.output_bytes))), """
async def main():
    opened = await box.open(spec, stopped=never)
    lines = [line.decode() async for line in opened.lines()]
    result = await opened.wait()
    told(lines=lines, end=result.end, reason=result.reason, children=descendants(os.getpid()))
""")  # fmt: skip
    assert (told["lines"], told["end"], told["children"]) == (["ok"], "output_limit", [])
    assert str(LASTING.output_bytes) in told["reason"]


def test_the_longest_line_passes_both_ways_and_a_longer_one_is_not_sent(opener: Opener) -> None:
    told = opener.tell(opener.python("import sys\nfor line in sys.stdin: print(line, end='')"), """
async def main():
    opened = await box.open(spec, stopped=never)
    most = spec.limits.output_bytes
    refused = []
    for line in (b"x" * (most + 1), b"two\\nlines"):
        try:
            await opened.send(line)
        except (ToolError, ValueError) as error:
            refused.append(getattr(error, "code", "newline"))
    await opened.send(b"y" * most)
    lines = opened.lines()
    told(refused=refused, back=len(await anext(lines)), end=(await opened.close()).end)
""")  # fmt: skip
    assert told == {"refused": ["TOO_LARGE", "newline"], "back": LASTING.output_bytes, "end": "stopped"}


def test_senders_wait_for_a_program_that_does_not_read_and_no_line_is_ever_cut(opener: Opener) -> None:
    script = """
import os, sys, time
print("up")
while not os.path.exists("go"): time.sleep(0.01)
print([(line[:1], len(line)) for line in sys.stdin])
"""
    told = opener.tell(opener.python(script), """
async def main():
    opened = await box.open(spec, stopped=never)
    lines = opened.lines()
    await anext(lines)
    sending = [asyncio.ensure_future(opened.send(b"%d" % n + b"x" * 300_000)) for n in range(4)]
    await asyncio.sleep(0.05)
    waiting = sum(not one.done() for one in sending)
    for one in sending[:2]:  # the first is half written, the second was not begun
        one.cancel()
    await asyncio.wait(sending[:2])
    Path(spec.workspace, "go").touch()
    await asyncio.gather(*sending[2:])
    await opened.end_input()
    told(waiting=waiting, heard=(await anext(lines)).decode(), end=(await opened.wait()).end)
""")  # fmt: skip
    assert (told["waiting"], told["end"]) == (4, "exited")
    assert told["heard"] == str([(name, 300_002) for name in "023"])


def test_only_the_end_of_its_complaints_is_kept(opener: Opener) -> None:
    script = "import sys\nfor n in range(40_000): print('complaint', n, file=sys.stderr)\nprint('done')"
    told = opener.tell(opener.python(script), """
async def main():
    opened = await box.open(spec, stopped=never)
    lines = [line.decode() async for line in opened.lines()]
    result = await opened.wait()
    told(lines=lines, size=len(result.stderr), last=result.stderr.decode().splitlines()[-1])
""")  # fmt: skip
    assert told == {"lines": ["done"], "size": 64 << 10, "last": "complaint 39999"}


def test_a_program_that_leaves_something_running_has_failed_as_a_command_has(opener: Opener, token: str) -> None:
    told = opener.tell(opener.spec(f"echo up; {daemon(token)}"), """
async def main():
    opened = await box.open(spec, stopped=never)
    lines = [line.decode() async for line in opened.lines()]
    told(lines=lines, end=(await opened.wait()).end, children=descendants(os.getpid()))
""")  # fmt: skip
    assert told == {"lines": ["up"], "end": "left_behind", "children": []}


def test_estop_ends_an_open_box_as_it_ends_a_command(opener: Opener, token: str) -> None:
    told = opener.tell(opener.spec(f"{daemon(token)}; echo up; sleep {token}"), f"""
async def main():
    estop = Estop(Path(spec.workspace, "ESTOP"))
    opened = await box.open(spec, stopped=estop.wait)
    lines = opened.lines()
    await anext(lines)
    estop.engage("now", "2026-01-01T00:00:00Z")
    result = await opened.wait()
    alive = with_token("{token}")
    refused = ""
    try:
        await box.open(msgspec.structs.replace(spec, command="touch began"), stopped=estop.wait)
    except ToolError as error:
        refused = f"{{error.code}} {{error.begun}}"
    told(end=result.end, reason=result.reason, alive=alive, refused=refused, left=descendants(os.getpid()))
""")  # fmt: skip
    assert (told["end"], told["reason"], told["alive"], told["left"]) == ("stopped", "ESTOP ended it.", [], [])
    assert told["refused"] == "ESTOP False"
    assert not (opener.runner.workspace / "began").exists()


def test_a_box_whose_watch_over_estop_breaks_is_ended(opener: Opener) -> None:
    told = opener.tell(opener.python(ECHO), """
async def main():
    breaking = asyncio.Event()
    async def broken():
        await breaking.wait()
        raise RuntimeError("gone")
    opened = await box.open(spec, stopped=broken)
    breaking.set()
    told(end=(await opened.wait()).end)
""")  # fmt: skip
    assert told == {"end": "stopped"}


def killed(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=280)
    assert process.returncode == -signal.SIGKILL


def test_an_open_box_dies_with_the_process_that_opened_it(opener: Opener, token: str) -> None:
    process = opener.start(opener.spec(f"{daemon(token)}; echo up; sleep {token}"), f"""
async def main():
    opened = await box.open(spec, stopped=never)
    await anext(opened.lines())
    await until(lambda: len(with_token("sleep\\x00{token}")) >= 3)
    told(inside=descendants(os.getpid()))
    await never()
""")  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline()
    inside = processes_with(token)
    assert inside
    killed(process)
    until_gone(inside)
    until_gone(processes_with(token))
    collecting = opener.interpreter.start(COLLECTS)
    assert int(collecting.communicate(timeout=280)[0]) >= 0


def test_cancelling_an_open_at_any_moment_leaves_nothing(opener: Opener, token: str) -> None:
    told = opener.tell(opener.spec(f"{daemon(token)}; sleep {token}"), f"""
async def main():
    await warm()
    before = len(os.listdir("/proc/self/fd"))
    cancelled = opened = 0
    for number in range(16):
        opening = asyncio.ensure_future(box.open(spec, stopped=never))
        for _ in range(number):
            await asyncio.sleep(0.002)
        opening.cancel()
        try:
            await (await opening).close()
            opened += 1
        except asyncio.CancelledError:
            cancelled += 1
    here = os.open(spec.workspace, os.O_RDONLY)
    fcntl.flock(here, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(here)
    told(cancelled=cancelled, both=cancelled + opened, alive=with_token("{token}"), children=descendants(os.getpid()),
         descriptors=len(os.listdir("/proc/self/fd")) - before, tasks=len(asyncio.all_tasks()))
""")  # fmt: skip
    assert told["cancelled"] > 0
    assert (told["both"], told["alive"], told["children"], told["descriptors"]) == (16, [], [], 0)
    assert told["tasks"] == 1


def test_closing_is_finished_even_by_who_is_cancelled_meanwhile(opener: Opener, token: str) -> None:
    told = opener.tell(opener.spec(f"{daemon(token)}; echo up; sleep {token}"), f"""
async def main():
    opened = await box.open(spec, stopped=never)
    await anext(opened.lines())
    closing = asyncio.ensure_future(opened.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
    told(cancelled=closing.cancelled(), alive=with_token("{token}"))
""")  # fmt: skip
    assert told == {"cancelled": True, "alive": []}


def test_a_loop_that_ends_takes_its_open_boxes_along(opener: Opener, token: str) -> None:
    process = opener.start(opener.spec(f"{daemon(token)}; echo up; sleep {token}"), """
async def main():
    opened = await box.open(spec, stopped=never)
    await anext(opened.lines())
""")  # fmt: skip
    process.communicate(timeout=280)
    assert process.returncode == 0
    assert not processes_with(token)


LOCKS = """
async def main():
    here = os.open(spec.workspace, os.O_RDONLY)
    def free():
        try:
            fcntl.flock(here, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        fcntl.flock(here, fcntl.LOCK_UN)
        return True
    opened = await box.open(spec, stopped=never)
    during = free()
    await opened.send(b"go")
    lines = opened.lines()
    heard = (await anext(lines)).decode()
    await opened.close()
    told(during=during, heard=heard, after=free())
"""
TRIES_TO_WRITE = "read line; if touch new kept 2>/dev/null; then echo wrote; else echo refused; fi; cat kept; cat"


def test_a_box_that_only_reads_its_workspace_does_not_keep_the_owner_from_writing(opener: Opener) -> None:
    (opener.runner.workspace / "kept").write_text("")
    spec = opener.spec(TRIES_TO_WRITE, workspace_writable=False, read_only=("kept",))
    assert opener.tell(spec, LOCKS) == {"during": True, "heard": "refused", "after": True}


def test_a_box_that_writes_its_folder_holds_the_lock_and_its_protected_paths(opener: Opener) -> None:
    (opener.runner.workspace / "kept").write_text("")
    spec = opener.spec(TRIES_TO_WRITE, read_only=("kept",))
    assert opener.tell(spec, LOCKS) == {"during": False, "heard": "refused", "after": True}


REFUSED = """
async def main():
    try:
        await box.open(spec, stopped=never)
    except ToolError as error:
        told(code=error.code, begun=error.begun)
"""


def test_a_box_that_only_reads_cannot_hide_what_may_be_put_there_later(opener: Opener) -> None:
    spec = opener.spec("touch began", workspace_writable=False, hidden=("later",))
    assert opener.tell(spec, REFUSED) == {"code": "BOX_CANNOT_HOLD", "begun": False}


def test_input_that_is_given_at_once_is_refused(opener: Opener) -> None:
    assert opener.tell(opener.spec("cat", stdin=b"x"), REFUSED) == {"code": "BAD_COMMAND", "begun": False}


def test_an_open_box_has_an_end_where_its_spec_gives_one(opener: Opener, limits, token: str):
    told = opener.tell(opener.spec(f"sleep {token}", limits=limits(wall_seconds=0.5)), """
async def main():
    opened = await box.open(spec, stopped=never)
    told(end=(await opened.wait()).end)
""")  # fmt: skip
    assert told == {"end": "timeout"}


def test_a_command_must_have_an_end(opener: Opener) -> None:
    with pytest.raises(ToolError, match="might never end"):
        opener.runner.ask_checked(opener.spec("true"))


def test_hours_of_cpu_and_address_space_are_left_unbounded_where_the_spec_says_so(opener: Opener, limits):
    main = """
async def main():
    opened = await box.open(spec, stopped=never)
    told(lines=[line.decode() async for line in opened.lines()])
"""
    command = ("/bin/bash", "-c", "ulimit -t; ulimit -v; ulimit -d")
    free = opener.tell(
        opener.spec(command, limits=limits(wall_seconds=None, cpu_seconds=None, address_space=False)), main
    )
    held = opener.tell(opener.spec(command, limits=limits(cpu_seconds=7)), main)
    assert free["lines"][:2] == ["unlimited", "unlimited"]
    assert held["lines"][0] == "7"
    assert free["lines"][2] == held["lines"][2]  # memory in use is bounded alike


async def test_a_box_without_walls_can_be_open_and_ends_everything_as_well(tmp_path: Path, token: str) -> None:
    """Without a process namespace the launcher is what ends the living."""
    stop = asyncio.Event()
    command = f"{daemon(token)}; read line; echo $line; sleep {token}"
    spec = BoxSpec(command=command, workspace=str(tmp_path), cwd=str(tmp_path), limits=LASTING)
    opened = await open_box(hide=(), unsafe=True).open(spec, stopped=stop.wait)
    await opened.send(b"hello")
    assert await anext(opened.lines()) == b"hello"
    stop.set()
    assert (await opened.wait()).end == "stopped"
    assert not processes_with(token)


async def test_the_fake_box_that_ships_is_open_in_the_same_way() -> None:
    stop = asyncio.Event()
    fake = FakeBox(reply=lambda line: (line.upper(), b"."))
    spec = BoxSpec(command="true", workspace="/w", cwd="/w")
    opened: OpenBox = await fake.open(spec, stopped=stop.wait)
    await opened.send(b"hi")
    lines = opened.lines()
    assert [await anext(lines), await anext(lines)] == [b"HI", b"."]
    stop.set()
    assert (await opened.wait()).end == "stopped"
    assert [line async for line in lines] == []
    with pytest.raises(ToolError) as caught:
        await opened.send(b"late")
    assert caught.value.code == "BOX_OVER"
    assert (await opened.close()).reason == "ESTOP ended it."
    again = await fake.open(spec, stopped=asyncio.Event().wait)
    assert (await again.close()).end == "stopped"


def test_processes_that_came_and_went_are_counted_without_being_remembered(tmp_path: Path) -> None:
    """Hours may see millions of them."""
    usage = Usage(os.getpid(), BoxLimits(wall_seconds=None, write_bytes=1 << 40), None, str(tmp_path))
    for _ in range(3):
        with subprocess.Popen(["/bin/sleep", "60"]) as child:
            assert usage.over() is None
            assert any(pid == child.pid for pid, _ in usage.writers)
            child.kill()
    assert usage.over() is None
    assert {pid for pid, _ in usage.writers} <= {os.getpid(), *descendants(os.getpid())}
