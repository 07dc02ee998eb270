"""What a box made of its checkout: it is compared, taken over and removed as data, and nothing planted in it runs."""

import contextlib
import os
from pathlib import Path

import pytest

from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.hostile_tree import disk_bytes, remove_tree
from tests.features.runner.repo_world import git

pytestmark = pytest.mark.slow

PLANTED = r"""
cat >/tmp/evil <<'X'
#!/bin/sh
echo PLANTED
echo PLANTED >&2
touch MARK
exit 1
X
cp /tmp/evil evil.sh; chmod +x evil.sh
for key in core.fsmonitor diff.external core.hooksPath core.pager core.sshCommand core.editor gpg.program \
    diff.evil.textconv diff.evil.command filter.evil.clean filter.evil.smudge filter.evil.process \
    core.alternateRefsCommand uploadpack.packObjectsHook merge.evil.driver; do
    git config $key "$PWD/evil.sh"
done
git config filter.evil.required true
git config diff.evil.binary true
mkdir -p .git/hooks
for hook in pre-commit post-checkout post-index-change reference-transaction fsmonitor-watchman; do
    cp evil.sh .git/hooks/$hook
done
printf '* filter=evil diff=evil merge=evil\n' >.gitattributes
cp .gitattributes .git/info/attributes 2>/dev/null || { mkdir -p .git/info; cp .gitattributes .git/info/attributes; }
echo changed >>README.md
"""


async def test_nothing_planted_in_a_checkout_runs_when_it_is_compared_or_exported(each_world, tmp_path):
    world = each_world
    checkout = await world.prepare()
    await world.inside(checkout, "echo x >x; git add x; git commit -qm work")
    mark = tmp_path / "mark"
    await world.inside(checkout, PLANTED.replace("MARK", str(mark)))
    assert {name: how[0] for name, how in (await world.changes(checkout)).items()} == {
        ".gitattributes": "added",
        "README.md": "changed",
        "evil.sh": "added",
        "x": "added",
    }
    difference = await world.checkouts.diff(checkout, "README.md")
    assert b"+changed" in difference
    assert b"PLANTED" not in difference
    await world.checkouts.export(checkout)
    assert not mark.exists()
    assert not Path(checkout.path, mark.name).exists()
    await world.checkouts.remove("sess_1")
    assert not (world.sessions / "sess_1").exists()


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf .git",
        "rm -rf .git; echo gitdir: /repository >.git",
        "rm -rf .git; ln -s / .git",
        "rm -rf .git; mkfifo .git",
        "rm -rf .git; git init -q . && git -c user.name=x -c user.email=x commit -q --allow-empty -m other",
        "echo ../../elsewhere >.git/commondir; echo / >.git/gitdir",
        "rm .git/index; mkfifo .git/index; mkfifo .git/HEAD2; rm .git/HEAD; mkfifo .git/HEAD",
        "rm -rf .git/objects; ln -s /usr .git/objects",
        "chmod 0 .git/objects .git",
    ],
)
async def test_a_replaced_repository_does_not_hide_changes(world, command):
    checkout = await world.prepare()
    await world.inside(checkout, f"echo more >>README.md; {command}")
    assert (await world.changes(checkout))["README.md"] == ("changed", 1, 0)
    assert b"+more" in await world.checkouts.diff(checkout)
    with contextlib.suppress(ToolError):  # there may be no branch any more
        name = await world.checkouts.export(checkout)
        assert git(world.cache(), "rev-parse", name) == checkout.base, "nothing was committed"
    await world.checkouts.remove("sess_1")


async def test_export_reaches_no_other_repository(world, tmp_path):
    """By alternates, by links in place of its folders, or by references that lead elsewhere."""
    secret = tmp_path / "secret"
    secret.mkdir()
    git(secret, "init", "-q")
    commit = world.commit({"secret.txt": "the secret\n"}, secret)
    for command in (
        f"echo {secret}/.git/objects >>.git/objects/info/alternates; echo {commit} >.git/refs/heads/coil/sess_1",
        f"rm -rf .git/objects; ln -s {secret}/.git/objects .git/objects; echo {commit} >.git/refs/heads/coil/sess_1",
        f"rm -rf .git; ln -s {secret}/.git .git",
        f"rm .git/refs/heads/coil/sess_1; ln -s {secret}/.git/refs/heads/main .git/refs/heads/coil/sess_1",
    ):
        checkout = await world.prepare()
        await world.inside(checkout, command)
        if "ln -s" in command and not command.startswith("rm .git/refs"):
            git(secret, "update-ref", "refs/heads/coil/sess_1", commit)
        with pytest.raises(ToolError) as caught:
            await world.checkouts.export(checkout)
        assert caught.value.code in ("REF_GONE", "CLONE_FAILED")
        assert commit not in git(world.cache(), "for-each-ref", "--format=%(objectname)")
        with pytest.raises(Exception, match="128"):
            git(world.cache(), "cat-file", "-t", commit)
        await world.checkouts.remove("sess_1")


BROKEN = {
    "a tree with .git in it": "printf '100644 .git\\0' >t; printf '%s' $blob | xxd -r -p >>t; tree=$(git hash-object "
    "-t tree -w --literally t)",
    "a tree with .. in it": "printf '40000 ..\\0' >t; git rev-parse HEAD^{tree} | xxd -r -p >>t; "
    "tree=$(git hash-object -t tree -w --literally t)",
    "a tree that names a file twice": "printf '100644 a\\0' >t; printf '%s' $blob | xxd -r -p >>t; cat t t >tt; "
    "tree=$(git hash-object -t tree -w --literally tt)",
    "a file that is missing": "printf '100644 blob %s\\ta\\n' 1111111111111111111111111111111111111111 >t; "
    "tree=$(git mktree --missing <t)",
    "submodule names that are options": "printf '[submodule \"a\"]\\npath = a\\nurl = --upload-pack=touch\\n' >m; "
    "b=$(git hash-object -w m); tree=$(printf '100644 blob %s\\t.gitmodules\\n' $b | git mktree)",
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_broken_objects_are_not_taken_over(world, kind):
    checkout = await world.prepare()
    await world.inside(
        checkout,
        "set -e; echo x >blob; blob=$(git hash-object -w blob);"
        f"{BROKEN[kind].replace('xxd -r -p', UNHEX)};"
        "git update-ref refs/heads/coil/sess_1 $(git commit-tree -m x -p HEAD $tree)",
    )
    with pytest.raises(ToolError) as caught:
        await world.checkouts.export(checkout)
    assert caught.value.code == "CLONE_FAILED"
    assert git(world.cache(), "fsck", "--full", "--strict") == ""
    assert "refs/sessions" not in git(world.cache(), "for-each-ref")
    await world.prepare("sess_2")


UNHEX = "python3 -c 'import sys; sys.stdout.buffer.write(bytes.fromhex(sys.stdin.read().strip()))'"


async def test_submodules_and_nested_repositories_are_left_alone(world):
    inner = world.sample.folder / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    world.commit({"x": "x\n"}, inner)
    git(world.folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(world.folder, "commit", "-qm", "submodule")
    checkout = await world.prepare()
    assert await world.inside(checkout, "ls -A sub") == ""
    await world.inside(
        checkout,
        "git init -q nested; cd nested; git config core.fsmonitor 'sleep 1000; echo'; echo x >y; git -c "
        "core.fsmonitor=false add y; git -c user.name=x -c user.email=x -c core.fsmonitor=false commit -qm x",
    )
    assert set(await world.changes(checkout)) <= {"nested"}
    await world.checkouts.diff(checkout)


NAMES = (
    "new\nline",
    "tab\there",
    "\u202egnp.exe",
    "-rf",
    "--",
    ":(top)x",
    ":!x",
    "..a",
    "...",
    "a\\b",
    '"q"',
    " ",
    "é",
)


async def test_any_name_is_told_as_it_is(world):
    checkout = await world.prepare()
    for name in NAMES:
        Path(checkout.path, name).write_text("x\n")
    Path(os.fsdecode(os.fsencode(checkout.path) + b"/\xff\xfe")).write_bytes(b"x\n")
    found = await world.changes(checkout)
    assert found == {**dict.fromkeys(NAMES, ("added", 1, 0)), "\ufffd\ufffd": ("added", 1, 0)}
    for name in NAMES:
        difference = await world.checkouts.diff(checkout, name)
        assert difference.count(b"diff --git") == 1, name
    with pytest.raises(ToolError, match="outside repository"):
        await world.checkouts.diff(checkout, "../../../etc/passwd")


async def test_more_files_than_anybody_reads_are_told_up_to_the_cap(world):
    checkout = await world.prepare()
    await world.inside(checkout, 'python3 -c \'for n in range(20000): open(f"f{n:06}", "w").write("x\\\\n")\'')
    found = await world.checkouts.changes(checkout)
    assert len(found) == 10_000
    assert len(await world.checkouts.diff(checkout)) == 1 << 20
    await world.checkouts.remove("sess_1")
    assert not (world.sessions / "sess_1").exists()


async def test_files_that_cannot_be_read_hide_no_others(world):
    checkout = await world.prepare()
    await world.inside(checkout, "echo x >>README.md; echo y >new; chmod 0 new src/a.py; mkfifo pipe; ln -s /etc l")
    found = await world.changes(checkout)
    assert found["README.md"] == ("changed", 1, 0)
    assert set(found) <= {"README.md", "l", "new", "src/a.py"}
    assert b"+x" in await world.checkouts.diff(checkout)


def test_a_tree_of_any_depth_is_removed_and_measured(tmp_path):
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for number in range(3000):
        name = "d" * 200
        os.mkdir(name, dir_fd=here)
        inner = os.open(name, os.O_RDONLY, dir_fd=here)
        file = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here)
        os.write(file, b"x")  # in memory an empty file or folder occupies nothing
        os.close(file)
        os.close(here)
        here = inner
        if number == 1500:
            os.fchmod(here, 0o700)
    os.symlink("/etc", "link", dir_fd=here)
    os.close(here)
    (top / "closed").mkdir()
    (top / "closed" / "x").write_text("x")
    (top / "closed").chmod(0)
    assert disk_bytes(top) >= 3000 * 4096
    remove_tree(top)
    assert not top.exists()
    remove_tree(top)


def test_a_link_in_place_of_a_folder_is_not_followed(tmp_path):
    kept = tmp_path / "kept"
    kept.mkdir(mode=0o755)
    (kept / "file").write_text("x")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "link").symlink_to(kept)
    remove_tree(tmp_path / "top")
    assert (kept / "file").read_text() == "x"
    assert kept.stat().st_mode & 0o777 == 0o755
