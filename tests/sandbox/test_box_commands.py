"""Ordinary commands work in a box as they would outside, in every tier and for every user."""

import shutil

import pytest

from coilclaw.packets.box import BoxLimits
from coilclaw.packets.errors import ToolError
from tests.missing import lacks


def test_a_command_runs_and_its_streams_come_back_apart(box):
    result = box.run("echo out; echo err >&2")
    assert (result.end, result.exit_code) == ("exited", 0)
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
    assert result.reason == ""


def test_exit_codes_come_back_unchanged(box):
    for code in (1, 7, 125, 127, 200):
        result = box.run(f"exit {code}")
        assert (result.end, result.exit_code) == ("exited", code)


def test_a_command_that_dies_of_a_signal_says_which(box):
    result = box.run("kill -SEGV $$")
    assert (result.end, result.exit_code) == ("signalled", 139)
    assert "SIGSEGV" in result.reason


def test_an_argv_is_taken_word_by_word(box):
    assert box.run(("printf", "%s|", "a b", "$HOME", "*")).stdout == b"a b|$HOME|*|"


def test_an_argv_whose_program_does_not_exist_ends_with_127(box):
    result = box.run(("no-such-program", "x"))
    assert (result.end, result.exit_code) == ("exited", 127)
    assert b"no-such-program" in result.stderr


def test_unicode_and_odd_names_survive(box):
    name = "zahl-π spaced 'quoted'\n\N{DRAGON}"
    (box.workspace / name).write_text("grün")
    assert box.run(("cat", name)).stdout.decode() == "grün"
    assert box.run("printf 'ß→\\n'").stdout.decode() == "ß→\n"


def test_pipes_redirections_and_background_jobs_work(box):
    result = box.run("seq 1 5 | grep -v 3 | tail -n 2 > kept; (sleep 0.01; echo late >> kept) & wait; cat kept")
    assert result.stdout == b"4\n5\nlate\n"


def test_standard_input_is_what_the_spec_gives_or_nothing(box):
    assert box.run("wc -c", stdin=b"x" * 300_000).stdout.strip() == b"300000"
    assert box.run("cat; echo end").stdout == b"end\n"
    assert box.run("exit 3", stdin=b"y" * 300_000).exit_code == 3


def test_files_made_inside_belong_to_the_owner_of_the_workspace(box):
    box.run("mkdir -p made/deep && echo hi > made/deep/file && chmod 640 made/deep/file && mv made/deep/file moved")
    found = (box.workspace / "moved").stat()
    assert (found.st_uid, found.st_mode & 0o777) == (box.uid, 0o640)
    assert (box.workspace / "moved").read_text() == "hi\n"


def test_the_working_directory_is_where_the_spec_says(box):
    (box.workspace / "sub").mkdir()
    assert box.run("pwd", cwd=str(box.workspace / "sub")).stdout.decode().strip() == str(box.workspace / "sub")


def test_python_and_its_event_loop_run(box):
    script = "import asyncio, os; asyncio.run(asyncio.sleep(0)); print(os.getlogin if 0 else os.path.expanduser('~'))"
    assert box.python(script).strip() == "/tmp/.home"


def test_a_private_tmp_and_home_are_writable_and_thrown_away(box):
    first = box.text("touch /tmp/kept $HOME/kept /dev/shm/kept && ls /tmp $HOME /dev/shm")
    assert first.count("kept") == 3
    assert "kept" not in box.text("ls -A /tmp $HOME /dev/shm")


def test_the_synthetic_accounts_satisfy_ordinary_tools(box):
    assert box.text("id -un; whoami; ls -ld .").split()[:2] == ["box", "box"]


def test_the_loopback_of_the_box_works_for_test_servers(box):
    script = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
dialled = socket.create_connection(listener.getsockname())
print("loopback ok")
"""
    assert "loopback ok" in box.python(script)


@pytest.mark.slow
def test_a_compiler_and_make_work(box):
    if not (shutil.which("gcc") and shutil.which("make")):
        lacks("a compiler", "Install the packages gcc, libc6-dev and make.")
    (box.workspace / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    (box.workspace / "Makefile").write_text("main: main.c\n\tgcc -o main main.c\n")
    assert box.text("make -s && ./main") == "built\n"


def test_git_reads_its_repository_and_cannot_write_it(box):
    box.git("init", "-q")
    (box.workspace / "file").write_text("one\n")
    box.git("add", "file")
    box.git("commit", "-qm", "first")
    (box.workspace / "file").write_text("two\n")
    seen = box.text("git log --oneline && git status --short && git diff", read_only=(".git",))
    assert "first" in seen
    assert " M file" in seen
    assert "+two" in seen
    assert box.run("git commit -qam second", read_only=(".git",)).exit_code != 0
    assert box.run("git config core.hooksPath /tmp", read_only=(".git",)).exit_code != 0


MEANINGLESS = (
    ({"command": "echo a\0b"}, "BAD_COMMAND"),
    ({"command": ("echo", "a\0b")}, "BAD_COMMAND"),
    ({"command": ()}, "BAD_COMMAND"),
    ({"command": "true", "environment": (("A=B", "c"),)}, "BAD_COMMAND"),
    ({"command": "true", "environment": (("A", "b\0"),)}, "BAD_COMMAND"),
    ({"command": ("echo", "x" * 200_000)}, "BAD_COMMAND"),
    ({"command": "true", "limits": BoxLimits(memory_bytes=0)}, "BAD_COMMAND"),
    ({"command": "true", "workspace": "/var/tmp/no/such", "cwd": "/var/tmp/no/such"}, "WORKSPACE_MISSING"),
    ({"command": "true", "workspace": "/", "cwd": "/"}, "BOX_BAD_PATH"),
    ({"command": "true", "workspace": "/usr/share", "cwd": "/usr/share"}, "BOX_BAD_PATH"),
    ({"command": "true", "workspace": "here", "cwd": "here"}, "BOX_BAD_PATH"),
    ({"command": "true", "cwd": "/"}, "BOX_BAD_PATH"),
    ({"command": "true", "read_only": ("../outside",)}, "BOX_BAD_PATH"),
    ({"command": "true", "domains": ("example.org",)}, "BOX_CANNOT_HOLD"),
)


def test_what_means_nothing_is_refused_before_anything_starts(box):
    for fields, code in MEANINGLESS:
        with pytest.raises(ToolError) as refused:
            box.run(**fields)
        assert (refused.value.code, refused.value.begun) == (code, False)
        assert refused.value.remedy


def test_a_workspace_may_be_reached_through_a_link(box):
    link = box.ground / "link"
    link.symlink_to("workspace")
    (box.workspace / "kept").write_text("kept")
    command = "pwd; echo new > made; echo x > kept; ls"
    seen = box.text(command, workspace=str(link), cwd=str(link), read_only=("kept",))
    assert seen.split()[0] == str(link)
    assert (box.workspace / "made").read_text() == "new\n"
    assert (box.workspace / "kept").read_text() == "kept"


def test_a_workspace_may_lie_where_only_its_owner_can_go(box):
    box.ground.chmod(0o700)
    assert box.text("echo made > file; cat file") == "made\n"


def test_a_workspace_that_vanishes_while_a_command_runs_ends_clearly(box):
    result = box.run("rm -rf ./* ; rmdir ../workspace; echo still here", cwd=str(box.workspace))
    assert (result.end, result.stdout) == ("exited", b"still here\n")
    shutil.rmtree(box.workspace)
    with pytest.raises(ToolError) as refused:
        box.ask_checked(box.spec("true"))
    assert (refused.value.code, refused.value.begun) == ("WORKSPACE_MISSING", False)
