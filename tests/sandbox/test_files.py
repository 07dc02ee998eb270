"""Files are opened as they were decided on, or not at all."""

import os
import threading
import tracemalloc

import pytest

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox import files
from coilclaw.sandbox.files import FileGrant, WorkspaceFiles, read_existing
from tests.power import disk, umask


def grant(root, relative, *, write=False, asked=None):
    return FileGrant(asked=asked or relative, root=str(root), relative=relative, writable=write)


def opened(root, relative, *, write=False):
    return WorkspaceFiles((grant(root, relative, write=write),))


def test_a_granted_file_is_read_and_written(tmp_path):
    opened(tmp_path, "a/b.txt", write=True).write("a/b.txt", b"hello")
    assert opened(tmp_path, "a/b.txt").read("a/b.txt", max_bytes=10) == b"hello"


def test_a_small_file_takes_no_more_memory_than_it_holds(tmp_path):
    """A buffer of the limit's size leaves every file a memory map of its own; a process may have 65,530 of them."""
    (tmp_path / "x").write_bytes(b"small")
    tracemalloc.start()
    try:
        assert opened(tmp_path, "x").read("x", max_bytes=50 << 20) == b"small"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_file_that_does_not_say_how_long_it_is_is_read_whole_within_its_limit():
    name = f"{os.getpid()}/status"
    assert opened("/proc", name).read(name, max_bytes=1 << 20).startswith(b"Name:")
    with pytest.raises(ToolError, match="more than the 10"):
        opened("/proc", name).read(name, max_bytes=10)


def test_a_path_that_was_not_granted_is_refused(tmp_path):
    (tmp_path / "x").write_text("x")
    for use in (lambda f: f.read("x", max_bytes=9), lambda f: f.write("x", b""), lambda f: f.list("x", limit=9)):
        with pytest.raises(ToolError, match="not granted"):
            use(opened(tmp_path, "y"))


def test_a_read_grant_is_not_a_write_grant(tmp_path):
    with pytest.raises(ToolError, match="not granted to write"):
        opened(tmp_path, "x").write("x", b"")


@pytest.fixture(params=["openat2", "walk"])
def opener(request, tmp_path):
    """Both ways of opening must refuse the same things."""
    original = files.open_beneath
    if request.param == "walk":
        files.open_beneath = files._walk
    yield
    files.open_beneath = original


def test_a_link_swapped_in_after_the_check_is_not_followed(tmp_path, opener):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    workspace = tmp_path / "ws"
    (workspace / "d").mkdir(parents=True)
    (workspace / "file").symlink_to(secret)
    with pytest.raises(ToolError, match="link"):
        opened(workspace, "file").read("file", max_bytes=99)
    (workspace / "d").rmdir()
    (workspace / "d").symlink_to(tmp_path)
    with pytest.raises(ToolError):
        opened(workspace, "d/secret").read("d/secret", max_bytes=99)
    with pytest.raises(ToolError):
        opened(workspace, "d/new", write=True).write("d/new", b"x")
    assert not (tmp_path / "new").exists()


def test_a_write_replaces_a_link_instead_of_following_it(tmp_path):
    target = tmp_path / "target"
    target.write_text("untouched")
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / "f").symlink_to(target)
    opened(workspace, "f", write=True).write("f", b"new")
    assert target.read_text() == "untouched"
    assert (workspace / "f").read_text() == "new"
    assert not (workspace / "f").is_symlink()


def test_a_swap_in_a_loop_never_leaks(tmp_path, opener):
    """A thread swaps the file for a link to a secret as fast as it can; what is read is never the secret."""
    secret, workspace = tmp_path / "secret", tmp_path / "ws"
    secret.write_text("SECRET")
    workspace.mkdir()
    (workspace / "good").write_text("good")
    os.link(workspace / "good", workspace / "f")
    stop = threading.Event()

    def swap():
        number = 0
        while not stop.is_set():
            aside = workspace / f"s{number}"
            if number % 2:
                os.link(workspace / "good", aside)
            else:
                os.symlink(secret, aside)
            os.replace(aside, workspace / "f")
            number += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        reader, seen = opened(workspace, "f"), set()
        for _ in range(500):
            try:
                seen.add(reader.read("f", max_bytes=99))
            except ToolError:
                seen.add(None)
    finally:
        stop.set()
        thread.join()
    assert seen <= {b"good", None}


def test_too_large_not_regular_and_missing_are_reported(tmp_path):
    (tmp_path / "big").write_bytes(b"x" * 100)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dir").mkdir()
    for name, word in (
        ("big", "more than"),
        ("pipe", "not a regular file"),
        ("dir", "directory"),
        ("none", "does not exist"),
    ):
        with pytest.raises(ToolError, match=word):
            opened(tmp_path, name).read(name, max_bytes=10)


def test_a_write_is_atomic_and_keeps_the_mode(tmp_path):
    (tmp_path / "f").write_text("old")
    (tmp_path / "f").chmod(0o755)
    opened(tmp_path, "f", write=True).write("f", b"new")
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o755
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("mask", [0o077, 0o022, 0o000])
def test_a_file_that_is_replaced_keeps_its_mode_whatever_the_umask(tmp_path, mask):
    for mode in (0o755, 0o644, 0o664, 0o600, 0o666, 0o400):
        (tmp_path / "f").write_text("old")
        (tmp_path / "f").chmod(mode)
        with umask(mask):
            opened(tmp_path, "f", write=True).write("f", b"new")
        assert (tmp_path / "f").stat().st_mode & 0o7777 == mode
        (tmp_path / "f").unlink()


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o022, 0o644), (0o027, 0o640)])
def test_a_new_file_obeys_the_umask(tmp_path, mask, mode):
    (tmp_path / "link").symlink_to("elsewhere")  # what stands there is no file, and has no mode to keep
    with umask(mask):
        for name in ("new", "link"):
            opened(tmp_path, name, write=True).write(name, b"new")
            assert (tmp_path / name).lstat().st_mode & 0o7777 == mode


def test_other_content_does_not_run_as_the_owner_of_the_file(tmp_path):
    (tmp_path / "f").write_text("old")
    (tmp_path / "f").chmod(0o6755)
    opened(tmp_path, "f", write=True).write("f", b"new")
    assert (tmp_path / "f").stat().st_mode & 0o7777 == 0o755


def test_a_written_file_outlives_a_power_cut_with_the_folders_made_for_it(tmp_path):
    with disk(tmp_path) as there:
        opened(tmp_path, "a/b/c.txt", write=True).write("a/b/c.txt", b"new")
        there.cut()
    assert (tmp_path / "a/b/c.txt").read_bytes() == b"new"


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    (tmp_path / "d").mkdir()
    with pytest.raises(ToolError, match="directory"):
        opened(tmp_path, "d", write=True).write("d", b"x")
    assert os.listdir(tmp_path) == ["d"]


def test_a_listing_tells_kinds_and_sizes(tmp_path):
    (tmp_path / "f").write_text("12345")
    (tmp_path / "d").mkdir()
    (tmp_path / "l").symlink_to("f")
    (tmp_path / os.fsdecode(b"bad\xff")).touch()
    entries = WorkspaceFiles((grant(tmp_path, "", asked="."),)).list(".", limit=10)
    assert [(e.name, e.kind, e.size) for e in entries] == [
        ("bad\ufffd", "file", 0), ("d", "dir", 0), ("f", "file", 5), ("l", "link", 0),
    ]  # fmt: skip


def test_what_a_file_holds_now_is_read_for_the_difference(tmp_path):
    (tmp_path / "f").write_text("now")
    assert read_existing(tmp_path, "f", 10) == b"now"
    assert read_existing(tmp_path, "g", 10) is None


def test_what_must_be_written_alone_waits_for_running_commands(tmp_path):
    import fcntl

    grant = FileGrant(asked="SYSTEM.md", root=str(tmp_path), relative="SYSTEM.md", writable=True, alone=True)
    holder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_SH)  # as a running box does
    with pytest.raises(ToolError, match="a command is running"):
        WorkspaceFiles((grant,)).write("SYSTEM.md", b"x")
    os.close(holder)
    WorkspaceFiles((grant,)).write("SYSTEM.md", b"x")
    assert (tmp_path / "SYSTEM.md").read_bytes() == b"x"


def test_a_write_that_is_done_again_takes_up_what_it_left_aside(tmp_path):
    left = tmp_path / ".a.txt.0123abcd.new"
    left.write_text("half")
    (tmp_path / "outside").write_text("kept")
    WorkspaceFiles((grant(tmp_path, "a.txt", write=True),), "0123abcd").write("a.txt", b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "outside"]
    left.symlink_to(tmp_path / "outside")  # put there by somebody who knows the name
    WorkspaceFiles((grant(tmp_path, "a.txt", write=True),), "0123abcd").write("a.txt", b"again")
    assert (tmp_path / "outside").read_text() == "kept"
    assert (tmp_path / "a.txt").read_bytes() == b"again"


@pytest.mark.parametrize("path", ["a.txt\0.md", "sub/a.txt\0.md", "\0", "sub/\0a.txt"])
def test_a_path_is_not_cut_off_where_the_kernel_would_stop_reading(tmp_path, path):
    (tmp_path / "sub").mkdir()
    for name in ("a.txt", "sub/a.txt"):
        (tmp_path / name).write_text("something else")
    assert read_existing(tmp_path, path, 1000) is None
