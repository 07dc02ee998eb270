"""Protected paths of the workspace hold, whatever tricks are played with names, and nothing is left behind."""

import os
import stat

import pytest

from coilclaw.packets.errors import ToolError

PROTECTED = (".git", "audit", "policies/deep/rule.json", ".github/workflows", "SYSTEM.md")


EACH = """
import subprocess, sys
for trick in sys.argv[1:]:
    done = subprocess.run(["/bin/sh", "-c", trick], capture_output=True, text=True)
    print("failed" if done.returncode else "WORKED:" + trick.replace(" ", "_"), flush=True)
"""
"""Runs each trick in the same box: one that works would show in the tree and in the output."""


def tree(path):
    """Every path below, with its kind, mode and content."""
    found = {}
    for each in sorted(path.rglob("*")):
        content = each.read_bytes() if each.is_file() and not each.is_symlink() else b""
        found[str(each.relative_to(path))] = (stat.S_IFMT(each.lstat().st_mode), content)
    return found


@pytest.fixture
def guarded(box):
    (box.workspace / ".git" / "hooks").mkdir(parents=True)
    (box.workspace / ".git" / "config").write_text("config")
    (box.workspace / ".git" / "hooks" / "sample").write_text("hook")
    (box.workspace / "audit").mkdir()
    (box.workspace / "audit" / "log").write_text("log")
    (box.workspace / "policies" / "deep").mkdir(parents=True)
    (box.workspace / "policies" / "deep" / "rule.json").write_text("rule")
    (box.workspace / "free").mkdir()
    (box.workspace / "free" / "file").write_text("free")
    return box


def test_read_only_paths_can_be_read(guarded):
    command = "cat .git/config audit/log policies/deep/rule.json && ls .git/hooks"
    assert guarded.text(command, read_only=PROTECTED) == "configlogrulesample\n"


TRICKS = (
    "echo x > .git/config",
    "echo x > .git/hooks/post-commit",
    "echo x > .git/commondir",
    "mv .git moved",
    "mv .git/hooks moved",
    "rm -rf .git",
    "rm -rf audit",
    "mv policies moved",
    "mv policies/deep moved",
    "mv policies/deep/rule.json moved",
    "rm -rf policies",
    "ln -sfnT /tmp policies",
    "ln -f .git/config alias && echo x >> alias",
    "cp --remove-destination /dev/null policies/deep/rule.json",
    "python3 -c \"import os; os.rename('free/file', 'policies/deep/rule.json')\"",
    "python3 -c \"import os; os.rename('free', '.git')\"",
    "python3 -c \"import os; os.replace('free/file', 'SYSTEM.md')\"",
    "mkdir .github",
    "mkdir -p .github/workflows",
    "echo x > SYSTEM.md",
    "ln -s /tmp SYSTEM.md",
    "rmdir SYSTEM.md && echo x > SYSTEM.md",
    "rm -rf SYSTEM.md .github; touch SYSTEM.md .github",
    "mv SYSTEM.md a; mv .github b; touch SYSTEM.md",
    "chmod 777 SYSTEM.md .github .git; echo x > .git/x",
    "chmod 000 .git/config",
    "truncate -s 0 audit/log",
    "setfattr -n user.x -v y audit/log || touch audit/log",
)


def test_protected_paths_survive_every_trick(guarded):
    before = tree(guarded.workspace)
    result = guarded.run(("python3", "-I", "-c", EACH, *TRICKS), read_only=PROTECTED)
    after = tree(guarded.workspace)
    assert result.stdout.decode().split() == ["failed"] * len(TRICKS), result
    assert {name: entry for name, entry in after.items() if name in before} == before
    assert not any(name.startswith(("SYSTEM.md", ".github")) for name in after)


def test_unprotected_neighbours_stay_writable(guarded):
    command = (
        "echo new > policies/other && echo more >> free/file && mkdir -p policies/deep/also && rm -r free && echo ok"
    )
    assert guarded.text(command, read_only=PROTECTED) == "ok\n"
    assert (guarded.workspace / "policies" / "other").read_text() == "new\n"


def test_hidden_paths_show_nothing(guarded):
    (guarded.workspace / ".env").write_text("TOKEN")
    (guarded.workspace / "vault").mkdir()
    (guarded.workspace / "vault" / "key").write_text("KEY")
    tricks = (
        "cat .env vault/key; ls -A vault; grep -rs . .env vault; cp .env copied; cp -r vault copied-vault; "
        "mv .env moved; mv vault moved; ln .env linked; ln vault/key linked; head -c 9 .env; "
        "dd if=.env of=out status=none"
    )
    seen = guarded.text(tricks, hidden=(".env", "vault"))
    assert "TOKEN" not in seen
    assert "KEY" not in seen
    for made in ("copied", "moved", "linked", "out"):
        path = guarded.workspace / made
        assert not path.exists() or path.read_bytes() == b""
    assert (guarded.workspace / ".env").read_text() == "TOKEN"
    assert (guarded.workspace / "vault" / "key").read_text() == "KEY"


def test_hidden_below_read_only_stays_read_only(guarded):
    (guarded.workspace / "audit" / "inner" / "vault").mkdir(parents=True)
    (guarded.workspace / "audit" / "inner" / "vault" / "key").write_text("KEY")
    command = "ls -A audit/inner/vault; touch audit/inner/x; touch audit/x; mv audit/inner y"
    seen = guarded.text(command, read_only=("audit",), hidden=("audit/inner/vault",))
    assert "key" not in seen
    assert sorted(path.name for path in (guarded.workspace / "audit").iterdir()) == ["inner", "log"]
    assert [path.name for path in (guarded.workspace / "audit" / "inner").iterdir()] == ["vault"]


def test_hidden_paths_hold_in_a_read_only_workspace(guarded):
    (guarded.workspace / ".env").write_text("TOKEN")
    assert "TOKEN" not in guarded.text("cat .env", hidden=(".env", "not/there"), workspace_writable=False)
    assert not (guarded.workspace / "not").exists()


def test_a_protected_name_that_is_a_link_is_refused(guarded):
    (guarded.workspace / "link").symlink_to("free")
    (guarded.workspace / "away").symlink_to("/etc/passwd")
    for names in ({"read_only": ("link",)}, {"hidden": ("away",)}, {"read_only": ("link/file",)}):
        with pytest.raises(ToolError) as refused:
            guarded.run("true", **names)
        assert refused.value.code == "BOX_BAD_PATH"
        assert refused.value.begun is False


def test_links_out_of_the_workspace_lead_nowhere(guarded):
    secret = guarded.ground / "secret"
    secret.write_text("PRIVATE")
    secret.chmod(0o644)
    (guarded.workspace / "out").symlink_to(secret)
    (guarded.workspace / "up").symlink_to("..")
    seen = guarded.text("cat out up/secret ../secret; echo x > out; ls -A up")
    assert "PRIVATE" not in seen
    assert "secret" not in seen.replace("up/secret", "").replace("../secret", "").replace("cannot create", "")
    assert secret.read_text() == "PRIVATE"


def test_stand_ins_for_missing_paths_are_there_only_while_a_box_runs(guarded):
    seen = guarded.text("ls -A", read_only=("later", "also/later")).split()
    assert {"later", "also"} <= set(seen)
    assert not (guarded.workspace / "later").exists()
    assert not (guarded.workspace / "also").exists()


def test_a_stand_in_left_by_a_crash_is_taken_away_by_the_next_run(guarded):
    (guarded.workspace / "later").mkdir()
    guarded.own()
    (guarded.workspace / "later").chmod(0o1000)
    assert guarded.run("touch later/x", read_only=("later",)).exit_code != 0
    assert not (guarded.workspace / "later").exists()


def test_an_empty_directory_of_the_owner_is_not_mistaken_for_a_stand_in(guarded):
    (guarded.workspace / "empty").mkdir(mode=0o755)
    guarded.run("true", read_only=("empty",))
    assert (guarded.workspace / "empty").is_dir()


def test_a_stand_in_is_kept_while_another_box_relies_on_it(guarded):
    import fcntl

    other = os.open(guarded.workspace, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_SH)
    guarded.run("true", read_only=("later",))
    assert (guarded.workspace / "later").is_dir()
    os.close(other)
    guarded.run("true", read_only=("later",))
    assert not (guarded.workspace / "later").exists()


def test_the_whole_workspace_may_be_protected(guarded):
    before = tree(guarded.workspace)
    assert guarded.run("touch x; rm -rf free", read_only=(".",)).exit_code != 0
    assert tree(guarded.workspace) == before


def test_a_noexec_workspace_runs_nothing_that_was_written(guarded):
    loaders = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
    loader = next((path for path in loaders if os.path.exists(path)), "/no/loader")
    tricks = [
        "cp /bin/true prog && ./prog",
        "cp /bin/true /tmp/prog && /tmp/prog",
        "cp /bin/true $HOME/prog && $HOME/prog",
        "cp /bin/true /dev/shm/prog && /dev/shm/prog",
        f"cp /bin/true prog && {loader} ./prog",
        f"cp /bin/true /tmp/prog && {loader} /tmp/prog",
        "mkdir -p policies/deep && cp /bin/true policies/prog && policies/prog",
        "printf '#!/bin/sh\\necho ran\\n' > s && chmod +x s && ./s",
    ]
    result = guarded.run(("python3", "-I", "-c", EACH, *tricks), workspace_noexec=True, read_only=PROTECTED)
    assert result.stdout.decode().split() == ["failed"] * len(tricks), result
    assert guarded.run("cp /bin/true prog && ./prog", read_only=PROTECTED).exit_code == 0
    assert guarded.text("echo works > made && cat made", workspace_noexec=True) == "works\n"


def test_memory_cannot_stand_in_for_a_file_to_run(guarded):
    script = """
import os
try:
    made = os.memfd_create("x")
    os.write(made, open("/bin/true", "rb").read())
    os.execve(made, ["x"], {})
except OSError as error:
    print("refused", error.errno)
"""
    assert "refused 1" in guarded.python(script, workspace_noexec=True)
