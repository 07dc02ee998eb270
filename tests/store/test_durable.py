"""A file is there whole and durable, or as it was before."""

import os
import stat

import pytest

from coilclaw.store.durable import write_durably
from tests.power import disk, umask


@pytest.mark.parametrize("replace", [True, False])
def test_what_was_written_outlives_a_power_cut(tmp_path, replace):
    with disk(tmp_path) as there:
        assert write_durably(tmp_path / "f", b"new", replace=replace)
        there.cut()
    assert (tmp_path / "f").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["f"]


def test_what_is_there_is_replaced_only_when_told_to(tmp_path):
    (tmp_path / "f").write_bytes(b"old")
    assert not write_durably(tmp_path / "f", b"new", replace=False)
    assert (tmp_path / "f").read_bytes() == b"old"
    assert write_durably(tmp_path / "f", b"new", replace=True)
    assert (tmp_path / "f").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("replace", [True, False])
def test_it_is_private_from_its_first_moment(tmp_path, replace):
    with umask(0), disk(tmp_path) as there:
        write_durably(tmp_path / "f", b"new", replace=replace)
    assert there.modes == [0o600]
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_nothing_aside(tmp_path):
    (tmp_path / "f").mkdir()
    with pytest.raises(IsADirectoryError):
        write_durably(tmp_path / "f", b"new", replace=True)
    assert os.listdir(tmp_path) == ["f"]
