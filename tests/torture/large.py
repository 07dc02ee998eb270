"""A large workspace whose snapshot is killed again and again: it is finished all the same, and can be gone back to."""

import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from coilclaw.packets.ids import utc_now
from coilclaw.sandbox.entries import Limits
from coilclaw.sandbox.snapshot import Snapshots

TAKE = """
import sys
from pathlib import Path
from coilclaw.packets.ids import utc_now
from coilclaw.sandbox.snapshot import Snapshots
Snapshots(Path(sys.argv[1]) / "ws", Path(sys.argv[1]) / "store", utc_now, print).take("killed")
"""


class Kept(msgspec.Struct):
    """What came of it."""

    files: int
    kills: int = 0
    first: float = 0.0
    later: float = 0.0
    """Seconds, for the one after all kills and for the one after that."""
    wrong: list[str] = []


def kill_snapshots(folder: Path, files: int, kills: int, seed: int) -> Kept:
    """Fill a workspace, kill snapshots of it at random, then keep it, ruin it and go back."""
    chance = random.Random(seed)
    found = Kept(files=files)
    workspace = folder / "ws"
    for number in range(files):
        place = workspace / f"d{number // 10_000}" / f"e{number // 100}" / f"f{number}"
        if number % 100 == 0:
            place.parent.mkdir(parents=True)
        place.write_bytes(b"%d" % number)
    for _ in range(kills):
        child = subprocess.Popen([sys.executable, "-c", TAKE, str(folder)])
        try:
            child.wait(timeout=chance.uniform(0.1, 6))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            found.kills += 1
        child.wait()
    snapshots = Snapshots(workspace, folder / "store", utc_now, found.wrong.append, Limits(seconds=3600))
    began = time.monotonic()
    snapshots.take("first", turn="one")
    found.first, began = time.monotonic() - began, time.monotonic()
    taken = snapshots.take("second", turn="two")
    found.later = time.monotonic() - began
    ruined = [workspace / f"d{n // 10_000}" / f"e{n // 100}" / f"f{n}" for n in chance.sample(range(files), 50)]
    for path in ruined:
        path.write_text("ruined")
    snapshots.settle(taken)
    snapshots.restore("", lambda _: True)
    found.wrong += [f"{path} did not come back" for path in ruined if path.read_text() != path.name[1:]]
    shutil.rmtree(folder)
    return found
