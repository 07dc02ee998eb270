"""Control groups of killed processes are removed, and no others: a pid says nothing outside its own namespace."""

import os

from coilclaw.sandbox.limits import GroupHome, sweep

NOBODY = 4_194_305
"""Above the highest pid there is."""


def test_only_groups_of_the_dead_in_our_own_pid_namespace_are_removed(tmp_path):
    ours = os.stat("/proc/self/ns/pid").st_ino
    gone = [f"coilclaw-{NOBODY}-{ours}-aa", f"coilclaw-{NOBODY}-aa"]
    stay = [f"coilclaw-{os.getpid()}-{ours}-aa", f"coilclaw-{NOBODY}-{ours + 1}-aa", "coilclaw-x-aa", "other-1-aa"]
    for name in (*gone, *stay):
        (tmp_path / name).mkdir()
    sweep(GroupHome(version=2, memory=str(tmp_path), processes=str(tmp_path)))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(stay)
