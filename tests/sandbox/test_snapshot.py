"""What a command destroyed can be brought back."""

import ast
import json
import os
import subprocess
import sys

import pytest

from coilclaw.gate.paths import classify
from coilclaw.packets.canonical import sha256_hex
from coilclaw.packets.errors import ToolError, UsageError
from coilclaw.packets.ids import utc_now
from coilclaw.sandbox.entries import Limits
from coilclaw.sandbox.snapshot import Snapshots
from tests.acceptance.conftest import bound_by_modes


def may_restore(path):
    return classify(path) not in ("never", "owner")


def paths(changes):
    return [change.path for change in changes]


@pytest.fixture
def kept(tmp_path):
    workspace = tmp_path / "ws"
    (workspace / "sub").mkdir(parents=True)
    (workspace / "a.txt").write_bytes(b"one\r\ntwo\n")
    (workspace / "sub" / "b.bin").write_bytes(bytes(range(256)))
    (workspace / ".gitattributes").write_text("* text=auto eol=lf filter=evil\n")
    (workspace / "SYSTEM.md").write_text("owner's words")
    return workspace, Snapshots(workspace, tmp_path / "store", utc_now, print)


def test_what_is_gone_or_changed_comes_back_to_the_byte(kept):
    workspace, snapshots = kept
    first = snapshots.take("before")
    (workspace / "a.txt").write_text("ruined")
    (workspace / "sub" / "b.bin").unlink()
    (workspace / "sub").rmdir()
    (workspace / "new.txt").write_text("made since")
    assert sorted(snapshots.changes("", may_restore)) == ["a.txt", "sub/b.bin"]
    assert sorted(paths(snapshots.restore(first, may_restore))) == ["a.txt", "sub/b.bin"]
    assert (workspace / "a.txt").read_bytes() == b"one\r\ntwo\n"
    assert (workspace / "sub" / "b.bin").read_bytes() == bytes(range(256))
    assert (workspace / "new.txt").read_text() == "made since"


def test_what_files_hold_is_told_without_reading_more_than_one_may_have(kept, tmp_path):
    workspace, _ = kept
    for name in ("c.txt", "d.txt"):
        (workspace / name).touch()
        os.truncate(workspace / name, 1 << 40)
    snapshots = Snapshots(workspace, tmp_path / "other", utc_now, print, Limits(file_bytes=10))
    held = snapshots.held(["c.txt", "a.txt", "d.txt", "sub/b.bin", "gone.txt", "a.txt/x"])
    assert held == {
        "c.txt": None, "a.txt": sha256_hex(b"one\r\ntwo\n"), "d.txt": None, "sub/b.bin": None, "gone.txt": "",
        "a.txt/x": "",
    }  # fmt: skip


def test_an_undo_can_itself_be_undone(kept):
    workspace, snapshots = kept
    first = snapshots.take("before")
    (workspace / "a.txt").write_text("better")
    snapshots.restore(first, may_restore)
    snapshots.restore(snapshots.recent()[0].id, may_restore)
    assert (workspace / "a.txt").read_text() == "better"


def test_the_same_state_is_kept_once(kept):
    _, snapshots = kept
    assert snapshots.take("one") == snapshots.take("two")
    assert [each.note for each in snapshots.recent()] == ["one"]


def test_what_the_owner_alone_writes_is_not_brought_back(kept):
    workspace, snapshots = kept
    snapshots.take("before")
    (workspace / "SYSTEM.md").write_text("changed by the owner")
    assert paths(snapshots.restore("", may_restore)) == []
    assert (workspace / "SYSTEM.md").read_text() == "changed by the owner"


def test_a_link_put_in_the_way_is_not_followed(kept, tmp_path):
    workspace, snapshots = kept
    snapshots.take("before")
    outside = tmp_path / "outside"
    outside.mkdir()
    (workspace / "sub" / "b.bin").unlink()
    (workspace / "sub").rmdir()
    (workspace / "sub").symlink_to(outside)
    snapshots.restore("", may_restore)
    assert list(outside.iterdir()) == []
    assert (workspace / "sub" / "b.bin").read_bytes() == bytes(range(256))


@pytest.mark.parametrize("name", ["zzzz", "--help", "HEAD", "abc", "0123456789abcdef"])
def test_an_unknown_snapshot_is_a_usage_error(kept, name):
    _, snapshots = kept
    snapshots.take("before")
    with pytest.raises(UsageError):
        snapshots.restore(name, may_restore)


def test_without_a_snapshot_there_is_nothing_to_undo(kept):
    _, snapshots = kept
    assert snapshots.recent() == []
    with pytest.raises(UsageError, match="no snapshots yet"):
        snapshots.changes("", may_restore)


def test_the_workspaces_own_repository_is_left_alone(kept):
    workspace, snapshots = kept
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text("[core]\n\thooksPath = /evil\n\tfsmonitor = /evil\n")
    snapshots.take("before")
    assert (workspace / ".git" / "config").read_text().startswith("[core]")
    assert sorted(path.name for path in (workspace / ".git").iterdir()) == ["config"]


def test_a_repository_inside_the_workspace_cannot_make_anything_run(kept, tmp_path):
    workspace, snapshots = kept
    inner = workspace / "inner"
    inner.mkdir()
    witness = tmp_path / "ran"
    run = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    (inner / "f").write_text("x")
    for args in (
        ["init", "-q"],
        ["add", "f"],
        ["commit", "-qm", "x"],
        ["config", "filter.x.clean", f"touch {witness}; cat"],
    ):
        subprocess.run([*run, *args], cwd=inner, check=True)
    (inner / ".gitattributes").write_text("* filter=x\n")
    os.utime(inner / "f", (1, 1))
    snapshots.take("one")
    os.utime(inner / "f", (2, 2))
    (inner / "f").write_text("y")
    snapshots.take("two")
    snapshots.restore("", may_restore)
    assert not witness.exists()


def test_a_folder_swapped_for_a_link_is_not_read_through(kept, tmp_path):
    workspace, snapshots = kept
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b.bin").write_text("host secret")
    (workspace / "sub" / "b.bin").unlink()
    (workspace / "sub").rmdir()
    (workspace / "sub").symlink_to(tmp_path / "outside")
    snapshots.take("swapped")
    assert "sub/b.bin" not in snapshots.manifests.find("").files


def test_what_was_touched_is_what_is_new_different_or_gone(kept):
    workspace, snapshots = kept
    first = snapshots.take("before")
    assert snapshots.touched(first) == []
    (workspace / "a.txt").write_text("changed")
    (workspace / "sub" / "new").mkdir()
    (workspace / "sub" / "new" / "c.txt").write_text("made")
    (workspace / "link").symlink_to("a.txt")
    (workspace / ".gitattributes").unlink()
    os.utime(workspace / "sub" / "b.bin", (1, 1))  # the same bytes at another time
    assert snapshots.touched(first) == [".gitattributes", "a.txt", "link", "sub/new/", "sub/new/c.txt"]


def test_new_and_renamed_folders_are_touched_by_their_names_and_others_are_not(kept):
    workspace, snapshots = kept
    (workspace / "empty").mkdir()
    (workspace / "old").mkdir()
    first = snapshots.take("before")
    (workspace / "sub" / "an empty one").mkdir()
    (workspace / "old").rename(workspace / "renamed")
    (workspace / "sub" / "c.txt").write_text("made")
    assert snapshots.touched(first) == ["renamed/", "sub/an empty one/", "sub/c.txt"]
    second = snapshots.take("after")
    assert second != first
    assert snapshots.touched(second) == []


def test_a_snapshot_from_before_folders_were_kept_tells_new_folders_by_their_time(kept):
    workspace, snapshots = kept
    first = snapshots.take("before")
    path = snapshots._store / f"{first}.json"
    kept_then = json.loads(path.read_text())
    del kept_then["folders"]
    path.write_text(json.dumps(kept_then))
    settle(workspace, snapshots, first)
    assert snapshots.touched(first) == []
    (workspace / "sub" / "new").mkdir()
    assert snapshots.touched(first) == ["sub/", "sub/new/"]


def test_a_folder_with_all_in_it_is_gone_file_by_file(kept):
    workspace, snapshots = kept
    first = snapshots.take("before")
    (workspace / "sub" / "b.bin").unlink()
    (workspace / "sub").rmdir()
    assert snapshots.touched(first) == ["sub/b.bin"]
    (workspace / "a.txt").unlink()
    (workspace / "a.txt").mkdir()
    assert snapshots.touched(first) == ["a.txt/", "sub/b.bin"]


def test_a_folder_whose_name_is_not_text_counts_for_the_one_around_it(kept):
    workspace, snapshots = kept
    first = snapshots.take("before")
    settle(workspace, snapshots, first)
    (workspace / "sub" / os.fsdecode(b"caf\xe9")).mkdir()
    assert snapshots.touched(first) == ["sub"]


def test_a_change_hidden_behind_the_old_size_and_time_is_touched(kept):
    workspace, snapshots = kept
    first = snapshots.take("before")
    info = (workspace / "a.txt").stat()
    (workspace / "a.txt").write_bytes(b"ONE\r\ntwo\n")
    os.utime(workspace / "a.txt", ns=(info.st_atime_ns, info.st_mtime_ns))
    assert snapshots.touched(first) == ["a.txt"]


def test_what_a_snapshot_leaves_out_is_touched_when_the_system_says_it_changed(kept):
    workspace, snapshots = kept
    (workspace / "web" / "node_modules" / "x").mkdir(parents=True)
    (workspace / "web" / "node_modules" / "x" / "index.js").write_text("x")
    (workspace / ".venv").mkdir()
    with (workspace / "big").open("wb") as file:
        file.truncate((16 << 20) + 1)
    first = snapshots.take("before")
    settle(workspace, snapshots, first)
    assert snapshots.touched(first) == []
    (workspace / "web" / "node_modules" / "x" / "index.js").write_text("poison")
    os.utime(workspace / "web" / "node_modules" / "x" / "index.js", (1, 1))
    with (workspace / "big").open("ab") as file:
        file.write(b"more")
    assert snapshots.touched(first) == ["big", "web/node_modules"]


def test_a_name_that_is_not_text_counts_for_its_folder(kept):
    workspace, snapshots = kept
    first = snapshots.take("before")
    (workspace / "sub" / os.fsdecode(b"caf\xe9")).write_text("x")
    assert snapshots.touched(first) == ["sub"]


def settle(workspace, snapshots, snapshot_id):
    """The clock of files is coarse: let the snapshot be certainly later than what was made before it."""
    path = snapshots._store / f"{snapshot_id}.json"
    latest = max(os.lstat(each).st_ctime_ns for each in workspace.rglob("*"))
    while path.stat().st_mtime_ns <= latest:
        os.utime(path)


def test_a_snapshot_gives_up_when_told_to_stop(kept):
    _, snapshots = kept
    with pytest.raises(ToolError, match="stopped"):
        snapshots.take("never", lambda: True)
    assert snapshots.recent() == []


def test_old_snapshots_go_and_their_contents_too(kept, tmp_path):
    workspace, snapshots = kept
    for number in range(55):
        (workspace / "a.txt").write_text(f"version {number}")
        snapshots.take(str(number))
    assert len(snapshots.recent(100)) == 50
    for path in (tmp_path / "store" / "objects").glob("*/*"):
        os.utime(path, (1, 1))
    (workspace / "a.txt").write_text("the last")
    snapshots.take("last")
    contents = {
        entry.content for each in snapshots.manifests.paths() for entry in snapshots.manifests.read(each).files.values()
    }
    assert {path.parent.name + path.name for path in (tmp_path / "store" / "objects").glob("*/*")} == contents


def test_snapshots_of_the_same_moment_sort_as_they_were_taken(tmp_path):
    from coilclaw.packets.ids import utc_now

    workspace = tmp_path / "ws"
    workspace.mkdir()
    moment = utc_now()
    for number in range(12):
        snapshots = Snapshots(workspace, tmp_path / f"store{number}", lambda: moment, print)
        (workspace / "a.txt").write_text(f"{number}")
        first = snapshots.take("first")
        (workspace / "a.txt").write_text(f"{number}, changed")
        second = snapshots.take("second")
        assert [each.id for each in snapshots.recent()] == [second, first]


SCAN = (
    "import sys; from pathlib import Path; from coilclaw.sandbox.scan import scan;"
    "print([found.path for found in scan(Path(sys.argv[1]))])"
)


def test_what_a_killed_box_left_stands_in_no_snapshots_way(tmp_path):
    (tmp_path / "a.txt").touch()
    (tmp_path / "later").mkdir(mode=0o700)
    (tmp_path / "later").chmod(0o1000)  # as a box makes them: an ordinary user cannot look into it
    (tmp_path / "shut").mkdir(mode=0o700)
    (tmp_path / "shut").chmod(0)
    done = subprocess.run(
        [sys.executable, "-c", SCAN, str(tmp_path)], capture_output=True, text=True, preexec_fn=bound_by_modes
    )
    assert ast.literal_eval(done.stdout) == ["a.txt", "later", "shut", "shut"]
