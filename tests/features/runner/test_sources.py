"""Repositories of the owner's that are hostile, borrowed or damaged: read as data, or refused with a reason."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coilclaw.features.runner.sources import source_called, sources_of
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.repo_cache import RepoCache, is_reference, read_references
from tests.features.projects.world import add as add_project
from tests.features.runner.repo_world import git

pytestmark = pytest.mark.slow


async def refused(awaitable) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await awaitable
    return caught.value


async def test_nothing_planted_in_the_owners_repository_runs(each_world, tmp_path):
    world = each_world
    mark = tmp_path / "mark"
    evil = world.folder / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {mark} ran\necho PLANTED\n")
    evil.chmod(0o755)
    (world.folder / ".gitattributes").write_text("* filter=evil diff=evil\n")
    world.commit({"x": "x\n"})
    for key in (
        "core.fsmonitor", "core.hooksPath", "core.sshCommand", "core.alternateRefsCommand", "core.gitProxy",
        "uploadpack.packObjectsHook", "filter.evil.clean", "filter.evil.smudge", "filter.evil.process",
        "diff.external", "remote.origin.uploadpack", "credential.helper", "gpg.program",
    ):  # fmt: skip
        git(world.folder, "config", key, str(evil))
    git(world.folder, "config", "remote.origin.url", "ext::sh -c %S")
    git(world.folder, "config", "remote.origin.promisor", "true")
    git(world.folder, "config", "extensions.partialClone", "origin")
    for hook in ("post-checkout", "pre-auto-gc", "reference-transaction", "post-index-change"):
        (world.folder / ".git" / "hooks").mkdir(exist_ok=True)
        (world.folder / ".git" / "hooks" / hook).write_text(evil.read_text())
        (world.folder / ".git" / "hooks" / hook).chmod(0o755)
    checkout = await world.prepare()
    assert not mark.exists()
    assert not Path(checkout.path, "ran").exists()
    assert Path(checkout.path, "x").read_text() == "x\n"
    told = await world.inside(checkout, "git config --local --list")
    assert str(evil) not in told


def shallow(world) -> Path:
    world.commit({"two": "2\n"})
    git(world.sample.folder, "clone", "-q", "--depth=1", f"file://{world.folder}", "other")
    return world.sample.folder / "other"


def borrowing(world) -> Path:
    git(world.sample.folder, "clone", "-q", "--shared", str(world.folder), "other")
    return world.sample.folder / "other"


def worktree(world) -> Path:
    git(world.folder, "worktree", "add", "-q", str(world.sample.folder / "other"))
    return world.sample.folder / "other"


def linked(world) -> Path:
    other = world.sample.folder / "other"
    other.mkdir()
    (other / ".git").symlink_to(world.folder / ".git")
    return other


def linked_objects(world) -> Path:
    other = world.sample.folder / "other"
    other.mkdir()
    git(other, "init", "-q")
    (other / ".git" / "objects").rename(other / "moved")
    (other / ".git" / "objects").symlink_to(world.folder / ".git" / "objects")
    return other


def hollow(world) -> Path:
    """Objects are missing."""
    git(world.sample.folder, "clone", "-q", "--no-hardlinks", str(world.folder), "other")
    other = world.sample.folder / "other"
    blob = git(other, "rev-parse", "HEAD:README.md")
    for pack in (other / ".git" / "objects" / "pack").glob("*.pack"):
        data = pack.read_bytes()
        pack.chmod(0o600)
        pack.with_suffix(".idx").unlink()
        pack.unlink()
        git(other, "unpack-objects", "-q", given=data)
    (other / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    return other


def damaged(world) -> Path:
    """A file's bytes are not those of its name."""
    other = hollow(world)
    blob = git(other, "rev-parse", "HEAD:README.md")
    there = other / ".git" / "objects" / blob[:2]
    there.mkdir(exist_ok=True)
    import zlib

    (there / blob[2:]).write_bytes(zlib.compress(b"blob 6\0other\n"))
    return other


def empty(world) -> Path:
    other = world.sample.folder / "other"
    other.mkdir()
    git(other, "init", "-q")
    return other


@pytest.mark.parametrize(
    ("make", "code", "word"),
    [
        (shallow, "CLONE_FAILED", "unshallow"),
        (borrowing, "CLONE_FAILED", "alternates"),
        (worktree, "CLONE_FAILED", "main repository"),
        (linked, "CLONE_FAILED", "symbolic link"),
        (linked_objects, "CLONE_FAILED", "symbolic link"),
        (hollow, "CLONE_FAILED", "cannot be read"),
        (damaged, "CLONE_FAILED", "cannot be read"),
        (empty, "REF_GONE", "no branch"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
async def test_a_repository_that_does_not_stand_alone_is_refused_with_the_remedy(world, make, code, word):
    error = await refused(world.prepare(source=world.source_at(make(world))))
    assert error.code == code
    assert word in str(error)
    await world.prepare("sess_2")
    assert not (world.sessions / "sess_1").exists()


async def test_a_bare_repository_and_one_with_sha256_work(world):
    git(world.sample.folder, "clone", "-q", "--bare", str(world.folder), "bare.git")
    assert await world.changes(await world.prepare(source=world.source_at(world.sample.folder / "bare.git"))) == {}
    new = world.sample.folder / "new"
    new.mkdir()
    git(new, "init", "-q", "--object-format=sha256")
    world.commit({"a": "a\n"}, new)
    checkout = await world.prepare("sess_2", source=world.source_at(new))
    assert len(checkout.base) == 64
    await world.inside(checkout, "echo b >>a; git commit -qam b")
    assert await world.changes(checkout) == {"a": ("changed", 1, 0)}
    await world.checkouts.export(checkout)


async def test_a_repository_that_was_made_anew_replaces_its_copy_unless_somebody_borrows(world):
    await world.prepare("sess_1")
    (world.folder / ".git").rename(world.sample.folder / "old")
    git(world.folder, "init", "-q", "--object-format=sha256")
    world.commit({"a": "a\n"})
    assert (await refused(world.prepare("sess_2"))).code == "CLONE_FAILED"
    await world.checkouts.remove("sess_1")
    assert len((await world.prepare("sess_2")).base) == 64


async def test_references_that_are_no_references_are_left_out(world):
    place = world.folder / ".git" / "refs" / "heads"
    (place / "link").symlink_to("/etc/passwd")
    os.mkfifo(place / "pipe")
    (place / "text").write_text("ref: refs/heads/main\n")
    (place / "a.lock").write_text("1" * 40)
    (place / "bad name").write_text(git(world.folder, "rev-parse", "HEAD"))
    found, head = read_references(world.folder / ".git")
    assert (list(found), head) == (["refs/heads/main"], "refs/heads/main")
    await world.prepare()


@pytest.mark.parametrize(
    "name",
    ["refs/heads/", "refs/heads/-x", "refs/heads/a..b", "refs/heads/.a", "refs/heads/a/.b", "refs/heads/a.lock", "HEAD",
     "refs/heads/a b", "refs/heads/a\nb", "refs/heads/a@{b", "refs/heads/a~1", "refs/heads/a/",
     "refs/heads/a\x00", "refs/x"],
)  # fmt: skip
def test_such_a_name_is_no_reference(name):
    assert not is_reference(name)


async def test_files_are_copied_and_the_set_up_command_runs_without_network(each_world):
    world = each_world
    (world.folder / ".env").write_text("KEY=1\n")
    source = world.source_at(
        world.folder, copy=(".env",),
        setup="cp .env seen && git rev-parse HEAD >>seen && (curl -s http://1.1.1.1 || echo no) >>seen",
    )  # fmt: skip
    checkout = await world.prepare(source=source)
    await world.checkouts.set_up(checkout, source)
    assert Path(checkout.path, "seen").read_text() == f"KEY=1\n{checkout.base}\nno\n"
    assert Path(checkout.path, ".env").stat().st_mode & 0o777 == 0o600


async def test_a_failing_set_up_says_its_last_words_without_secrets(world):
    token = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4"
    source = world.source_at(world.folder, setup=f"echo first; echo token {token} >&2; exit 3")
    checkout = await world.prepare(source=source)
    error = await refused(world.checkouts.set_up(checkout, source))
    assert (error.code, token in str(error), "token" in str(error)) == ("SETUP_FAILED", False, True)


async def test_a_link_is_neither_copied_nor_written_through(world, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (world.folder / ".env").symlink_to(secret)
    source = world.source_at(world.folder, copy=(".env",))
    checkout = await world.prepare(source=source)
    assert (await refused(world.checkouts.set_up(checkout, source))).code == "SETUP_FAILED"
    (world.folder / ".env").unlink()
    (world.folder / ".env").write_text("KEY=1\n")
    Path(checkout.path, ".env").symlink_to(secret)
    await world.checkouts.set_up(checkout, source)
    assert secret.read_text() == "secret"
    assert Path(checkout.path, ".env").read_text() == "KEY=1\n"


async def test_repositories_come_before_projects_and_unknown_ones_are_refused(sample):
    home = sample()
    folder = home.folder / "code"
    folder.mkdir()
    add_project(home, folder)
    assert sources_of(home.app)["code"].provider == "project"
    with pytest.raises(ToolError) as caught:
        source_called(home.app, "cod")
    assert (caught.value.code, "code" in str(caught.value)) == ("REPO_UNKNOWN", True)


async def test_estop_keeps_a_checkout_from_being_made(world):
    world.app.estop.engage("stop", "now")
    assert (await refused(world.prepare())).code == "ESTOP"
    assert not (world.sessions / "sess_1").exists()


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.features.runner.repo_world import RepoWorld
from tests.home import Sample

sample = Sample(Path(sys.argv[1]))
world = RepoWorld.__new__(RepoWorld)
world.attach(sample, "B")

def reached(name):
    if name == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)

world.app.reached = reached
asyncio.run(world.prepare("sess_1"))
"""


@pytest.mark.parametrize("point", ["repo_packed", "repo_taken", "checkout_made"])
async def test_a_kill_in_the_middle_is_repaired_by_the_next_start(world, point):
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(world.sample.folder), point], cwd=root, timeout=280, check=False,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    await world.checkouts.remove("sess_1")
    checkout = await world.prepare("sess_1")
    assert await world.changes(checkout) == {}
    assert git(world.cache(), "fsck", "--full", "--strict") == ""
    assert sorted(path.name for path in world.sessions.iterdir()) == [".repos", "sess_1"]
    assert [path.name for path in (world.sessions / ".repos").iterdir()] == [world.cache().name]


async def test_kills_at_any_moment_lose_nothing_that_is_borrowed(world):
    kept = await world.prepare("sess_kept")
    root = Path(__file__).parents[3]
    for number in range(4):
        world.commit({f"f{number}-{each}": f"{number} {each}\n" * 50 for each in range(200)})
        killed = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(world.sample.folder), "never"], cwd=root, stderr=subprocess.DEVNULL
        )
        place = world.sessions / (".repos" if number % 2 else "")
        before = {path.name for path in place.iterdir()}
        while killed.poll() is None and {path.name for path in place.iterdir()} == before:
            await asyncio.sleep(0.01)  # until it made something
        killed.kill()
        killed.wait()
        await world.checkouts.remove("sess_1")
        assert git(world.cache(), "fsck", "--full", "--strict") == ""
        assert await world.changes(kept) == {}
    await world.prepare("sess_1")
    assert git(world.cache(), "fsck", "--full", "--strict") == ""


async def test_what_a_power_cut_left_of_a_cache_is_repaired(world):
    checkout = await world.prepare("sess_1")
    cache = world.cache()
    (cache / "config").write_bytes(b"\0" * 10)
    (cache / "HEAD").write_bytes(b"")
    (cache / "packed-refs").write_bytes(b"\0" * 100)
    (cache / "objects" / "pack" / "tmp_pack_x").write_bytes(b"x")
    (cache / "objects" / "pack" / f"pack-{'1' * 40}.pack").write_bytes(b"x")
    world.commit({"later": "x\n"})
    await world.prepare("sess_2")
    assert git(cache, "fsck", "--full", "--strict") == ""
    assert await world.changes(checkout) == {}


async def test_a_cancelled_start_leaves_nothing(world):
    world.commit({f"f{number}": "x\n" * 100 for number in range(300)})
    for seconds in (0.0, 0.1, 0.3, 0.6):
        task = asyncio.ensure_future(world.prepare("sess_1"))
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.wait({task})
        if task.cancelled():
            assert not (world.sessions / "sess_1").exists()
        await world.checkouts.remove("sess_1")
    await world.prepare("sess_1")
    assert RepoCache(world.cache()).borrowers() == ["sess_1"]
