"""`evolve up` and `evolve stop`: one at a time, and no other process is ever taken for it."""

import fcntl
import subprocess
import threading

import pytest

from coilclaw.features.evolve import up
from coilclaw.features.evolve.places import EvolvePlaces
from coilclaw.packets.errors import UsageError


@pytest.fixture
def places(tmp_path):
    return EvolvePlaces(tmp_path)


def test_an_id_left_by_an_earlier_one_is_never_signalled(places):
    """As when the new one has taken the lock, and has not written its own id yet."""
    with subprocess.Popen(["sleep", "1000"]) as stranger, (places.root / "up.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in (f"{stranger.pid}", f"{stranger.pid} 1", ""):
                lock.seek(0)
                lock.truncate()
                lock.write(left)
                lock.flush()
                assert up.running(places) is None
                assert not up.stop(places)
                assert stranger.poll() is None
        finally:
            stranger.kill()


def test_whoever_only_looks_is_not_in_the_way(places, monkeypatch):
    monkeypatch.setattr(up, "_GLANCE", 60.0)
    looking = (places.root / "up.lock").open("w")
    fcntl.flock(looking, fcntl.LOCK_SH)
    looked = threading.Timer(0.05, looking.close)
    looked.start()
    with up.held(places):
        assert up.running(places) is not None
        monkeypatch.setattr(up, "_GLANCE", 0.0)
        with pytest.raises(UsageError), up.held(places):
            pass
    looked.join()
    assert up.running(places) is None
