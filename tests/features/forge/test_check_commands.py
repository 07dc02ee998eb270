"""The owner's own checks: commands on what the merge gives, in a box, in a folder that is gone afterwards."""

import asyncio
import os
from pathlib import Path

import pytest

from coilclaw.config.forge import ForgeCheck
from coilclaw.features.forge.checks import BUILT_IN
from coilclaw.packets.box import BoxResult
from coilclaw.sandbox.bot_repository import Written
from coilclaw.sandbox.fake_box import FakeBox, finished

TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4"


def left(bot):
    trees = bot.app.config.trees_dir
    return sorted(path.name for path in trees.iterdir()) if trees.exists() else []


async def test_the_owners_commands_run_on_the_merge_result_without_network(world):
    bot = world(forge__checks={"b": ForgeCheck(command="make test", timeout_seconds=7), "a": ForgeCheck(command="x")})
    seen = {}

    def look(spec):
        folder = Path(spec.workspace)
        seen[spec.command] = (folder.joinpath("a.md").read_bytes(), (folder / ".git").exists(), os.stat(folder).st_mode)
        return finished(b"fine\n")

    bot.app.open_box = lambda: box
    box = FakeBox(look)
    bot.put_on_main(Written("main.md", b"of main"))
    checks = await bot.checked({"a.md": b"new"})
    assert list(checks) == [*BUILT_IN, "a", "b"]
    assert all(check.passed for check in checks.values())
    assert [seen[command][:2] for command in ("x", "make test")] == [(b"new", False)] * 2
    assert seen["x"][2] & 0o077 == 0
    spec = box.specs[1]
    assert spec.domains == ()
    assert spec.mounts == ()
    assert spec.limits.wall_seconds == 7
    assert Path(spec.workspace).parent == Path(os.path.realpath(bot.app.config.trees_dir))
    assert box.specs[0].workspace != spec.workspace, "each has a folder of its own"
    assert left(bot) == []


async def test_a_failing_command_fails_with_the_end_of_what_it_wrote(world):
    bot = world(forge__checks={"t": ForgeCheck(command="x")})
    noise = b"".join(b"line %d\n" % number for number in range(1000))
    output = noise + f"\x1b[31mtoken {TOKEN}\x1b[0m\n".encode() + b"\xff\n"
    bot.app.open_box = lambda: FakeBox(lambda _: finished(output, exit_code=2, stderr=b"boom\n"))
    check = (await bot.checked({"a": b"1"}))["t"]
    assert not check.passed
    assert check.summary == "The command ended with 2."
    assert len(check.details) == 40
    assert check.details[-1] == "boom"
    told = "\n".join(check.details)
    assert TOKEN not in told
    assert "\x1b" not in told
    assert "line 999" in told
    assert "line 1\n" not in told


@pytest.mark.parametrize("end", ["timeout", "memory_limit", "signalled", "left_behind"])
async def test_a_command_that_did_not_end_by_itself_fails(world, end):
    bot = world(forge__checks={"t": ForgeCheck(command="x")})
    ended = BoxResult(end=end, exit_code=0, stdout=b"", stderr=b"", seconds=1.0, tier="A", reason="It was too slow.")
    bot.app.open_box = lambda: FakeBox(lambda _: ended)
    check = (await bot.checked({"a": b"1"}))["t"]
    assert (check.passed, check.summary) == (False, "It was too slow.")


async def test_a_box_that_breaks_is_a_failed_check(world):
    bot = world(forge__checks={"t": ForgeCheck(command="x")})

    def breaks(_):
        raise OSError("no space left")

    bot.app.open_box = lambda: FakeBox(breaks)
    check = (await bot.checked({"a": b"1"}))["t"]
    assert not check.passed
    assert "could not be carried out" in check.summary
    assert left(bot) == []


async def test_estop_keeps_a_command_from_beginning_and_ends_one_that_runs(world):
    bot = world(forge__checks={"t": ForgeCheck(command="x")})
    box = bot.sample.box
    bot.app.estop.engage("stop", "2026-11-17T00:00:00.000Z")
    check = (await bot.checked({"a": b"1"}))["t"]
    assert not check.passed
    assert "ESTOP" in check.summary
    assert box.specs == []
    bot.app.estop.clear()
    box.hang = True
    work = asyncio.ensure_future(bot.checked({"a": b"1"}))
    while not box.specs:
        await asyncio.sleep(0.01)
    bot.app.estop.engage("stop", "2026-11-17T00:00:00.000Z")
    assert not (await work)["t"].passed
    assert box.killed == 1
    assert left(bot) == []


async def test_a_cancelled_check_ends_its_command_and_removes_its_folder(world):
    bot = world(forge__checks={"t": ForgeCheck(command="x")})
    box = bot.sample.box
    box.hang = True
    work = asyncio.ensure_future(bot.checked({"a": b"1"}))
    while not box.specs:
        await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert box.killed == 1
    assert left(bot) == []


async def test_a_folder_that_a_command_locked_is_removed_and_a_link_in_it_is_not_followed(world, tmp_path):
    bot = world(forge__checks={"t": ForgeCheck(command="x")})
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)

    def lock(spec):
        folder = Path(spec.workspace)
        (folder / "deep" / "er").mkdir(parents=True)
        (folder / "link").symlink_to(outside)
        (folder / "deep" / "er").chmod(0)
        (folder / "deep").chmod(0)
        folder.chmod(0)
        return finished()

    bot.app.open_box = lambda: FakeBox(lock)
    assert (await bot.checked({"a": b"1"}))["t"].passed
    assert left(bot) == []
    assert outside.stat().st_mode & 0o777 == 0o755


async def test_what_a_killed_process_left_is_removed_after_a_day(world):
    bot = world(forge__checks={"t": ForgeCheck(command="x")})
    trees = bot.app.config.trees_dir
    for name in (".check-old", ".check-new", "job_1"):
        (trees / name).mkdir(parents=True)
    os.utime(trees / ".check-old", (0, 0))
    os.utime(trees / "job_1", (0, 0))
    await bot.checked({"a": b"1"})
    assert left(bot) == [".check-new", "job_1"]


@pytest.mark.slow
async def test_a_command_runs_in_a_real_box(world):
    bot = world(forge__checks={"t": ForgeCheck(command="cat a.md && echo more > made && ls && ! ls ../*/.git")})
    bot.app.open_box = lambda: bot.app._box
    check = (await bot.checked({"a.md": b"of the job\n"}))["t"]
    assert check.passed, check
    assert "of the job" in check.details
    assert "made" in check.details
    assert left(bot) == []
