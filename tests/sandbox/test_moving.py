"""Entries are moved between the workspace and the home completely or not at all, also where the disk is full."""

import os
import subprocess
import sys
from pathlib import Path

from coilclaw.sandbox.moving import move_in, move_out

ROOT = Path(__file__).parents[2]
ON_A_SMALL_DISK = """
import os, sys
from pathlib import Path
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.moving import move_in, move_out

home, workspace = Path(sys.argv[1]), Path(sys.argv[2])

def move(path):
    try:
        move_out(workspace, path, home / "0")
    except ToolError as error:
        print("not moved:", error)

move("large")
move("large/1")
sizes = sorted(path.stat().st_size for path in (workspace / "large").iterdir())
print(sorted(path.name for path in home.iterdir()), sizes)
move("small")
print(sorted(path.name for path in home.iterdir()), (workspace / "small").exists())
print((home / "0/shut/a").read_text(), (home / "0/link").readlink(), os.path.lexists(home / "0/pipe"))
move_in(home / "0", workspace, "back/again", replace=False)
print(sorted(path.name for path in (workspace / "back").iterdir()), sorted(path.name for path in home.iterdir()))
(home / "1").write_text("new")
move_in(home / "1", workspace, "mine", replace=True)
print((workspace / "mine").read_text())
"""


def test_nothing_is_lost_when_the_home_is_on_another_disk_and_that_is_full(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    (workspace / "large").mkdir(parents=True)
    for number in range(3):
        (workspace / "large" / str(number)).write_bytes(b"x" * (1_500_000 if number == 1 else 900_000))
    (workspace / "small" / "shut").mkdir(parents=True)
    (workspace / "small" / "shut" / "a").write_text("kept")
    (workspace / "small" / "shut" / "a").chmod(0)
    (workspace / "small" / "shut").chmod(0)
    (workspace / "small" / "link").symlink_to("nowhere")
    os.mkfifo(workspace / "small" / "pipe")
    (workspace / "mine").write_text("old")
    mounted = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
    command = [sys.executable, "-c", ON_A_SMALL_DISK, str(home), str(workspace)]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mounted, str(home), *command],
        cwd=ROOT, capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    large, one, stays, small, inside, back, mine = done.stdout.splitlines()
    assert large.startswith("not moved: large could not be moved into CoilClaw's home: No space left")
    assert one.startswith("not moved: large/1 could not be moved")
    assert stays == "[] [900000, 900000, 1500000]"
    assert small == "['0'] False"
    assert inside == "kept nowhere False"
    assert back == "['again'] []"
    assert mine == "new"


def test_a_file_is_replaced_without_ever_being_gone(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    home.mkdir()
    workspace.mkdir()
    (home / "0").write_text("new")
    (workspace / ".envrc").write_text("old")

    seen: list[bool] = []

    def look(*_: object) -> None:
        seen.append((workspace / ".envrc").exists())

    sys.setprofile(look)
    try:
        move_in(home / "0", workspace, ".envrc", replace=True)
    finally:
        sys.setprofile(None)

    assert all(seen)
    assert (workspace / ".envrc").read_text() == "new"


def test_a_folder_takes_the_place_of_a_file(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "workspace"
    (home / "0").mkdir(parents=True)
    workspace.mkdir()
    (workspace / ".ssh").write_text("old")

    move_in(home / "0", workspace, ".ssh", replace=True)

    assert (workspace / ".ssh").is_dir()
    move_out(workspace, ".ssh", home / "0")
    assert not (workspace / ".ssh").exists()
