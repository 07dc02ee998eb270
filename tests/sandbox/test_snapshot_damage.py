"""What was kept for an undo outlives a power cut; what is damaged all the same costs that file alone."""

import json
import os

import pytest

from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import utc_now
from coilclaw.sandbox.entries import Limits
from coilclaw.sandbox.snapshot import Snapshots
from tests.power import disk, umask


def anything(_):
    return True


@pytest.fixture
def told():
    return []


def paths(changes):
    return [change.path for change in changes]


@pytest.fixture
def kept(tmp_path, told):
    workspace = tmp_path / "ws"
    (workspace / "sub").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        (workspace / name).write_text(f"first {name}")
    return workspace, Snapshots(workspace, tmp_path / "home" / "store", utc_now, told.append)


def contents(tmp_path):
    return sorted((tmp_path / "home" / "store" / "objects").glob("*/*"))


def manifests(tmp_path):
    return sorted((tmp_path / "home" / "store").glob("snap_*.json"))


def content_of(tmp_path, text):
    from coilclaw.packets.canonical import sha256_hex

    name = sha256_hex(text.encode())
    return tmp_path / "home" / "store" / "objects" / name[:2] / name[2:]


def strays(folder):
    return [path for path in folder.rglob("*") if path.name.endswith(".new")]


def ruin(workspace):
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        (workspace / name).write_text("ruined")


def test_a_snapshot_outlives_a_power_cut(kept, tmp_path):
    workspace, snapshots = kept
    (tmp_path / "home").mkdir()
    with disk(tmp_path / "home") as home:
        taken = snapshots.take("before")
        home.cut()
    ruin(workspace)
    assert paths(snapshots.restore(taken, anything)) == ["a.txt", "b.txt", "sub/c.txt"]
    assert (workspace / "sub" / "c.txt").read_text() == "first sub/c.txt"


def test_many_new_contents_outlive_a_power_cut_too(kept, tmp_path):
    workspace, snapshots = kept
    for number in range(600):
        (workspace / f"f{number}").write_text(f"{number}")
    (tmp_path / "home").mkdir()
    with disk(tmp_path / "home") as home:
        taken = snapshots.take("before")
        home.cut()
    for number in range(600):
        (workspace / f"f{number}").unlink()
    assert len(snapshots.restore(taken, anything)) == 600
    assert (workspace / "f599").read_text() == "599"


def test_what_was_brought_back_outlives_a_power_cut(kept, tmp_path):
    workspace, snapshots = kept
    (workspace / "link").symlink_to("a.txt")
    taken = snapshots.take("before")
    ruin(workspace)
    (workspace / "link").unlink()
    (workspace / "sub" / "c.txt").unlink()
    (workspace / "sub").rmdir()
    with disk(workspace) as there:
        snapshots.restore(taken, anything)
        there.cut()
    assert (workspace / "a.txt").read_text() == "first a.txt"
    assert (workspace / "sub" / "c.txt").read_text() == "first sub/c.txt"
    assert os.readlink(workspace / "link") == "a.txt"


@pytest.mark.parametrize("damage", [b"", b"x\x9c", b"not compressed", None, "other"])
def test_a_damaged_content_costs_its_file_alone_and_is_named(kept, tmp_path, damage):
    workspace, snapshots = kept
    taken = snapshots.take("before")
    ruin(workspace)
    broken = content_of(tmp_path, "first b.txt")
    if damage is None:
        broken.unlink()
    else:
        broken.write_bytes(content_of(tmp_path, "first a.txt").read_bytes() if damage == "other" else damage)
    with pytest.raises(ToolError, match=r"b\.txt cannot be restored: its stored copy is damaged") as caught:
        snapshots.restore(taken, anything)
    assert "The other 2 files were restored" in str(caught.value)
    assert "a.txt" not in str(caught.value)
    assert (workspace / "a.txt").read_text() == "first a.txt"
    assert (workspace / "b.txt").read_text() == "ruined"
    assert (workspace / "sub" / "c.txt").read_text() == "first sub/c.txt"
    assert strays(tmp_path) == []


@pytest.mark.parametrize("damage", [b"", b"not compressed", None])
def test_a_damaged_content_that_is_needed_again_is_written_again(kept, tmp_path, damage):
    workspace, snapshots = kept
    snapshots.take("before")
    broken = content_of(tmp_path, "first b.txt")
    broken.write_bytes(damage) if damage is not None else broken.unlink()
    (workspace / "again.txt").write_text("first b.txt")
    again = snapshots.take("again")
    (workspace / "again.txt").unlink()
    assert paths(snapshots.restore(again, anything)) == ["again.txt"]
    assert (workspace / "again.txt").read_text() == "first b.txt"


@pytest.mark.parametrize("damage", [b"", None])
def test_what_a_power_cut_left_of_a_file_that_did_not_change_is_written_again(kept, tmp_path, damage):
    workspace, snapshots = kept
    taken = snapshots.take("before")
    broken = content_of(tmp_path, "first b.txt")
    broken.write_bytes(damage) if damage is not None else broken.unlink()
    assert snapshots.take("again") == taken
    ruin(workspace)
    assert len(snapshots.restore(taken, anything)) == 3


@pytest.mark.parametrize("damage", [b"", b'{"id": "snap_', b"[]", b"\xff\xfe"])
def test_a_manifest_that_cannot_be_read_is_passed_over_and_named(kept, tmp_path, told, damage):
    workspace, snapshots = kept
    first = snapshots.take("one")
    (workspace / "a.txt").write_text("second")
    second = snapshots.take("two")
    (tmp_path / "home" / "store" / f"{second}.json").write_bytes(damage)
    (workspace / "a.txt").write_text("third")
    third = snapshots.take("three")
    assert third not in (first, second)
    assert [each.id for each in snapshots.recent()] == [third, first]
    assert len(told) == 1
    assert second in told[0]
    assert "emove" in told[0]
    with pytest.raises(ToolError, match=second):
        snapshots.restore(second, anything)
    ruin(workspace)
    assert paths(snapshots.restore("", anything)) == ["a.txt", "b.txt", "sub/c.txt"]
    assert (workspace / "a.txt").read_text() == "third"


def test_the_last_one_that_can_be_read_is_the_last_one(kept, tmp_path):
    workspace, snapshots = kept
    first = snapshots.take("one")
    (workspace / "a.txt").write_text("second")
    second = snapshots.take("two")
    (tmp_path / "home" / "store" / f"{second}.json").write_bytes(b"")
    assert snapshots.named("").id == first
    assert snapshots.changes("", anything) == ["a.txt"]


def test_contents_stay_while_a_manifest_that_may_need_them_cannot_be_read(kept, tmp_path):
    workspace, snapshots = kept
    for number in range(52):
        (workspace / "a.txt").write_text(f"version {number}")
        last = snapshots.take(str(number))
    whole = (tmp_path / "home" / "store" / f"{last}.json").read_bytes()
    (tmp_path / "home" / "store" / f"{last}.json").write_bytes(b"")
    for path in contents(tmp_path):
        os.utime(path, (1, 1))
    (workspace / "a.txt").write_text("newer")
    snapshots.take("newer")
    assert len(manifests(tmp_path)) == 50
    (tmp_path / "home" / "store" / f"{last}.json").write_bytes(whole)
    assert paths(snapshots.restore(last, anything)) == ["a.txt"]
    assert (workspace / "a.txt").read_text() == "version 51"


def test_a_file_that_cannot_be_put_back_leaves_nothing_aside_and_stops_no_other(kept, tmp_path):
    workspace, snapshots = kept
    taken = snapshots.take("before")
    ruin(workspace)
    (workspace / "a.txt").unlink()
    (workspace / "a.txt" / "full").mkdir(parents=True)
    with pytest.raises(ToolError, match=r"a\.txt cannot be restored"):
        snapshots.restore(taken, anything)
    assert strays(workspace) == []
    assert (workspace / "b.txt").read_text() == "first b.txt"


def test_a_snapshot_that_cannot_be_written_leaves_nothing_aside(kept, tmp_path):
    _, snapshots = kept
    content_of(tmp_path, "first b.txt").mkdir(parents=True)
    with pytest.raises((OSError, ToolError)):
        snapshots.take("before")
    assert strays(tmp_path) == []
    assert snapshots.recent() == []


def test_a_snapshot_that_gives_up_leaves_nothing_aside(kept, tmp_path):
    _, snapshots = kept
    asked = []
    with pytest.raises(ToolError):
        snapshots.take("before", lambda: len(asked) > 1 or asked.append(1))
    assert strays(tmp_path) == []


def test_what_a_killed_process_left_aside_goes_in_time(kept, tmp_path):
    workspace, snapshots = kept
    snapshots.take("before")
    folder = contents(tmp_path)[0].parent
    left = [folder / "ab.12345678.new", tmp_path / "home" / "store" / ".snap_x.json.12345678.new"]
    young = folder / "cd.12345678.new"
    for path in (*left, young):
        path.write_bytes(b"half")
    for path in left:
        os.utime(path, (1, 1))
    (workspace / "a.txt").write_text("second")
    snapshots.take("again")
    assert strays(tmp_path) == [young]


@pytest.mark.parametrize("mask", [0o077, 0o022, 0o000])
def test_a_file_comes_back_with_the_mode_it_had_whatever_the_umask(kept, mask):
    workspace, snapshots = kept
    (workspace / "a.txt").chmod(0o775)
    (workspace / "b.txt").chmod(0o664)
    (workspace / "sub" / "c.txt").chmod(0o600)
    taken = snapshots.take("before")
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        (workspace / name).unlink()
    with umask(mask):
        snapshots.restore(taken, anything)
    modes = [(workspace / name).stat().st_mode & 0o777 for name in ("a.txt", "b.txt", "sub/c.txt")]
    assert modes == [0o775, 0o664, 0o600]


@pytest.mark.parametrize("path", ["../escape.txt", "x/../../escape.txt", "/escape.txt", "x//y", "a\0b"])
def test_a_manifest_whose_paths_lead_out_is_as_good_as_unreadable(kept, tmp_path, path):
    workspace, snapshots = kept
    taken = snapshots.take("before")
    ruin(workspace)
    (manifest,) = manifests(tmp_path)
    written = json.loads(manifest.read_text())
    written["files"][path] = next(iter(written["files"].values()))
    manifest.write_text(json.dumps(written))
    with pytest.raises(ToolError, match="cannot be read"):
        snapshots.restore(taken, anything)
    assert not (tmp_path / "escape.txt").exists()


def test_whoever_fills_the_workspace_does_not_switch_undo_off(kept, tmp_path, told):
    workspace, snapshots = kept
    taken = snapshots.take("before")
    ruin(workspace)
    for number in range(10):
        (workspace / f"more{number}").touch()
    full = Snapshots(workspace, tmp_path / "home" / "store", utc_now, told.append, Limits(files=5))
    with pytest.raises(ToolError, match="more than 5 files"):
        full.take("too many by now")
    assert paths(full.restore(taken, anything)) == ["a.txt", "b.txt", "sub/c.txt"]
    assert (workspace / "a.txt").read_text() == "first a.txt"
    full.restore("", anything)
    assert (workspace / "a.txt").read_text() == "ruined"
    assert told == []


def test_a_link_whose_target_is_not_text_is_left_out(kept):
    workspace, snapshots = kept
    os.symlink(b"\xff", os.fsencode(workspace) + b"/link")
    taken = snapshots.take("before")
    ruin(workspace)
    assert "a.txt" in paths(snapshots.restore(taken, anything))
