# ruff: noqa: PTH123 - kernel paths and descriptors; pathlib adds nothing here
"""The id mapping of root's boxes: the workspace owner's files appear as the box's, new ones become the owner's.

Nothing changes on disk. The mapping is a user namespace created by a short-lived helper; only its descriptor is kept.
"""

import contextlib
import os
import pwd
import subprocess
import weakref

from coilclaw.packets.errors import BoxUnavailable

BOX_UIDS = (79231, 64999)
"""uid and gid of boxes started by root: above what distributions and systemd assign, below subordinate uids; the
second is for containers whose uids end at 65535, where systemd's dynamic users do not live."""

_ORDINARY_USER = "Run CoilClaw as an ordinary user instead of root."


def box_uid() -> int:
    """The unprivileged uid for root's boxes: one that exists in this user namespace and belongs to no account."""
    for uid in BOX_UIDS:
        with contextlib.suppress(KeyError):
            pwd.getpwuid(uid)
            continue
        if _mapped(uid):
            return uid
    raise BoxUnavailable(f"Started by root, and neither uid {BOX_UIDS[0]} nor {BOX_UIDS[1]} is free for boxes.",
                         remedy=_ORDINARY_USER)  # fmt: skip


def _mapped(uid: int) -> bool:
    with open("/proc/self/uid_map") as lines:
        return any(int(first) <= uid < int(first) + int(count) for first, _, count in map(str.split, lines))


class IdentityMaps:
    """The mappings so far, one per owner; their descriptors close with this object."""

    def __init__(self, *, python: str, launcher: str, uid: int) -> None:
        self.uid = uid
        self._command = (python, "-I", "-S", launcher, "hold", "0")
        self._maps: dict[tuple[int, int], int] = {}
        weakref.finalize(self, _close_all, self._maps)

    def descriptor(self, owner: int, group: int) -> int:
        """A user namespace that maps this owner's files to the box; -1 if none is needed."""
        if (owner, group) == (self.uid, self.uid):
            return -1
        if (owner, group) not in self._maps:
            made = self._make(owner, group)
            if self._maps.setdefault((owner, group), made) != made:  # another thread was faster
                os.close(made)
        return self._maps[owner, group]

    def _make(self, owner: int, group: int) -> int:
        try:
            with subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={}, cwd="/"
            ) as helper:
                if helper.stdout is None or helper.stdout.read(5) != b"ready":
                    said = helper.communicate()[1].decode(errors="replace").strip().splitlines()
                    raise _cannot_lend(said[-1] if said else "the helper ended")
                for kind, on_disk in (("uid", owner), ("gid", group)):
                    with open(f"/proc/{helper.pid}/{kind}_map", "w") as target:
                        target.write(f"{on_disk} {self.uid} 1")
                return os.open(f"/proc/{helper.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise _cannot_lend(str(error)) from error


def _cannot_lend(why: str) -> BoxUnavailable:
    return BoxUnavailable(f"Root cannot map its workspace into a box: {why}.", remedy=_ORDINARY_USER)


def _close_all(maps: dict[tuple[int, int], int]) -> None:
    for descriptor in maps.values():
        os.close(descriptor)
