# ruff: noqa: PTH102 - kernel paths and descriptors; pathlib adds nothing here
"""A private mount namespace in which the workspace is lent to another uid, or made noexec, before the box is built.

Standard library only: the launcher does this in a user namespace of its own, root's seat does it in a thread.
"""

import os

BASE = "/sys"
"""Covered by our own tmpfs: it exists everywhere, no box shows anything of it, and anyone may walk through it."""
WORKSPACE = f"{BASE}/workspace"
ROOT = f"{BASE}/root"
"""Where our own launcher builds the inside when a stage stands."""


def scratch(number: int) -> str:
    """Where the n-th noexec tmpfs stands."""
    return f"{BASE}/scratch{number}"


def prepare(workspace: str, *, userns: int, noexec: bool, scratches: list[tuple[int, int]]) -> None:
    """Build the stage in the current, already private mount namespace.

    `userns` is a descriptor of the user namespace whose map the workspace is shown through, or -1 for none;
    `scratches` are (bytes, mode) of the noexec tmpfs to stand beside it.
    """
    from coilclaw.sandbox import syscalls  # ctypes is slow to import, and most boxes need no stage

    syscalls.make_mounts_private()
    flags = syscalls.MS_NOSUID | syscalls.MS_NODEV
    attributes = syscalls.ATTR_NOSUID | syscalls.ATTR_NODEV | (syscalls.ATTR_NOEXEC if noexec else 0)
    # An identity map is given to one file system at a time, so what else is mounted in the workspace is not lent.
    recursive = userns < 0
    tree = syscalls.clone_tree(workspace, recursive=recursive)
    try:
        attributes |= syscalls.ATTR_IDMAP if userns >= 0 else 0
        syscalls.set_tree(tree, attributes, userns=userns, recursive=recursive)
        syscalls.mount("tmpfs", BASE, flags, "size=64k,mode=0755")
        os.mkdir(ROOT, 0o755)
        os.mkdir(WORKSPACE, 0o755)
        onto = os.open(WORKSPACE, os.O_PATH | os.O_CLOEXEC)
        syscalls.attach_tree(tree, onto)
        os.close(onto)
    finally:
        os.close(tree)
    for number, (size, mode) in enumerate(scratches):
        os.mkdir(scratch(number), 0o755)
        options = f"size={size},mode={mode:o}"
        syscalls.mount("tmpfs", scratch(number), flags | syscalls.MS_NOEXEC, options)
