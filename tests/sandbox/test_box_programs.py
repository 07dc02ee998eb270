"""Forbidden programs cannot be run under any name; an exact list is exact."""

import os
import shutil

import pytest

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.binaries import allow, forbid
from tests.missing import lacks


def test_a_forbidden_program_is_gone_under_every_path(box):
    paths = ["env", "/usr/bin/env", "/bin/env", "/../usr/bin/env", "command env"]
    for path in paths:
        result = box.run(f"{path} true", forbidden_binaries=("env",))
        assert result.exit_code in {126, 127}, path
    assert box.run("cp /usr/bin/env mine && ./mine true", forbidden_binaries=("env",)).exit_code != 0
    assert box.run(("/usr/bin/env", "true"), forbidden_binaries=("env",)).exit_code in {126, 127}
    assert box.run("env true").exit_code == 0


def test_the_shell_does_not_find_a_forbidden_program(box):
    result = box.run("command -v env || echo absent; env", forbidden_binaries=("env",))
    assert result.exit_code in {126, 127}
    assert b"/env" not in result.stdout or b"absent" in result.stdout


def test_aliases_of_a_forbidden_program_go_with_it(box):
    awk = os.path.realpath("/usr/bin/awk")
    if not os.path.islink("/usr/bin/awk"):
        pytest.skip("awk is no alias here")
    result = box.run(f"{awk} 'BEGIN {{ print 1 }}'; awk 'BEGIN {{ print 2 }}'", forbidden_binaries=("awk",))
    assert result.stdout == b""


def test_hard_links_of_a_forbidden_program_go_with_it():
    perl = "/usr/bin/perl"
    if not os.path.exists(perl) or os.stat(perl).st_nlink < 2:
        lacks("a program with two names", "Install the package perl.")
    twins = {entry.path for entry in os.scandir("/usr/bin") if entry.inode() == os.stat(perl).st_ino}
    assert twins <= set(forbid(("perl",)).masked)


def test_a_multi_call_program_goes_when_anything_is_forbidden():
    busybox = shutil.which("busybox", path="/usr/bin:/bin")
    if busybox is None or os.path.realpath("/bin/sh") == os.path.realpath(busybox):
        lacks("a busybox of its own", "Install the package busybox-static.")
    assert os.path.realpath(busybox) in forbid(("wget",)).masked


def test_forbidden_names_are_plain_names():
    with pytest.raises(ToolError):
        forbid(("../bin/env",))


def test_forbidding_nothing_changes_nothing():
    assert forbid(()).masked == ()
    assert forbid(("no-such-program-at-all",)).masked == forbid(("nor-this-one",)).masked


def test_an_exact_list_is_all_there_is(box):
    seen = box.text("ls /usr/bin /bin /usr/sbin /sbin /usr/local/bin", allowed_binaries=("ls", "cat"))
    names = {line for line in seen.splitlines() if line and not line.endswith(":")}
    assert names == {"ls", "cat", "sh"}


def test_a_program_off_the_exact_list_does_not_exist(box):
    result = box.run("/usr/bin/env", allowed_binaries=("ls",))
    assert result.exit_code == 127
    assert b"not found" in result.stderr


def test_an_exact_list_for_an_argv_needs_no_shell(box):
    assert box.run(("ls", "-a", "/usr/bin"), allowed_binaries=("ls",)).stdout.split() == [b".", b"..", b"ls"]
    assert box.run(("sh", "-c", "true"), allowed_binaries=("ls",)).exit_code == 127


def test_forbidding_wins_over_the_exact_list(box):
    result = box.run("cat /dev/null", allowed_binaries=("cat", "ls"), forbidden_binaries=("cat",))
    assert result.exit_code == 127


def test_names_that_do_not_exist_are_left_out():
    offered = allow(("ls", "no-such-program-at-all", "../evil"), shell=False).offered
    assert [os.path.basename(inside) for _, inside in offered] == ["ls"]
