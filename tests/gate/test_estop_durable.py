"""A stop outlives a power cut, and works where nothing else does."""

import os

import pytest

from coilclaw.gate.estop import Estop
from tests.power import disk

WHEN = "2026-01-01T00:00:00Z"


def test_a_stop_outlives_a_power_cut(tmp_path):
    estop = Estop(tmp_path / "ESTOP")
    with disk(tmp_path) as home:
        estop.engage("stop it", WHEN)
        home.cut()
    assert estop.state().reason == "stop it"


def test_a_stop_pressed_again_outlives_a_power_cut_with_both_reasons(tmp_path):
    estop = Estop(tmp_path / "ESTOP")
    estop.engage("first", WHEN)
    with disk(tmp_path) as home:
        estop.engage("second", WHEN)
        home.cut()
    assert [line.split(" ")[1] for line in estop.file.read_text().splitlines()] == ["first", "second"]


@pytest.mark.parametrize("works", [0, 1])
def test_a_stop_holds_on_a_disk_that_cannot_sync(tmp_path, works):
    estop = Estop(tmp_path / "ESTOP")
    real, left = os.fsync, iter(range(works))

    def failing(fd):
        if next(left, None) is None:
            raise OSError(5, "Input/output error")
        real(fd)

    os.fsync = failing
    try:
        estop.engage("stop it", WHEN)
    finally:
        os.fsync = real
    assert estop.engaged()
    assert estop.state().reason == "stop it"


def test_a_stop_on_a_full_disk_syncs_its_name(tmp_path):
    """Its text cannot be written any more; that it exists is enough."""
    (tmp_path / "ESTOP").symlink_to("/dev/full")
    synced = []
    real = os.fsync

    def watched(fd):
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    os.fsync = watched
    try:
        Estop(tmp_path / "ESTOP").engage("stop it", WHEN)
    finally:
        os.fsync = real
    assert str(tmp_path) in synced
    assert Estop(tmp_path / "ESTOP").engaged()
