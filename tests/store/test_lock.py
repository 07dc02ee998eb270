"""Locks that tell who is there."""

import fcntl
import os
import signal
import subprocess
import sys
import threading

from coilclaw.store.lock import HeldLock, holder_is_gone, present, somebody_is_present


def ask_all_at_once(ask, times=200):
    """What many threads hear that ask at the same time, again and again."""
    together = threading.Barrier(8)
    heard = []

    def loop():
        together.wait()
        for _ in range(times):
            heard.append(ask())

    threads = [threading.Thread(target=loop) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return set(heard)


def test_nobody_is_present_at_first_and_asking_makes_nothing(tmp_path):
    assert not somebody_is_present(tmp_path / "x.lock")
    assert list(tmp_path.iterdir()) == []


def test_any_number_may_be_present_and_each_is_seen(tmp_path):
    path = tmp_path / "x.lock"
    first, second, third = present(path), present(path), present(path)
    for each in (first, second, third):
        each.__enter__()
    for each in (first, third, second):
        assert somebody_is_present(path)
        each.__exit__(None, None, None)
    assert not somebody_is_present(path)


def test_those_who_ask_do_not_see_each_other(tmp_path):
    path = tmp_path / "x.lock"
    with present(path):
        pass
    assert ask_all_at_once(lambda: somebody_is_present(path)) == {False}
    with present(path):
        assert ask_all_at_once(lambda: somebody_is_present(path)) == {True}


def test_whoever_comes_while_somebody_asks_is_seen(tmp_path):
    path = tmp_path / "x.lock"
    with present(path):
        pass
    asking = os.open(path, os.O_RDWR)
    fcntl.flock(asking, fcntl.LOCK_SH)  # somebody who asks and was put to sleep in the middle of it
    with present(path):
        os.close(asking)
        assert somebody_is_present(path)
    assert not somebody_is_present(path)


def test_places_are_used_again(tmp_path):
    path = tmp_path / "x.lock"
    for _ in range(5):
        with present(path), present(path):
            pass
    assert len(list(tmp_path.iterdir())) == 2


def test_whoever_is_killed_is_gone_at_once(tmp_path):
    path = tmp_path / "x.lock"
    code = (
        "import sys, pathlib, time; from coilclaw.store.lock import present\n"
        "with present(pathlib.Path(sys.argv[1])): print('there', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert somebody_is_present(path)
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert not somebody_is_present(path)


def test_those_who_ask_for_a_holder_do_not_see_each_other(tmp_path):
    path = tmp_path / "worker.lock"
    held = HeldLock(path)
    assert ask_all_at_once(lambda: holder_is_gone(path)) == {False}
    os.close(held._fd)  # as when it dies: the file stays
    asking = os.open(path, os.O_RDWR)
    fcntl.flock(asking, fcntl.LOCK_SH)  # somebody else who asks right now
    assert holder_is_gone(path)
    os.close(asking)
    assert holder_is_gone(path)
