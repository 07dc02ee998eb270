"""Checkouts: made from a cache that only grows, read without obeying them, removed whatever is in them."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.sandbox.repo_cache import RepoCache
from tests.features.runner.repo_world import git

pytestmark = pytest.mark.slow


async def refused(awaitable) -> str:
    """The code of the refusal."""
    with pytest.raises(ToolError) as caught:
        await awaitable
    assert not caught.value.begun
    return caught.value.code


async def test_a_session_commits_in_its_own_checkout_and_its_work_comes_back(each_world):
    world = each_world
    checkout = await world.prepare()
    assert Path(checkout.path) == Path(os.path.realpath(world.sessions)) / "sess_1" / "site"
    assert (checkout.branch, checkout.base) == ("coil/sess_1", git(world.folder, "rev-parse", "main"))
    assert await world.changes(checkout) == {}
    assert Path(checkout.path).parent.stat().st_mode & 0o077 == 0, "others on this machine see nothing of it"
    await world.inside(
        checkout, "echo more >>README.md && git mv src/b.py c.py && echo new >'a b' && git rm -q src/a.py"
    )
    assert await world.changes(checkout) == {
        "README.md": ("changed", 1, 0),
        "a b": ("added", 1, 0),
        "c.py": ("renamed", 0, 0),
        "src/a.py": ("deleted", 0, 1),
    }
    assert b"+more\n" in await world.checkouts.diff(checkout, "README.md")
    assert b"more" not in await world.checkouts.diff(checkout, "c.py")
    told = await world.inside(checkout, "git add -A && git commit -qm work && git log --format=%s && git branch -a")
    assert told.splitlines() == ["work", "change", "* coil/sess_1", "  remotes/origin/main"]
    name = await world.checkouts.export(checkout)
    assert name == "refs/sessions/sess_1"
    assert git(world.cache(), "log", "-1", "--format=%s %an", name) == "work CoilClaw"
    assert git(world.cache(), "fsck", "--full", "--strict") == ""
    assert git(world.folder, "for-each-ref", "--format=%(refname)") == "refs/heads/main", "the source is only read"


async def test_a_second_checkout_needs_no_fetch_and_sees_nothing_of_the_first(world):
    first = await world.prepare("sess_1")
    stamp = os.stat(world.cache() / "objects" / "pack").st_mtime_ns
    second = await world.prepare("sess_2")
    assert os.stat(world.cache() / "objects" / "pack").st_mtime_ns == stamp
    await world.inside(first, "echo x >only-here")
    assert await world.changes(second) == {}
    assert await world.inside(second, f"ls {first.path} 2>/dev/null || echo nothing") == "nothing\n"


async def test_a_branch_or_a_commit_is_checked_out_as_it_is_now(world):
    old = git(world.folder, "rev-parse", "HEAD")
    await world.prepare("sess_1")
    git(world.folder, "checkout", "-q", "-b", "topic/x")
    new = world.commit({"topic.md": "x\n"})
    git(world.folder, "tag", "v1")
    assert (await world.prepare("sess_2", "topic/x")).base == new
    assert (await world.prepare("sess_3")).base == new, "HEAD names the default branch"
    assert (await world.prepare("sess_4", "main")).base == old
    assert (await world.prepare("sess_5", old, "commit")).base == old
    short = await world.prepare("sess_6", new[:10], "commit")
    assert short.base == new
    assert await world.inside(short, "git describe --tags") == "v1\n"


@pytest.mark.parametrize(
    ("ref", "kind"),
    [
        ("gone", "branch"),
        ("--upload-pack=touch /tmp/x", "branch"),
        ("-x", "branch"),
        ("../../heads/main", "branch"),
        ("main@{1}", "branch"),
        ("main\nmain", "branch"),
        ("refs/heads/main", "branch"),
        ("0" * 40, "commit"),
        ("main", "commit"),
        ("--all", "commit"),
        ("HEAD^{/x}", "commit"),
        ("", "commit"),
    ],
)
async def test_a_reference_that_is_not_there_is_gone(world, ref, kind):
    assert await refused(world.prepare(ref=ref, kind=kind)) == "REF_GONE"
    assert not (world.sessions / "sess_1").exists()


async def test_a_branch_that_was_deleted_is_gone_and_its_objects_are_kept(world):
    git(world.folder, "branch", "topic")
    checkout = await world.prepare("sess_1", "topic")
    git(world.folder, "branch", "-D", "topic")
    assert await refused(world.prepare("sess_2", "topic")) == "REF_GONE"
    assert await world.changes(checkout) == {}


async def test_the_cache_loses_nothing_that_is_borrowed(world):
    git(world.folder, "checkout", "-q", "-b", "topic")
    base = world.commit({"big.txt": "x\n" * 1000})
    checkout = await world.prepare("sess_1", "topic")
    git(world.folder, "checkout", "-q", "main")
    git(world.folder, "branch", "-D", "topic")
    await world.prepare("sess_2")
    for command in (["gc", "--prune=now"], ["prune", "--expire=now"], ["repack", "-a", "-d"]):
        done = subprocess.run(["git", *command], cwd=world.cache(), capture_output=True, check=False, timeout=280)
        assert command[0] == "gc" or b"precious-objects" in done.stderr  # gc passes over what prune and repack refuse
    assert git(world.cache(), "cat-file", "-t", base) == "commit"
    assert "big.txt" in await world.inside(checkout, "git show --stat HEAD && git fsck")
    assert RepoCache(world.cache()).borrowers() == ["sess_1", "sess_2"]
    await world.checkouts.remove("sess_1")
    assert RepoCache(world.cache()).borrowers() == ["sess_2"]


async def test_the_cache_cannot_be_written_from_a_box(each_world):
    checkout = await each_world.prepare()
    told = await each_world.inside(
        checkout, "for f in x pack/x; do echo x >/repository/objects/$f || echo no; done 2>/dev/null"
        "; rm -rf /repository 2>/dev/null; rm -f /repository/objects/pack/* 2>/dev/null; git log --oneline | wc -l"
    )  # fmt: skip
    assert told == "no\nno\n1\n"
    assert await each_world.inside(checkout, f"ls {checkout.cache} 2>/dev/null || echo hidden") == "hidden\n"


async def test_several_sessions_start_at_once(world):
    made = await asyncio.gather(*(world.prepare(f"sess_{number}") for number in range(4)))
    assert len({checkout.path for checkout in made}) == 4
    assert sorted(RepoCache(world.cache()).borrowers()) == [f"sess_{number}" for number in range(4)]


async def test_a_session_has_one_checkout_and_an_id(world):
    await world.prepare("sess_1")
    with pytest.raises(UsageError, match="already"):
        await world.prepare("sess_1")
    assert await world.changes(world.checkouts.open_checkout("sess_1")) == {}
    for name in ("../x", "", ".repos", "sess_1/../..", ".new-sess_1"):
        with pytest.raises(UsageError, match="not the id"):
            await world.checkouts.remove(name)


async def test_more_than_the_cap_is_refused_before_anything_is_made(world_of):
    world = world_of(runner__disk_bytes=1 << 20)
    world.commit({"big": "x" * (2 << 20)})
    assert await refused(world.prepare()) == "DISK_FULL"
    assert not (world.sessions / "sess_1").exists()
    world.commit({"big": "small"})
    await world.prepare()
    (world.sessions / "sess_1" / "fills").write_bytes(b"x" * (1 << 20))
    world.checkouts.usage()
    assert await refused(world.prepare("sess_2")) == "DISK_FULL"


async def test_prune_removes_copies_that_nobody_borrows_and_that_hold_no_work(world):
    checkout = await world.prepare("sess_1")
    assert (await world.checkouts.prune()).repositories == 0, "a checkout borrows from it"
    await world.checkouts.remove("sess_1")
    pruned = await world.checkouts.prune()
    assert (pruned.repositories, pruned.freed_bytes > 0) == (1, True)
    assert list((world.sessions / ".repos").iterdir()) == []
    checkout = await world.prepare("sess_1")
    await world.inside(checkout, "git commit -q --allow-empty -m work")
    await world.checkouts.export(checkout)
    await world.checkouts.remove("sess_1")
    assert (await world.checkouts.prune()).repositories == 0, "the work is nowhere else"
    assert git(world.cache(), "log", "-1", "--format=%s", "refs/sessions/sess_1") == "work"
