"""`python -m tests.features.evolve.full_disk FOLDER`: a watcher on a disk that is really full, in its own namespaces.

It is run by `unshare --user --map-root-user --mount`, so that anybody may mount a small disk there.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.features.evolve.watcher_world import COMMS, World

DISK = "16m"


def fill(folder: Path) -> Path:
    """Take all that is left."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        for size in (1 << 16, 1 << 10, 1):
            with suppress(OSError):
                while True:
                    file.write(os.urandom(size))
    return ballast


def main() -> None:
    """Fill the disk before each kind of signal; free it again; each signal is then done, once."""
    folder = Path(sys.argv[1])
    words = ("mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", str(folder))
    subprocess.run(words, check=True)
    world = World(folder)
    world.start()
    try:
        world.wait_running("main")
        new = world.push("agent/x", {"b.py": "1\n", "COMMS.md": COMMS + "- done\n"})
        for kind, target, then in (
            ("bootstrap", "agent/x", "agent/x"),
            ("bootstrap", "main", "main"),
            ("rollback", world.first, "agent/rollback-1"),
        ):
            signal = world.volume / ".signal" / kind
            signal.with_name(".new").write_text(target)
            ballast = fill(folder)
            signal.with_name(".new").rename(signal)
            time.sleep(2)  # not waited for anything: whatever the watcher does meanwhile, it does on a full disk
            assert world.process is not None
            assert world.process.poll() is None, "the watcher lives"
            assert signal.exists(), "what cannot be journaled is not done"
            ballast.unlink()
            world.wait_running(then)
        world.wait(lambda: not list((world.volume / ".signal").glob("[a-z]*")), "no signal is left")
        assert world.record.sha("refs/heads/agent/rollback-2") is None, "done once"
        assert world.record.sha("refs/heads/agent/x") == new
        assert world.record.comms().count("agent/x: done") == 1
        assert len(world.asks("merge")) == 1
        assert world.record.descends(world.record.main(), world.first)
    finally:
        world.end()
    world.fsck()
    sys.stdout.write("held\n")


if __name__ == "__main__":
    main()
