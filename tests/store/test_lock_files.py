"""Lock files: a holder's name is its own, what it noted outlives it, and what it left behind is removed."""

import os
import subprocess
import sys
import threading

from coilclaw.store.lock import HeldLock, holder_is_gone, notes_of, sweep_locks

HOLDS = """
import os, signal, sys
from pathlib import Path
from coilclaw.store.lock import HeldLock
held = HeldLock(Path(sys.argv[1]))
for word in sys.argv[2:]:
    held.note(word)
print("held", flush=True)
sys.stdin.read(1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def holder(path, *notes):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(path), *notes], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    return process


def test_what_a_killed_process_left_is_removed_and_what_is_held_or_stable_stays(tmp_path):
    left, living = tmp_path / "worker_1.lock", tmp_path / "worker_2.lock"
    for name in ("database.lock", "database.queue", "executor.lock", "executor.1.lock", "up.lock"):
        (tmp_path / name).touch()
    dead, alive = holder(left), holder(living)
    assert sweep_locks(tmp_path, ()) == 0
    dead.communicate(b"x")
    assert holder_is_gone(left)
    assert left.exists()  # whoever asks removes nothing
    assert sweep_locks(tmp_path, {"worker_1"}) == 0
    assert sweep_locks(tmp_path, ()) == 1
    assert not left.exists()
    assert not holder_is_gone(living)
    assert len(list(tmp_path.iterdir())) == 6
    alive.communicate(b"x")


def test_notes_outlive_the_process_but_not_the_machine(tmp_path):
    path = tmp_path / "worker_1.lock"
    holder(path, "act_1 1", "act_2 3").communicate(b"x")
    assert notes_of(path) >= {"act_1 1", "act_2 3"}
    assert "act_2 1" not in notes_of(path)
    path.write_bytes(b"another boot" + path.read_bytes()[36:])
    assert notes_of(path) is None
    path.write_bytes(b"")  # as a power cut may leave it
    assert notes_of(path) is None
    path.unlink()
    assert notes_of(path) is None


def test_notes_do_not_grow_for_ever_and_keep_what_is_under_way(tmp_path):
    held = HeldLock(tmp_path / "worker_1.lock")
    held.note("act_first 1")
    for number in range(10_000):
        held.note(f"act_{number} 1")
        held.done(f"act_{number} 1")
    assert "act_first 1" in notes_of(held.path)
    held.done("act_first 1")
    held.note("act_last 1")
    assert notes_of(held.path) == {"act_last 1", ""}
    held.close()


def test_a_lock_taken_while_others_sweep_is_always_held_by_its_name(tmp_path):
    """Between the making of a file and its lock it looks abandoned."""
    stop = threading.Event()

    def sweep():
        while not stop.is_set():
            sweep_locks(tmp_path, ())

    sweepers = [threading.Thread(target=sweep) for _ in range(2)]
    for each in sweepers:
        each.start()
    try:
        for number in range(500):
            held = HeldLock(tmp_path / f"worker_{number}.lock")
            assert os.path.samestat(os.stat(held.path), os.fstat(held._fd))
            assert not holder_is_gone(held.path)
            held.close()
    finally:
        stop.set()
        for each in sweepers:
            each.join()
