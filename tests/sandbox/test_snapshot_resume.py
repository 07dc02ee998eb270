"""A snapshot that was interrupted goes on where it was, and costs what changed; also with 100,000 files."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from coilclaw.packets.errors import ToolError
from coilclaw.packets.ids import utc_now
from coilclaw.sandbox.entries import Limits
from coilclaw.sandbox.snapshot import Snapshots

KILLED = """
import os, signal, sys
from pathlib import Path
from coilclaw.packets.ids import utc_now
from coilclaw.sandbox.snapshot import Snapshots
folder = Path(sys.argv[1])
asked = 0
def stopped():
    global asked
    asked += 1
    if asked == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return False
Snapshots(folder / "ws", folder / "store", utc_now, print).take("killed", stopped)
"""


def anything(_):
    return True


def fill(workspace: Path, files: int) -> None:
    for number in range(files):
        if number % 200 == 0:
            folder = workspace / f"d{number // 20_000}" / f"e{number // 200}"
            folder.mkdir(parents=True)
        (folder / f"f{number}").write_bytes(b"%d" % number)


def stored(folder: Path) -> set[Path]:
    return set((folder / "store" / "objects").rglob("*.pack"))


@pytest.mark.slow
def test_a_snapshot_that_ran_out_of_time_is_finished_by_the_next_ones(tmp_path):
    fill(tmp_path / "ws", 6000)
    tries = 0
    faults = []
    hasty = Snapshots(tmp_path / "ws", tmp_path / "store", utc_now, print, Limits(seconds=0.2))
    taken = ""
    while not taken:
        tries += 1
        assert tries < 500
        try:
            taken = hasty.take("in pieces")
        except ToolError as error:
            faults.append(error.message)
    assert all("continues from there" in fault for fault in faults)
    assert hasty.fault(None) == ""
    (tmp_path / "ws" / "d0" / "e3" / "f777").unlink()
    assert [change.path for change in hasty.restore(taken, anything)] == ["d0/e3/f777"]


@pytest.mark.slow
def test_a_snapshot_that_was_killed_continues_with_what_it_stored(tmp_path):
    fill(tmp_path / "ws", 6000)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), "5000"], check=False, capture_output=True, timeout=280
    )
    assert killed.returncode == -signal.SIGKILL
    before = stored(tmp_path)
    assert before
    snapshots = Snapshots(tmp_path / "ws", tmp_path / "store", utc_now, print)
    assert snapshots.recent() == []
    taken = snapshots.take("whole")
    assert before <= stored(tmp_path)
    kept = snapshots.manifests.files_of(snapshots.manifests.find(taken))
    assert len(kept) == 6000
    assert all(snapshots.manifests.contents.read(entry.content) is not None for entry in list(kept.values())[::97])


@pytest.mark.slow
def test_a_workspace_of_100_000_files_can_be_kept_and_undone(tmp_path):
    fill(tmp_path / "ws", 100_000)
    snapshots = Snapshots(tmp_path / "ws", tmp_path / "store", utc_now, print, Limits(seconds=3600))
    first = snapshots.take("first", turn="t1")
    size = snapshots.bytes()
    changed = tmp_path / "ws" / "d0" / "e0" / "f7"
    changed.write_text("ruined")
    (tmp_path / "ws" / "made").write_text("made")
    assert snapshots.settle(first) == ["d0/e0/f7", "made"]
    snapshots.take("second", turn="t2")
    assert snapshots.bytes() - size < size / 2
    assert [change.path for change in snapshots.restore(first, anything)] == ["made", "d0/e0/f7"]
    assert changed.read_text() == "7"
    assert not os.path.lexists(tmp_path / "ws" / "made")
