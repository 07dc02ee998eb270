"""Mounts: what a spec adds to a box is there as it was asked for, and opens no second way to what boxes hide."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from coilclaw.packets.box import BoxMount, BoxSpec
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox.box import open_box
from coilclaw.sandbox.mounts import Pins, admit_mounts
from tests.sandbox.conftest import Runner
from tests.sandbox.open_harness import Opener, opener

__all__ = ["opener"]


@pytest.fixture
def folders(box: Runner) -> dict[str, Path]:
    """Folders beside the workspace, owned by whoever starts the box; the last one is for nobody else's eyes."""
    made = {name: box.ground / name for name in ("tools", "home", "settings")}
    for folder in made.values():
        folder.mkdir()
        folder.chmod(0o700)
    (made["tools"] / "hello").write_text("#!/bin/sh\necho hello from tools\n")
    (made["tools"] / "hello").chmod(0o755)
    (made["home"] / ".cli").mkdir()
    (made["settings"] / "managed").write_text("ours\n")
    box.own(*made.values())
    return made


def mounted(folders: dict[str, Path]) -> tuple[BoxMount, ...]:
    return (
        BoxMount(source=str(folders["home"]), at="/home/box", writable=True),
        BoxMount(source=str(folders["settings"]), at="/home/box/.cli", writable=False),
        BoxMount(source=str(folders["settings"] / "managed"), at="/etc/some-cli/managed.json", writable=False),
        BoxMount(source=str(folders["tools"]), at="/opt/tools", writable=False),
    )


TRICKS = """
/opt/tools/hello
cat /etc/some-cli/managed.json /home/box/.cli/managed
echo kept > /home/box/mine && cat /home/box/mine
for trick in 'echo bad > /opt/tools/new' 'echo bad >> /opt/tools/hello' 'echo bad > /etc/some-cli/managed.json' \
  'echo bad > /etc/some-cli/new' 'rm -rf /home/box/.cli' 'mv /home/box/.cli /home/box/.old' 'rmdir /home/box/.cli' \
  'echo bad > /home/box/.cli/managed' 'echo bad > /home/box/.cli/new' 'mv /home/box /home/other' \
  'ln -sfn /tmp /opt/tools' \
  'mv /opt /elsewhere' 'rm /etc/some-cli/managed.json' 'mkdir /beside'; do
  sh -c "$trick" 2>/dev/null && echo "WORKED $trick"
done
ls -A /opt /home /etc/some-cli | tr '\\n' ' '
"""


def test_mounts_are_there_as_they_were_asked_for_and_survive_every_trick(box: Runner, folders: dict[str, Path]) -> None:
    said = box.text(TRICKS, mounts=mounted(folders))
    assert said.splitlines()[:4] == ["hello from tools", "ours", "ours", "kept"], said
    assert "WORKED" not in said
    assert said.splitlines()[4].split() == ["/etc/some-cli:", "managed.json", "/home:", "box", "/opt:", "tools"]
    mine = folders["home"] / "mine"
    assert mine.read_text() == "kept\n"
    assert mine.stat().st_uid == box.uid  # written as its owner, whoever the box ran as
    assert sorted(path.name for path in folders["home"].iterdir()) == [".cli", "mine"]
    assert (folders["settings"] / "managed").read_text() == "ours\n"


def test_nothing_writable_is_run_where_the_workspace_is_noexec(box: Runner, folders: dict[str, Path]) -> None:
    command = "cp /opt/tools/hello /home/box/hello; /home/box/hello; /opt/tools/hello"
    said = box.text(command, mounts=mounted(folders), workspace_noexec=True)
    assert "Permission denied" in said
    assert said.count("hello from tools") == 1


def test_an_open_box_has_its_mounts_too(opener: Opener, folders: dict[str, Path]) -> None:
    spec = opener.spec("read line; cat /home/box/.cli/managed; echo $line > /home/box/said", mounts=mounted(folders))
    told = opener.tell(spec, """
async def main():
    opened = await box.open(spec, stopped=never)
    await opened.send(b"word")
    told(lines=[line.decode() async for line in opened.lines()], end=(await opened.wait()).end)
""")  # fmt: skip
    assert told == {"lines": ["ours"], "end": "exited"}
    assert (folders["home"] / "said").read_text() == "word\n"


NESTED = """
echo one > /bot/new && echo two > /bot/main/new && echo three > /store/refs/agent/new && cat /bot/main/code/file
for trick in 'echo bad > /bot/main/code/file' 'echo bad > /bot/main/code/new' 'mv /bot/main /bot/other' \
  'mv /bot/main/code /bot/main/old' 'rm -rf /bot/main/code' 'echo bad > /store/config' 'echo bad > /store/refs/new' \
  'mv /store/refs/agent /store/refs/new' 'ln -s /bot /store/refs/agent2' 'rmdir /store/refs/agent'; do
  sh -c "$trick" 2>/dev/null && echo "WORKED $trick"
done
true
"""


def test_a_place_within_a_mount_can_be_stricter_or_looser_and_cannot_be_replaced(box: Runner) -> None:
    made = box.ground / "bot", box.ground / "store"
    (made[0] / "main/code").mkdir(parents=True)
    (made[0] / "main/code/file").write_text("code\n")
    (made[1] / "refs/agent").mkdir(parents=True)
    box.own(*made)
    mounts = [
        ("bot", True), ("bot/main", True), ("bot/main/code", False), ("store", False), ("store/refs/agent", True),
    ]  # fmt: skip
    said = box.text(
        NESTED,
        mounts=tuple(BoxMount(source=str(box.ground / at), at=f"/{at}", writable=rw) for at, rw in mounts),
    )
    assert said.splitlines() == ["code"], said
    assert [(box.ground / at).read_text() for at in ("bot/new", "bot/main/new", "store/refs/agent/new")] == [
        "one\n", "two\n", "three\n",
    ]  # fmt: skip


def test_what_boxes_hide_is_mounted_by_no_box(box: Runner, folders: dict[str, Path]) -> None:
    box.hide = (str(folders["settings"]),)
    with pytest.raises(ToolError) as caught:
        box.run("touch began", mounts=mounted(folders))
    assert (caught.value.code, caught.value.begun) == ("BOX_BAD_PATH", False)
    assert "hide" in caught.value.message
    assert not (box.workspace / "began").exists()


def test_the_owners_workspace_is_not_a_mount_of_another_box(opener: Opener, folders: dict[str, Path]) -> None:
    opener.owned = (str(folders["tools"].parent / "tools"),)
    spec = opener.spec("touch began", mounts=mounted(folders))
    told = opener.tell(spec, """
async def main():
    try:
        await box.open(spec, stopped=never)
    except ToolError as error:
        told(code=error.code, begun=error.begun)
""")  # fmt: skip
    assert told == {"code": "BOX_BAD_PATH", "begun": False}


def test_a_link_that_was_planted_where_a_mount_should_stand_is_refused(box: Runner, folders: dict[str, Path]) -> None:
    """A program that ran before could write the outer folder: it may have left anything there."""
    (folders["home"] / ".cli").rmdir()
    (folders["home"] / "real").mkdir()
    for planted in ("real", "/etc", "nowhere"):
        link = folders["home"] / ".cli"
        link.symlink_to(planted)
        with pytest.raises(ToolError) as caught:
            box.run("true", mounts=mounted(folders))
        assert caught.value.code == "BOX_BAD_PATH"
        link.unlink()


# -- what is refused, row by row


@pytest.fixture
def ground() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="coilclaw-box-", dir="/var/tmp"))
    for name in ("ws/sub", "home/keys", "free/inner", "other", "outer/deep/er"):
        (place / name).mkdir(parents=True)
    (place / "file").touch()
    (place / "outer/file").touch()
    (place / "link").symlink_to(place / "home")
    (place / "free/link").symlink_to(place / "home")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(place / "socket"))
    os.mkfifo(place / "fifo")
    yield place
    shutil.rmtree(place)


def spec_of(ground: Path, *mounts: BoxMount) -> BoxSpec:
    return BoxSpec(command="true", workspace=f"{ground}/ws", cwd=f"{ground}/ws", mounts=mounts)


SOURCES = (
    "{g}/home", "{g}/home/keys", "{g}", "{g}/link", "{g}/link/keys", "{g}/free/link", "{g}/free/../home", "{g}/free/.",
    "{g}//free", "{g}/free/", "free", "", "/", "/etc", "/etc/ssl", "/etc/shadow", "/proc", "/proc/self/root", "/sys",
    "/dev", "/dev/null", "/usr", "/usr/bin", "/boot", "/run", "/var/run", "/var", "{g}/ws", "{g}/ws/sub", "{g}/socket",
    "{g}/fifo",
    "{g}/missing", "{g}/free\0", "//{g}/free",
)  # fmt: skip
PLACES = (
    "/", "/usr", "/usr/lib/x", "/bin", "/bin/sh", "/lib64", "/etc", "/etc/passwd", "/etc/hosts", "/etc/ssl",
    "/etc/ssl/certs", "/etc/ssl/certs/x", "/etc/ld.so.cache", "/proc", "/proc/self", "/dev", "/dev/shm", "/dev/shm/x",
    "/sys",
    "/sys/x", "/tmp", "/tmp/x", "/tmp/.home", "/var", "/var/tmp", "/var/tmp/x", "/boot", "{g}", "{g}/ws", "{g}/ws/sub",
    "{g}/ws/new", "opt/x", "", "/opt/../etc", "/opt/x/", "/opt//x", "/opt/./x", "//opt/x", "/opt/x\0",
)  # fmt: skip


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("source", SOURCES)
def test_a_source_that_shows_too_much_or_nothing_is_refused(ground: Path, source: str, writable: bool) -> None:
    mount = BoxMount(source=source.format(g=ground), at="/opt/x", writable=writable)
    with pytest.raises(ToolError) as caught:
        admit_mounts(spec_of(ground, mount), (f"{ground}/home",))
    assert (caught.value.code, caught.value.begun) == ("BOX_BAD_PATH", False)


@pytest.mark.parametrize("at", PLACES)
def test_a_place_that_every_box_has_or_must_not_have_is_refused(ground: Path, at: str) -> None:
    mount = BoxMount(source=f"{ground}/free/inner", at=at.format(g=ground), writable=False)
    with pytest.raises(ToolError) as caught:
        admit_mounts(spec_of(ground, mount), ())
    assert (caught.value.code, caught.value.begun) == ("BOX_BAD_PATH", False)


def test_what_is_hidden_behind_a_link_is_hidden_where_it_really_is(ground: Path) -> None:
    mount = BoxMount(source=f"{ground}/home/keys", at="/opt/x", writable=False)
    with pytest.raises(ToolError, match="hide"):
        admit_mounts(spec_of(ground, mount), (f"{ground}/link",))


PAIRS = (
    (("free", "/opt/x", True), ("free", "/opt/y", False)),
    (("free", "/opt/x", False), ("free/inner", "/opt/y", True)),
    (("free", "/opt/x", False), ("other", "/opt/x", False)),
    (("outer", "/opt/x", True), ("other", "/opt/x/deep/er", False)),
    (("outer", "/opt/x", True), ("other", "/opt/x/missing", False)),
    (("outer", "/opt/x", True), ("other", "/opt/x/file", False)),
    (("outer", "/opt/x", True), ("file", "/opt/x/deep", False)),
    (("free", "/opt/x", False), ("other", "/opt/x/link", False)),
    (("file", "/opt/x", False), ("other", "/opt/x/y", False)),
    (("outer", "/opt/x", True), ("outer/deep/er", "/opt/x/deep/er", False)),
    (("outer", "/opt/x", True), ("outer/deep", "/opt/x/deep/er", False)),
    (("outer", "/opt/x", False), ("outer/deep", "/opt/x/deep/er", True)),
    (("outer", "/opt/x", False), ("outer", "/opt/x", True)),
    (("free", "/opt/x", False), ("home/keys", "/opt/x/link/keys", False)),
)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("order", [1, -1])
def test_mounts_that_get_into_each_others_way_are_refused(ground: Path, pair, order: int):
    mounts = [BoxMount(source=f"{ground}/{source}", at=at, writable=write) for source, at, write in pair[::order]]
    with pytest.raises(ToolError) as caught:
        admit_mounts(spec_of(ground, *mounts), ())
    assert caught.value.code == "BOX_BAD_PATH"


MOUNTED = """
import os, sys
from coilclaw.packets.box import BoxMount, BoxSpec
from coilclaw.packets.errors import ToolError
from coilclaw.sandbox import syscalls
from coilclaw.sandbox.mounts import admit_mounts

ground, ids = sys.argv[1], (os.getuid(), os.getgid())
mount = BoxMount(source=f"{ground}/free", at="/opt/x", writable=False)
spec = BoxSpec(command="true", workspace=f"{ground}/ws", cwd=f"{ground}/ws", mounts=(mount,))
admit_mounts(spec, ())
syscalls.unshare(syscalls.CLONE_NEWUSER | syscalls.CLONE_NEWNS)
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {ids[0]} 1"), ("gid_map", f"0 {ids[1]} 1")):
    with open(f"/proc/self/{name}", "w") as target:
        target.write(text)
syscalls.mount("tmpfs", f"{ground}/free/inner", 0, "size=4k")
try:
    admit_mounts(spec, ())
except ToolError as error:
    print(error.message)
"""


def test_what_has_another_file_system_in_it_is_refused(ground: Path) -> None:
    """Whatever is mounted below would come along, unseen by every check of names."""
    done = subprocess.run([sys.executable, "-c", MOUNTED, str(ground)], capture_output=True, text=True, check=True)
    assert "another file system is mounted in it" in done.stdout


def test_good_mounts_are_admitted_and_one_that_was_swapped_meanwhile_is_not(ground: Path) -> None:
    spec = spec_of(
        ground, BoxMount(source=f"{ground}/free", at="/opt/x", writable=True),
        BoxMount(source=f"{ground}/other", at="/opt/x/inner", writable=False),
        BoxMount(source=f"{ground}/file", at="/etc/some-cli/file", writable=False),
    )  # fmt: skip
    pins = Pins(spec, (f"{ground}/home",))
    try:
        pins.check()
        os.rename(ground / "other", ground / "moved")
        (ground / "other").mkdir()
        with pytest.raises(ToolError, match="replaced"):
            pins.check()
        (ground / "other").rmdir()
        (ground / "other").symlink_to(ground / "home")
        with pytest.raises(ToolError, match="link"):
            pins.check()
    finally:
        pins.close()


async def test_a_box_without_namespaces_has_no_mounts(ground: Path) -> None:
    spec = spec_of(ground, BoxMount(source=f"{ground}/free", at="/opt/x", writable=False))
    with pytest.raises(ToolError) as caught:
        await open_box(hide=(), unsafe=True).run(spec)
    assert (caught.value.code, caught.value.begun) == ("BOX_CANNOT_HOLD", False)
